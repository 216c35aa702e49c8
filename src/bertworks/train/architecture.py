"""From a recipe's `[model]` section to a model: sizes, and the entries of a Hugging Face `config.json`.

A new model is described the way a published one is: as entries of `config.json` in its family's spelling, which the hub
reads. There is then one place that knows what `type_vocab_size` means, and what is trained here is by construction
something that can be saved.

Shapes are the published ones: the miniatures of Turc et al. 2019 (arXiv 1908.08962), BERT's base and large (Devlin et
al. 2018, section 3). A gated feed-forward network has three matrices instead of two, so that its width is two thirds of
4 x hidden (Shazeer 2020), rounded to a multiple of 64.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from bertworks.errors import ConfigError, choice
from bertworks.hub.families import FAMILIES
from bertworks.hub.tables import write_value
from bertworks.models.config import ModelConfig, RecurrentConfig, Task, TransformerConfig
from bertworks.models.elmo_config import BiLMConfig
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.bilm import BILMS, BiLMSection
from bertworks.train.recurrent import CELLS, RecurrentSection, parse_shape, recurrent_config

NEW_FAMILIES = ("bert", "roberta", "albert", "electra", "ernie", "distilbert", "mpnet", "modernbert", "gpt2")
"""The families of Hugging Face's of which a recipe can make a new model; it can make one of `CELLS` and `BILMS` as well."""


HALF = "half"


class Size(NamedTuple):
    """The shape of a stack."""

    layers: int
    width: int
    heads: int

    def __str__(self) -> str:
        return f"{self.layers}x{self.width}x{self.heads}"


SIZES: dict[str, Size] = {
    "tiny": Size(2, 128, 2),
    "mini": Size(4, 256, 4),
    "small": Size(4, 512, 8),
    "medium": Size(8, 512, 8),
    "base": Size(12, 768, 12),
    "large": Size(24, 1024, 16),
}


def parse_size(text: str) -> Size:
    """`small`, or LAYERSxWIDTHxHEADS as in `4x256x4`."""
    if text in SIZES:
        return SIZES[text]
    found = re.fullmatch(r"(\d+)[x×](\d+)[x×](\d+)", text.strip().lower())
    if not found:
        names = ", ".join(f"{name} ({size})" for name, size in SIZES.items())
        raise ConfigError(f"model.size is {text!r}; allowed: {names}, or LAYERSxWIDTHxHEADS such as 6x384x12")
    size = Size(*(int(number) for number in found.groups()))
    if min(size) < 1:
        raise ConfigError(f"model.size is {text!r}; layers, width and heads must be at least 1")
    if size.width % size.heads:
        raise ConfigError(
            f"model.size is {text!r}: the width {size.width} is not a multiple of the {size.heads} attention heads"
        )
    return size


@dataclass(frozen=True, kw_only=True)
class ModelSection:
    """What is trained. None = what the family's own `config.json` would mean by leaving it out."""

    family: str = "bert"
    """Whose `config.json` the result has, and so what else the stack is: see docs/architecture.md."""
    size: str = "small"
    """tiny, mini, small, medium, base, large, LAYERSxWIDTHxHEADS (LAYERSxWIDTH for rnn, lstm, gru, elmo, charlm);
    or half: as the teacher, half as deep."""
    intermediate_size: int | None = None
    """Width of the feed-forward network; None = 4 x width, or 8/3 x width where it is gated."""
    max_position_embeddings: int = 512
    embedding_size: int | None = None
    """Width of the token table where it is narrower than the stack (ALBERT, ELECTRA, rnn, lstm, gru); charlm: of its
    characters'."""
    num_hidden_groups: int = 1
    """ALBERT: how many distinct sets of weights the layers share."""
    type_vocab_size: int | None = None
    """Number of segments."""
    dropout: float = 0.1
    hidden_act: str | None = None
    initializer_range: float = 0.02
    first_vectors: Literal["random", "skipgram"] = "random"
    """What the token table of a new model starts with; skipgram: learnt first, from the corpus's own tokens."""
    bias: bool = False
    """modernbert: biases in the linear layers."""
    global_every: int = 1
    """modernbert: layers 0, n, 2n … see the whole sequence, the others `local_attention` tokens; 1 = all see it."""
    local_attention: int = 128
    rope_theta: float = 10000.0
    """modernbert: base of the rotary angles; ModernBERT's 160000 is made for sequences of 8192."""
    generator_factor: float = 0.25
    """ELECTRA: how wide the generator is, as a share of the discriminator."""
    recurrent: RecurrentSection = field(default_factory=RecurrentSection)
    bilm: BiLMSection = field(default_factory=BiLMSection)

    def __post_init__(self) -> None:
        try:
            choice(self.family, (*NEW_FAMILIES, *CELLS, *BILMS), "family")
        except Exception as error:
            raise ConfigError(f"model.family: {error}") from None
        if self.family in (*CELLS, *BILMS):
            parse_shape(self.size)
        elif self.size != HALF:
            parse_size(self.size)
        if not 0.0 < self.generator_factor <= 1.0:
            raise ConfigError(f"model.generator_factor is {self.generator_factor}; it must be above 0 and at most 1")


def feed_forward_size(width: int, *, gated: bool) -> int:
    """4 x width; about as many weights where the network is gated."""
    return max(64, round(width * 8 / 3 / 64) * 64) if gated else 4 * width


