"""Recipes: how a model is pretrained, as a value. A recipe is a TOML file of four sections, each field of which can be
overridden with `--set section.key=value`:

    [model]      what is trained: family and shape                     `bertworks.train.architecture`
    [data]       how documents become sequences                       here
    [objective]  what is to be predicted                               here, with [objective.masking]
    [train]      batch size, optimiser, schedule, checkpoints         here and `bertworks.train.config`

The recipes in the folder `recipes/` are the published ones, scaled down where they need thousands of processors; each
file says what it follows and where it departs. `--recipe` also takes the path of a file of your own, and the resolved
recipe of every run lies in its `config.toml`, which is such a file too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal, TypeVar

from bertworks.config import resolve
from bertworks.data.pretraining.masking import MaskingConfig
from bertworks.errors import ConfigError, UsageError, did_you_mean
from bertworks.train.architecture import ModelSection
from bertworks.train.config import RunLength, TrainConfig, at_least

RECIPES = ("bert", "roberta", "albert", "electra", "ernie", "gpt", "modern", "rnn", "lstm", "gru", "elmo", "charlm")
DEFAULT_RECIPE = "modern"
DISTILL_RECIPE, CONTINUE_RECIPE, ULMFIT_RECIPE = "distill", "continue", "ulmfit"
"""What `bertworks distill` and `bertworks pretrain --from` follow where nothing else is said; the last with a recurrent
language model."""
SUFFIX = ".toml"
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """From documents to sequences."""

    sequence_length: int = 128
    """The longest sequence, special tokens included."""
    long_sequence_length: int | None = None
    """Longer sequences for the last part of training, as BERT had them (Devlin et al. 2018, appendix A.2)."""
    long_share: float = 0.1
    """The share of steps with long sequences, where there are such."""
    held_out_tokens: int = 65_536
    """About how many tokens of whole documents are kept for evaluation, never more than 5 % of the corpus."""
    short_prob: float = 0.0
    """This share of the sequences is shorter, of a length drawn evenly (BERT: a tenth)."""
    whole_sentences: bool = False
    """Single sequences begin where a sentence does, and hold as many as fit."""
    tokenizer: Literal["wordpiece", "byte-bpe"] | None = None
    """The kind of tokenizer that the recipe was published with; a corpus with another one is noted, not refused."""

    def __post_init__(self) -> None:
        if self.sequence_length < 8:
            raise ConfigError(f"data.sequence_length is {self.sequence_length}; it must be at least 8")
        if self.long_sequence_length is not None and self.long_sequence_length <= self.sequence_length:
            raise ConfigError(
                f"data.long_sequence_length is {self.long_sequence_length}; it must be above data.sequence_length = "
                f"{self.sequence_length}, or none"
            )
        if not 0.0 < self.long_share < 1.0:
            raise ConfigError(f"data.long_share is {self.long_share}; it must be between 0 and 1")
        if self.held_out_tokens < 0:
            raise ConfigError(f"data.held_out_tokens is {self.held_out_tokens}; it must be at least 0")

    @property
    def longest(self) -> int:
        """The longest sequence of the whole training."""
        return self.long_sequence_length or self.sequence_length


@dataclass(frozen=True, kw_only=True)
class ObjectiveSection:
    """What is predicted, and how much each loss counts."""

    kind: Literal["masked_lm", "replaced_tokens", "causal_lm", "bilm", "distill"] = "masked_lm"
    pairs: Literal["none", "nsp", "sop"] = "none"
    """Sentence pairs and their own loss: next sentence prediction (BERT) or sentence order prediction (ALBERT)."""
    pair_weight: float = 1.0
    lexicon: str | None = None
    """For masking.unit = "lexicon": a file with one entity or phrase per line (.gz and .xz too), or "mined": cohesive
    phrases of the corpus itself."""
    discriminator_weight: float = 50.0
    """ELECTRA: how much replaced-token detection counts beside the generator's masked LM."""
    temperature: float = 2.0
    """Distillation: how much the teacher's and the student's distributions are flattened."""
    soft_weight: float = 5.0
    """Distillation: weight of the teacher's distribution; 5, 2 and 1 are DistilBERT's (Sanh et al. 2019)."""
    mlm_weight: float = 2.0
    """Distillation: weight of the masked tokens themselves."""
    cosine_weight: float = 1.0
    """Distillation: weight of the direction of the hidden states, where student and teacher are equally wide."""
    hidden_weight: float = 1.0
    """Distillation from a teacher without a masked-LM head: weight of the hidden states, layer by layer."""
    sentence_weight: float = 1.0
    """The same: weight of each sequence's mean, which is what an embedding model is used for."""
    softmax_words: int | None = None
    """bilm: how many words of the vocabulary a training step predicts against, half of them the most frequent and half
    drawn; None = all."""
    masking: MaskingConfig = field(default_factory=MaskingConfig)

    def __post_init__(self) -> None:
        if self.pairs != "none" and self.kind != "masked_lm":
            raise ConfigError(f'objective.pairs = "{self.pairs}" needs objective.kind = "masked_lm", not "{self.kind}"')
        if self.masking.unit == "lexicon" and self.lexicon is None:
            raise ConfigError('objective.masking.unit = "lexicon" needs objective.lexicon: a file, or "mined"')


