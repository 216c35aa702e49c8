"""What fine-tuned models say of a text, and which of its tokens mattered.

Any model that was fine-tuned, here or elsewhere, is asked through its `Predictor`; an embedding model compares two texts.
A row is what `bertworks.infer.rows` takes as a mapping: `text` (and `pair`, or `options`), or `question` and `context`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from bertworks.data.labelled.examples import TaggedExample
from bertworks.errors import BertworksError, ModelError, UsageError
from bertworks.infer.explain import METHODS, explain
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.predict import Predictor
from bertworks.infer.rows import NAMES
from bertworks.infer.translator import LoadedTranslator
from bertworks.models.transformer import Transformer
from bertworks.models.word_config import WordStackConfig
from bertworks.studio.models import Models, check_text

MAX_CHARACTERS = 100_000
MAX_OPTIONS = 20


def predictor_of(loaded: LoadedModel) -> Predictor:
    """What a model predicts; a `ModelError` where it predicts nothing."""
    if isinstance(loaded, LoadedTranslator):
        raise ModelError("a translation model has no task of this part; see its alignment under Attention")
    return loaded.predictor


def describe(name: str, loaded: LoadedModel) -> dict[str, Any]:
    """A model's task, its labels and what it takes; or why it has none."""
    try:
        predictor = predictor_of(loaded)
    except BertworksError as error:
        return {"name": name, "task": None, "why": str(error)}
    fields, optional = fields_of(predictor)
    return {
        "name": name,
        "task": predictor.task.name,
        "labels": list(predictor.labels),
        "multi_label": predictor.multi_label,
        "fields": list(fields),
        "optional": optional,
        "methods": _methods(loaded),
    }


def fields_of(predictor: Predictor) -> tuple[tuple[str, ...], str | None]:
    """What a row has, and which of it may be absent: it is not always known whether a model reads pairs."""
    task = predictor.task.name
    if task == "tag" or (task == "classify" and not predictor.guessed):
        return ("text",), None
    return NAMES[task], "pair" if task in ("classify", "regress") else None


def _methods(loaded: LoadedModel) -> list[str]:
    """How the model can be explained."""
    if isinstance(loaded.model.config.body, WordStackConfig):
        return []
    return [name for name in METHODS if name != "attention-rollout" or isinstance(loaded.model.body, Transformer)]


def predict(loaded: LoadedModel, row: Mapping[str, Any]) -> dict[str, Any]:
    """The prediction as one line of `predictions.jsonl` has it, beside the task's name.

    Of tags, also where the words stand in the text: `offsets`.
    """
    predictor = predictor_of(loaded)
    example = predictor.examples([checked_row(predictor, row)])[0]
    answer = {"task": predictor.task.name, **predictor.predict_examples([example])[0].as_json()}
    if isinstance(example, TaggedExample):
        answer["offsets"] = [list(place) for place in example.offsets or ()]
    return answer


def explained(
    loaded: LoadedModel, row: Mapping[str, Any], method: str = "integrated-gradients", target: Any = None
) -> dict[str, Any]:
    """Which tokens mattered, and what the method is."""
    predictor = predictor_of(loaded)
    row = checked_row(predictor, row)
    found = explain(predictor, row, method=method, target=tuple(target) if isinstance(target, list) else target)
    return {"method": method, "says": METHODS[method], "explanations": [one.as_json() for one in found]}


def checked_row(predictor: Predictor, row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the task reads, none of which is empty."""
    fields, optional = fields_of(predictor)
    kept: dict[str, Any] = {}
    for name in fields:
        value = row.get(name)
        if name == "options":
            kept[name] = _options(value)
        elif name == optional and not value:
            continue
        elif not isinstance(value, str):
            raise UsageError(f"the {_called(name)} is missing")
        else:
            kept[name] = check_text(value, limit=MAX_CHARACTERS, what=f"the {_called(name)}")
    return kept


def _options(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(option, str) for option in value):
        raise UsageError("the options are missing: write one in each line")
    if not 2 <= len(value) <= MAX_OPTIONS:
        raise UsageError(f"there are {len(value)} options; a choice has 2 to {MAX_OPTIONS}")
    return [check_text(option, limit=MAX_CHARACTERS, what=f"option {n}") for n, option in enumerate(value, start=1)]


def _called(name: str) -> str:
    return "second text" if name == "pair" else name


class PredictRequest(BaseModel):
    """A row for a model."""

    model: str
    row: dict[str, Any]


class ExplainRequest(PredictRequest):
    """What is to be explained about it; without a target, the prediction."""

    method: str = "integrated-gradients"
    target: str | int | list[int] | None = None


def router(models: Models) -> APIRouter:
    """The routes under /api/tasks."""
    routes = APIRouter(prefix="/api/tasks")
    described = [describe(name, loaded) for name, loaded in models.items()]  # once: a busy model keeps nobody waiting

    @routes.get("")
    def list_tasks() -> dict[str, Any]:
        return {"models": described}

    @routes.post("/predict")
    def predict_row(asked: PredictRequest) -> dict[str, Any]:
        with models.use(asked.model) as loaded:
            return predict(loaded, asked.row)

    @routes.post("/explain")
    def explain_row(asked: ExplainRequest) -> dict[str, Any]:
        with models.use(asked.model) as loaded:
            return explained(loaded, asked.row, asked.method, asked.target)

    return routes
