"""What a stack over words reads (`bertworks.models.words`), made from words: numbers, letters, vectors from elsewhere.

    sentences --units--> Units (one token per word; letters once per spelling; vectors once per word) --pack--> PackedWords

The sources of vectors are named in a task's settings, with a hash of what they are; whoever opens the task opens them
(`bertworks.infer.word_sources`), since only the parts above this one can.

Legend: U units, W words of all sentences, S spellings, L layers of a source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertworks.data.pretraining.flat import ranges
from bertworks.errors import ModelError
from bertworks.models.words import PackedWords
from bertworks.nn.packed import Layout
from bertworks.tasks.base import Chosen, Units
from bertworks.tasks.units import Framed, units_of
from bertworks.tasks.word_vectors import Sentences, WordSource, vectors_of
from bertworks.text.spelling import BEGIN_WORD, END_WORD
from bertworks.text.tokenizer import Tokenizer

MAX_LETTERS = 50
"""Of a word; more say nothing that the first ones do not."""


@dataclass(frozen=True, kw_only=True)
class NamedSource:
    """A source of vectors as settings say it."""

    name: str
    """A file, a directory or an alias, as the user gave it."""
    sha256: str
    """Of what the vectors are made from: other files under the same name are other vectors."""
    last: bool = False
    """Only its last layer is read."""


@dataclass(frozen=True, kw_only=True)
class WordInputs:
    """The sources of a task; without any, words are their numbers and letters."""

    named: tuple[NamedSource, ...] = ()
    sources: tuple[WordSource, ...] = field(default=(), compare=False, repr=False)
    """Opened, in the same order; () = not yet."""
    cache: Path | None = field(default=None, compare=False)
    """A directory for vectors that are needed more than once."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        return cls(named=tuple(NamedSource(**entry) for entry in settings["sources"]))

    def settings(self) -> dict[str, Any]:
        return {"sources": [{"name": named.name, "sha256": named.sha256, "last": named.last} for named in self.named]}

    def units(
        self, sentences: Sentences, tokenizer: Tokenizer, arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> Units:
        """One unit per sentence, one token per word; `arrays` are added to the inputs' own.

        The inputs' arrays: `spellings` (W,), each word's number among the spellings; `letters` of all spellings, one
        after the other; `letter_bounds` (S + 1,); `vectors0`, `vectors1` … (W, L, width).
        """
        if len(self.sources) != len(self.named):
            raise ModelError("the sources of this model's word vectors are not open")
        lengths = np.fromiter(map(len, sentences), np.int64, count=len(sentences))
        encodings = tokenizer.encode_words_batch(sentences, special=False)
        ids = np.concatenate([np.zeros(0, np.int32), *(encoding.ids for encoding in encodings)])
        if len(ids) != lengths.sum():
            raise ModelError("the vocabulary of this model cuts words into pieces; it must have one token per word")
        numbers: dict[str, int] = {}
        spellings = [numbers.setdefault(word, len(numbers)) for sentence in sentences for word in sentence]
        letters = [[BEGIN_WORD, *word.encode("utf-8", "replace")[:MAX_LETTERS], END_WORD] for word in numbers]
        own: dict[str, NDArray[Any]] = {
            "spellings": np.array(spellings, np.int32),
            "letters": np.array([letter for spelling in letters for letter in spelling], np.int16),
            "letter_bounds": np.cumsum([0, *map(len, letters)]),
        }
        for number, (named, source) in enumerate(zip(self.named, self.sources, strict=True)):
            own[f"vectors{number}"] = vectors_of(source, sentences, last=named.last, key=named.sha256, cache=self.cache)
        framed = Framed(ids, np.zeros_like(ids), lengths)
        return units_of(framed, np.arange(len(lengths)), arrays={**own, **(arrays or {})})

    def pack(self, rows: Chosen) -> PackedWords:
        """The chosen units as one batch."""
        units = rows.units
        arrays = units.arrays
        starts = units.starts[rows.numbers]
        lengths = units.starts[rows.numbers + 1] - starts
        places = ranges(starts, lengths)  # (T,)
        used, spellings = np.unique(arrays["spellings"][places], return_inverse=True)
        bounds = arrays["letter_bounds"]
        sizes = bounds[used + 1] - bounds[used]
        order = np.argsort(sizes, kind="stable")  # neighbours of equal length are computed together
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        letters = arrays["letters"][ranges(bounds[used[order]], sizes[order])]
        return PackedWords(
            input_ids=torch.from_numpy(units.ids[places].astype(np.int64)),
            layout=Layout(lengths.tolist()),
            letters=torch.from_numpy(letters.astype(np.int64)),
            letters_layout=Layout(sizes[order].tolist()),
            spellings=torch.from_numpy(rank[spellings.reshape(-1)]),
            vectors=tuple(
                torch.from_numpy(np.array(arrays[f"vectors{number}"][places])) for number in range(len(self.named))
            ),
        )
