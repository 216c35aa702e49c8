"""The merge learners as one would write them on a blackboard: count everything anew before each merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise


def brute_force(
    word_counts: Mapping[str, int],
    vocab_size: int,
    *,
    likelihood: bool = False,
    min_count: int = 1,
    falling_threshold: bool = False,
    max_length: int = 10**9,
) -> list[tuple[str, str]]:
    """The merges; with `likelihood` by WordPiece's score and with `##`, else by BPE's count."""
    prefix = "##" if likelihood else ""
    characters = sorted({c for word in word_counts for c in word})
    continuing = sorted({c for word in word_counts for c in word[1:]}) if likelihood else []
    tokens = characters + [prefix + c for c in continuing]
    ids = {token: i for i, token in enumerate(tokens)}
    sizes = [1] * len(tokens)
    words = [([ids[word[0]], *(ids[prefix + c] for c in word[1:])], count) for word, count in word_counts.items()]
    refused: set[tuple[int, int]] = set()
    merges = []
    threshold = None
    while len(tokens) < vocab_size:
        singles: Counter[int] = Counter()
        pairs: Counter[tuple[int, int]] = Counter()
        for symbols, count in words:
            for symbol in symbols:
                singles[symbol] += count
            for pair in pairwise(symbols):
                pairs[pair] += count
        candidates = {
            pair: count
            for pair, count in pairs.items()
            if count >= min_count and sizes[pair[0]] + sizes[pair[1]] <= max_length and pair not in refused
        }
        if not candidates:
            break
        if threshold is None:
            threshold = max(candidates.values()) if falling_threshold else min_count
        while max(candidates.values()) < threshold:
            threshold = max(threshold // 2, min_count)

        def order(pair: tuple[int, int], pairs: Counter = pairs, singles: Counter = singles) -> tuple[float, ...]:
            score = float(pairs[pair])
            if likelihood:
                score /= float(singles[pair[0]]) * float(singles[pair[1]])
            return -score, -pairs[pair], *pair

        best = min((pair for pair, count in candidates.items() if count >= threshold), key=order)
        token = tokens[best[0]] + tokens[best[1]].removeprefix(prefix)
        if token in ids:
            refused.add(best)
            continue
        merges.append((tokens[best[0]], tokens[best[1]]))
        ids[token] = len(tokens)
        tokens.append(token)
        sizes.append(sizes[best[0]] + sizes[best[1]])
        words = [(_merged(symbols, best, ids[token]), count) for symbols, count in words]
    return merges


def _merged(symbols: list[int], pair: tuple[int, int], new: int) -> list[int]:
    out: list[int] = []
    i = 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            out.append(new)
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out
