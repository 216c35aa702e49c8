"""Which tokens are masked, and what stands in their place.

A share of the tokens of every sequence is chosen; the model sees a mask, a random token or the token itself there, and
is asked for the original (Devlin et al. 2019, section 3.1 and appendix A). How many is exact, not a coin toss per token:
max(1, round(rate × maskable tokens)) of each sequence, halves rounded up.

*Units.* Tokens are chosen in units, all or nothing:

    token     each by itself
    word      the pieces of a word (`words`): a masked piece cannot be guessed from the rest of its own word
    span      runs of whole words of random length (Joshi et al. 2020, SpanBERT)
    lexicon   entities and phrases (`lexicon`; Sun et al. 2019, ERNIE), and between them words, or tokens where the
              tokenizer marks no words

The units of a sequence are gone through in random order, and each is taken that still fits into the count. Only where
none at all fits is the count exceeded, by taking the smallest (the first of them in that order). Larger units have thus
slightly less of a chance towards the end of the count, as in BERT's own whole-word masking. Spans are taken otherwise:

*Spans.* SpanBERT draws a length (geometric, p = 0.2, at most 10: 3.8 words in the mean), then a place for it, until the
count is reached; the last one is cut. Here each sequence is first cut into spans with those lengths throughout, and they
are taken in random order; no span can overlap another, so nothing is drawn in vain. Two of them may touch, as SpanBERT's
may. The last one is cut after the last of its words that fits, and none is passed over, so that the lengths which are
drawn have the distribution that was asked for. Of the first span at least one word is taken.

*Replacements* (80 % mask, 10 % random, 10 % unchanged) are decided token by token as in BERT; for spans, once for the
whole span as in SpanBERT, where a half-masked span would give half of itself away. A random token is drawn evenly from
the vocabulary without its special tokens. Special tokens, the unknown token among them, are never chosen.

*Static or dynamic.* The draws are functions of (seed, epoch, sequence, position) and of nothing else: a sequence is masked
alike in whatever batch it is. `copies = None` masks anew in every epoch (RoBERTa), 1 the same way in all (static), 10 in
ten ways in turn, which is what BERT's data did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertworks.data.pretraining import draw
from bertworks.data.pretraining.draw import Stream
from bertworks.data.pretraining.flat import Ints
from bertworks.data.pretraining.lexicon import Lexicon
from bertworks.data.pretraining.sequences import Sequences
from bertworks.data.pretraining.words import WordStarts, special_ids
from bertworks.errors import ConfigError, TokenizerError, UsageError
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.train.kernels import compiled

UNITS = ("token", "word", "span", "lexicon")
SEQUENCE_BITS = 20  # of a sort key; the rest is random


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """How sequences are masked."""

    rate: float = 0.15
    """The share of the tokens that is chosen."""
    final_rate: float | None = None
    """The share at the end of training, reached evenly; None means that it stays the same."""
    unit: Literal["token", "word", "span", "lexicon"] = "token"
    mask_share: float = 0.8
    """Of the chosen tokens, how many are replaced by the mask."""
    random_share: float = 0.1
    """Of the chosen tokens, how many are replaced by a random one; the rest stays."""
    copies: int | None = None
    """In how many ways a sequence is masked: None anew in every epoch, 1 always alike, 10 as BERT's data."""
    mean_span: float = 3.8
    """The mean length of a span, in words."""
    max_span: int = 10

    def __post_init__(self) -> None:
        for name in ("rate", "final_rate"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise ConfigError(f"{name} must be between 0 and 1, not {value}")
        if self.unit not in UNITS:
            raise ConfigError(f"unknown unit {self.unit!r}; allowed: {', '.join(UNITS)}")
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1 + 1e-9:
            raise ConfigError(
                "mask_share and random_share must be 0 or more and together at most 1, "
                f"not {self.mask_share} and {self.random_share}"
            )
        if self.copies is not None and self.copies < 1:
            raise ConfigError(f"copies must be at least 1, not {self.copies}; None masks anew in every epoch")
        if self.max_span < 1 or not 1 <= self.mean_span <= (self.max_span + 1) / 2:
            raise ConfigError(
                f"mean_span must be from 1 to {(self.max_span + 1) / 2} with max_span {self.max_span} (longer spans are "
                f"never likelier than shorter ones), not {self.mean_span}"
            )

    def rate_at(self, progress: float) -> float:
        """The rate when this share of the training is done."""
        return self.rate if self.final_rate is None else self.rate + (self.final_rate - self.rate) * progress


@dataclass(frozen=True)
class Masked:
    """What the model sees, and what it is asked for."""

    input_ids: Ints  # (T,)
    places: Ints  # (M,) flat positions, ascending
    targets: Ints  # (M,) the original tokens there


class Masker:
    """Masks sequences; see the module's text."""

    def __init__(
        self, config: MaskingConfig, tokenizer: Tokenizer, lexicon: Lexicon | None = None, seed: int = 0
    ) -> None:
        self.config, self.seed = config, seed
        self.mask_id = tokenizer.specials.require("mask")
        self.is_special = special_ids(tokenizer)  # (V,)
        self.ordinary = np.flatnonzero(~self.is_special)
        """The ids that a random replacement is drawn from."""
        self.lexicon = lexicon if config.unit == "lexicon" else None
        if config.unit == "lexicon":
            if lexicon is None:
                raise UsageError("unit 'lexicon' needs a lexicon: read one with Lexicon.from_file or mine one")
            if lexicon.vocab_size != tokenizer.vocab_size:
                raise UsageError(
                    f"the lexicon was made with a vocabulary of {lexicon.vocab_size:,} tokens, but this tokenizer has "
                    f"{tokenizer.vocab_size:,}; make it with the same tokenizer"
                )
        self._words: WordStarts | None = None
        if config.unit != "token":
            try:
                self._words = WordStarts(tokenizer)
            except TokenizerError:
                if config.unit != "lexicon":
                    raise
        self._span_ends = span_hazard(config.mean_span, config.max_span) if config.unit == "span" else None

    def apply(self, rows: Sequences, progress: float = 0.0) -> Masked:
        """Mask sequences. `progress` is the share of the training that is done, for a rate that changes."""
        config = self.config
        epoch = rows.epoch if config.copies is None else rows.epoch % config.copies
        maskable = ~(rows.special | self.is_special[rows.ids])  # (T,)
        counts = np.bincount(rows.sequence_ids[maskable], minlength=len(rows.lengths))  # (B,)
        wanted = np.floor(config.rate_at(progress) * counts + 0.5).astype(np.int64)
        wanted = np.where(counts > 0, np.maximum(wanted, 1), 0)

        index = rows.index[rows.sequence_ids]  # (T,)
        starts = self._unit_starts(rows, maskable)  # (T,)
        first = np.flatnonzero(starts)  # (U,) the first token of each unit; of a span, the first of each of its words
        size = np.diff(first, append=len(starts))  # (U,) number of tokens
        size[~maskable[first]] = 0  # a unit is maskable or not as a whole
        sequence = rows.sequence_ids[first]  # (U,)
        lead = first if self._span_ends is None else self._span_starts(rows, maskable, first, index, epoch)  # (U,)
        key = draw.bits(Stream.SELECT, self.seed, epoch, index[lead], rows.positions[lead])
        key = (sequence.astype(np.uint64) << np.uint64(64 - SEQUENCE_BITS)) | (key >> np.uint64(SEQUENCE_BITS))
        order = np.argsort(key, kind="stable")  # the words of a span, which have one key, stay together
        chosen = np.zeros(len(first), np.bool_)
        if self._span_ends is None:
            _choose(order, size, sequence, wanted, chosen)
        else:
            _fill_up(order, size, sequence, wanted, chosen)
        unit = np.cumsum(starts) - 1  # (T,)
        places = np.flatnonzero(chosen[unit])

        input_ids, targets = rows.ids.copy(), rows.ids[places]
        # One decision for a whole span: that of its first token.
        asked = lead[unit[places]] if config.unit == "span" else places
        change = draw.uniform(Stream.CHANGE, self.seed, epoch, index[asked], rows.positions[asked])
        input_ids[places[change < config.mask_share]] = self.mask_id
        other = places[(change >= config.mask_share) & (change < config.mask_share + config.random_share)]
        drawn = draw.integers(len(self.ordinary), Stream.REPLACE, self.seed, epoch, index[other], rows.positions[other])
        input_ids[other] = self.ordinary[drawn]
        return Masked(input_ids, places, targets)

    def _unit_starts(self, rows: Sequences, maskable: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether a unit, or a word of a span, begins at each token (T,); one that is not maskable is a unit by itself."""
        if self.config.unit == "token":
            return np.ones(len(rows.ids), np.bool_)
        apart = _apart(rows, maskable)
        starts = apart | self._words(rows.ids) if self._words else np.ones(len(rows.ids), np.bool_)
        if self.lexicon is not None:
            unit = self.lexicon.match(rows.ids, rows.lengths, starts)
            starts[1:] &= unit[1:] != unit[:-1]
            starts |= apart
        return starts

    def _span_starts(self, rows: Sequences, maskable: NDArray[np.bool_], words: Ints, index: Ints, epoch: int) -> Ints:
        """For each word, given by its first token, the first token of the span that it is in: both (U,)."""
        assert self._span_ends is not None
        number = draw.uniform(Stream.SPAN, self.seed, epoch, index[words], rows.positions[words])
        begins = np.empty(len(words), np.bool_)
        _cut_spans(_apart(rows, maskable)[words], number, self._span_ends, begins)
        return words[np.flatnonzero(begins)[np.cumsum(begins) - 1]]


def _apart(rows: Sequences, maskable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tokens before which a unit begins, whatever they are (T,): the first of a sequence, and around unmaskable ones."""
    apart = ~maskable
    apart[1:] |= ~maskable[:-1]
    apart[rows.starts[rows.lengths > 0]] = True
    return apart


def span_hazard(mean: float, longest: int) -> NDArray[np.float64]:
    """The probability that a span of n words ends there, given that it has n: entries 1 to `longest`.

    The lengths are geometric, cut off at `longest` and scaled to a sum of 1; the parameter is found that gives the mean.
    """
    lengths = np.arange(1, longest + 1)

    def weights(keep: float) -> NDArray[np.float64]:
        powers = keep ** (lengths - 1.0)
        return np.asarray(powers / powers.sum())

    low, high = 0.0, 1.0  # the mean grows from 1 to (longest + 1) / 2
    for _ in range(60):
        middle = (low + high) / 2
        if weights(middle) @ lengths < mean:
            low = middle
        else:
            high = middle
    probability = weights(high)
    at_least = np.cumsum(probability[::-1])[::-1]
    hazard = np.concatenate([[0.0], probability / at_least])
    hazard[-1] = 1.0
    return hazard


@compiled
def _choose(order: Ints, size: Ints, sequence: Ints, wanted: Ints, chosen: NDArray[np.bool_]) -> None:
    """Take units in the given order, sequence by sequence, as long as they fit into what their sequence wants."""
    place = 0
    while place < len(order):
        current = sequence[order[place]]
        left, smallest = wanted[current], -1
        found = False
        while place < len(order) and sequence[order[place]] == current:
            unit = order[place]
            place += 1
            if size[unit] == 0:
                continue
            if smallest < 0 or size[unit] < size[smallest]:
                smallest = unit
            if size[unit] <= left:
                chosen[unit] = True
                found = True
                left -= size[unit]
        if not found and wanted[current] > 0:
            chosen[smallest] = True


@compiled
def _fill_up(order: Ints, size: Ints, sequence: Ints, wanted: Ints, chosen: NDArray[np.bool_]) -> None:
    """Take words in the given order, sequence by sequence, up to the first that does not fit; the first in any case."""
    current, left = -1, 0
    begun = False
    for word in order:
        if sequence[word] != current:
            current, left, begun = sequence[word], wanted[sequence[word]], False
        if size[word] == 0:
            continue
        if size[word] <= left or not begun:
            chosen[word] = begun = True
            left -= size[word]
        else:
            left = 0


@compiled
def _cut_spans(
    apart: NDArray[np.bool_], number: NDArray[np.float64], hazard: NDArray[np.float64], begins: NDArray[np.bool_]
) -> None:
    """Which words begin a span: those before which one must begin (`apart`), and where `number` says the last ended."""
    words = 0
    for word in range(len(apart)):
        begins[word] = apart[word] or number[word] < hazard[words]
        words = 1 if begins[word] else words + 1
