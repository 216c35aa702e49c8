"""Tagging: a tag for every word (Devlin et al. 2019, section 5.3: named entities; parts of speech).

The model reads each word at one of its tokens: the first, as BERT does; the last where the model reads forward only
(GPT), since nothing before it has seen the word whole. Loss and prediction are there and nowhere else, so that every word
has exactly one tag, however many tokens it has; a word of which the tokenizer keeps nothing gets the unknown token.

A long text is cut into windows that overlap. Each word is read in the one window that shows it with most text on both
sides (`bertworks.text.windows`), in training and in prediction; no word is left out.

Tags that stand for spans are learned and predicted in BIO (`bertworks.tasks.tags`); spans are given as characters of the
original text. Each word's tag is the likeliest by itself, as in `transformers`; or, with a CRF over the tags
(`bertworks.nn.crf`), the tags of a window are the likeliest path among those that BIO allows, and a word's probability is
its tag's marginal one.

Legend: U units, W words read, C tags, R words read in one batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertworks.data.labelled.examples import TaggedExample
from bertworks.data.pretraining.flat import ranges
from bertworks.errors import ConfigError, DataError, did_you_mean
from bertworks.hub.families import new_head
from bertworks.models.config import HeadConfig
from bertworks.models.model import Model
from bertworks.nn.crf import AllowedTags
from bertworks.objectives.base import Batch, Loss
from bertworks.tasks.base import Chosen, Decision, TaskName, Units
from bertworks.tasks.metrics import classification, entities
from bertworks.tasks.metrics.calibration import fit_temperature, softmax
from bertworks.tasks.predictions import SpanPrediction, TagPrediction
from bertworks.tasks.tags import (
    OUTSIDE,
    Scheme,
    is_readable,
    labels_of,
    recognise,
    scheme_of_labels,
    spans_of,
    tags_of,
    to_bio,
)
from bertworks.tasks.units import Runs, frame_texts, pack_units, room_for, split_by, units_of
from bertworks.tasks.words import joined
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.windows import windows

CONTINUED = "continued"


@dataclass(frozen=True, kw_only=True)
class Tagging:
    """Words with tags; `for_examples` finds out labels and scheme."""

    labels: tuple[str, ...]
    """What the model tells apart: O, B-X, I-X …, or the plain tags."""
    scheme: Scheme
    """How the examples' tags are written; predictions are BIO, or plain."""
    overlap: int = 64
    """Tokens that neighbouring windows of a long text share; less where the window is small."""
    crf: bool = False
    """Tags are chosen together, by scores of their neighbourhoods too."""

    @classmethod
    def for_examples(
        cls,
        name: str,
        examples: Sequence[TaggedExample],
        *,
        dev: Sequence[TaggedExample] | None = None,
        scheme: Scheme | None = None,
        overlap: int = 64,
        crf: bool = False,
    ) -> Self:
        """The labels are the training examples'; the scheme, too, unless it is said."""
        tags = [_known_tags(example) for example in examples]
        if scheme is None:
            scheme = recognise(tags)
            if scheme == "io":
                _check_bare(examples, tags)
        for example, sequence in zip(examples, tags, strict=True):
            _check_readable(example, sequence, scheme)
        labels = labels_of(tags, scheme)
        if not labels:
            raise ConfigError("there is not a single tagged word among the training examples")
        return cls(labels=labels, scheme=scheme, overlap=overlap, crf=crf)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """The task whose `settings()` these are."""
        fields = {key: value for key, value in settings.items() if key != "task"}
        return cls(**fields | {"labels": tuple(fields["labels"])})

    def settings(self) -> dict[str, Any]:
        return {"task": self.name, **asdict(self), "labels": list(self.labels)}

    @property
    def name(self) -> TaskName:
        return "tag"

    @property
    def metric(self) -> str:
        return "accuracy" if self.scheme == "plain" else "f1"

    @property
    def whole_steps(self) -> bool:
        return False

    @property
    def weights(self) -> Mapping[str, float]:
        return {"tag": 1.0}

    def head(self, model: Model) -> HeadConfig:
        return replace(new_head(model.config, "tag", len(self.labels)), crf=self.crf)

    def finish(self, model: Model) -> Self:
        return self

    # -- examples to units ---------------------------------------------------------------------------------------------

    def check(self, examples: Sequence[TaggedExample]) -> None:
        known = set(self.labels)
        for example in examples:
            tags = _known_tags(example)
            _check_readable(example, tags, self.scheme)
            for number, (written, tag) in enumerate(zip(tags, to_bio(tags, self.scheme), strict=True)):
                if tag not in known:
                    raise _bad_tag(
                        example,
                        number,
                        f"has the tag {written!r}, which no training example has{did_you_mean(tag, self.labels)}; "
                        f"known: {', '.join(self.labels)}",
                    )

    def encode(self, examples: Sequence[TaggedExample], tokenizer: Tokenizer, *, window: int, training: bool) -> Units:
        """Arrays: `places` (W,) of the tokens at which words are read, in their sequences; `bounds` (U + 1,) of each
        unit's among them; `targets` (W,), the tags' numbers, for training. An example's words come in order.
        """
        if training:
            self.check(examples)
        room = room_for(tokenizer.template, window, pair=False, least=2)
        before = len(tokenizer.template.single.prefix)
        forward_only = class_token_is_last(tokenizer)
        ids, owners, places = [], [], []
        encodings = tokenizer.encode_words_batch([example.words for example in examples], special=False)
        for number, encoding in enumerate(encodings):
            at_word = _read_tokens(encoding.words, last=forward_only)
            for shown in windows(len(encoding), room, min(self.overlap, room // 4)):
                owners.append(number)
                ids.append(encoding.ids[shown.start : shown.stop])
                read = np.flatnonzero(at_word[shown.keep_start : shown.keep_stop])
                places.append(read + (before + shown.keep_start - shown.start))
        sequences = frame_texts(tokenizer.template, runs_of(ids))
        arrays: dict[str, NDArray[Any]] = {
            "places": np.concatenate([np.zeros(0, np.int64), *places]),
            "bounds": np.cumsum([0, *map(len, places)]),
        }
        if training:
            arrays["targets"] = self._targets(examples)
        return units_of(sequences, owners, arrays=arrays)

    def _targets(self, examples: Sequence[TaggedExample]) -> NDArray[np.int64]:
        numbers = {label: number for number, label in enumerate(self.labels)}
        tags = (tag for example in examples for tag in to_bio(_known_tags(example), self.scheme))
        return np.fromiter((numbers[tag] for tag in tags), np.int64)

    # -- training ------------------------------------------------------------------------------------------------------

    def prepare(self, rows: Chosen, progress: float) -> Batch:
        arrays = rows.units.arrays
        bounds = arrays["bounds"]
        counts = bounds[rows.numbers + 1] - bounds[rows.numbers]  # (units chosen,)
        chosen = ranges(bounds[rows.numbers], counts)  # (R,)
        packed = pack_units(rows)
        starts = np.array(packed.layout.starts, np.int64)
        places = arrays["places"][chosen] + np.repeat(starts, counts)
        tensors = {CONTINUED: continued(rows)}
        if "targets" in arrays:
            tensors["targets"] = torch.from_numpy(arrays["targets"][chosen])
        return Batch(
            packed=packed,
            counts={"tag": len(places)},
            rows=packed.layout.rows(torch.from_numpy(places)),
            tensors=tensors,
        )

    def losses(self, module: Any, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        targets = batch.tensors["targets"]  # (R,)
        logits = module.logits(batch.packed, "tag", rows=batch.rows).float()  # (R, C)
        crf = module.head("tag").crf
        if crf is not None:
            assert batch.rows is not None
            return {"tag": Loss(sum=-crf.log_likelihood(logits, targets, batch.rows.layout).sum(), count=len(targets))}
        return {
            "tag": Loss(
                sum=F.cross_entropy(logits, targets, reduction="sum"),
                count=len(targets),
                correct=(logits.argmax(dim=-1) == targets).sum(),
            )
        }

    # -- after the model -----------------------------------------------------------------------------------------------

    def outputs(self, model: Model, batch: Batch) -> list[NDArray[np.float32]]:
        """Per unit (words read in it, C): logits. With a CRF (words read in it, C + 1): the logarithms of the words'
        marginal probabilities, and the number of the tag on the best path."""
        assert batch.rows is not None
        layout = batch.rows.layout
        scores = model.logits(batch.packed, "tag", rows=batch.rows).float()  # (R, C)
        crf = model.head("tag").crf
        if crf is not None:
            allowed = None if self.scheme == "plain" else _allowed(self.labels, batch.tensors[CONTINUED])
            paths = crf.decode(scores, layout, allowed)
            best = scores.new_tensor([number for path in paths for number in path])[:, None]  # (R, 1)
            scores = torch.cat([_log(crf.marginals(scores, layout)), best], dim=1)
        return split_by(scores.cpu().numpy(), layout.lengths)

    def probabilities(self, model: Model, batch: Batch) -> Tensor:
        """(R, C): how likely each tag is for each word, not calibrated."""
        assert batch.rows is not None
        logits = model.logits(batch.packed, "tag", rows=batch.rows).float()
        crf = model.head("tag").crf
        return logits.softmax(dim=1) if crf is None else crf.marginals(logits, batch.rows.layout)

    def decide(
        self, examples: Sequence[TaggedExample], units: Units, outputs: Sequence[NDArray[np.float32]]
    ) -> dict[str, Any]:
        """`temperature`: of the probabilities of all words' tags."""
        return {"temperature": fit_temperature(self._scores(outputs)[0], self._targets(examples))}

    def decode(
        self,
        examples: Sequence[TaggedExample],
        units: Units,
        outputs: Sequence[NDArray[np.float32]],
        decision: Decision,
    ) -> list[TagPrediction]:
        scores, numbers = self._scores(outputs)  # units come by example and window, words in order
        probabilities = softmax(scores, float(decision.get("temperature", 1.0)))
        likely = np.take_along_axis(probabilities, numbers[:, None], axis=1)[:, 0].tolist()
        tags = [self.labels[number] for number in numbers.tolist()]
        predictions, first, written = [], 0, self.written
        for example in examples:
            stop = first + len(example.words)
            predictions.append(self._prediction(example, tuple(tags[first:stop]), tuple(likely[first:stop]), written))
            first = stop
        return predictions

    def _scores(self, outputs: Sequence[NDArray[np.float32]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """(W, C): every word's scores; (W,): the number of its tag."""
        count = len(self.labels)
        flat = np.concatenate([np.zeros((0, count + self.crf), np.float32), *outputs])
        return flat[:, :count], flat[:, count].astype(np.int64) if self.crf else flat.argmax(axis=1)

    @property
    def written(self) -> Scheme:
        """How the labels, and so the predictions, are written: BIO of models that were trained here, or plain."""
        return "plain" if self.scheme == "plain" else scheme_of_labels(self.labels)

    def _prediction(
        self, example: TaggedExample, tags: tuple[str, ...], likely: tuple[float, ...], written: Scheme
    ) -> TagPrediction:
        found = spans_of(tags, written)
        spans: list[SpanPrediction] = []
        if found:
            text, offsets = joined(example.words)
            if example.text is not None and example.offsets is not None:
                text, offsets = example.text, example.offsets
            for label, first, stop in found:
                start, end = offsets[first][0], offsets[stop - 1][1]
                chance = prod(likely[first:stop])  # as if each word's tag were chosen by itself
                spans.append(SpanPrediction(label, start, end, text[start:end], chance, first, stop))
        return TagPrediction(example.words, tags, likely, tuple(spans))

    def truth(self, example: TaggedExample) -> tuple[str, ...] | None:
        """An example's tags, spelled as the predictions are."""
        if example.tags is None or self.scheme == "plain":
            return example.tags
        return tags_of(spans_of(example.tags, self.scheme), len(example.tags), self.written)

    def measure(self, examples: Sequence[TaggedExample], predictions: Sequence[TagPrediction]) -> dict[str, float]:
        """Spans: seqeval's `precision`, `recall`, `f1` and the words' `accuracy`; plain: `accuracy`, `f1_macro`."""
        true = [to_bio(_known_tags(example), self.scheme) for example in examples]
        written = self.written
        said = [prediction.tags for prediction in predictions]
        if written not in ("bio", "plain"):  # another's labels, in the spelling of the truth
            said = [to_bio(tags, written) for tags in said]
        names = sorted({tag for tags in (*true, *said) for tag in tags} | set(self.labels))
        numbers = {name: number for number, name in enumerate(names)}
        truth = np.fromiter((numbers[tag] for tags in true for tag in tags), np.int64)
        guess = np.fromiter((numbers[tag] for tags in said for tag in tags), np.int64)
        accuracy = classification.accuracy(truth, guess)
        if self.scheme == "plain":
            macro = classification.per_label(truth, guess, len(names)).macro_f1
            return {"accuracy": accuracy, "f1_macro": macro}
        overall = entities.score(
            [spans_of(tags, "bio") for tags in true], [spans_of(tags, "bio") for tags in said]
        ).overall
        return {
            "f1": overall.f1,
            "precision": overall.precision,
            "recall": overall.recall,
            "accuracy": accuracy,
        }


def continued(rows: Chosen) -> Tensor:
    """(B,): whether a unit goes on with the words of the one before, as all windows of a text do but the first."""
    owners = rows.units.owners
    return torch.from_numpy((rows.numbers > 0) & (owners[rows.numbers] == owners[rows.numbers - 1]))


def _allowed(labels: Sequence[str], goes_on: Tensor) -> AllowedTags:
    """What BIO allows: an I-X continues a B-X or an I-X, which may stand in the window before where a unit `goes_on` (B,)."""
    inside = [label[2:] if label.startswith("I-") else None for label in labels]
    starts = torch.tensor([name is None for name in inside])
    follows = [[name is None or before[2:] == name for name in inside] for before in labels]
    return AllowedTags(torch.tensor(follows), starts | goes_on.cpu()[:, None], torch.ones_like(starts))


def _log(probabilities: Tensor) -> Tensor:
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


def class_token_is_last(tokenizer: Tokenizer) -> bool:
    """Whether the class token stands at the end of a text, as with models that read forward only (GPT)."""
    suffix = tokenizer.template.single.suffix.ids
    return tokenizer.cls_id is not None and suffix[-1:] == (tokenizer.cls_id,)


def runs_of(parts: Sequence[NDArray[np.int32]]) -> Runs:
    """Ids of many texts, or of parts of texts, one after the other."""
    lengths = np.fromiter(map(len, parts), np.int64, count=len(parts))
    return Runs(np.concatenate([np.zeros(0, np.int32), *parts]), lengths)


def _read_tokens(words: NDArray[np.int32], *, last: bool) -> NDArray[np.bool_]:
    """(tokens,): True at the first token of each word, or at its last."""
    change = words[1:] != words[:-1]
    edge = np.ones(min(len(words), 1), np.bool_)
    return np.concatenate((change, edge) if last else (edge, change))


def _check_bare(examples: Sequence[TaggedExample], tags: Sequence[Sequence[str]]) -> None:
    """Labels alone are not half of them B- and I-: that is another scheme, with slips of the pen."""
    seen = {tag for sequence in tags for tag in sequence}
    marked = sorted(tag for tag in seen if len(tag) > 1 and tag not in OUTSIDE and is_readable(tag, "bio"))
    if not marked:
        return
    for example, sequence in zip(examples, tags, strict=True):
        for number, tag in enumerate(sequence):
            if not is_readable(tag, "bio"):
                raise _bad_tag(
                    example,
                    number,
                    f"has the tag {tag!r}, which is a label alone, where others are as {marked[0]!r}; are all of them "
                    "labels alone, say --set task.scheme=io",
                )


def _known_tags(example: TaggedExample) -> tuple[str, ...]:
    if example.tags is None:
        raise DataError("the words have no tags", path=example.place.path, line=example.place.line)
    if len(example.tags) != len(example.words):
        raise DataError(
            f"there are {len(example.words)} words but {len(example.tags)} tags; every word needs one",
            path=example.place.path,
            line=example.place.line,
        )
    return example.tags


def _check_readable(example: TaggedExample, tags: Sequence[str], scheme: Scheme) -> None:
    for number, tag in enumerate(tags):
        if not is_readable(tag, scheme):
            raise _bad_tag(
                example,
                number,
                f"has the tag {tag!r}, but tags in the scheme {scheme!r} are O or a letter and a label, such as B-PER",
            )


def _bad_tag(example: TaggedExample, number: int, what: str) -> DataError:
    path, line = example.place_of(number)
    return DataError(f"the word {example.words[number]!r} {what}", path=path, line=line)
