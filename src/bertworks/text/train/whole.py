"""Vocabularies that are not learnt but counted: whole words, for language models that spell them, and single characters.

Words are as people separate them (`bertworks.text.word_rules`). A token's id is its rank, the most frequent first (the
smaller string among equals), so that a model can be made to predict the first so many only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bertworks.text.train.bpe import Learnt


def learn_whole(
    counts: Mapping[str, int], *, vocab_size: int, special_tokens: Sequence[str] = (), min_frequency: int = 1
) -> Learnt:
    """The most frequent words or characters, after the special tokens."""
    special = set(special_tokens)
    frequent = sorted(
        (token for token, count in counts.items() if count >= min_frequency and token not in special),
        key=lambda token: (-counts[token], token),
    )
    room = max(0, vocab_size - len(special_tokens))
    tokens = [*special_tokens, *frequent[:room]]
    return Learnt({token: number for number, token in enumerate(tokens)}, [], [])
