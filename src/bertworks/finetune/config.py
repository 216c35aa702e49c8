"""The settings of a fine-tuning: seven sections, and one that a run writes itself. As everywhere: what is sensible for the
data (`bertworks.finetune.defaults`), then one TOML file, then `--set section.key=value`.

    [data]     how the files are read; how long a sequence may be
    [task]     what is special to one task: class weights, the distribution of numbers, the pooling of sentence vectors
    [method]   which weights learn: frozen layers, gradual unfreezing, adapters
    [train]    epochs, batch size, optimiser, schedule, evaluation      (with `bertworks.train.config`)
    [frozen]   for `--frozen` in place of the two before: what stands for a text, and the cross-validation
    [fresh]    for `--model bilstm`, `bigru` and `birnn`: the shape of a new model
    [words]    for a new model over words (`--model bilstm`): its word vectors, its size, text without labels
    [run]      what was fine-tuned on what, with which seeds; it makes a directory's `config.toml` that of a run
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from bertworks.data.labelled.options import ReadOptions
from bertworks.errors import ConfigError
from bertworks.tasks.base import TaskName
from bertworks.train.config import (
    EvaluationConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainConfig,
    at_least,
    between,
    positive,
)
from bertworks.train.recurrent import parse_shape


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """From files to sequences; what is not said is found out by looking at the files."""

    text_column: str | None = None
    pair_column: str | None = None
    label_column: str | None = None
    option_columns: tuple[str, ...] = ()
    first_option: Literal[0, 1] | None = None
    """choice: the number that the first option has in the label column."""
    group_column: str | None = None
    """Rows with the same value here never fall on both sides of a split."""
    encoding: str = "utf-8"
    file_format: str | None = None
    header: bool | None = None
    skip_bad_rows: bool = False
    """Leave out rows that cannot be read, and count them."""
    multi_label: bool = False
    """A text may have several labels, or none."""
    label_separator: str | None = None
    """What stands between a text's labels in its column; multi-label only."""
    dev_fraction: float | None = None
    """The share of the training file that is kept for evaluation, where there is no development file."""
    max_examples: int | None = None
    """Learn from the first so many examples of the training file only."""
    max_length: int | None = None
    """The longest sequence, special tokens included; None = what the model was made for, at most 384 for qa."""

    def __post_init__(self) -> None:
        at_least("data.max_examples", self.max_examples, 2)
        at_least("data.max_length", self.max_length, 8)
        if self.dev_fraction is not None and not 0.0 < self.dev_fraction < 1.0:
            raise ConfigError(f"data.dev_fraction is {self.dev_fraction:g}; allowed: between 0 and 1, such as 0.1")
        if self.label_separator is not None and not self.multi_label:
            raise ConfigError("data.label_separator is for several labels per text; set data.multi_label=true as well")

    @property
    def options(self) -> ReadOptions:
        """What the readers want to know."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(ReadOptions) if f.name in _READ}
        return ReadOptions(**own, multi_label=self.label_separator or self.multi_label)

    def with_options(self, options: ReadOptions) -> DataSection:
        """What a caller says in `options` wins; what it leaves at its default does not."""
        usual = ReadOptions()
        said = {name: getattr(options, name) for name in _READ if getattr(options, name) != getattr(usual, name)}
        if options.multi_label:
            said["multi_label"] = True
            said["label_separator"] = options.multi_label if isinstance(options.multi_label, str) else None
        return dataclasses.replace(self, **said)


_READ = tuple(
    f.name for f in dataclasses.fields(ReadOptions) if f.name in {own.name for own in dataclasses.fields(DataSection)}
)
_READ = tuple(name for name in _READ if name != "multi_label")
"""Fields of `ReadOptions` that stand in the section under the same name and mean the same."""


@dataclass(frozen=True, kw_only=True)
class TaskSection:
    """What is special to one task. Whatever is None is the task's own default."""

    metric: str | None = None
    """The figure that says which checkpoint is the best."""
    class_weights: Literal["balanced"] | None = None
    """classify, pair: rare classes count as much as frequent ones."""
    distribution: Literal["gaussian", "poisson"] | None = None
    """regress: numbers, or counts."""
    kind: Literal["pairs", "scored", "unlabelled"] | None = None
    """similarity: what the examples are; found out."""
    score_loss: Literal["cosent", "cosine"] | None = None
    """similarity: what scored pairs are trained with."""
    scale: float | None = None
    """similarity: what cosines are multiplied by before the softmax."""
    pooling: Literal["mean", "cls", "max"] | None = None
    """similarity: how token vectors become a text's; the model's own where it says."""
    normalize: bool | None = None
    """similarity: whether the saved model scales its vectors to length 1."""
    scheme: Literal["bio", "iob1", "iobes", "io", "plain"] | None = None
    """tag: how the tags are written; found out."""
    overlap: int | None = None
    """tag, qa: tokens that neighbouring windows of a long text share."""
    crf: bool | None = None
    """tag: choose the tags of a sentence together, by a conditional random field."""
    unanswerable: bool | None = None
    """qa: whether a question may have no answer; found out."""
    max_answer_tokens: int | None = None
    max_question_tokens: int | None = None

    def options(self, task: TaskName) -> dict[str, Any]:
        """What `bertworks.tasks.for_examples` gets; an error names a setting that means nothing to the task."""
        said = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        said = {name: value for name, value in said.items() if value is not None}
        for name in said:
            if name not in _OPTIONS[task]:
                tasks = ", ".join(other for other, names in _OPTIONS.items() if name in names)
                raise ConfigError(f"task.{name} means nothing to {task!r}; it is for: {tasks}")
        return said


