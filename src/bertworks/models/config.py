"""What a Transformer is, as a value: BERT, RoBERTa, DistilBERT, ALBERT, ELECTRA, ERNIE, MPNet, ModernBERT, GPT and GPT-2
differ in these fields and in nothing else. Hugging Face's spelling of them lives in `bertworks.hub`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bertworks.errors import ConfigError
from bertworks.nn.activations import ACTIVATIONS


def _check(config: object, *, at_least: dict[str, int], probabilities: tuple[str, ...] = ()) -> None:
    """Refuse sizes below their minimum and probabilities outside [0, 1)."""
    for name, minimum in at_least.items():
        value = getattr(config, name)
        if value is not None and value < minimum:
            raise ConfigError(f"{name} is {value}; it must be at least {minimum}")
    for name in probabilities:
        value = getattr(config, name)
        if not 0.0 <= value < 1.0:
            raise ConfigError(f"{name} is {value}; it must be at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """From token ids to the stack's input."""

    vocab_size: int
    size: int | None = None
    """Width of the tables where a projection to `hidden_size` follows (ALBERT, ELECTRA: factorised embeddings)."""
    type_vocab_size: int = 0
    """Number of segments; 0 = no segment embeddings."""
    task_vocab_size: int = 0
    """Number of ERNIE's tasks; 0 = no task embeddings."""
    norm: bool = True
    scale: bool = False
    """Multiply token vectors by the square root of their width, as the 2017 Transformer does."""

    def __post_init__(self) -> None:
        _check(self, at_least={"vocab_size": 1, "size": 1, "type_vocab_size": 0, "task_vocab_size": 0})


@dataclass(frozen=True, kw_only=True)
class PositionConfig:
    """One absolute and one relative kind may be combined; see `bertworks.nn.positions`."""

    absolute: Literal["none", "learned", "sinusoidal"] = "learned"
    relative: Literal["none", "buckets", "keys", "keys_queries", "rotary"] = "none"
    max_position_embeddings: int = 512
    """How many places there are, the offset not counted."""
    offset: int = 0
    """Rows of the table before the first place (RoBERTa counts from its padding id + 1)."""
    num_buckets: int = 32
    max_distance: int = 128
    theta: float = 10000.0
    local_theta: float | None = None
    """Rotary base of the layers with local attention; None = the same as `theta`."""

    def __post_init__(self) -> None:
        _check(self, at_least={"max_position_embeddings": 1, "offset": 0, "num_buckets": 4, "max_distance": 2})


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """One block."""

    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str = "gelu"
    gated: bool = False
    pre_norm: bool = False
    norm_eps: float = 1e-12
    bias: bool = True
    norm_bias: bool = True
    hidden_dropout_prob: float = 0.1
    attention_dropout_prob: float = 0.1

    def __post_init__(self) -> None:
        _check(
            self,
            at_least={"hidden_size": 1, "num_attention_heads": 1, "intermediate_size": 1},
            probabilities=("hidden_dropout_prob", "attention_dropout_prob"),
        )
        if self.hidden_size % self.num_attention_heads:
            raise ConfigError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {self.num_attention_heads}"
            )
        if self.hidden_act not in ACTIVATIONS:
            raise ConfigError(f"unknown hidden_act {self.hidden_act!r}; allowed: {', '.join(ACTIVATIONS)}")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """A stack of blocks over embeddings: bidirectional (encoder), causal (GPT), or a decoder with cross-attention."""

    embeddings: EmbeddingConfig
    positions: PositionConfig = field(default_factory=PositionConfig)
    layer: LayerConfig
    num_hidden_layers: int
    num_groups: int | None = None
    """ALBERT: how many distinct sets of weights the layers share; None = every layer has its own."""
    layers_per_group: int = 1
    causal: bool = False
    cross_attention: bool = False
    final_norm: bool = False
    skip_first_norm: bool = False
    """ModernBERT: no norm before the first attention."""
    local_window: int | None = None
    """Local layers see this many places to each side; None = every layer is global."""
    global_every: int = 1
    """With `local_window`: layers 0, n, 2n … are global."""
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        _check(self, at_least={"num_hidden_layers": 1, "layers_per_group": 1, "local_window": 0, "global_every": 1})
        if self.num_groups is not None and not 1 <= self.num_groups <= self.num_hidden_layers:
            raise ConfigError(
                f"num_groups is {self.num_groups}; allowed: 1 to num_hidden_layers = {self.num_hidden_layers}"
            )
        if self.positions.relative == "rotary" and (self.layer.hidden_size // self.layer.num_attention_heads) % 2:
            raise ConfigError("rotary positions need an even head size (hidden_size / num_attention_heads)")

    @property
    def embedding_size(self) -> int:
        return self.embeddings.size or self.layer.hidden_size

    def is_local(self, layer: int) -> bool:
        return self.local_window is not None and layer % self.global_every != 0


Reads = Literal["tokens", "first", "last", "mean", "pooled"]
Task = Literal["mlm", "lm", "nsp", "sop", "rtd", "classify", "regress", "choice", "tag", "qa"]


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """What stands on the stack for one task: [read] -> [dense, activation, norm] -> linear output."""

    task: Task
    reads: Reads
    """Which hidden states it takes: every token's, the first ([CLS]), the last, their mean, or the pooler's output."""
    num_labels: int
    """Width of the output; the vocabulary for `mlm` and `lm`."""
    transform_size: int | None = None
    """Width of the dense layer in between; None = no such layer."""
    transform_act: str = "gelu"
    transform_norm: bool = False
    transform_bias: bool = True
    norm_eps: float = 1e-12
    norm_bias: bool = True
    bias: bool = True
    tied: bool = False
    """The output matrix is the token embedding table."""
    dropout_prob: float = 0.0

    def __post_init__(self) -> None:
        _check(self, at_least={"num_labels": 1, "transform_size": 1}, probabilities=("dropout_prob",))


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A stack, an optional pooler, and the heads on it."""

    family: str
    """Whose spelling the checkpoint has: a key of `bertworks.hub.families.FAMILIES`, or `bertworks` for our own."""
    body: TransformerConfig
    pooler_act: str | None = None
    """Activation of a dense layer over the first token ("pooler"); None = no pooler."""
    heads: tuple[HeadConfig, ...] = ()
    labels: tuple[str, ...] = ()
    """Names of the classes or tags, in order."""
    pad_token_id: int = 0
    source: tuple[tuple[str, object], ...] = ()
    """Entries of the source's `config.json` that mean nothing to us and are written back as they were."""
