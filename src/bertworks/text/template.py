"""Which special tokens stand around one text or a pair, and which segment each part belongs to.

BERT writes `[CLS] A [SEP] B [SEP]` in segments 0 and 1 (Devlin et al. 2019, figure 2), RoBERTa `<s> A </s></s> B
</s>` in one segment, GPT-2 nothing. A tokenizer file says it in one of several dialects of post-processor, so it is
not parsed but *asked*: one probe text and one probe pair are encoded, and what is not text is template. With the
template known, windows and packed rows are built from token ids, without tokenizing again.

Left out: templates that repeat or reorder the texts. No encoder family has one, and the probe refuses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertworks.errors import TokenizerError
from bertworks.text.encoding import Encoding, Ints, concatenate, in_place, special_run


class Wrapped(NamedTuple):
    """A sequence ready for a model: `ids` int32 (T,), `segments` int32 (T,)."""

    ids: Ints
    segments: Ints


@dataclass(frozen=True, slots=True)
class Special:
    """A run of special tokens: their ids and the segment of each."""

    ids: tuple[int, ...] = ()
    segments: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Layout:
    """Special tokens before, between and after the texts, and the segment of each text. One text uses no `middle`."""

    prefix: Special = Special()
    middle: Special = Special()
    suffix: Special = Special()
    segments: tuple[int, ...] = (0,)

    @property
    def num_special(self) -> int:
        """How many special tokens this layout adds."""
        return len(self.prefix) + len(self.middle) + len(self.suffix)


@dataclass(frozen=True, slots=True)
class Template:
    """The layout of one text and the layout of a pair."""

    single: Layout = Layout()
    pair: Layout = Layout(segments=(0, 1))

    @property
    def prefix(self) -> Ints:
        """int32: the special ids before a text."""
        return np.array(self.single.prefix.ids, np.int32)

    @property
    def middle(self) -> Ints:
        """int32: the special ids between the texts of a pair."""
        return np.array(self.pair.middle.ids, np.int32)

    @property
    def suffix(self) -> Ints:
        """int32: the special ids after a text."""
        return np.array(self.single.suffix.ids, np.int32)

    def num_special(self, pair: bool = False) -> int:
        """How many special tokens are added to one text, or to a pair."""
        return (self.pair if pair else self.single).num_special

    def without_special(self) -> Template:
        """The same segments, no special tokens."""
        return Template(Layout(segments=self.single.segments), Layout(segments=self.pair.segments))

    def wrap(self, ids: ArrayLike) -> Wrapped:
        """One text's ids with the special tokens around them."""
        return _wrap_ids(self.single, [np.asarray(ids, np.int32)])

    def wrap_pair(self, first: ArrayLike, second: ArrayLike) -> Wrapped:
        """Two texts' ids with the special tokens around and between them."""
        return _wrap_ids(self.pair, [np.asarray(first, np.int32), np.asarray(second, np.int32)])

    def wrap_encoding(self, first: Encoding, second: Encoding | None = None) -> Encoding:
        """An encoding without special tokens, or two, as one encoding with them."""
        if second is None:
            return _wrap_encodings(self.single, [first])
        return _wrap_encodings(self.pair, [first, second])

    def wrap_flat(self, ids: Ints, lengths: NDArray[np.int64]) -> tuple[Ints, NDArray[np.int64]]:
        """Many single texts at once: `ids` int32 (sum of lengths,) one text after the other, `lengths` int64 (B,)."""
        before, after = len(self.single.prefix), len(self.single.suffix)
        if before == after == 0:
            return ids, lengths
        wrapped_lengths = lengths + (before + after)
        stops = np.cumsum(wrapped_lengths)  # (B,)
        starts = stops - wrapped_lengths
        wrapped = np.empty(int(stops[-1]) if len(stops) else 0, np.int32)
        is_text = np.ones(len(wrapped), np.bool_)
        for place, token in enumerate(self.prefix):
            wrapped[starts + place] = token
            is_text[starts + place] = False
        for place, token in enumerate(self.suffix):
            wrapped[stops - after + place] = token
            is_text[stops - after + place] = False
        wrapped[is_text] = ids
        return wrapped, wrapped_lengths


def _wrap_ids(layout: Layout, texts: list[Ints]) -> Wrapped:
    ids: list[Any] = [layout.prefix.ids]
    segments: list[Any] = [layout.prefix.segments]
    for number, (text, segment) in enumerate(zip(texts, layout.segments, strict=True)):
        after = layout.suffix if number == len(texts) - 1 else layout.middle
        ids += [text, after.ids]
        segments += [np.full(len(text), segment), after.segments]
    return Wrapped(np.concatenate(ids).astype(np.int32), np.concatenate(segments).astype(np.int32))


def _wrap_encodings(layout: Layout, texts: list[Encoding]) -> Encoding:
    parts = [special_run(layout.prefix.ids, layout.prefix.segments)]
    for number, (text, segment) in enumerate(zip(texts, layout.segments, strict=True)):
        after = layout.suffix if number == len(texts) - 1 else layout.middle
        parts += [in_place(text, segment=segment, sequence=number), special_run(after.ids, after.segments)]
    return concatenate(parts)


def probe_template(backend: Any) -> Template:
    """Ask a `tokenizers.Tokenizer` for its template.

    An empty template is the answer of a tokenizer that cannot encode any probe text: it has nothing to put tokens
    around.
    """
    text = _probe_text(backend)
    if text is None:
        return Template()
    return Template(
        single=_layout(backend.encode(text), num_texts=1),
        pair=_layout(backend.encode(text, text), num_texts=2),
    )


def _probe_text(backend: Any) -> str | None:
    """Some text that yields at least one token; a vocabulary may know no letter at all."""
    for text in ("a", "the", "A", "1", ".", "的"):
        if backend.encode(text, add_special_tokens=False).ids:
            return text
    for added in backend.get_added_tokens_decoder().values():
        if backend.encode(added.content, add_special_tokens=False).ids:
            return str(added.content)
    for token in backend.get_vocab():
        if backend.encode(token, add_special_tokens=False).ids:
            return str(token)
    return None


def _layout(encoded: Any, *, num_texts: int) -> Layout:
    """Cut what the tokenizer made of `num_texts` probe texts into runs of special and of text tokens."""
    runs: list[tuple[int | None, list[int], list[int]]] = []  # (text number or None, ids, segments)
    for token, segment, sequence in zip(encoded.ids, encoded.type_ids, encoded.sequence_ids, strict=True):
        if not runs or runs[-1][0] != sequence:
            runs.append((sequence, [], []))
        runs[-1][1].append(token)
        runs[-1][2].append(segment)
    order = [sequence for sequence, _, _ in runs if sequence is not None]
    if order != list(range(num_texts)):
        raise TokenizerError(
            f"the tokenizer's post-processor places its texts in the order {order}, "
            f"but only {list(range(num_texts))} can be used; remove or replace the post_processor in tokenizer.json"
        )
    specials = [Special()] * (num_texts + 1)  # before the first text, after the first, …
    segments = []
    texts_seen = 0
    for sequence, run_ids, run_segments in runs:
        if sequence is None:
            specials[texts_seen] = Special(tuple(run_ids), tuple(run_segments))
        else:
            segments.append(run_segments[0])
            texts_seen += 1
    middle = specials[1] if num_texts == 2 else Special()
    return Layout(prefix=specials[0], middle=middle, suffix=specials[-1], segments=tuple(segments))