_OPTIONS: dict[TaskName, tuple[str, ...]] = {
    "classify": ("metric", "class_weights"),
    "pair": ("metric", "class_weights"),
    "regress": ("metric", "distribution"),
    "choice": ("metric",),
    "tag": ("scheme", "overlap", "crf"),
    "qa": ("unanswerable", "overlap", "max_answer_tokens", "max_question_tokens"),
    "similarity": ("metric", "kind", "score_loss", "scale", "pooling", "normalize"),
}


@dataclass(frozen=True, kw_only=True)
class MethodSection:
    """Which weights learn, and when. As a rule: all of them, from the first step on."""

    freeze_layers: int | None = None
    """The embeddings and so many of the lowest layers stay as they are; 0 = the embeddings alone, None = nothing."""
    gradual_unfreezing: float = 0.0
    """ULMFiT: the head learns first, and the layers join it from the top one by one, over this share of the training."""
    lora_rank: int = 0
    """Train adapters of this rank (4 to 16) in place of the layers' matrices; they are merged on save. 0 = none."""
    lora_alpha: float = 16.0
    """Adapters are scaled by alpha / rank."""
    lora_targets: Literal["attention", "all"] = "attention"
    """Which matrices get adapters: those of the attention, or those of the feed-forward networks, too."""

    def __post_init__(self) -> None:
        at_least("method.freeze_layers", self.freeze_layers, 0)
        at_least("method.lora_rank", self.lora_rank, 0)
        positive("method.lora_alpha", self.lora_alpha)
        if not 0.0 <= self.gradual_unfreezing <= 1.0:
            raise ConfigError(f"method.gradual_unfreezing is {self.gradual_unfreezing:g}; allowed: 0 to 1")


@dataclass(frozen=True, kw_only=True)
class TrainSection(TrainConfig):
    """How it is trained: what every training has, its length and the size of a step."""

    epochs: float = 3.0
    """How many times every training example is seen; 0.5 is half of them once."""
    batch_size: int = 32
    """Examples in one step, over all processes; a window of a long text counts as one."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(learning_rate=5e-5, betas=(0.9, 0.999), eps=1e-8)
    )
    schedule: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(warmup=0.1))
    evaluation: EvaluationConfig = field(
        default_factory=lambda: EvaluationConfig(metric="accuracy", goal="highest", keep="best")
    )
    """`steps`: none = at the end of each epoch; more often in long epochs, less often where it would take long."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("train.epochs", self.epochs)
        at_least("train.batch_size", self.batch_size, 1)
        if self.sharded:
            raise ConfigError("train.sharded is for pretraining; fine-tuning copies the model to each process")


@dataclass(frozen=True, kw_only=True)
class FrozenSection:
    """`--frozen`: a linear head by scikit-learn on vectors of the model as it is."""

    reads: Literal["mean", "first", "last", "family"] = "mean"
    """What stands for a text: the mean of its tokens, the first or the last one, or what the family's own head reads."""
    folds: int = 5
    """Of the cross-validation that chooses how strictly the head is held back."""

    def __post_init__(self) -> None:
        at_least("frozen.folds", self.folds, 2)


