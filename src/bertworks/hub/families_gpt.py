"""GPT (Radford et al. 2018, post-norm) and GPT-2 (Radford et al. 2019, pre-norm): causal stacks (see `family`).

Their matrices are stored as inputs x outputs. Left out, with an error: GPT-2's cross-attention and its other scalings
of the scores; heads that summarise a sequence otherwise than by one linear layer over its last token.
"""

from __future__ import annotations

from typing import Any

from bertworks.hub.family import Family, Fields
from bertworks.hub.tables import HeadTable, Key, with_defaults

LM = HeadTable(task="lm", architecture="LMHeadModel", names={"output": "lm_head"}, vocabulary=True, bias=False)
CLASSIFY = HeadTable(
    task="classify",
    architecture="ForSequenceClassification",
    names={"output": "score"},
    reads="last",
    bias=False,
)
CHOICE = HeadTable(
    task="choice",
    architecture="DoubleHeadsModel",
    names={"output": "multiple_choice_head.summary"},
    reads="last",
    num_labels=1,
    keys=(Key("summary_first_dropout", "dropout_prob", 0.1),),
    requires=(
        ("summary_type", ("cls_index", "last")),
        ("summary_use_proj", (True,)),
        ("summary_proj_to_labels", (True,)),
        ("summary_activation", (None,)),
    ),
)

SIZE_KEYS = (
    Key("vocab_size", "embeddings.vocab_size", 50257),
    Key("n_positions", "positions.max_position_embeddings", 1024),
    Key("n_embd", "layer.hidden_size", 768),
    Key("n_layer", "num_hidden_layers", 12),
    Key("n_head", "layer.num_attention_heads", 12),
    Key("embd_pdrop", "embeddings.dropout_prob", 0.1),
    Key("resid_pdrop", "layer.hidden_dropout_prob", 0.1),
    Key("attn_pdrop", "layer.attention_dropout_prob", 0.1),
    Key("layer_norm_epsilon", "layer.norm_eps", 1e-5),
    Key("initializer_range", "initializer_range", 0.02),
)
BLOCK = "h.{i}."
BLOCK_NAMES: dict[str, str | tuple[str, ...]] = {
    "body.blocks.{i}.attention.qkv": BLOCK + "attn.c_attn",
    "body.blocks.{i}.attention.out": BLOCK + "attn.c_proj",
    "body.blocks.{i}.attention_norm": BLOCK + "ln_1",
    "body.blocks.{i}.feed_forward.up": BLOCK + "mlp.c_fc",
    "body.blocks.{i}.feed_forward.down": BLOCK + "mlp.c_proj",
    "body.blocks.{i}.feed_forward_norm": BLOCK + "ln_2",
}


def read_gpt(rest: dict[str, Any], fields: Fields) -> None:
    """The feed-forward network is four times as wide as the stack, unless GPT-2's `n_inner` says otherwise."""
    fields["layer.intermediate_size"] = rest.pop("n_inner", None) or 4 * fields["layer.hidden_size"]


def write_embedding_dropout(out: dict[str, Any], fields: Fields) -> None:
    """None is "as in the layers" here, and must be said there."""
    if out["embd_pdrop"] is None:
        out["embd_pdrop"] = fields["layer.hidden_dropout_prob"]


def write_gpt2(out: dict[str, Any], fields: Fields) -> None:
    """GPT-2 has a width of its own for the feed-forward network."""
    write_embedding_dropout(out, fields)
    out["n_inner"] = fields["layer.intermediate_size"]
    for special in ("bos_token_id", "eos_token_id"):
        out.setdefault(special, None)  # their default is an id of the published vocabulary


OPENAI_GPT = Family(
    model_type="openai-gpt",
    class_prefix="OpenAIGPT",
    prefix="transformer.",
    keys=(
        *with_defaults(SIZE_KEYS, vocab_size=40478, n_positions=512),
        # "gelu" has always meant the tanh approximation here
        Key("afn", "layer.hidden_act", "gelu", {"gelu": "gelu_new", "relu": "relu", "silu": "silu", "swish": "swish"}),
    ),
    fixed={"causal": True, "embeddings.norm": False},
    names={
        "body.embeddings.tokens": "tokens_embed",
        "body.embeddings.positions": "positions_embed",
        **BLOCK_NAMES,
    },
    heads=(LM, CLASSIFY, CHOICE),
    together={("lm", "choice"): "DoubleHeadsModel"},
    transposed=True,
    read_more=read_gpt,
    write_more=write_embedding_dropout,
)

GPT2 = Family(
    model_type="gpt2",
    class_prefix="GPT2",
    prefix="transformer.",
    keys=(*SIZE_KEYS, Key("activation_function", "layer.hidden_act", "gelu_new")),
    fixed={"causal": True, "embeddings.norm": False, "layer.pre_norm": True, "final_norm": True},
    names={
        "body.embeddings.tokens": "wte",
        "body.embeddings.positions": "wpe",
        **BLOCK_NAMES,
        "body.final_norm": "ln_f",
    },
    heads=(
        LM,
        CLASSIFY,
        CHOICE,
        HeadTable(
            task="tag",
            architecture="ForTokenClassification",
            names={"output": "classifier"},
            keys=(Key("classifier_dropout", "dropout_prob", 0.1),),
        ),
        HeadTable(task="qa", architecture="ForQuestionAnswering", names={"output": "qa_outputs"}, num_labels=2),
    ),
    together={("lm", "choice"): "DoubleHeadsModel"},
    transposed=True,
    requires=(("scale_attn_weights", (True,)), ("scale_attn_by_inverse_layer_idx", (False,))),
    read_more=read_gpt,
    write_more=write_gpt2,
)