@dataclass(frozen=True, kw_only=True)
class TrainSection(TrainConfig):
    """How it is trained: what every training has, and the size of a step."""

    batch_tokens: int = 16384
    """Tokens in one step, over all processes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("batch_tokens", self.batch_tokens, 1)


@dataclass(frozen=True, kw_only=True)
class RunSection(RunLength):
    """What else decides a run's result; a run writes it to its `config.toml`, and nobody needs to."""

    command: Literal["pretrain", "distill"] = "pretrain"
    corpus: str
    corpus_sha256: str
    """Of the corpus's manifest, which has the hashes of everything else."""
    start: str | None = None
    """The model that was gone on with."""
    teacher: str | None = None
    teacher_sha256: str | None = None
    """Of its weights: a teacher that was trained anew in the meantime is another one."""
    vector_tokens: int | None = None
    """With model.first_vectors = skipgram: from how many tokens they are learnt."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One way of pretraining."""

    about: str = ""
    """One sentence."""
    run: RunSection | None = None
    model: ModelSection = field(default_factory=ModelSection)
    data: DataSection = field(default_factory=DataSection)
    objective: ObjectiveSection = field(default_factory=ObjectiveSection)
    train: TrainSection = field(default_factory=TrainSection)


def load_recipe(name: str | Path = DEFAULT_RECIPE, settings: tuple[str, ...] = ()) -> Recipe:
    """A recipe of `RECIPES` or a TOML file, with each `section.key=value` of `settings` applied."""
    unlisted = (DISTILL_RECIPE, CONTINUE_RECIPE, ULMFIT_RECIPE)
    return open_recipe(Recipe, "bertworks.train", name, settings, RECIPES, unlisted)


def open_recipe(
    kind: type[R],
    package: str,
    name: str | Path,
    settings: tuple[str, ...],
    listed: tuple[str, ...],
    unlisted: tuple[str, ...] = (),
) -> R:
    """The recipe `name` of a package's folder `recipes`, or a TOML file, as a `kind`; only `listed` names are told to users."""
    text = str(name)
    if text in (*listed, *unlisted):
        with as_file(files(package).joinpath("recipes", text + SUFFIX)) as path:
            return resolve(kind, path, settings)
    if text.endswith(SUFFIX) or Path(text).is_file():
        return resolve(kind, Path(text), settings)
    hint = did_you_mean(text, listed)
    raise UsageError(f"unknown recipe {text!r}{hint}; allowed: {', '.join(listed)}, or the path of a .toml file")
