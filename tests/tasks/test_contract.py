"""Every task keeps the contract."""

from __future__ import annotations

from typing import Any, ClassVar

from bertworks.tasks import for_examples
from bertworks.tasks.base import Task
from tests.tasks import small
from tests.tasks.contract import TaskContract


class Standard(TaskContract):
    """Examples decide the task."""

    name: str
    options: ClassVar[dict[str, Any]] = {}

    def task(self) -> Task[Any, Any]:
        return for_examples(self.name, self.examples(), **self.options)


class TestClassify(Standard):
    name = "classify"

    def examples(self) -> list[Any]:
        return small.texts()


class TestClassifyWeighted(Standard):
    name = "classify"
    options: ClassVar[dict[str, Any]] = {"class_weights": "balanced", "metric": "f1_macro"}

    def examples(self) -> list[Any]:
        return small.texts(("no", "yes", "no"))


class TestClassifyWithGpt(Standard):
    name = "classify"
    model_type = "gpt2"

    def examples(self) -> list[Any]:
        return small.texts()


class TestMultiLabel(Standard):
    name = "classify"

    def examples(self) -> list[Any]:
        return small.texts((("a",), ("a", "b"), (), ("c", "b")))


class TestPair(Standard):
    name = "pair"

    def examples(self) -> list[Any]:
        return small.texts(pairs=True)


class TestRegress(Standard):
    name = "regress"

    def examples(self) -> list[Any]:
        return small.texts((1000.0, 1003.5, 1009.0))


class TestRegressPairsWithGpt(Standard):
    name = "regress"
    model_type = "openai-gpt"

    def examples(self) -> list[Any]:
        return small.texts((2.0, 1.5, 3.0), pairs=True)


class TestPoisson(Standard):
    name = "regress"
    options: ClassVar[dict[str, Any]] = {"distribution": "poisson"}

    def examples(self) -> list[Any]:
        return small.texts((0, 1, 7))


class TestChoice(Standard):
    name = "choice"

    def examples(self) -> list[Any]:
        return small.choices()


class TestTag(Standard):
    name = "tag"

    def examples(self) -> list[Any]:
        return small.tagged()


class TestAnswers(Standard):
    name = "qa"

    def examples(self) -> list[Any]:
        return small.questions()


class TestSimilarityOfPairs(Standard):
    name = "similarity"
    needs_labels = False

    def examples(self) -> list[Any]:
        return small.similar("pairs")


class TestSimilarityByOrder(Standard):
    name = "similarity"

    def examples(self) -> list[Any]:
        return small.similar("scored")


class TestSimilarityByCosine(TestSimilarityByOrder):
    options: ClassVar[dict[str, Any]] = {"score_loss": "cosine", "pooling": "cls", "metric": "pearson"}


class TestSimilarityOfTexts(Standard):
    """The model is in evaluation mode here, so each text is its own copy and finds itself at once."""

    name = "similarity"
    options: ClassVar[dict[str, Any]] = {"kind": "unlabelled", "pooling": "max", "metric": "mrr"}
    needs_labels = False
    learnable = False

    def examples(self) -> list[Any]:
        return small.similar("pairs")
