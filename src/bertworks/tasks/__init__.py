"""What can be fine-tuned, by name: a task is a value that knows its labels, its loss, its predictions and its figures.

task = for_examples("classify", train)                  labels and scales are those of the training examples
tokenizer = attach(task, model, tokenizer)              the model gets the task's head
…train: a task is an `Objective`…
task = task.finish(model)
evaluated = evaluate_model(task, model, dev, tokenizer=tokenizer, window=window)

task.settings()  <->  from_settings(…)                  how it is kept beside the model, in bertworks.json
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from bertworks import errors

if TYPE_CHECKING:
    from bertworks.tasks.base import Task, TaskName

NAMES: tuple[TaskName, ...] = ("classify", "pair", "regress", "choice", "tag", "qa", "similarity")


def for_examples(
    name: str, examples: Sequence[Any], *, dev: Sequence[Any] | None = None, **options: Any
) -> Task[Any, Any]:
    """The task for these training examples: labels, tag scheme, scale of the numbers, kind of the pairs are read off them.

    `dev` examples, where there are any, say only what can be measured (a similarity task's figures depend on it).
    The `options` are the task's own; its class says which.
    """
    errors.choice(name, NAMES, "task")  # by its full name: `choice` is a module of this package
    return cast("Task[Any, Any]", _class_of(name, "inputs" in options).for_examples(name, examples, dev=dev, **options))


def from_settings(settings: Mapping[str, Any]) -> Task[Any, Any]:
    """The task whose `settings()` these are."""
    name = settings.get("task")
    if name not in NAMES:
        raise errors.ConfigError(f"the settings of a task name the task {name!r}; known: {', '.join(NAMES)}")
    return cast("Task[Any, Any]", _class_of(name, "inputs" in settings).from_settings(settings))


def _class_of(name: str, words: bool) -> Any:
    """A task's class, which has the class methods `for_examples(name, examples, dev=None, **options)` and `from_settings`.

    words: the one for a stack over words, whose settings and options say what such a stack reads ("inputs")
    """
    if words and name == "classify":
        from bertworks.tasks.word_classification import WordClassification

        return WordClassification
    if words and name == "tag":
        from bertworks.tasks.word_tagging import WordTagging

        return WordTagging
    if name in ("classify", "pair"):
        from bertworks.tasks.classification import Classification

        return Classification
    if name == "regress":
        from bertworks.tasks.regression import Regression

        return Regression
    if name == "choice":
        from bertworks.tasks.choice import Choice

        return Choice
    if name == "tag":
        from bertworks.tasks.tagging import Tagging

        return Tagging
    if name == "qa":
        from bertworks.tasks.answers import Answering

        return Answering
    from bertworks.tasks.similarity import Similarity

    return Similarity
