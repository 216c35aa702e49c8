"""How a tokenizer finds the pieces of one word, step by step.

    BPE        starts from characters (or bytes) and joins the neighbours whose pair was learnt first, again and again
               (Sennrich et al. 2016)
    WordPiece  takes the longest beginning that the vocabulary has, then the longest beginning of what is left
               (Wu et al. 2016; the way of BERT)

The steps are computed here from the tokenizer's own tables, and shown only where they end in what the tokenizer itself
says. Unigram tokenizers choose the most probable cut as a whole: there is nothing to play.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from bertworks.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Step:
    """The pieces after a step, which of them is new, and a sentence."""

    pieces: list[str]
    new: int | None
    note: str
    rest: str = ""
    """What is not yet cut (WordPiece)."""

    def as_json(self) -> dict[str, Any]:
        return {"pieces": self.pieces, "new": self.new, "note": self.note, "rest": self.rest}


@dataclass(frozen=True)
class Tables:
    """What a tokenizer knows, read once."""

    kind: str
    vocabulary: frozenset[str]
    ranks: dict[tuple[str, str], int] = field(default_factory=dict)
    prefix: str = ""
    suffix: str = ""
    unknown: str | None = None
    longest_word: int = 100
    whole_first: bool = False
    """A word that is in the vocabulary is taken as it is, without merges."""


def read_tables(tokenizer: Tokenizer) -> Tables:
    """The tables of a BPE or WordPiece tokenizer; of others only the kind."""
    if tokenizer.kind not in ("BPE", "WordPiece"):
        return Tables(tokenizer.kind, frozenset())
    model = json.loads(tokenizer.backend.to_str())["model"]
    merges = [merge if isinstance(merge, list) else merge.split(" ", 1) for merge in model.get("merges", [])]
    return Tables(
        kind=tokenizer.kind,
        vocabulary=frozenset(model["vocab"]),
        ranks={(left, right): rank for rank, (left, right) in enumerate(merges)},
        prefix=model.get("continuing_subword_prefix") or "",
        suffix=model.get("end_of_word_suffix") or "",
        unknown=model.get("unk_token"),
        longest_word=model.get("max_input_chars_per_word") or 100,
        whole_first=bool(model.get("ignore_merges")),
    )


def word_steps(tables: Tables, word: str) -> list[Step]:
    """The steps for one word, spelt as the model of the tokenizer gets it; none where the kind has none."""
    if tables.kind == "BPE":
        return bpe_steps(tables, word)
    return wordpiece_steps(tables, word) if tables.kind == "WordPiece" else []


def bpe_steps(tables: Tables, word: str) -> list[Step]:
    """Join the pair of the lowest rank, the leftmost first, until no pair is known."""
    if tables.whole_first and word in tables.vocabulary:
        return [Step([word], 0, "the whole word is in the vocabulary")]
    pieces = [(tables.prefix if place else "") + character for place, character in enumerate(word)]
    if pieces and tables.suffix:
        pieces[-1] += tables.suffix
    steps = [Step(list(pieces), None, "the word in its smallest parts")]
    while True:
        known = [
            (tables.ranks[pair], place) for place, pair in enumerate(itertools.pairwise(pieces)) if pair in tables.ranks
        ]
        if not known:
            break
        rank, place = min(known)
        left, right = pieces[place], pieces[place + 1]
        joined = left + right.removeprefix(tables.prefix)
        pieces[place : place + 2] = [joined]
        note = f"{left} + {right} → {joined}: merge {rank + 1:,} of {len(tables.ranks):,}"
        steps.append(Step(list(pieces), place, note))
    if tables.unknown is not None and any(piece not in tables.vocabulary for piece in pieces):
        named = [piece if piece in tables.vocabulary else tables.unknown for piece in pieces]
        steps.append(Step(named, None, "what is left and not in the vocabulary is unknown"))
    return steps


def wordpiece_steps(tables: Tables, word: str) -> list[Step]:
    """Take the longest known beginning, until nothing is left; a word that gets stuck is unknown as a whole."""
    unknown = tables.unknown or "[UNK]"
    if len(word) > tables.longest_word:
        return [Step([unknown], 0, f"longer than {tables.longest_word} characters: unknown without a try")]
    steps = [Step([], None, "the word, not yet cut", rest=word)]
    pieces: list[str] = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = (tables.prefix if start else "") + word[start:end]
            if piece in tables.vocabulary:
                break
        else:
            return [*steps, Step([unknown], 0, f"no piece begins {word[start:]!r}: the whole word is unknown")]
        tried = len(word) - end
        pieces.append(piece)
        start = end
        note = f"{piece} is the longest known beginning"
        if tried:
            note += f"; {tried} longer {'one is' if tried == 1 else 'ones are'} not in the vocabulary"
        steps.append(Step(list(pieces), len(pieces) - 1, note, rest=word[start:]))
    return steps
