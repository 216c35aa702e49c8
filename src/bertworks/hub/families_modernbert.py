"""ModernBERT (Warner et al. 2024): pre-norm, gated, rotary positions, most layers with local attention (see `family`).

`config.json` spells the pattern of layers and the rotary bases in two ways, an older one
(`global_attn_every_n_layers`, `global_rope_theta`, `local_rope_theta`) and a newer one (`layer_types`,
`rope_parameters`). Both are read, both are written. Left out, with an error: patterns other than "every n-th layer is
global, from the first on", scaled rotary positions, and biases in only one of attention and feed-forward.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertworks.errors import CheckpointError
from bertworks.hub.family import Family, Fields
from bertworks.hub.tables import HeadTable, Key

GLOBAL, LOCAL = "full_attention", "sliding_attention"


def layer_types(num_layers: int, global_every: int) -> list[str]:
    """The newer spelling of the pattern in which layers 0, n, 2n … are global."""
    return [LOCAL if layer % global_every else GLOBAL for layer in range(num_layers)]


def read_modernbert(rest: dict[str, Any], fields: Fields) -> None:
    """The pattern of layers, the window, the rotary bases and the one bias of ours, from either spelling."""
    num_layers = fields["num_hidden_layers"]
    every = rest.pop("global_attn_every_n_layers", None) or 3
    wanted = rest.pop("layer_types", None) or layer_types(num_layers, every)
    fitting = [n for n in (every, *range(1, num_layers + 1)) if layer_types(num_layers, n) == wanted]
    if not fitting:
        raise CheckpointError(
            f"config.json has layer_types = {wanted}; only patterns in which layers 0, n, 2n … of "
            f"{num_layers} are {GLOBAL!r} and the others {LOCAL!r} can be run here"
        )
    window = (rest.pop("local_attention", None) or 128) // 2  # theirs is both sides together
    fields["global_every"] = fitting[0] if LOCAL in wanted else 1
    fields["local_window"] = window if LOCAL in wanted else None

    rope = rest.pop("rope_parameters", None) or {}
    thetas = []
    for kind, old, default in ((GLOBAL, "global_rope_theta", 160000.0), (LOCAL, "local_rope_theta", 10000.0)):
        entry = rope.get(kind) or {}
        older = rest.pop(old, None)
        if entry.get("rope_type", "default") != "default" or rest.get("rope_scaling"):
            raise CheckpointError("config.json scales the rotary positions; only rope_type 'default' can be run here")
        thetas.append(float(entry.get("rope_theta") or older or default))
    fields["positions.theta"] = thetas[0]
    fields["positions.local_theta"] = None if thetas[0] == thetas[1] else thetas[1]

    # `attention_dropout` is that of the weights and of the output; what the feed-forward network adds is not dropped.
    fields["layer.attention_output_dropout_prob"] = fields["layer.attention_dropout_prob"]

    if bool(rest.pop("mlp_bias", False)) != fields["layer.bias"]:
        raise CheckpointError("config.json has different attention_bias and mlp_bias; only equal ones can be run here")


def write_modernbert(out: dict[str, Any], fields: Fields) -> None:
    """The same in both spellings."""
    every, window, theta = fields["global_every"], fields["local_window"], fields["positions.theta"]
    local_theta = fields["positions.local_theta"] or theta
    out["mlp_bias"] = fields["layer.bias"]
    if out["embedding_dropout"] is None:  # "as in the layers"
        out["embedding_dropout"] = fields["layer.hidden_dropout_prob"]
    out["local_attention"] = 128 if window is None else 2 * window
    out["global_attn_every_n_layers"] = every
    out["layer_types"] = layer_types(fields["num_hidden_layers"], every)
    out["global_rope_theta"], out["local_rope_theta"] = theta, local_theta
    out["rope_parameters"] = {
        GLOBAL: {"rope_type": "default", "rope_theta": theta},
        LOCAL: {"rope_type": "default", "rope_theta": local_theta},
    }
    for special in ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"):
        out.setdefault(special, None)  # their defaults are ids of the published vocabulary


TRANSFORM_KEYS = (
    Key("classifier_activation", "transform_act", "gelu"),
    Key("classifier_bias", "transform_bias", False),
)
POOLING = Key("classifier_pooling", "reads", "cls", {"cls": "first", "mean": "mean"})

CLASSIFY = HeadTable(
    task="classify",
    architecture="ForSequenceClassification",
    names={"transform.dense": "head.dense", "transform.norm": "head.norm", "output": "classifier"},
    reads="first",
    keys=(*TRANSFORM_KEYS, POOLING, Key("classifier_dropout", "dropout_prob", 0.0)),
)
TOKEN_KEYS = (*TRANSFORM_KEYS, Key("classifier_dropout", "dropout_prob", 0.0))

BLOCK = "layers.{i}."
MODERNBERT = Family(
    model_type="modernbert",
    class_prefix="ModernBert",
    prefix="model.",
    keys=(
        Key("vocab_size", "embeddings.vocab_size", 50368),
        Key("hidden_size", "layer.hidden_size", 768),
        Key("intermediate_size", "layer.intermediate_size", 1152),
        Key("num_hidden_layers", "num_hidden_layers", 22),
        Key("num_attention_heads", "layer.num_attention_heads", 12),
        Key("hidden_activation", "layer.hidden_act", "gelu"),
        Key("max_position_embeddings", "positions.max_position_embeddings", 8192),
        Key("initializer_range", "initializer_range", 0.02),
        Key("norm_eps", "layer.norm_eps", 1e-5),
        Key("norm_bias", "layer.norm_bias", False),
        Key("attention_bias", "layer.bias", False),
        Key("attention_dropout", "layer.attention_dropout_prob", 0.0),
        Key("embedding_dropout", "embeddings.dropout_prob", 0.0),
        Key("mlp_dropout", "layer.feed_forward_dropout_prob", 0.0),
    ),
    fixed={
        "positions.absolute": "none",
        "positions.relative": "rotary",
        "layer.hidden_dropout_prob": 0.0,
        "layer.gated": True,
        "layer.pre_norm": True,
        "skip_first_norm": True,
        "final_norm": True,
    },
    names={
        "body.embeddings.tokens": "embeddings.tok_embeddings",
        "body.embeddings.norm": "embeddings.norm",
        "body.blocks.{i}.attention.qkv": BLOCK + "attn.Wqkv",
        "body.blocks.{i}.attention.out": BLOCK + "attn.Wo",
        "body.blocks.{i}.attention_norm": BLOCK + "attn_norm",
        "body.blocks.{i}.feed_forward.up": BLOCK + "mlp.Wi",
        "body.blocks.{i}.feed_forward.down": BLOCK + "mlp.Wo",
        "body.blocks.{i}.feed_forward_norm": BLOCK + "mlp_norm",
        "body.final_norm": "final_norm",
    },
    heads=(
        CLASSIFY,
        replace(CLASSIFY, task="choice", architecture="ForMultipleChoice", num_labels=1),
        replace(CLASSIFY, task="tag", architecture="ForTokenClassification", reads="tokens", keys=TOKEN_KEYS),
        replace(
            CLASSIFY, task="qa", architecture="ForQuestionAnswering", reads="tokens", num_labels=2, keys=TOKEN_KEYS
        ),
        HeadTable(
            task="mlm",
            architecture="ForMaskedLM",
            names={"transform.dense": "head.dense", "transform.norm": "head.norm", "output": "decoder"},
            vocabulary=True,
            keys=(*TRANSFORM_KEYS, Key("decoder_bias", "bias", True)),
        ),
    ),
    pad_token_id=50283,
    read_more=read_modernbert,
    write_more=write_modernbert,
)
