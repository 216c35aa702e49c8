"""What a model is, as a value: BERT, RoBERTa, DistilBERT, ALBERT, ELECTRA, ERNIE, MPNet, ModernBERT, GPT and GPT-2 differ in
the fields of a `TransformerConfig` and in nothing else, RNN, LSTM and GRU in those of a `RecurrentConfig`. Which of the two
`ModelConfig.body` is decides which stack a model has. Hugging Face's spelling of them lives in `bertworks.hub`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from bertworks.errors import ConfigError, ModelError
from bertworks.models.elmo_config import BiLMConfig
from bertworks.models.word_config import WordStackConfig
from bertworks.nn.activations import ACTIVATIONS


def _check(config: object, *, at_least: dict[str, int], probabilities: tuple[str, ...] = ()) -> None:
    """Refuse sizes below their minimum and probabilities outside [0, 1)."""
    for name, minimum in at_least.items():
        value = getattr(config, name)
        if value is not None and value < minimum:
            raise ConfigError(f"{name} is {value}; it must be at least {minimum}")
    for name in probabilities:
        value = getattr(config, name)
        if value is not None and not 0.0 <= value < 1.0:
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
    dropout_prob: float | None = None
    """Of the stack's input; None = `hidden_dropout_prob` of its layers."""

    def __post_init__(self) -> None:
        _check(
            self,
            at_least={"vocab_size": 1, "size": 1, "type_vocab_size": 0, "task_vocab_size": 0},
            probabilities=("dropout_prob",),
        )


@dataclass(frozen=True, kw_only=True)
class PositionConfig:
    """One absolute and one relative kind may be combined; see `bertworks.nn.positions`."""

    absolute: Literal["none", "learned", "sinusoidal"] = "learned"
    relative: Literal["none", "buckets", "keys", "keys_queries", "rotary"] = "none"
    max_position_embeddings: int = 512
    """How many places there are, the offset not counted."""
    offset: int = 0
    """Rows of the table before the first place (RoBERTa counts from its padding id + 1)."""
    halves: bool = False
    """Sinusoidal positions: all sines, then all cosines, as Marian has them, instead of one after the other."""
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
    """Of what attention and feed-forward network add to the stream."""
    attention_dropout_prob: float = 0.1
    """Of the attention weights."""
    attention_output_dropout_prob: float | None = None
    """Of what attention adds, where it differs; None = `hidden_dropout_prob`."""
    feed_forward_dropout_prob: float = 0.0
    """Within the feed-forward network, after the activation."""

    def __post_init__(self) -> None:
        places = ("hidden", "attention", "attention_output", "feed_forward")
        _check(
            self,
            at_least={"hidden_size": 1, "num_attention_heads": 1, "intermediate_size": 1},
            probabilities=tuple(f"{place}_dropout_prob" for place in places),
        )
        if self.attention_output_dropout_prob == self.hidden_dropout_prob:  # one way to say that it does not differ
            object.__setattr__(self, "attention_output_dropout_prob", None)
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
        if not any(map(self.is_local, range(self.num_hidden_layers))):  # one way to say that there is no local layer
            object.__setattr__(self, "local_window", None)
            object.__setattr__(self, "global_every", 1)
        if self.embeddings.dropout_prob == self.layer.hidden_dropout_prob:  # one way to say that they drop alike
            object.__setattr__(self, "embeddings", replace(self.embeddings, dropout_prob=None))

    @property
    def embedding_size(self) -> int:
        return self.embeddings.size or self.layer.hidden_size

    @property
    def output_size(self) -> int:
        """Width of the hidden states."""
        return self.layer.hidden_size

    @property
    def max_length(self) -> int:
        """The longest sequence."""
        return self.positions.max_position_embeddings

    def is_local(self, layer: int) -> bool:
        return self.local_window is not None and layer % self.global_every != 0


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """Token vectors and a stack of recurrent layers (`bertworks.nn.recurrent`); the dropouts are AWD-LSTM's (Merity et al.
    2017), each with one mask for all tokens of a sequence or all steps of a batch."""

    embeddings: EmbeddingConfig
    """Only `vocab_size` and `size`: the first layer takes token vectors of any width."""
    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    hidden_size: int
    """Of one direction."""
    num_hidden_layers: int
    bidirectional: bool = False
    """Both directions side by side, which can tag and classify, but not predict the next token."""
    activation: Literal["tanh", "relu"] = "tanh"
    """The RNN's."""
    embedding_dropout_prob: float = 0.0
    """Whole tokens: the vector of a dropped one is 0 wherever it stands in the batch."""
    input_dropout_prob: float = 0.0
    hidden_dropout_prob: float = 0.0
    """Between the layers."""
    output_dropout_prob: float = 0.0
    weight_dropout_prob: float = 0.0
    """On the recurrent matrices."""
    max_length: int = 512
    """The longest sequence that is read at once; longer texts come in windows. No weights depend on it."""
    initializer_range: float = 0.05
    """Of the token vectors and the heads; the cells' own matrices have theirs."""

    def __post_init__(self) -> None:
        _check(
            self,
            at_least={"hidden_size": 1, "num_hidden_layers": 1, "max_length": 1},
            probabilities=tuple(
                f"{place}_dropout_prob" for place in ("embedding", "input", "hidden", "output", "weight")
            ),
        )
        if self.activation != "tanh" and self.cell != "rnn":
            raise ConfigError(
                f"activation is {self.activation!r} with cell {self.cell!r}; only cell 'rnn' has the choice"
            )
        plain = EmbeddingConfig(vocab_size=self.embeddings.vocab_size, size=self.embeddings.size, norm=False)
        if self.embeddings != plain:
            raise ConfigError(
                "the embeddings of a recurrent stack are token vectors and nothing else: no segments, no norm"
            )

    @property
    def causal(self) -> bool:
        """Whether a token's state has seen nothing of what follows."""
        return not self.bidirectional

    @property
    def embedding_size(self) -> int:
        return self.embeddings.size or self.hidden_size

    @property
    def output_size(self) -> int:
        """Width of the hidden states."""
        return self.hidden_size * (2 if self.bidirectional else 1)


