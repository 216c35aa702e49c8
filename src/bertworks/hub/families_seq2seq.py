"""Marian (Junczys-Dowmunt et al. 2018; the models of OPUS-MT) and BART (Lewis et al. 2020): the Transformer of 2017, nearly.

Marian   the plain one: sinusoidal positions, sines before cosines; often SiLU; the padding token starts a target
BART     learned positions that count from 2, a norm over the embeddings, GELU
"""

from __future__ import annotations

from bertworks.hub.family_seq2seq import Seq2SeqFamily
from bertworks.hub.tables import Key, with_defaults

KEYS = (
    Key("d_model", "layer.hidden_size", 1024),
    Key("max_position_embeddings", "positions.max_position_embeddings", 1024),
    Key("encoder_layers", "encoder:num_hidden_layers", 12),
    Key("encoder_ffn_dim", "encoder:layer.intermediate_size", 4096),
    Key("encoder_attention_heads", "encoder:layer.num_attention_heads", 16),
    Key("decoder_layers", "decoder:num_hidden_layers", 12),
    Key("decoder_ffn_dim", "decoder:layer.intermediate_size", 4096),
    Key("decoder_attention_heads", "decoder:layer.num_attention_heads", 16),
    Key("activation_function", "layer.hidden_act", "gelu"),
    Key("dropout", "layer.hidden_dropout_prob", 0.1),
    Key("attention_dropout", "layer.attention_dropout_prob", 0.0),
    Key("activation_dropout", "layer.feed_forward_dropout_prob", 0.0),
    Key("init_std", "initializer_range", 0.02),
    Key("scale_embedding", "embeddings.scale", False),
    Key("vocab_size", "embeddings.vocab_size", 50265),
)
BLOCK = "layers.{i}."
NAMES: dict[str, str | tuple[str, ...]] = {
    "blocks.{i}.attention.qkv": tuple(f"{BLOCK}self_attn.{part}_proj" for part in "qkv"),
    "blocks.{i}.attention.out": BLOCK + "self_attn.out_proj",
    "blocks.{i}.attention_norm": BLOCK + "self_attn_layer_norm",
    "blocks.{i}.cross_attention.query": BLOCK + "encoder_attn.q_proj",
    "blocks.{i}.cross_attention.key_value": tuple(f"{BLOCK}encoder_attn.{part}_proj" for part in "kv"),
    "blocks.{i}.cross_attention.out": BLOCK + "encoder_attn.out_proj",
    "blocks.{i}.cross_norm": BLOCK + "encoder_attn_layer_norm",
    "blocks.{i}.feed_forward.up": BLOCK + "fc1",
    "blocks.{i}.feed_forward.down": BLOCK + "fc2",
    "blocks.{i}.feed_forward_norm": BLOCK + "final_layer_norm",
}
TIED = (r"(model\.)?(encoder|decoder)\.embed_tokens\.weight", r"(model\.)?shared\.weight", r"lm_head\.weight")
"""Further names of the token table; a rule takes one."""

MARIAN = Seq2SeqFamily(
    model_type="marian",
    architecture="MarianMTModel",
    keys=(
        *with_defaults(KEYS, vocab_size=58101),
        Key("decoder_vocab_size", "decoder:embeddings.vocab_size", None),
    ),
    fixed={
        "positions.absolute": "sinusoidal",
        "positions.halves": True,
        "embeddings.norm": False,
        "layer.norm_eps": 1e-5,
    },
    names=NAMES,
    pad_token_id=58100,
    defaults={"decoder_start_token_id": 58100, "eos_token_id": 0, "forced_eos_token_id": 0},
    requires=(("static_position_embeddings", (True, None)), ("normalize_embedding", (False, None))),
    shared_key="share_encoder_decoder_embeddings",
    ignored=(*TIED, r"(model\.)?(encoder|decoder)\.embed_positions\.weight"),
)

BART = Seq2SeqFamily(
    model_type="bart",
    architecture="BartForConditionalGeneration",
    keys=KEYS,
    fixed={"positions.offset": 2, "layer.norm_eps": 1e-5},
    names={
        **NAMES,
        "embeddings.positions": "embed_positions",
        "embeddings.norm": "layernorm_embedding",
    },
    pad_token_id=1,
    defaults={"decoder_start_token_id": 2, "eos_token_id": 2, "forced_eos_token_id": 2},
    requires=(("normalize_embedding", (True, None)), ("static_position_embeddings", (False, None))),
    ignored=TIED,
)
