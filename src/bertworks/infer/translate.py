"""Texts in one language to texts in another, with whatever model can: a Transformer, Marian, BART, a recurrent one.

Texts are read in batches of like length, a few sentences at once on every processor core. What a translation becomes does not
depend on what shares its batch. A text with more tokens than the model was trained on is translated in parts, cut where
sentences end, and said so; an empty text stays empty.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bertworks.data.sentences import sentence_spans
from bertworks.errors import ModelError
from bertworks.hub.translation import load_translation
from bertworks.infer.decode import Beam, Hypothesis, Strategy
from bertworks.infer.decoders import decoder_for, lay_out_for_steps
from bertworks.infer.generate import decode_all
from bertworks.models.device import usable_device
from bertworks.models.rnn_seq2seq import RnnEncoderDecoder
from bertworks.models.seq2seq import EncoderDecoder
from bertworks.nn.packed import Packed
from bertworks.text.encoding import Encoding
from bertworks.text.tokenizer import Tokenizer

LONGEST = 512
"""Tokens of a source that are read at once where neither the model nor its tokenizer says how many."""

Progress = Callable[[int, int], None]
"""(texts done, of how many)"""


@dataclass(frozen=True)
class Translation:
    """One text's translation."""

    text: str
    score: float
    """What the search ranked it by; of a text in parts, their sum."""
    num_parts: int = 1
    """More than one where the text was longer than the model reads at once; 0 where it was empty."""
    finished: bool = True
    """Whether it ended by itself, rather than at the longest length that is tried."""


@dataclass(frozen=True)
class AlignmentMatrix:
    """How a text and its translation belong together in the eyes of the model."""

    source: tuple[str, ...]
    """Words, the frame's special tokens included."""
    target: tuple[str, ...]
    weights: NDArray[np.float32]
    """(layers, heads, target words, source words): where the decoder looked when it wrote each target word. Pieces of a
    source word are added up, those of a target word averaged; every row sums to 1."""

    @property
    def picture(self) -> NDArray[np.float32]:
        """(target words, source words): the heads' mean in the last layer but one, which aligns best (Garg et al. 2019),
        or in the only one."""
        layer = max(len(self.weights) - 2, 0)
        mean: NDArray[np.float32] = self.weights[layer].mean(axis=0)
        return mean


def longest_target(source_length: int) -> int:
    """How many tokens of a translation are tried: it is seldom twice as long as its source."""
    return 2 * source_length + 10


class Translator:
    """A model, and the tokenizers of what it reads and of what it writes, which may be one."""

    def __init__(
        self,
        model: nn.Module,
        source: Tokenizer,
        target: Tokenizer | None = None,
        *,
        device: str | torch.device = "cpu",
    ) -> None:
        if not isinstance(model, EncoderDecoder | RnnEncoderDecoder):
            raise ModelError(
                "this model does not translate: it is no encoder and decoder; train one with `bertworks translate "
                "train`, or give a Marian or BART model"
            )
        self.device = usable_device(device)
        self.model = model.eval().to(self.device)
        self.source, self.target = source, target or source
        places = model.config.encoder.max_length if isinstance(model, EncoderDecoder) else LONGEST
        self.window = min(places, source.model_max_length or places)
        """The longest source that is read at once, special tokens included: what the model was trained on."""

    @classmethod
    def load(cls, name: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> Translator:
        """Open a model directory or a Hub id."""
        opened = load_translation(name)
        lay_out_for_steps(opened.model)
        return cls(opened.model, opened.source, opened.target, device=device)

    def translate(
        self,
        texts: Sequence[str],
        strategy: Strategy | None = None,
        *,
        first: int = 0,
        progress: Progress | None = None,
    ) -> list[Translation]:
        """The best translation of each text, in the texts' order.

        strategy: how it is searched; by default with a beam of 5
        first:    the number of the first text in all that is translated, on which drawn tokens depend
        """
        parts = self.parts(texts)
        flat, lengths = self.source.ids([part for each in parts for part in each], special=True)
        found = decode_all(
            decoder_for(self.model),
            np.split(flat.astype(np.int64), np.cumsum(lengths)[:-1]) if len(lengths) else [],
            Beam(width=5) if strategy is None else strategy,
            max_new_tokens=[longest_target(int(length)) for length in lengths],
            ids=self.model.config.target,
            device=self.device,
            first=first,
            progress=progress,
        )
        best = iter([hypotheses[0] for hypotheses in found])
        return [self._joined([next(best) for _ in each]) for each in parts]

    def _joined(self, parts: Sequence[Hypothesis]) -> Translation:
        texts = [self.target.decode(part.tokens).strip() for part in parts]
        return Translation(
            " ".join(text.replace("\n", " ") for text in texts if text),
            float(sum(part.score for part in parts)),
            len(parts),
            all(part.finished for part in parts),
        )

    def parts(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text as it is, or, where it is too long, as runs of whole sentences that fit; nothing for an empty one.

        A sentence that does not fit by itself is cut between words.
        """
        room = self.window - self.source.num_special()
        found: list[list[str]] = []
        for text, length in zip(texts, self.source.ids(texts)[1], strict=True):
            if length <= room:
                found.append([text] if text.strip() else [])
                continue
            sentences = [text[start:end].split() for start, end in sentence_spans(text)]
            found.append(self._filled([run for words in sentences for run in self._filled(words, room)], room))
        return found

    def _filled(self, units: Sequence[str], room: int) -> list[str]:
        """Neighbouring units joined to as long texts as there is room for; a unit that is too long stands alone."""
        filled: list[str] = []
        for unit in units:
            longer = f"{filled[-1]} {unit}" if filled else unit
            if filled and self.source.ids([longer])[1][0] <= room:
                filled[-1] = longer
            else:
                filled.append(unit)
        return filled

    @torch.inference_mode()
    def align(self, source: str, target: str) -> AlignmentMatrix:
        """Where the decoder looks in `source` while it is made to write `target`, word by word."""
        read, framed = self.source.encode(source), self.target.encode(target)
        ids = self.model.config.target
        ending = np.flatnonzero(framed.special & np.isin(framed.ids, ids.end))[-1:]
        written = framed.take(np.concatenate([np.flatnonzero(~framed.special), ending]))
        told = np.concatenate([[ids.start], written.ids])[: len(written)]  # each token is written after those before it
        memory: Any = self.model.encode(Packed.from_sequences([read.ids]).to(self.device))  # of the model's own kind
        inputs = Packed.from_sequences([told]).to(self.device)
        hidden = self.model.decode(inputs, memory, attentions=True)
        weights = np.stack([layer[0][0].float().cpu().numpy() for layer in hidden.cross_attentions])  # (L, N, Tt, Ts)
        rows, columns = _words(self.target, target, written), _words(self.source, source, read)
        added = np.add.reduceat(weights, [place for place, _ in columns], axis=3)
        firsts = [place for place, _ in rows]
        averaged = np.add.reduceat(added, firsts, axis=2) / np.diff([*firsts, len(written)])[:, None]
        return AlignmentMatrix(
            tuple(name for _, name in columns), tuple(name for _, name in rows), averaged.astype(np.float32)
        )


def _words(tokenizer: Tokenizer, text: str, encoding: Encoding) -> list[tuple[int, str]]:
    """(place of the first token, the word as it is written) for each word; a special token is a word of its own."""
    found = [(word.first_token, text[word.start : word.end]) for word in encoding.word_spans()]
    found += [(int(place), tokenizer.token(int(encoding.ids[place]))) for place in np.flatnonzero(encoding.special)]
    return sorted(found)
