"""Texts in one language to texts in another, with whatever model can: a Transformer, Marian, BART, a recurrent one.

Texts are read in batches of like length, a few sentences at once on every processor core. What a translation becomes does not
depend on what shares its batch. A text with more tokens than the model was trained on is translated in parts, cut where
sentences end (`translate_parts`), and said so; an empty text stays empty.
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

from bertworks.errors import ModelError, UsageError
from bertworks.hub.translation import load_translation
from bertworks.infer.decode import Beam, Hypothesis, Strategy
from bertworks.infer.decoders import decoder_for, lay_out_for_steps
from bertworks.infer.generate import Generation, TextStream, decode_all
from bertworks.infer.translate_parts import Part, cut
from bertworks.models.device import usable_device
from bertworks.models.rnn_seq2seq import RnnEncoderDecoder
from bertworks.models.seq2seq import EncoderDecoder
from bertworks.nn.packed import Packed
from bertworks.text.encoding import Encoding
from bertworks.text.tokenizer import Tokenizer

LONGEST = 512
"""Tokens of a source that are read at once where neither the model nor its tokenizer says how many."""
PART = 2**32
"""The numbers of all texts' first parts, of their second parts …: what is drawn for a text depends on no other text."""

Progress = Callable[[int, int], None]
"""(texts done, of how many)"""


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

    continues = False
    """It does not go on with what it reads (`generate.Writer`)."""

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
        known = source.model_max_length
        places = model.config.encoder.max_length if isinstance(model, EncoderDecoder) else known or LONGEST
        self.window = min(places, known or places)
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
        max_tokens: int | None = None,
        first: int = 0,
        progress: Progress | None = None,
    ) -> list[Generation]:
        """The best translation of each text, in the texts' order.

        strategy:   how it is searched; by default with a beam of 5
        max_tokens: the most tokens to write for a part of a text; by default `longest_target`
        first:      the number of the first text in all that is translated, on which drawn tokens depend
        """
        strategy = Beam(width=5) if strategy is None else strategy
        found = self.write(texts, strategy, max_tokens=max_tokens, first=first, progress=progress)
        return [best[0] for best in found]

    def write(
        self,
        texts: Sequence[str],
        strategy: Strategy,
        *,
        max_tokens: int | Sequence[int] | None = None,
        first: int = 0,
        on_text: Callable[[str], None] | None = None,
        progress: Progress | None = None,
    ) -> list[list[Generation]]:
        """One or more translations of each text, the best first.

        max_tokens: the most tokens to write for a part of any text, or of each; by default `longest_target`
        on_text:    gets the text piece by piece as it is written, in parts when all are there; for a single text
        """
        cuts = cut(texts, self.source, self.window - self.source.num_special())
        places = [(number, rank) for number, parts in enumerate(cuts) for rank in range(len(parts))]
        sources = [texts[number][cuts[number][rank].start : cuts[number][rank].end] for number, rank in places]
        flat, lengths = self.source.ids(sources, special=True)
        longest = [longest_target(int(length)) for length in lengths]
        if max_tokens is not None:
            longest = [max_tokens if isinstance(max_tokens, int) else max_tokens[number] for number, _ in places]
        stream = TextStream.of(on_text, texts, strategy, self._text, self.model.config.target.end)
        found = decode_all(
            decoder_for(self.model),
            np.split(flat.astype(np.int64), np.cumsum(lengths)[:-1]) if len(lengths) else [],
            strategy,
            max_new_tokens=longest,
            ids=self.model.config.target,
            device=self.device,
            numbers=np.array([first + number + rank * PART for number, rank in places], dtype=np.int64),
            watch=stream.watch if stream is not None and len(places) == 1 else None,
            progress=progress,
        )
        written = iter(found)
        num = getattr(strategy, "num", 1)
        results = [self._joined(parts, [next(written) for _ in parts], num) for parts in cuts]
        if stream is not None:
            stream.finish(results[0][0].text)
        return results

    def _joined(self, parts: Sequence[Part], found: Sequence[Sequence[Hypothesis]], num: int) -> list[Generation]:
        """`num` texts, each of one translation of every part; fewer where a part has fewer."""
        results = []
        for chosen in zip(*found, strict=False) if parts else [()] * num:
            text = ""
            for part, hypothesis in zip(parts, chosen, strict=True):
                said = self._text(hypothesis.tokens)
                text += f" {said}" if text and said and not part.inside else said
            results.append(
                Generation(
                    text=text,
                    tokens=tuple(token for each in chosen for token in self.target.tokens(each.tokens)),
                    log_probability=float(sum(each.log_probability for each in chosen)),
                    score=float(sum(each.score for each in chosen)),
                    finished=all(each.finished for each in chosen),
                    num_parts=len(parts),
                )
            )
        return results

    def _text(self, tokens: NDArray[np.int64]) -> str:
        """On one line."""
        return self.target.decode(tokens).strip().replace("\n", " ")

    def fits(self, source: str, target: str) -> bool:
        """Whether the model can read and write these in one piece."""
        longest = self.model.config.decoder.max_length if isinstance(self.model, EncoderDecoder) else None
        read, written = (
            len(tokenizer.encode(text)) for tokenizer, text in ((self.source, source), (self.target, target))
        )
        return read <= self.window and (longest is None or written <= longest)

    @torch.inference_mode()
    def align(self, source: str, target: str) -> AlignmentMatrix:
        """Where the decoder looks in `source` while it is made to write `target`, word by word."""
        if not self.fits(source, target):
            raise UsageError(
                f"these texts are longer than the model reads or writes at once ({self.window} tokens); align them sentence "
                "by sentence"
            )
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