def new_config(section: ModelSection, tokenizer: Tokenizer, tasks: tuple[Task, ...]) -> ModelConfig:
    """The configuration of a new model with a head for each of `tasks`."""
    if section.family in CELLS:
        return recurrent_config(section, tokenizer, tasks)
    return _with_heads(section.family, _entries(section, parse_size(section.size), tokenizer), tasks)


def section_of(config: ModelConfig, section: ModelSection) -> ModelSection:
    """What a model is that was not made from `section`, as far as a section can say it."""
    body = config.body
    family = body.cell if isinstance(body, RecurrentConfig) else config.family
    if isinstance(body, BiLMConfig):
        family = config.describe().split()[0]
    if family not in (*NEW_FAMILIES, *CELLS, *BILMS):
        return section
    return replace(section, family=family, size=config.describe().split()[-1])


def generator_config(section: ModelSection, tokenizer: Tokenizer) -> ModelConfig:
    """ELECTRA's generator: as deep as the discriminator, narrower, with the same embeddings and heads of the same size
    (Clark et al. 2020, section 3.2)."""
    full = parse_size(section.size)
    heads = max(1, round(full.heads * section.generator_factor))
    size = Size(full.layers, heads * (full.width // full.heads), heads)
    inner = section.intermediate_size
    narrow = replace(
        section,
        intermediate_size=None if inner is None else max(1, round(inner * section.generator_factor)),
        embedding_size=section.embedding_size or full.width,
    )
    return _with_heads(section.family, _entries(narrow, size, tokenizer), ("mlm",))


def narrowed(config: ModelConfig, size: Size) -> ModelConfig:
    """A student's configuration: the teacher's, without heads, in another shape."""
    body = config.transformer
    ratio = body.layer.intermediate_size / body.layer.hidden_size
    layer = replace(
        body.layer,
        hidden_size=size.width,
        num_attention_heads=size.heads,
        intermediate_size=round(ratio * size.width),
    )
    groups = None if body.num_groups is None else min(body.num_groups, size.layers)
    embeddings = body.embeddings
    if config.family == "electra" and embeddings.size == size.width:
        embeddings = replace(embeddings, size=None)
    shape: TransformerConfig = replace(
        body, embeddings=embeddings, layer=layer, num_hidden_layers=size.layers, num_groups=groups
    )
    return replace(config, body=shape, heads=(), labels=())


def _with_heads(family_name: str, entries: dict[str, Any], tasks: tuple[Task, ...]) -> ModelConfig:
    family = FAMILIES[family_name]
    config = family.read_config(entries, {})
    heads = tuple(family.head(config, task) for task in tasks)
    pooled = any(head.reads == "pooled" for head in heads)
    return replace(config, heads=heads, pooler_act="tanh" if pooled else None)


def _entries(section: ModelSection, size: Size, tokenizer: Tokenizer) -> dict[str, Any]:
    """The model as entries of its family's `config.json`."""
    family = FAMILIES[section.family]
    gated = bool(family.fixed.get("layer.gated"))
    inner = section.intermediate_size or feed_forward_size(size.width, gated=gated)
    # Our names for what every family has an entry for; the family's table says which.
    fields: dict[str, Any] = {
        "embeddings.vocab_size": tokenizer.vocab_size,
        "embeddings.type_vocab_size": section.type_vocab_size,
        "embeddings.size": section.embedding_size or size.width,
        "positions.max_position_embeddings": section.max_position_embeddings,
        "num_hidden_layers": size.layers,
        "num_groups": min(section.num_hidden_groups, size.layers),
        "layer.hidden_size": size.width,
        "layer.num_attention_heads": size.heads,
        "layer.intermediate_size": inner,
        "layer.hidden_act": section.hidden_act,
        "layer.hidden_dropout_prob": section.dropout,
        "layer.attention_dropout_prob": section.dropout,
        "layer.feed_forward_dropout_prob": section.dropout,  # of those whose table has it, ModernBERT
        "embeddings.dropout_prob": section.dropout,
        "layer.bias": section.bias,
        "initializer_range": section.initializer_range,
    }
    entries = {
        key.theirs: write_value(section.family, key, fields[key.ours])
        for key in family.keys
        if fields.get(key.ours) is not None
    }
    specials = tokenizer.specials
    for name in ("bos", "eos", "cls", "sep"):
        entries[f"{name}_token_id"] = specials.id_of(name)
    entries["pad_token_id"] = specials.id_of("pad")
    # What the tables cannot say.
    if section.family == "gpt2":
        entries["n_inner"] = inner
    elif section.family == "electra":
        entries["embedding_size"] = section.embedding_size or size.width
    elif section.family == "roberta":
        pad = entries["pad_token_id"]
        entries["max_position_embeddings"] += (1 if pad is None else pad) + 1
    elif section.family == "mpnet":
        entries["max_position_embeddings"] += 2
    elif section.family == "modernbert":
        entries |= {
            "mlp_bias": section.bias,
            "global_attn_every_n_layers": section.global_every,
            "local_attention": section.local_attention,
            "global_rope_theta": section.rope_theta,
            "local_rope_theta": section.rope_theta,
            "classifier_pooling": "mean",  # nothing in pretraining has made the first token stand for the text
        }
    return entries
