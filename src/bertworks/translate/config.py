"""How a translator is trained, as a value: a recipe is a TOML file of five sections, each field of which can be overridden with
`--set section.key=value`.

    [model]      what is trained: a Transformer, or a recurrent encoder and decoder with attention
    [data]       how sentences become tokens
    [objective]  label smoothing
    [train]      batch size, epochs, optimiser, schedule, checkpoints
    [search]     how translations are found when the result is judged

The recipes in the folder `recipes/` suit some ten thousand pairs of short sentences and a few processor cores; each says
what it follows and where it departs. The resolved recipe of every run lies in its `config.toml`, which is such a file too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bertworks.errors import ConfigError
from bertworks.train.config import EvaluationConfig, RunLength, TrainConfig, at_least, between, positive
from bertworks.train.recipes import open_recipe

RECIPES = ("transformer", "rnn-attention")
DEFAULT_RECIPE = "transformer"

MEANT_FOR = {
    "transformer": ("positions", "num_attention_heads", "intermediate_size", "attention_dropout", "pre_norm"),
    "rnn": ("cell", "attention", "embedding_size"),
}
RECIPE_OF = {"transformer": "transformer", "rnn": "rnn-attention"}
"""Which fields of `ModelSection` only one kind of model reads, and what trains that kind."""

Positions = Literal["sinusoidal", "learned", "relative", "rotary"]


@dataclass(frozen=True, kw_only=True)
class ModelSection:
    """What is trained."""

    kind: Literal["transformer", "rnn"] = "transformer"
    num_layers: int = 6
    """Of the encoder, and as many of the decoder."""
    hidden_size: int = 512
    """Of a recurrent encoder, the width of each direction."""
    dropout: float = 0.1
    positions: Positions = "sinusoidal"
    """transformer: added to the token vectors (sinusoidal, learned), or inside of attention (relative: a number for each
    bucket of distances; rotary). Sinusoidal models are saved as Marian's and open in `transformers`."""
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    """transformer: width of the feed-forward network."""
    attention_dropout: float = 0.0
    pre_norm: bool = False
    """transformer: normalise before attention and feed-forward network instead of after them."""
    cell: Literal["rnn", "lstm", "gru"] = "gru"
    attention: Literal["bahdanau", "luong"] = "bahdanau"
    """rnn: which decoder."""
    embedding_size: int = 256
    """rnn: width of the token vectors."""

    def __post_init__(self) -> None:
        for name in ("num_layers", "hidden_size", "num_attention_heads", "intermediate_size", "embedding_size"):
            at_least(f"model.{name}", getattr(self, name), 1)
        for name in ("dropout", "attention_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ConfigError(f"model.{name} is {getattr(self, name):g}; it must be at least 0 and below 1")
        if self.kind == "transformer" and self.hidden_size % self.num_attention_heads:
            raise ConfigError(
                f"model.hidden_size {self.hidden_size} is not a multiple of model.num_attention_heads "
                f"{self.num_attention_heads}"
            )


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """From sentences to tokens."""

    algorithm: Literal["bpe", "byte-bpe"] = "bpe"
    """The tokenizer that is trained on both languages together; byte-bpe has no unknown characters."""
    vocab_size: int = 8000
    lowercase: bool = False
    max_length: int = 128
    """Pairs with more tokens than this on one side are not trained on."""
    dev_fraction: float = 0.02
    """The share of the training pairs to keep for evaluation, where no development pairs are given."""
    dev_sentences: int = 1000
    """So many of the development pairs are translated in each evaluation; all of them at the end."""
    columns: tuple[str, ...] = ()
    """Of one file of pairs: the columns of source and target; empty = the first two, or the only two."""
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        at_least("data.vocab_size", self.vocab_size, 16)
        at_least("data.max_length", self.max_length, 4)
        at_least("data.dev_sentences", self.dev_sentences, 1)
        if not 0.0 < self.dev_fraction < 1.0:
            raise ConfigError(f"data.dev_fraction is {self.dev_fraction:g}; it must be between 0 and 1")
        if len(self.columns) not in (0, 2):
            raise ConfigError(f"data.columns must be two, source and target, not {len(self.columns)}")


@dataclass(frozen=True, kw_only=True)
class ObjectiveSection:
    """What is predicted: the next target token."""

    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        between("objective.label_smoothing", self.label_smoothing, 0.0, 0.9)


@dataclass(frozen=True, kw_only=True)
class TrainSection(TrainConfig):
    """How it is trained: what every training has, its length and the size of a step."""

    epochs: float = 15.0
    """How often each pair is seen, where neither steps nor a budget of time are given."""
    batch_tokens: int = 8192
    """Tokens in one step, of both sides, over all processes."""
    evaluation: EvaluationConfig = field(
        default_factory=lambda: EvaluationConfig(metric="bleu", goal="highest", floor=1.0, keep="best")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("train.epochs", self.epochs)
        at_least("train.batch_tokens", self.batch_tokens, 1)
        if self.sharded:
            raise ConfigError("train.sharded is for pretraining; a translator is copied to each process")


@dataclass(frozen=True, kw_only=True)
class SearchSection:
    """How the finished model is judged: what `bertworks translate run` does by default."""

    beam: int = 5
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0

    def __post_init__(self) -> None:
        at_least("search.beam", self.beam, 1)


@dataclass(frozen=True, kw_only=True)
class RunSection(RunLength):
    """What else decides a run's result; a run writes it to its `config.toml`, and nobody needs to."""

    command: Literal["translate"] = "translate"
    task: Literal["train"] = "train"
    train: tuple[str, ...]
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    data_sha256: str = ""
    """Of all pairs as they were read."""


@dataclass(frozen=True, kw_only=True)
class TranslationConfig:
    """One way of training a translator."""

    about: str = ""
    """One sentence."""
    run: RunSection | None = None
    model: ModelSection = field(default_factory=ModelSection)
    data: DataSection = field(default_factory=DataSection)
    objective: ObjectiveSection = field(default_factory=ObjectiveSection)
    train: TrainSection = field(default_factory=TrainSection)
    search: SearchSection = field(default_factory=SearchSection)


def load_recipe(name: str | Path = DEFAULT_RECIPE, settings: tuple[str, ...] = ()) -> TranslationConfig:
    """A recipe of `RECIPES` or a TOML file, with each `section.key=value` of `settings` applied."""
    recipe = open_recipe(TranslationConfig, "bertworks.translate", name, settings, RECIPES)
    given = {setting.partition("=")[0].strip().removeprefix("model.") for setting in settings}
    for kind, names in MEANT_FOR.items():
        if kind != recipe.model.kind and (idle := sorted(given & set(names))):
            raise ConfigError(
                f"model.{idle[0]} means nothing to a translator of the kind {recipe.model.kind!r}; it is for {kind!r}: "
                f"--recipe {RECIPE_OF[kind]}"
            )
    return recipe
