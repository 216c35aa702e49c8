"""Answering questions from a context (SQuAD; Devlin et al. 2019, sections 4.2 and 4.3): where the answer starts and ends.

    [CLS] question [SEP] window of the context [SEP]          two logits per token: start, end

A long context is cut into overlapping windows, each with the whole question. In training a window that does not hold the
whole answer, and every window of a question that has none, points at the class token instead (the first; the last with
GPT). The softmax of the loss runs over the class token and the context, which are the only possible answers.

The best runs of tokens of all windows are the candidates (`bertworks.tasks.best_answers`). Where questions may have no
answer, a threshold on the lead of "no answer" over the best candidate is chosen on development examples for the best F1.
Answers are cut out of the original context by the tokens' offsets.

A question of more than `max_question_tokens` tokens loses its end.

Legend: U units, R rows read (class token and context) of one batch, B its sequences, n context tokens of one window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertworks.data.labelled.examples import Answer, QuestionExample
from bertworks.data.pretraining.flat import ranges
from bertworks.errors import ConfigError, DataError
from bertworks.hub.families import new_head
from bertworks.models.config import HeadConfig
from bertworks.models.model import Model
from bertworks.objectives.base import Batch, Loss
from bertworks.tasks.base import Chosen, Decision, TaskName, Units
from bertworks.tasks.best_answers import BestAnswers, best_answers
from bertworks.tasks.metrics import squad
from bertworks.tasks.predictions import AnswerPrediction, Candidate
from bertworks.tasks.tagging import class_token_is_last, runs_of
from bertworks.tasks.units import frame_pairs, pack_units, room_for, split_by, units_of
from bertworks.text.encoding import Encoding
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.windows import windows


@dataclass(frozen=True, kw_only=True)
class Answering:
    """Questions about contexts."""

    unanswerable: bool = False
    """Whether a question may have no answer (SQuAD 2.0)."""
    max_answer_tokens: int = 30
    max_question_tokens: int = 64
    overlap: int = 64
    """Context tokens that neighbouring windows share; less where the window is small."""
    num_candidates: int = 5
    """How many answers a prediction lists."""

    def __post_init__(self) -> None:
        for field in ("max_answer_tokens", "max_question_tokens", "num_candidates"):
            if getattr(self, field) < 1:
                raise ConfigError(f"{field} is {getattr(self, field)}; it must be at least 1")

    @classmethod
    def for_examples(
        cls,
        name: str,
        examples: Sequence[QuestionExample],
        *,
        dev: Sequence[QuestionExample] | None = None,
        **options: Any,
    ) -> Self:
        """Questions may have no answer where a training example has none, unless the option `unanswerable` says it."""
        options.setdefault("unanswerable", any(example.answers == () for example in examples))
        return cls(**options)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """The task whose `settings()` these are."""
        return cls(**{key: value for key, value in settings.items() if key != "task"})

    def settings(self) -> dict[str, Any]:
        return {"task": self.name, **asdict(self)}

    @property
    def name(self) -> TaskName:
        return "qa"

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def metric(self) -> str:
        return "f1"

    @property
    def whole_steps(self) -> bool:
        return False

    @property
    def weights(self) -> Mapping[str, float]:
        return {"span": 1.0}

    def head(self, model: Model) -> HeadConfig:
        return new_head(model.config, "qa", 2)

    def finish(self, model: Model) -> Self:
        return self

    # -- examples to units ---------------------------------------------------------------------------------------------

    def check(self, examples: Sequence[QuestionExample]) -> None:
        for example in examples:
            for answer in _allowed(example):
                there = example.context[answer.start : answer.start + len(answer.text)] if answer.start >= 0 else ""
                if not answer.text or there != answer.text:
                    what = f"{there!r} stands there" if there else "the context has nothing there"
                    raise DataError(
                        f"question {example.id!r}: the answer {answer.text!r} is not at character {answer.start} of its "
                        f"context; {what}",
                        path=example.place.path,
                        line=example.place.line,
                    )

    def encode(
        self, examples: Sequence[QuestionExample], tokenizer: Tokenizer, *, window: int, training: bool
    ) -> Units:
        """Arrays, per unit: the places in its sequence of the context tokens, `context` (U, 2), of those that it is the
        best window for, `kept` (U, 2), and of the class token, `null` (U,); how many of the context tokens the window
        before shows too, `shared` (U,); for training `targets` (U, 2), the rows of start and end as `prepare` reads them.
        And `offsets` (context tokens of all units, 2) into the context.
        """
        if training:
            self.check(examples)
        pair = tokenizer.template.pair
        room = room_for(tokenizer.template, window, pair=True, least=4)
        questions = _encode_once([example.question for example in examples], tokenizer)
        contexts = _encode_once([example.context for example in examples], tokenizer)
        null_last = class_token_is_last(tokenizer)
        first, second, offsets, owners, context, kept, shared, targets = [], [], [], [], [], [], [], []
        most = min(self.max_question_tokens, room // 2)
        for number, example in enumerate(examples):
            question = questions[example.question].ids[:most]
            whole = contexts[example.context]
            before = len(pair.prefix) + len(question) + len(pair.middle)
            answer = _answer_tokens(example, whole) if training else None
            space = room - len(question)
            end_before = 0
            for shown in windows(len(whole), space, min(self.overlap, space // 2)):
                owners.append(number)
                shared.append(max(end_before - shown.start, 0))
                end_before = shown.stop
                first.append(question)
                second.append(whole.ids[shown.start : shown.stop])
                offsets.append(whole.offsets[shown.start : shown.stop])
                context.append((before, before + len(shown)))
                kept.append((before + shown.keep_start - shown.start, before + shown.keep_stop - shown.start))
                start = end = len(shown) if null_last else 0
                if answer is not None and shown.start <= answer[0] and answer[1] < shown.stop:
                    start, end = (token - shown.start + (not null_last) for token in answer)
                targets.append((start, end))
        sequences = frame_pairs(tokenizer.template, runs_of(first), runs_of(second))
        arrays: dict[str, NDArray[Any]] = {
            "offsets": np.concatenate([np.zeros((0, 2), np.int32), *offsets]),
            "context": _pairs(context),
            "kept": _pairs(kept),
            "shared": np.array(shared, np.int64),
            "null": sequences.lengths - 1 if null_last else np.zeros_like(sequences.lengths),
        }
        if training:
            arrays["targets"] = _pairs(targets)
        num_cut = sum(len(questions[example.question]) > most for example in examples)
        return units_of(sequences, owners, arrays=arrays, num_cut=num_cut)

    # -- training ------------------------------------------------------------------------------------------------------

    def prepare(self, rows: Chosen, progress: float) -> Batch:
        """The rows read of each sequence: the class token and the context, in the order of the sequence."""
        arrays, chosen = rows.units.arrays, rows.numbers
        packed = pack_units(rows)
        context, null = arrays["context"][chosen], arrays["null"][chosen]
        counts = context[:, 1] - context[:, 0] + 1  # (B,)
        stops = np.cumsum(counts)
        null_first = null <= context[:, 0]
        places = ranges(context[:, 0] - null_first, counts)  # (R,)
        places[np.where(null_first, stops - counts, stops - 1)] = null
        places += np.repeat(np.array(packed.layout.starts, np.int64), counts)
        targets = arrays.get("targets")
        return Batch(
            packed=packed,
            counts={"span": len(chosen)},
            rows=packed.layout.rows(torch.from_numpy(places)),
            tensors={} if targets is None else {"targets": torch.from_numpy(targets[chosen])},
        )

    def losses(self, module: Any, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, Model)
        assert batch.rows is not None
        targets = batch.tensors["targets"]  # (B, 2)
        logits = module.logits(batch.packed, "qa", rows=batch.rows).float()  # (R, 2)
        layout = batch.rows.layout
        dense = logits.new_full((layout.num_sequences, max(layout.lengths, default=1), 2), -math.inf)
        dense = dense.index_put((layout.sequence_ids(logits.device), layout.positions(logits.device)), logits)
        # Start and end are two softmaxes over the rows of a sequence.
        total = F.cross_entropy(dense.transpose(1, 2).flatten(0, 1), targets.flatten(), reduction="sum")
        right: Tensor = (dense.argmax(dim=1) == targets).all(dim=1)
        return {"span": Loss(sum=total / 2, count=len(targets), correct=right.sum())}

    # -- after the model -----------------------------------------------------------------------------------------------

    def outputs(self, model: Model, batch: Batch) -> list[NDArray[np.float32]]:
        """Per unit (1 + n, 2): logits of start and end, as `prepare` reads the rows."""
        assert batch.rows is not None
        logits = model.logits(batch.packed, "qa", rows=batch.rows).float()
        return split_by(logits.cpu().numpy(), batch.rows.layout.lengths)

    def decide(
        self, examples: Sequence[QuestionExample], units: Units, outputs: Sequence[NDArray[np.float32]]
    ) -> dict[str, Any]:
        """`no_answer_threshold`: how far "no answer" must lead over the best answer, for the best F1."""
        if not self.unanswerable:
            return {}
        allowed = [[answer.text for answer in _allowed(example)] for example in examples]
        found = self._best(examples, units, outputs)
        texts = [_cut(example, one.spans) for example, one in zip(examples, found, strict=True)]
        scores = squad.score(allowed, texts, "2.0")
        leads = [one.lead for one in found]
        _, threshold = squad.best_threshold(scores.f1s, scores.answerable, leads)
        return {"no_answer_threshold": threshold}

    def decode(
        self,
        examples: Sequence[QuestionExample],
        units: Units,
        outputs: Sequence[NDArray[np.float32]],
        decision: Decision,
    ) -> list[AnswerPrediction]:
        threshold = float(decision.get("no_answer_threshold", 0.0))
        predictions = []
        for example, found in zip(examples, self._best(examples, units, outputs), strict=True):
            # Where questions always have an answer, none is no alternative.
            total = np.logaddexp(found.total, found.no_answer) if self.unanswerable else found.total
            candidates = tuple(
                Candidate(example.context[start:end], start, end, math.exp(score - total))
                for score, start, end in found.spans
            )
            no_answer = math.exp(found.no_answer - total) if self.unanswerable else 0.0
            if not candidates or (self.unanswerable and found.lead > threshold):
                best = Candidate("", 0, 0, no_answer)
            else:
                best = candidates[0]
            predictions.append(
                AnswerPrediction(example.id, best.text, best.start, best.end, best.probability, no_answer, candidates)
            )
        return predictions

    def measure(self, examples: Sequence[QuestionExample], predictions: Sequence[AnswerPrediction]) -> dict[str, float]:
        """SQuAD's `exact_match` and `f1`; where there are questions without an answer, by the rules of 2.0."""
        allowed = [[answer.text for answer in _allowed(example)] for example in examples]
        rules: squad.Rules = "2.0" if self.unanswerable or not all(allowed) else "1.1"
        return squad.score(allowed, [prediction.text for prediction in predictions], rules).figures()

    def _best(
        self, examples: Sequence[QuestionExample], units: Units, outputs: Sequence[NDArray[np.float32]]
    ) -> list[BestAnswers]:
        return best_answers(
            units, outputs, len(examples), max_tokens=self.max_answer_tokens, wanted=self.num_candidates
        )


