"""Word vectors from two language models that read from both ends: ELMo, and contextual strings (see `models.elmo`).

    words ─► tokens: the words themselves, spelt, or the characters of the text ─► packed batches ─► both readers
                                                    a word = forward state at its last token ++ backward state at its first

A text is read on its own: nothing is remembered from the one before, so the same text has the same vectors whatever
else is asked for, and in every run. One longer than the window is read in overlapping windows, each word taken from
where it has the most context on the side that its reader has seen.

Legend: T tokens in the packed batch, L layers, U units (words or tokens of one text), P width of one direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertworks.errors import UsageError, choice
from bertworks.infer.batching import default_batch_tokens, over_batches
from bertworks.infer.embed import EmbedReport, Progress, TokenVector, normalize_rows
from bertworks.infer.layers import LayerChoice, choose_layers
from bertworks.infer.loaded import LoadedModel, strings
from bertworks.models.device import usable_device
from bertworks.models.elmo import BiLM, SpeltWords
from bertworks.models.model import Model
from bertworks.nn.packed import Layout
from bertworks.tasks.words import joined, split_words
from bertworks.text.spelling import spell, spell_boundaries
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.windows import windows

CHARACTERS_PER_WORD = 8
"""Texts have so many times more characters than words, and as many times more of them go through at once."""
POOLINGS = ("mean", "max", "none")

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Reading:
    """One text as the readers get it, and the units whose vectors are wanted."""

    tokens: NDArray[np.int64]  # (n,) ids of characters, or numbers of distinct words
    first: NDArray[np.int64]  # (U,) each unit's first token; n where it has none and stands at the end
    last: NDArray[np.int64]  # (U,) each unit's last token; -1 where it has none and stands at the beginning


@dataclass(frozen=True)
class Piece:
    """A window of one reading.

    Where windows overlap, the forward reader has seen more in the earlier one and the backward reader in the later one: this
    one's forward states count from where the window before it stops, the backward ones up to where the next one starts.
    """

    owner: int
    start: int
    stop: int
    forward: tuple[int, int]
    backward: tuple[int, int]

    @classmethod
    def all_of(cls, owner: int, length: int, size: int) -> list[Piece]:
        """The pieces of a reading of `length` tokens. The boundaries, -1 and `length`, belong to those at the ends."""
        found = windows(length, size, overlap=size // 4)
        stops = [-1, *(window.stop for window in found[:-1]), length + 1]
        starts = [-1, *(window.start for window in found[1:]), length + 1]
        return [
            cls(owner, window.start, window.stop, forward, backward)
            for window, forward, backward in zip(found, pairwise(stops), pairwise(starts), strict=True)
        ]


class LoadedBiLM(LoadedModel):
    """What `bertworks.load` gives for ELMo and for character language models: a source of vectors, and nothing else.

    As a source of word vectors it has `name`, `num_layers`, `width` and `vectors`. Without words a text's vector is 0.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        *,
        name: str = "bilm",
        directory: Path | None = None,
        device: str | torch.device = "cpu",
        batch_tokens: int | None = None,
    ) -> None:
        assert isinstance(model.body, BiLM)
        self.name = name
        self.bilm: BiLM = model.body
        self._reads_words = self.bilm.config.spelling is not None
        usual = default_batch_tokens(usable_device(device)) * (1 if self._reads_words else CHARACTERS_PER_WORD)
        super().__init__(
            model,
            tokenizer,
            window=model.num_positions,
            directory=directory,
            device=device,
            batch_tokens=batch_tokens or usual,
        )

    # -- a source of word vectors -------------------------------------------------------------------------------------

    @property
    def layer_numbers(self) -> tuple[int, ...]:
        """Which layers have word vectors: all from 0 for words; characters themselves are no vectors of words."""
        return tuple(range(0 if self._reads_words else 1, self.model.num_layers + 1))

    @property
    def num_layers(self) -> int:
        return len(self.layer_numbers)

    @property
    def width(self) -> int:
        return self.model.hidden_size

    def vectors(self, sentences: Sequence[Sequence[str]]) -> list[Floats]:
        """Every layer of every word: for each sentence float32 (num_layers, words, width)."""
        if isinstance(sentences, str) or any(isinstance(words, str) for words in sentences):
            raise TypeError(
                'give sentences as lists of words, such as [["A", "cat", "sleeps"]]; embed_words cuts texts'
            )
        readings, spellings = self._of_words(sentences)
        return self._read(readings, spellings, self.layer_numbers)

    # -- vectors of texts ---------------------------------------------------------------------------------------------

    def embed(  # type: ignore[override]
        self,
        texts: str | Sequence[str],
        *,
        layers: str | int = "last",
        pooling: str | None = None,
        normalize: bool | None = None,
        report: EmbedReport | None = None,
        progress: Progress | None = None,
    ) -> np.ndarray | list[np.ndarray]:
        """One vector per text, the mean or the maximum (`pooling`) of its words' vectors: float32 (n, width).

        `none` gives a list of (words, width) arrays. A single string gives one vector.
        """
        single, items = isinstance(texts, str), strings(texts)
        pooling = choice(pooling or "mean", POOLINGS, "pooling of a language model's words")
        selected = self._layers(layers)
        rows = self._texts(items, selected, report, progress)
        if pooling == "none":
            ragged = [normalize_rows(each) for each in rows] if normalize else rows
            return ragged[0] if single else ragged
        pooled = np.zeros((len(items), selected.width(self.width)), np.float32)
        for number, each in enumerate(rows):
            if len(each):
                pooled[number] = each.mean(axis=0) if pooling == "mean" else each.max(axis=0)
        pooled = normalize_rows(pooled) if normalize else pooled
        return pooled[0] if single else pooled

    def embed_words(
        self,
        texts: Sequence[str] | Sequence[Sequence[str]],
        *,
        layers: str | int = "last",
        report: EmbedReport | None = None,
        progress: Progress | None = None,
    ) -> list[list[TokenVector]]:
        """Every word of every text with its offsets and its vector; a text is a string, or a list of your own words."""
        texts = [texts] if isinstance(texts, str) else texts
        found = [self._find_words(text) if isinstance(text, str) else _whole(text) for text in texts]
        readings, spellings = self._of_texts(texts, found)
        arrays = self._combined(readings, spellings, self._layers(layers), report, progress)
        results = []
        for text, places, rows in zip(texts, found, arrays, strict=True):
            surfaces = [text[start:end] for start, end in places] if isinstance(text, str) else list(text)
            results.append(
                [
                    TokenVector(surface, start, end, row)
                    for surface, (start, end), row in zip(surfaces, places, rows, strict=True)
                ]
            )
        return results

    def embed_tokens(
        self,
        texts: Sequence[str],
        *,
        layers: str | int = "last",
        report: EmbedReport | None = None,
        progress: Progress | None = None,
    ) -> list[list[TokenVector]]:
        """The same as `embed_words`: what a token of such a model is is its own business."""
        return self.embed_words(strings(texts), layers=layers, report=report, progress=progress)

    # -- words --------------------------------------------------------------------------------------------------------

    def _find_words(self, text: str) -> list[tuple[int, int]]:
        """Where the words of a text are: where the model's own tokenizer sees them, or, for characters, by rules."""
        if not self._reads_words:
            return split_words(text)
        return [(word.start, word.end) for word in self.tokenizer.encode(text, special=False).word_spans()]

    def _of_words(self, sentences: Sequence[Sequence[str]]) -> tuple[list[Reading], list[str]]:
        return self._of_texts(sentences, [_whole(words) for words in sentences])

    def _of_texts(
        self, texts: Sequence[str] | Sequence[Sequence[str]], found: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[list[Reading], list[str]]:
        """Readings of texts whose words are known, and the distinct words where these are the tokens."""
        if not self._reads_words:
            return [self._of_characters(text, places) for text, places in zip(texts, found, strict=True)], []
        numbers: dict[str, int] = {}
        readings = []
        for text, places in zip(texts, found, strict=True):
            words = [text[start:end] for start, end in places] if isinstance(text, str) else text
            tokens = [numbers.setdefault(self._normal(word), len(numbers)) for word in words]
            units = np.arange(len(tokens))
            readings.append(Reading(np.array(tokens, np.int64), units, units))
        return readings, list(numbers)

    def _normal(self, word: str) -> str:
        normalizer = self.tokenizer.backend.normalizer
        return word if normalizer is None else str(normalizer.normalize_str(word))

    def _of_characters(self, text: str | Sequence[str], places: Sequence[tuple[int, int]]) -> Reading:
        if not isinstance(text, str):
            text, places = joined(tuple(text))
        encoding = self.tokenizer.encode(text, special=False)
        starts, ends = np.array(places, np.int64).reshape(-1, 2).T
        stops = encoding.offsets[:, 1]  # (n,) where each character ends
        return Reading(
            encoding.ids.astype(np.int64),
            first=np.searchsorted(stops, starts, side="right"),
            last=np.searchsorted(stops, ends, side="right") - 1,
        )

    # -- the readers --------------------------------------------------------------------------------------------------

    @property
    def _size(self) -> int:
        """How many tokens are read at once, beside the two that mark the beginning and the end."""
        return self.model.num_positions - 2

    def _layers(self, layers: str | int) -> LayerChoice:
        selected = choose_layers(layers, self.model.num_layers)
        if not set(selected.layers) <= set(self.layer_numbers):
            raise UsageError(
                f"layers {layers!r} are single characters in this model, not words; allowed: last, or 1 to "
                f"{self.model.num_layers}"
            )
        return selected

    def _texts(
        self, texts: Sequence[str], selected: LayerChoice, report: EmbedReport | None, progress: Progress | None
    ) -> list[Floats]:
        readings, spellings = self._of_texts(texts, [self._find_words(text) for text in texts])
        return self._combined(readings, spellings, selected, report, progress)

    def _combined(
        self,
        readings: Sequence[Reading],
        spellings: Sequence[str],
        selected: LayerChoice,
        report: EmbedReport | None,
        progress: Progress | None,
    ) -> list[Floats]:
        """Per text (U, W): the chosen layers made one."""
        if report is not None:
            lengths = [len(reading.tokens) for reading in readings]
            report.texts += len(lengths)
            report.tokens += sum(lengths)
            report.windowed += sum(length > self._size for length in lengths)
            report.longest = max([report.longest, *lengths])
        arrays = self._read(readings, spellings, selected.layers, progress)
        return [
            selected.apply(dict(zip(selected.layers, torch.from_numpy(array), strict=True))).numpy() for array in arrays
        ]

    def _read(
        self,
        readings: Sequence[Reading],
        spellings: Sequence[str],
        layers: Sequence[int],
        progress: Progress | None = None,
    ) -> list[Floats]:
        """Per text (layers, U, 2 P)."""
        pieces = [
            piece
            for number, reading in enumerate(readings)
            for piece in Piece.all_of(number, len(reading.tokens), self._size)
        ]
        outputs = [np.zeros((len(layers), len(reading.first), self.width), np.float32) for reading in readings]
        table, begin, end = self._table(spellings)

        def work(chosen: NDArray[np.int64]) -> None:
            batch = [pieces[number] for number in chosen]
            ids = [readings[piece.owner].tokens[piece.start : piece.stop] for piece in batch]
            layout = Layout([len(each) + 2 for each in ids])
            flat = np.concatenate([part for each in ids for part in ([begin], each, [end])])  # (T,)
            hidden = self.bilm.read_vectors(table.index_select(0, torch.from_numpy(flat).to(self.device)), layout)
            for place, layer in enumerate(layers):
                forward, backward = (half.float().cpu().numpy() for half in hidden.halves(layer))  # (T, P) each
                for piece, start in zip(batch, layout.starts, strict=True):
                    self._put(outputs[piece.owner][place], readings[piece.owner], piece, start, forward, backward)

        lengths = np.array([piece.stop - piece.start + 2 for piece in pieces], np.int64)
        for done in over_batches(work, lengths, budget=self.runner.batch_tokens, device=self.device):
            if progress is not None:
                progress(done, len(pieces))
        return outputs

    def _put(
        self, output: Floats, reading: Reading, piece: Piece, start: int, forward: Floats, backward: Floats
    ) -> None:
        """Write into one layer's output (U, 2 P) the units that this piece keeps; its rows begin at `start`."""
        half = output.shape[1] // 2
        offset = start + 1 - piece.start
        for columns, states, tokens, (low, high) in (
            (slice(0, half), forward, reading.last, piece.forward),
            (slice(half, None), backward, reading.first, piece.backward),
        ):
            units = np.flatnonzero((low <= tokens) & (tokens < high))
            output[units, columns] = states[tokens[units] + offset]

    def _table(self, spellings: Sequence[str]) -> tuple[Tensor, int, int]:
        """Vectors (V or distinct words, E) of all tokens, and where those of the beginning and the end of a text are."""
        words = self.bilm.embeddings
        if not isinstance(words, SpeltWords):
            prefix, suffix = self.tokenizer.template.prefix, self.tokenizer.template.suffix
            return words.tokens.weight, int(prefix[0]), int(suffix[0])
        assert self.bilm.config.spelling is not None
        places = self.bilm.config.spelling.max_characters
        characters = np.concatenate([spell(spellings, places), spell_boundaries(places)]).astype(np.int64)
        with torch.inference_mode():
            table = words.words(torch.from_numpy(characters).to(self.device))
        return table, len(spellings), len(spellings) + 1


def _whole(words: Sequence[str]) -> list[tuple[int, int]]:
    """Offsets of given words: each is whole."""
    for word in words:
        if not isinstance(word, str):
            raise UsageError(f"a word is {word!r} ({type(word).__name__}), not a string")
    return [(0, len(word)) for word in words]
