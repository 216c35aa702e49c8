"""The rows of which the tables of a family are made, and how a row is read and written (see `family`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from bertworks.errors import CheckpointError
from bertworks.models.config import HeadConfig, ModelConfig, Reads, Task

Allowed = tuple[tuple[str, tuple[object, ...]], ...]
"""Entries of a `config.json`, each with the values that can be run here."""

NAMED_LABELS = ("classify", "tag")
MULTI_LABEL = "multi_label_classification"


class Key(NamedTuple):
    """An entry of `config.json`, our field for it, what its absence means, and, where they differ, its values."""

    theirs: str
    ours: str
    default: Any
    values: Mapping[str, str] | None = None


def with_defaults(keys: tuple[Key, ...], **defaults: Any) -> tuple[Key, ...]:
    """The same table with other defaults for some of their entries."""
    return tuple(key._replace(default=defaults.get(key.theirs, key.default)) for key in keys)


@dataclass(frozen=True, kw_only=True)
class HeadTable:
    """One task's head in one family."""

    task: Task
    architecture: str
    """The end of their class name, such as `ForMaskedLM`."""
    names: Mapping[str, str]
    """Our module within the head -> theirs: `transform.dense`, `transform.norm`, `output`, and `output_bias` where the
    bias of a tied output is a tensor of its own."""
    reads: Reads = "tokens"
    act: str | None = None
    """Activation of the transform; None = the stack's."""
    to_embedding_size: bool = False
    """Whether the transform leads to the width of the embeddings, not of the stack."""
    num_labels: int | None = None
    """None = as many as the file or the task has."""
    vocabulary: bool = False
    """Whether the outputs are the vocabulary, and the matrix usually the token table."""
    bias: bool = True
    keys: tuple[Key, ...] = ()
    """Entries of `config.json` that set fields of the `HeadConfig`."""
    requires: Allowed = ()

    def theirs(self, module: str) -> str:
        """Their name of the tensor `weight` of one of the head's modules, or of the tied output's bias."""
        if module == "output_bias":
            return self.names.get("output_bias", self.names["output"] + ".bias")
        return self.names[module] + ".weight"

    @property
    def signature(self) -> str:
        """The tensor whose presence in a file tells that the head is there."""
        return self.theirs("transform.dense" if self.vocabulary and "transform.dense" in self.names else "output")


def typed(name: str, value: Any, default: Any) -> Any:
    """`value`, or `default` where it is null; an error where it is not of the default's type."""
    if value is None:
        return default
    kind = (int, float) if isinstance(default, float) else type(default)
    if default is not None and (not isinstance(value, kind) or isinstance(value, bool) != isinstance(default, bool)):
        raise CheckpointError(f"config.json has {name} = {value!r}; it must be of the kind of {default!r}")
    return value


def read_value(key: Key, value: Any) -> Any:
    """Their value of an entry, or null -> ours."""
    value = typed(key.theirs, value, key.default)
    if key.values is None:
        return value
    if value not in key.values:
        raise CheckpointError(f"config.json has {key.theirs} = {value!r}; allowed here: {', '.join(key.values)}")
    return key.values[value]


def write_value(model_type: str, key: Key, value: Any) -> Any:
    """Our value of a field -> theirs."""
    if key.values is None:
        return value
    for theirs, ours in key.values.items():
        if ours == value:
            return theirs
    allowed = ", ".join(key.values.values())
    raise CheckpointError(f"a {model_type} checkpoint cannot have {key.ours} = {value!r}; allowed: {allowed}")


def require(model_type: str, table: Allowed, hf: Mapping[str, Any]) -> None:
    """An error where an entry has a value that would change the numbers in a way that we do not compute."""
    for name, allowed in table:
        if name in hf and hf[name] not in allowed:
            raise CheckpointError(
                f"config.json has {name} = {hf[name]!r}; of {model_type} models only those with "
                f"{' or '.join(repr(value) for value in allowed)} can be run here"
            )


def read_labels(hf: Mapping[str, Any], heads: Iterable[HeadConfig]) -> tuple[str, ...]:
    """The names of the classes or tags: `id2label` in order, or LABEL_0, LABEL_1 … as unnamed ones are called there."""
    for head in heads:
        if head.task not in NAMED_LABELS:
            continue
        named = cast(Mapping[Any, Any], hf.get("id2label") or {})
        labels = {str(number): str(label) for number, label in named.items()}
        numbers = [str(number) for number in range(head.num_labels)]
        if labels and labels.keys() != set(numbers):
            raise CheckpointError(
                f"config.json names {len(labels)} labels in id2label ({', '.join(labels)}), "
                f"but the {head.task} head has {head.num_labels} outputs, counted from 0"
            )
        return tuple(labels.get(number, f"LABEL_{number}") for number in numbers)
    return ()


def write_labels(config: ModelConfig, head: HeadConfig) -> dict[str, Any]:
    """The entries about a head's outputs: names and, for whole texts, what kind of prediction they are."""
    labels = config.labels if head.task in NAMED_LABELS and config.labels else ()
    if labels and len(labels) != head.num_labels:
        raise CheckpointError(
            f"the model has {len(labels)} label names, but the {head.task} head {head.num_labels} outputs"
        )
    labels = labels or tuple(f"LABEL_{number}" for number in range(head.num_labels))
    out: dict[str, Any] = {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    if head.task == "regress":
        out["problem_type"] = "regression"
    elif head.task == "classify" and dict(config.source).get("problem_type") != MULTI_LABEL:
        out["problem_type"] = "single_label_classification"
    return out