@dataclass(frozen=True, kw_only=True)
class FreshSection:
    """`--model bilstm`, `bigru`, `birnn`: a new recurrent model, and its tokenizer (`bertworks.finetune.fresh`)."""

    size: str = "1x256"
    """LAYERSxWIDTH, of one direction."""
    embedding_size: int = 256
    dropout: float = 0.3
    """On the token vectors, between the layers and after the last."""
    vocab_size: int = 10_000
    """At most; of few texts fewer tokens are made."""
    lowercase: bool = True

    def __post_init__(self) -> None:
        parse_shape(self.size)
        at_least("fresh.embedding_size", self.embedding_size, 1)
        between("fresh.dropout", self.dropout, 0.0, 0.9)


@dataclass(frozen=True, kw_only=True)
class WordsSection:
    """A new model over words (`--model bilstm`, `bigru`, `birnn`): what it reads and how large it is."""

    vectors: tuple[str, ...] = ()
    """Sources of word vectors that stand beside the words: files of static vectors, models; all layers, mixed."""
    between: tuple[str, ...] = ()
    """TagLM: sources whose last layer joins between the two recurrent layers."""
    word_size: int = 100
    """Width of the words' own vectors, which are learned."""
    characters: Literal["cnn", "lstm", "none"] = "cnn"
    """How letters are read."""
    character_features: int = 50
    hidden_size: int = 100
    """Of one direction of a recurrent layer."""
    num_layers: int = 2
    dropout: float = 0.3
    min_count: int = 2
    """Words that occur less often share one vector."""
    unlabelled: tuple[str, ...] = ()
    """tag: text files without tags, for cross-view training."""
    unlabelled_sentences: int = 20_000
    """So many of their sentences are used."""
    unlabelled_batch_size: int = 32
    """Sentences of them in one step."""
    views: float = 1.0
    """How much the loss of the partial views counts."""

    def __post_init__(self) -> None:
        for name in ("word_size", "character_features", "hidden_size", "num_layers", "min_count"):
            at_least(f"words.{name}", getattr(self, name), 1)
        at_least("words.unlabelled_sentences", self.unlabelled_sentences, 1)
        at_least("words.unlabelled_batch_size", self.unlabelled_batch_size, 1)
        positive("words.views", self.views)
        if not 0.0 <= self.dropout < 1.0:
            raise ConfigError(f"words.dropout is {self.dropout:g}; allowed: from 0 to below 1")
        if self.between and self.num_layers < 2:
            raise ConfigError("words.between joins vectors between two recurrent layers; words.num_layers is 1")
        if self.characters == "lstm" and self.character_features % 2:
            raise ConfigError("words.character_features must be even for a character LSTM, which has two directions")

    @property
    def files(self) -> tuple[str, ...]:
        """Everything that is read beside the examples."""
        return (*self.vectors, *self.between, *self.unlabelled)


@dataclass(frozen=True, kw_only=True)
class RunSection:
    """What else decides a run's result; a run writes it to its `config.toml`, and nobody needs to."""

    command: Literal["finetune"] = "finetune"
    task: TaskName
    model: str
    train: str
    dev: str | None = None
    test: str | None = None
    data_sha256: str = ""
    """Of all examples, as they were read and split."""
    model_sha256: str = ""
    """Of the weights that the training begins with, where they are read."""
    words_sha256: tuple[str, ...] = ()
    """Of each source of word vectors, and of the text without labels."""
    seed: int = 0
    seeds: int = 1
    """How many trainings, with the seeds `seed`, `seed` + 1 …"""
    search: int = 0
    """How many trials of settings before that."""
    searched: bool = False
    """Whether the settings in this file are those that the search has found."""
    pinned: tuple[str, ...] = ()
    """Settings that the user has chosen, which are not searched."""
    frozen: bool = False


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """One fine-tuning."""

    run: RunSection | None = None
    data: DataSection = field(default_factory=DataSection)
    task: TaskSection = field(default_factory=TaskSection)
    method: MethodSection = field(default_factory=MethodSection)
    train: TrainSection = field(default_factory=TrainSection)
    frozen: FrozenSection = field(default_factory=FrozenSection)
    words: WordsSection = field(default_factory=WordsSection)
    fresh: FreshSection = field(default_factory=FreshSection)