def _cut(example: QuestionExample, spans: Sequence[tuple[float, int, int]]) -> str:
    return example.context[spans[0][1] : spans[0][2]] if spans else ""


def _encode_once(texts: Sequence[str], tokenizer: Tokenizer) -> dict[str, Encoding]:
    """Encodings by text: many questions share a context."""
    different = list(dict.fromkeys(texts))
    return dict(zip(different, tokenizer.encode_batch(different, special=False), strict=True))


def _pairs(rows: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(len(rows), 2)


def _answer_tokens(example: QuestionExample, context: Encoding) -> tuple[int, int] | None:
    """The first and the last token of the first allowed answer; None where there is none, or no token shows it."""
    allowed = _allowed(example)
    if not allowed or len(context) == 0:
        return None
    start, end = allowed[0].start, allowed[0].start + len(allowed[0].text)
    touched = np.flatnonzero((context.offsets[:, 1] > start) & (context.offsets[:, 0] < end))
    return (int(touched[0]), int(touched[-1])) if len(touched) else None


def _allowed(example: QuestionExample) -> tuple[Answer, ...]:
    if example.answers is None:
        raise DataError(
            f"question {example.id!r} has no list of answers (an empty list says that there is none)",
            path=example.place.path,
            line=example.place.line,
        )
    return example.answers
