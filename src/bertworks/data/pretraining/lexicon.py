"""Entities and phrases as runs of token ids, for masking them as wholes (Sun et al. 2019, ERNIE).

A lexicon comes from a file with one entry per line (titles of an encyclopaedia, names, terms), or is mined from the
corpus (`phrases`). A text is cut with it by longest match from left to right: quick, without a model, and wrong where
entries overlap, which masking can bear.

Entries are compared as ids, so a text and an entry must be tokenized alike. Where the tokenizer keeps the space before a
word, each entry is entered as it is at the beginning of a text and as it is after a space. Entries of a single token are
left out, since a token is a unit already, and so are entries with a token unknown to the vocabulary, which would match
anything, and those of more than 16 tokens, more than a sequence's share of masks.

A run keeps its lexicon as plain text: per line the ids, a tab, and what they spell, for the reader's eye.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.data.corpus.reader import Corpus
from bertworks.data.pretraining.flat import Ints
from bertworks.data.pretraining.phrases import MiningOptions, mine_phrases
from bertworks.data.pretraining.trie import Trie
from bertworks.data.pretraining.words import special_ids
from bertworks.data.source import Source
from bertworks.errors import DataError
from bertworks.text.tokenizer import Tokenizer

HEADER = "# bertworks lexicon 1, vocabulary of "
MAX_ENTRY_TOKENS = 16
MAX_LINE = 1000  # characters; a longer line is a text, not a title or a term
LINES_AT_ONCE = 100_000  # enough for the tokenizer's quick path


class Lexicon:
    """Known runs of tokens. `vocab_size` is that of the tokenizer whose ids they are."""

    def __init__(self, entries: Iterable[Iterable[int]], vocab_size: int) -> None:
        self.entries: list[tuple[int, ...]] = sorted({tuple(map(int, entry)) for entry in entries})
        """Without doubles, in ascending order; those of one token are left out."""
        self.entries = [entry for entry in self.entries if len(entry) > 1]
        self.vocab_size = vocab_size
        self._trie = Trie(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Lexicon({len(self):,} entries, vocabulary of {self.vocab_size:,})"

    @classmethod
    def from_file(cls, path: str | Path, tokenizer: Tokenizer) -> Lexicon:
        """Read a text file (.txt, also .gz or .xz) with one entry per line; empty lines are passed over."""
        unusable = special_ids(tokenizer)
        spaced = tokenizer.kind not in ("WordPiece", "WordLevel")  # the others may keep the space before a word
        entries: set[tuple[int, ...]] = set()
        source = Source(path)
        try:
            lines = _entry_lines(source)
            while texts := list(islice(lines, LINES_AT_ONCE)):
                texts += [f" {text}" for text in texts] if spaced else []
                ids, lengths = tokenizer.ids(texts)
                bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
                bad = np.concatenate([[0], np.cumsum(unusable[ids])])
                numbers = ids.tolist()
                for start, end in pairwise(bounds):
                    if 1 < end - start <= MAX_ENTRY_TOKENS and bad[start] == bad[end]:
                        entries.add(tuple(numbers[start:end]))
        finally:
            source.close()
        if not entries:
            raise DataError(
                "has no entry of two tokens or more that this vocabulary knows; it should have one entry per line, "
                "in the language of the tokenizer",
                path=path,
            )
        return cls(entries, tokenizer.vocab_size)

    @classmethod
    def mine(
        cls,
        corpus: Corpus,
        documents: NDArray[Any] | None = None,
        options: MiningOptions | None = None,
        *,
        tokenizer: Tokenizer | None = None,
    ) -> Lexicon:
        """Find the cohesive phrases of a corpus (`phrases`); the corpus's own tokenizer is used if none is given."""
        tokenizer = tokenizer or corpus.tokenizer()
        phrases = mine_phrases(corpus, tokenizer, documents, options or MiningOptions())
        return cls(phrases, tokenizer.vocab_size)

    def match(self, ids: Ints, lengths: Ints, starts: NDArray[np.bool_] | None = None) -> Ints:
        """The number of the unit that each token belongs to: the tokens of an entry share one, any other has its own.

        ids:     (T,) sequences one after the other; no unit goes over the end of one
        lengths: (B,) of the sequences
        starts:  (T,) where words begin; an entry then has to begin with a word and end with one
        """
        starts = np.ones(len(ids), np.bool_) if starts is None else starts
        unit, _ = self._trie.match(np.asarray(ids, np.int64), np.asarray(lengths, np.int64), starts)
        return unit

    def to_text(self, tokenizer: Tokenizer | None = None) -> str:
        """One entry per line; with a tokenizer, what each entry spells stands beside it."""
        lines = [f"{HEADER}{self.vocab_size}"]
        for entry in self.entries:
            spelled = "" if tokenizer is None else "\t" + " ".join(tokenizer.decode(entry).split())
            lines.append(" ".join(map(str, entry)) + spelled)
        return "\n".join(lines) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> Lexicon:
        """Read a file with what `to_text` gave."""
        source = Source(path)
        try:
            lines = source.lines()
            _, first = next(lines, (1, ""))
            size = first.removeprefix(HEADER).strip()
            if not first.startswith(HEADER) or not size.isdecimal():
                raise DataError(f"is no saved lexicon: it does not begin with {HEADER!r}", path=path, line=1)
            entries = [_entry(line, int(size), path, number) for number, line in lines]
        finally:
            source.close()
        return cls(entries, int(size))


def _entry(line: str, vocab_size: int, path: str | Path, number: int) -> tuple[int, ...]:
    fields = line.split("\t")[0].split()
    if not fields or not all(field.isdecimal() for field in fields):
        raise DataError(f"expected token ids, found {line.strip()[:40]!r}", path=path, line=number)
    entry = tuple(map(int, fields))
    if max(entry) >= vocab_size:
        message = f"there is no token {max(entry)} in a vocabulary of {vocab_size:,}"
        raise DataError(message, path=path, line=number)
    return entry


def _entry_lines(source: Source) -> Iterator[str]:
    for number, line in source.lines():
        text = line.strip()
        if len(text) > MAX_LINE:
            message = f"has {len(text):,} characters; a lexicon has one entry (a name, a term) per line"
            raise DataError(message, path=source.name, line=number)
        if text:
            yield text
