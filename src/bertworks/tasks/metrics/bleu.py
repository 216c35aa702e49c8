"""BLEU of a whole file (Papineni et al. 2002), equal to the last digit to what `sacrebleu` reports by default.

    precision_n = n-grams of the translations that are in their reference, each at most as often as it is there, over all
    BLEU        = brevity · (precision_1 · precision_2 · precision_3 · precision_4)^(1/4)
    brevity     = 1, or exp(1 - reference length / translation length) where the translations are too short

Counts are summed over the file before anything is divided: the BLEU of a file is no mean over its sentences. Words are those
of NIST's script mteval-v13a ("13a"), case counts, there is one reference a sentence, and where no n-gram of an order is right
its precision is taken to be half, a quarter, … of one n-gram (NIST's smoothing, "exp"). This is the standard that Post
(2018, "A call for clarity in reporting BLEU scores") asks for: figures are only comparable with one tokenization.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bertworks.errors import UsageError

ORDER = 4
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"
"""What these figures are, in the words of `sacrebleu`."""

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_RULES = (
    (
        re.compile(r"([{-~[-` -&(-+:-@/])"),
        r" \1 ",
    ),  # every ASCII mark, but for the apostrophe, comma, hyphen and full stop
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),  # these two unless they are inside of a number
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),  # a hyphen behind a digit
)


@dataclass(frozen=True)
class Bleu:
    """A score from 0 to 100 and what it is made of."""

    score: float
    precisions: tuple[float, ...]
    """In percent, for n-grams of 1 to 4 words."""
    brevity: float
    length: int
    """Words of the translations."""
    reference_length: int


def words_13a(text: str) -> list[str]:
    """The words of one sentence."""
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    text = f" {text} "
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text.split()


def corpus_bleu(translations: Sequence[str], references: Sequence[str]) -> Bleu:
    """The BLEU of translations against one reference each."""
    if len(translations) != len(references):
        raise UsageError(
            f"BLEU compares each translation with its reference; there are {len(translations):,} translations and "
            f"{len(references):,} references"
        )
    right, total = [0] * ORDER, [0] * ORDER
    length = reference_length = 0
    for translation, reference in zip(translations, references, strict=True):
        ours, theirs = words_13a(translation), words_13a(reference)
        length += len(ours)
        reference_length += len(theirs)
        for order in range(ORDER):
            found, wanted = _ngrams(ours, order + 1), _ngrams(theirs, order + 1)
            total[order] += found.total()
            right[order] += (found & wanted).total()
    brevity = 1.0 if length >= reference_length else math.exp(1 - reference_length / length) if length else 0.0
    precisions = _precisions(right, total)
    score = 0.0
    if all(precisions):
        score = brevity * math.exp(sum(math.log(precision) for precision in precisions) / ORDER)
    return Bleu(score, precisions, brevity, length, reference_length)


def _ngrams(words: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))


def _precisions(right: list[int], total: list[int]) -> tuple[float, ...]:
    """In percent; 0 where there are no n-grams at all, and everywhere where not a word is right."""
    if not any(right):
        return (0.0,) * ORDER
    found = []
    smoothing = 1.0
    for correct, count in zip(right, total, strict=True):
        if count and not correct:
            smoothing *= 2.0
            found.append(100.0 / (smoothing * count))
        else:
            found.append(100.0 * correct / count if count else 0.0)
    return tuple(found)