Reads = Literal["tokens", "first", "last", "mean", "concat", "pooled"]
Task = Literal[
    "mlm", "lm", "nsp", "sop", "rtd", "classify", "regress", "choice", "tag", "qa",
    "view_forward", "view_backward", "view_future", "view_past",
]  # fmt: skip
"""What a head is for; the views are those of cross-view training (`bertworks.tasks.word_tagging`)."""


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """What stands on the stack for one task: [read] -> [dense, activation, norm] -> linear output."""

    task: Task
    reads: Reads
    """Which hidden states it takes: every token's, the first ([CLS]), the last, their mean, last, maximum and mean side by
    side (ULMFiT's concat pooling), or the pooler's output."""
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
    crf: bool = False
    """tag: scores of neighbouring tags, too (`bertworks.nn.crf`)."""
    dropout_prob: float = 0.0

    def __post_init__(self) -> None:
        _check(self, at_least={"num_labels": 1, "transform_size": 1}, probabilities=("dropout_prob",))


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A stack, an optional pooler, and the heads on it."""

    family: str
    """Whose spelling the checkpoint has: a key of `bertworks.hub.families.FAMILIES`, or `bertworks` for our own."""
    body: TransformerConfig | RecurrentConfig | WordStackConfig | BiLMConfig
    pooler_act: str | None = None
    """Activation of a dense layer over the first token ("pooler"); None = no pooler."""
    heads: tuple[HeadConfig, ...] = ()
    labels: tuple[str, ...] = ()
    """Names of the classes or tags, in order."""
    pad_token_id: int = 0
    source: tuple[tuple[str, object], ...] = ()
    """Entries of the source's `config.json` that mean nothing to us and are written back as they were."""

    @property
    def transformer(self) -> TransformerConfig:
        """The stack's configuration where it is a Transformer; else an error, for whoever cannot do without."""
        if not isinstance(self.body, TransformerConfig):
            raise ModelError(f"this is for Transformers; the model is a recurrent one ({self.describe()})")
        return self.body

    def describe(self) -> str:
        """Kind and shape: `bert 6x384x12` (layers, width, heads), `lstm 2x512`, `bilstm 2x256`."""
        body = self.body
        if isinstance(body, BiLMConfig):
            return body.describe()
        if isinstance(body, WordStackConfig):
            return f"bi{body.cell} {body.num_hidden_layers}x{body.direction_size} over words"
        if isinstance(body, RecurrentConfig):
            return f"{'bi' if body.bidirectional else ''}{body.cell} {body.num_hidden_layers}x{body.hidden_size}"
        layer = body.layer
        return f"{self.family} {body.num_hidden_layers}x{layer.hidden_size}x{layer.num_attention_heads}"
