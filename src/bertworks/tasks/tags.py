"""Tags of words and the spans that they stand for, whatever the scheme they are written in.

    words    Wolff  ,  a   journalist  in  Argentina  ,  Del    Bosque
    spans    PER                           LOC            PER----------
    BIO      B-PER  O  O   O           O   B-LOC      O  B-PER  I-PER     every span begins with B (also called IOB2)
    IOB1     I-PER  O  O   O           O   I-LOC      O  I-PER  I-PER     B only where a span of the same label ends just before
    IOBES    S-PER  O  O   O           O   S-LOC      O  B-PER  E-PER     the last word is E, a single one S (BILOU: L and U)
    IO       PER    O  O   O           O   LOC        O  PER    PER       labels alone; neighbours of one label are one span
    plain    NNP    ,  DT  NN          IN  NNP        ,  NNP    NNP       no spans: parts of speech

The four kinds with spans (Ramshaw and Marcus 1995; Ratinov and Roth 2009) are all turned into BIO, so that a model has
one set of tags to learn. Tags that break their scheme's rules, as a model may predict them, are read as the CoNLL shared
tasks' scorer and seqeval read them: an I or E that continues nothing begins a span.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from bertworks.errors import UsageError
from bertworks.tasks.metrics.entities import Span

Scheme = Literal["bio", "iob1", "iobes", "io", "plain"]

OUTSIDE = ("O", "0")
"""The tag of words that are in no span; some files write it as a zero."""
PLACES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S", "W": "S"}
"""What stands before the label: begin, inside, end, single; other schemes' letters for the same."""
NO_LABEL = "_"
"""The label of spans that are written without one ("B", "I")."""


def recognise(sequences: Iterable[Sequence[str]]) -> Scheme:
    """Which scheme the tags of some sentences are written in: all of them, or most (the others are slips of the pen)."""
    kept = [tags for tags in sequences if len(tags)]
    counts = Counter(tag for tags in kept for tag in tags)
    inside = {tag: count for tag, count in counts.items() if tag not in OUTSIDE}
    marked = {tag: count for tag, count in inside.items() if _is_marked(tag)}
    most = sum(count for tag, count in marked.items() if len(tag) > 1) > sum(inside.values()) / 2
    if most or (inside and len(marked) == len(inside) and not _is_alphabet(counts)):
        if {PLACES[tag[0]] for tag in marked} - {"B", "I"}:
            return "iobes"
        found = {
            kind for tags in kept for kind in _beginnings([tag for tag in tags if tag in OUTSIDE or tag in marked])
        }
        return "iob1" if "inside" in found and "apart" not in found else "bio"
    if inside and counts.most_common(1)[0][0] in OUTSIDE and not _are_numbers(counts):
        return "io"
    return "plain"


def spans_of(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """The spans that the tags of one sentence stand for, in order; plain tags stand for none."""
    if scheme == "plain":
        return []
    spans: list[Span] = []
    label, first = "", -1  # the span that is open, if first >= 0
    for number, tag in enumerate(tags):
        place, new = _parts(tag, scheme)
        if first >= 0 and (place in "OBS" or new != label):
            spans.append(Span(label, first, number))
            first = -1
        if place == "O":
            continue
        if first < 0:
            label, first = new, number
        if place in "ES":
            spans.append(Span(label, first, number + 1))
            first = -1
    if first >= 0:
        spans.append(Span(label, first, len(tags)))
    return spans


def to_bio(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """The tags of one sentence in BIO; plain ones as they are."""
    return tuple(tags) if scheme == "plain" else tags_of(spans_of(tags, scheme), len(tags), "bio")


def tags_of(spans: Iterable[Span], length: int, scheme: Scheme) -> tuple[str, ...]:
    """The tags of a sentence of `length` words with these spans, which do not overlap."""
    if scheme == "plain":
        raise UsageError("plain tags stand for no spans; allowed schemes: bio, iob1, iobes, io")
    tags = ["O"] * length
    before: Span | None = None
    for span in sorted(spans, key=lambda span: span.first):
        adjacent = before is not None and before.stop == span.first and before.label == span.label
        if scheme == "io":
            written = [span.label] * (span.stop - span.first)
        else:
            places = ["I"] * (span.stop - span.first)
            if scheme != "iob1" or adjacent:
                places[0] = "B"
            if scheme == "iobes":
                places[-1] = "S" if len(places) == 1 else "E"
            written = [f"{place}-{span.label}" for place in places]
        tags[span.first : span.stop] = written
        before = span
    return tuple(tags)


def labels_of(sequences: Iterable[Sequence[str]], scheme: Scheme) -> tuple[str, ...]:
    """Every tag that a model has to tell apart: O, then B and I of every label; or the plain tags; in alphabetic order."""
    if scheme == "plain":
        return tuple(sorted({tag for tags in sequences for tag in tags}))
    found = sorted({span.label for tags in sequences for span in spans_of(tags, scheme)})
    return ("O", *(f"{place}-{label}" for label in found for place in "BI"))


def scheme_of_labels(labels: Sequence[str]) -> Scheme:
    """How the labels that a model tells apart are written: one that was trained elsewhere may have any of the schemes."""
    marked = [label for label in labels if label not in OUTSIDE]
    if not marked or len(marked) == len(labels) or _is_alphabet(Counter(labels)) or _are_numbers(labels):
        return "plain"
    if not all(_is_marked(label) for label in marked):
        return "io"
    parts = {_parts(label, "bio") for label in marked}
    if {place for place, _ in parts} & {"E", "S"}:
        return "iobes"
    begun = {label for place, label in parts if place == "B"}
    return "bio" if begun == {label for _, label in parts} else "iob1"


def is_readable(tag: str, scheme: Scheme) -> bool:
    """Whether a tag can be a tag of the scheme at all."""
    return scheme in ("plain", "io") or tag in OUTSIDE or _is_marked(tag)


def _are_numbers(tags: Iterable[str]) -> bool:
    """Numbers that nobody has named: 1 may be the beginning of a name and 2 its inside, or both whole names."""
    return all(tag.isdecimal() for tag in tags)


def _parts(tag: str, scheme: Scheme) -> tuple[str, str]:
    """Place (O, B, I, E, S) and label of a tag."""
    if tag in OUTSIDE:
        return "O", ""
    if scheme == "io":
        return "I", tag
    if not _is_marked(tag):
        raise UsageError(f"the tag {tag!r} is neither O nor a letter and a label, such as B-PER")
    return PLACES[tag[0]], tag[2:] or NO_LABEL


def _is_marked(tag: str) -> bool:
    return tag[:1] in PLACES and (len(tag) == 1 or tag[1] == "-")


def _is_alphabet(counts: Counter[str]) -> bool:
    """Tags of one letter that do not even have a beginning are names of something else."""
    return all(len(tag) == 1 for tag in counts) and not {"B", "I"} <= counts.keys() and not {"B", "E"} <= counts.keys()


def _beginnings(tags: Sequence[str]) -> set[str]:
    """How spans begin: "inside" is with I, as in IOB1; "apart" is with B where no span of the same label ends, as never
    in IOB1."""
    found = set()
    before = ("O", "")
    for place, label in (_parts(tag, "bio") for tag in tags):
        if place != "O" and before[1] != label:
            found.add("inside" if place == "I" else "apart")
        before = (place, label)
    return found
