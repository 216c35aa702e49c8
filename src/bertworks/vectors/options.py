"""What decides word vectors: how text becomes words, and how vectors are learnt from them.

Values that are None take the usual ones of the algorithm, from the paper that introduced it (`USUAL`); `settled` fills
them in, so that the configuration that is saved beside the vectors leaves nothing open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bertworks.errors import ConfigError

Algorithm = Literal["skipgram", "cbow", "glove", "bernoulli"]
ALGORITHMS: tuple[Algorithm, ...] = ("skipgram", "cbow", "glove", "bernoulli")

USUAL: dict[str, dict[str, Any]] = {
    "skipgram": {"epochs": 5, "window": 5, "learning_rate": 0.025},
    "cbow": {"epochs": 5, "window": 5, "learning_rate": 0.05},
    "glove": {"epochs": 25, "window": 10, "learning_rate": 0.05},
    "bernoulli": {"epochs": 5, "window": 5, "learning_rate": 0.05},
}


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How text becomes words."""

    split: Literal["words", "spaces"] = "words"
    """words: runs of letters and digits, each Chinese character alone; spaces: the text is cut at white space only."""
    lowercase: bool = True
    min_count: int = 5
    """A word that occurs less often is left out, and its neighbours close up."""
    max_words: int | None = None
    """At most so many words, the most frequent."""
    phrases: int = 0
    """Rounds of joining neighbours that belong together: one finds new_york, two find new_york_times."""
    phrase_threshold: float = 10.0
    """How many times more often than by chance two words must meet to be one."""

    def __post_init__(self) -> None:
        _at_least("text.min_count", self.min_count, 1)
        _at_least("text.max_words", self.max_words, 1)
        _at_least("text.phrases", self.phrases, 0)
        _positive("text.phrase_threshold", self.phrase_threshold)


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How vectors are learnt."""

    algorithm: Algorithm = "skipgram"
    dim: int = 100
    epochs: int | None = None
    window: int | None = None
    """Neighbours on each side, at most."""
    learning_rate: float | None = None
    """At the start; it falls to (nearly) 0 with the words that are done, except for GloVe, which adapts it by itself."""
    negative: int = 5
    """Words drawn at random that a true one is told from. Not for GloVe."""
    subsample: float = 1e-3
    """Words with a larger share of the text are skipped at random (Mikolov et al. 2013); 0 skips none. Not for GloVe."""
    prior_deviation: float = 1.0
    """Bernoulli: the standard deviation of the vectors' Gaussian prior."""
    max_weight_count: float = 10.0
    """GloVe's x_max: pairs that meet more often weigh no more. The paper's 100 is for billions of words."""
    seed: int = 0
    hogwild: bool = False
    """Let threads update the same vectors without waiting for each other: quicker, and different each time."""
    threads: int = 1
    """Used with hogwild only: one after the other is the only order that two runs share."""

    def __post_init__(self) -> None:
        _at_least("training.dim", self.dim, 1)
        _at_least("training.epochs", self.epochs, 1)
        _at_least("training.window", self.window, 1)
        _at_least("training.negative", self.negative, 1)
        _at_least("training.threads", self.threads, 1)
        _at_least("training.seed", self.seed, 0)
        _positive("training.learning_rate", self.learning_rate)
        _positive("training.prior_deviation", self.prior_deviation)
        _positive("training.max_weight_count", self.max_weight_count)
        if self.subsample < 0:
            raise ConfigError(f"training.subsample must be 0 or more, not {self.subsample}")
        if self.threads > 1 and not self.hogwild:
            raise ConfigError(
                f"training.threads is {self.threads}, but several threads need --hogwild: "
                "they change the same vectors at the same time, so that no two runs are equal"
            )


MEANT_FOR: dict[str, tuple[Algorithm, ...]] = {
    "negative": ("skipgram", "cbow", "bernoulli"),
    "subsample": ("skipgram", "cbow", "bernoulli"),
    "prior_deviation": ("bernoulli",),
    "max_weight_count": ("glove",),
}


def check_meaning(algorithm: Algorithm, settings: Sequence[str]) -> None:
    """Refuse a `training.key=value` that the algorithm would not read."""
    for setting in settings:
        name = setting.partition("=")[0].strip().removeprefix("training.")
        if algorithm not in MEANT_FOR.get(name, (algorithm,)):
            raise ConfigError(f"training.{name} means nothing to {algorithm}; it is for {', '.join(MEANT_FOR[name])}")


@dataclass(frozen=True, kw_only=True)
class VectorsConfig:
    """Everything that decides the vectors of a text."""

    text: TextOptions = field(default_factory=TextOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)

    def settled(self) -> VectorsConfig:
        """The same with the usual values of the algorithm where none was given."""
        usual = USUAL[self.training.algorithm]
        missing = {name: value for name, value in usual.items() if getattr(self.training, name) is None}
        return replace(self, training=replace(self.training, **missing))


def _at_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise ConfigError(f"{name} must be at least {least}, not {value}")


def _positive(name: str, value: float | None) -> None:
    if value is not None and not value > 0:
        raise ConfigError(f"{name} must be more than 0, not {value}")
