"""BERT and its kin: BERT, ERNIE, RoBERTa, XLM-RoBERTa, CamemBERT, MPNet, ELECTRA, ALBERT, DistilBERT (see `family`).

They share the post-norm encoder of Devlin et al. 2018 and differ in names, positions and the shapes of their heads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertworks.hub.family import Family, Fields
from bertworks.hub.tables import HeadTable, Key, with_defaults
from bertworks.nn.activations import ACTIVATIONS

# -- shared pieces -----------------------------------------------------------------------------------------------------

POSITION_KINDS = {"absolute": "none", "relative_key": "keys", "relative_key_query": "keys_queries"}

STACK_KEYS = (
    Key("vocab_size", "embeddings.vocab_size", 30522),
    Key("hidden_size", "layer.hidden_size", 768),
    Key("num_hidden_layers", "num_hidden_layers", 12),
    Key("num_attention_heads", "layer.num_attention_heads", 12),
    Key("intermediate_size", "layer.intermediate_size", 3072),
    Key("hidden_act", "layer.hidden_act", "gelu"),
    Key("hidden_dropout_prob", "layer.hidden_dropout_prob", 0.1),
    Key("attention_probs_dropout_prob", "layer.attention_dropout_prob", 0.1),
    Key("max_position_embeddings", "positions.max_position_embeddings", 512),
    Key("initializer_range", "initializer_range", 0.02),
    Key("layer_norm_eps", "layer.norm_eps", 1e-12),
)
BERT_KEYS = (
    *STACK_KEYS,
    Key("type_vocab_size", "embeddings.type_vocab_size", 2),
    Key("position_embedding_type", "positions.relative", "absolute", POSITION_KINDS),
)

BLOCK = "encoder.layer.{i}."
BERT_NAMES: dict[str, str | tuple[str, ...]] = {
    "body.embeddings.tokens": "embeddings.word_embeddings",
    "body.embeddings.positions": "embeddings.position_embeddings",
    "body.embeddings.segments": "embeddings.token_type_embeddings",
    "body.embeddings.norm": "embeddings.LayerNorm",
    "body.blocks.{i}.attention.qkv": tuple(BLOCK + "attention.self." + part for part in ("query", "key", "value")),
    "body.blocks.{i}.attention.relative": BLOCK + "attention.self.distance_embedding",
    "body.blocks.{i}.attention.out": BLOCK + "attention.output.dense",
    "body.blocks.{i}.attention_norm": BLOCK + "attention.output.LayerNorm",
    "body.blocks.{i}.feed_forward.up": BLOCK + "intermediate.dense",
    "body.blocks.{i}.feed_forward.down": BLOCK + "output.dense",
    "body.blocks.{i}.feed_forward_norm": BLOCK + "output.LayerNorm",
    "pooler.dense": "pooler.dense",
}

DROPOUT = (Key("classifier_dropout", "dropout_prob", None),)

TAG = HeadTable(task="tag", architecture="ForTokenClassification", names={"output": "classifier"}, keys=DROPOUT)
QA = HeadTable(task="qa", architecture="ForQuestionAnswering", names={"output": "qa_outputs"}, num_labels=2)
POOLED_CLASSIFY = HeadTable(
    task="classify",
    architecture="ForSequenceClassification",
    names={"output": "classifier"},
    reads="pooled",
    keys=DROPOUT,
)
POOLED_CHOICE = HeadTable(
    task="choice",
    architecture="ForMultipleChoice",
    names={"output": "classifier"},
    reads="pooled",
    num_labels=1,
    keys=DROPOUT,
)


def read_positions(rest: dict[str, Any], fields: Fields) -> None:
    """Relative keys replace the absolute vectors."""
    fields["positions.absolute"] = "learned" if fields["positions.relative"] == "none" else "none"


# -- BERT and ERNIE ----------------------------------------------------------------------------------------------------

BERT_HEADS = (
    HeadTable(
        task="mlm",
        architecture="ForMaskedLM",
        names={
            "transform.dense": "cls.predictions.transform.dense",
            "transform.norm": "cls.predictions.transform.LayerNorm",
            "output": "cls.predictions.decoder",
            "output_bias": "cls.predictions.bias",
        },
        vocabulary=True,
    ),
    HeadTable(
        task="nsp",
        architecture="ForNextSentencePrediction",
        names={"output": "cls.seq_relationship"},
        reads="pooled",
        num_labels=2,
    ),
    POOLED_CLASSIFY,
    POOLED_CHOICE,
    TAG,
    QA,
)

BERT = Family(
    model_type="bert",
    class_prefix="Bert",
    prefix="bert.",
    keys=BERT_KEYS,
    names=BERT_NAMES,
    heads=BERT_HEADS,
    together={("mlm", "nsp"): "ForPreTraining"},
    read_more=read_positions,
)


def read_ernie(rest: dict[str, Any], fields: Fields) -> None:
    """Without `use_task_id` there is no table of tasks, whatever its size is said to be."""
    read_positions(rest, fields)
    if rest.pop("use_task_id", False):
        fields["embeddings.task_vocab_size"] = rest.pop("task_type_vocab_size", 3)


def write_ernie(out: dict[str, Any], fields: Fields) -> None:
    """The reverse of `read_ernie`."""
    size = fields["embeddings.task_vocab_size"]
    out["use_task_id"] = size > 0
    if size:
        out["task_type_vocab_size"] = size


ERNIE = replace(
    BERT,
    model_type="ernie",
    class_prefix="Ernie",
    prefix="ernie.",
    names={**BERT_NAMES, "body.embeddings.tasks": "embeddings.task_type_embeddings"},
    read_more=read_ernie,
    write_more=write_ernie,
)

# -- RoBERTa and MPNet: positions count from the padding id + 1 --------------------------------------------------------


def read_roberta(rest: dict[str, Any], fields: Fields) -> None:
    """The table's size counts the rows before the first place; there are none where positions are relative."""
    read_positions(rest, fields)
    if fields["positions.absolute"] != "none":
        pad = rest.get("pad_token_id")
        fields["positions.offset"] = (1 if pad is None else int(pad)) + 1
        fields["positions.max_position_embeddings"] -= fields["positions.offset"]


def write_offset(out: dict[str, Any], fields: Fields) -> None:
    """Count the rows before the first place."""
    out["max_position_embeddings"] += fields["positions.offset"]


FIRST_TOKEN_CLASSIFY = HeadTable(
    task="classify",
    architecture="ForSequenceClassification",
    names={"transform.dense": "classifier.dense", "output": "classifier.out_proj"},
    reads="first",
    act="tanh",
    keys=DROPOUT,
)
ROBERTA_MLM = HeadTable(
    task="mlm",
    architecture="ForMaskedLM",
    names={
        "transform.dense": "lm_head.dense",
        "transform.norm": "lm_head.layer_norm",
        "output": "lm_head.decoder",
        "output_bias": "lm_head.bias",
    },
    act="gelu",
    vocabulary=True,
)

ROBERTA = Family(
    model_type="roberta",
    class_prefix="Roberta",
    prefix="roberta.",
    keys=with_defaults(BERT_KEYS, vocab_size=50265),
    names=BERT_NAMES,
    heads=(ROBERTA_MLM, FIRST_TOKEN_CLASSIFY, POOLED_CHOICE, TAG, QA),
    pad_token_id=1,
    read_more=read_roberta,
    write_more=write_offset,
)
XLM_ROBERTA = replace(ROBERTA, model_type="xlm-roberta", class_prefix="XLMRoberta", keys=BERT_KEYS)
CAMEMBERT = replace(ROBERTA, model_type="camembert", class_prefix="Camembert", keys=BERT_KEYS)


def read_mpnet(rest: dict[str, Any], fields: Fields) -> None:
    """As in RoBERTa, with a fixed number of rows before the first place."""
    fields["positions.max_position_embeddings"] -= fields["positions.offset"]


MPNET = Family(
    model_type="mpnet",
    class_prefix="MPNet",
    prefix="mpnet.",
    keys=with_defaults(STACK_KEYS, vocab_size=30527),
    fixed={"positions.relative": "buckets", "positions.offset": 2},  # two, whatever the padding id is
    names={
        **{ours: theirs for ours, theirs in BERT_NAMES.items() if "segments" not in ours and "relative" not in ours},
        "body.buckets": "encoder.relative_attention_bias",
        "body.blocks.{i}.attention.qkv": tuple(BLOCK + "attention.attn." + part for part in "qkv"),
        "body.blocks.{i}.attention.out": BLOCK + "attention.attn.o",
        "body.blocks.{i}.attention_norm": BLOCK + "attention.LayerNorm",
    },
    heads=(ROBERTA_MLM, FIRST_TOKEN_CLASSIFY, POOLED_CHOICE, TAG, QA),
    pad_token_id=1,
    requires=(("relative_attention_num_buckets", (32,)),),  # `transformers` computes with 32 whatever it says
    read_more=read_mpnet,
    write_more=write_offset,
)

# -- ELECTRA and ALBERT: narrower embeddings ---------------------------------------------------------------------------


def read_electra(rest: dict[str, Any], fields: Fields) -> None:
    """There is a projection only where the widths differ."""
    read_positions(rest, fields)
    size = rest.pop("embedding_size", None) or 128
    fields["embeddings.size"] = None if size == fields["layer.hidden_size"] else size


def write_electra(out: dict[str, Any], fields: Fields) -> None:
    """The reverse of `read_electra`."""
    out["embedding_size"] = fields["embeddings.size"] or fields["layer.hidden_size"]


ELECTRA = Family(
    model_type="electra",
    class_prefix="Electra",
    prefix="electra.",
    keys=with_defaults(BERT_KEYS, hidden_size=256, num_attention_heads=4, intermediate_size=1024),
    names={
        **{ours: theirs for ours, theirs in BERT_NAMES.items() if not ours.startswith("pooler")},
        "body.embeddings.project": "embeddings_project",
    },
    heads=(
        HeadTable(
            task="mlm",  # the generator
            architecture="ForMaskedLM",
            names={
                "transform.dense": "generator_predictions.dense",
                "transform.norm": "generator_predictions.LayerNorm",
                "output": "generator_lm_head",
            },
            act="gelu",
            to_embedding_size=True,
            vocabulary=True,
        ),
        HeadTable(
            task="rtd",  # the discriminator
            architecture="ForPreTraining",
            names={
                "transform.dense": "discriminator_predictions.dense",
                "output": "discriminator_predictions.dense_prediction",
            },
            num_labels=1,
        ),
        replace(FIRST_TOKEN_CLASSIFY, act="gelu"),
        HeadTable(
            task="choice",
            architecture="ForMultipleChoice",
            names={"transform.dense": "sequence_summary.summary", "output": "classifier"},
            reads="first",
            num_labels=1,
            keys=(
                Key("summary_activation", "transform_act", "gelu"),
                Key("summary_last_dropout", "dropout_prob", 0.1),
            ),
            requires=(
                ("summary_type", ("first",)),
                ("summary_use_proj", (True,)),
                ("summary_activation", tuple(ACTIVATIONS)),
            ),
        ),
        TAG,
        QA,
    ),
    read_more=read_electra,
    write_more=write_electra,
)

ALBERT_BLOCK = "encoder.albert_layer_groups.{group}.albert_layers.{inner}."
ALBERT_DROPOUT = (Key("classifier_dropout_prob", "dropout_prob", 0.1),)
ALBERT = Family(
    model_type="albert",
    class_prefix="Albert",
    prefix="albert.",
    keys=(
        *with_defaults(
            BERT_KEYS,
            vocab_size=30000,
            hidden_size=4096,
            num_attention_heads=64,
            intermediate_size=16384,
            hidden_act="gelu_new",
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ),
        Key("embedding_size", "embeddings.size", 128),
        Key("num_hidden_groups", "num_groups", 1),
        Key("inner_group_num", "layers_per_group", 1),
    ),
    names={
        **{ours: theirs for ours, theirs in BERT_NAMES.items() if ours.startswith("body.embeddings")},
        "body.embeddings.project": "encoder.embedding_hidden_mapping_in",
        "body.blocks.{i}.attention.qkv": tuple(
            ALBERT_BLOCK + "attention." + part for part in ("query", "key", "value")
        ),
        "body.blocks.{i}.attention.relative": ALBERT_BLOCK + "attention.distance_embedding",
        "body.blocks.{i}.attention.out": ALBERT_BLOCK + "attention.dense",
        "body.blocks.{i}.attention_norm": ALBERT_BLOCK + "attention.LayerNorm",
        "body.blocks.{i}.feed_forward.up": ALBERT_BLOCK + "ffn",
        "body.blocks.{i}.feed_forward.down": ALBERT_BLOCK + "ffn_output",
        "body.blocks.{i}.feed_forward_norm": ALBERT_BLOCK + "full_layer_layer_norm",
        "pooler.dense": "pooler",
    },
    heads=(
        HeadTable(
            task="mlm",
            architecture="ForMaskedLM",
            names={
                "transform.dense": "predictions.dense",
                "transform.norm": "predictions.LayerNorm",
                "output": "predictions.decoder",
                "output_bias": "predictions.bias",
            },
            to_embedding_size=True,
            vocabulary=True,
        ),
        HeadTable(
            task="sop",
            architecture="ForPreTraining",
            names={"output": "sop_classifier.classifier"},
            reads="pooled",
            num_labels=2,
            keys=ALBERT_DROPOUT,
        ),
        replace(POOLED_CLASSIFY, keys=ALBERT_DROPOUT),
        replace(POOLED_CHOICE, keys=ALBERT_DROPOUT),
        replace(TAG, keys=ALBERT_DROPOUT),
        QA,
    ),
    together={("mlm", "sop"): "ForPreTraining"},
    read_more=read_positions,
)

# -- DistilBERT --------------------------------------------------------------------------------------------------------

DISTIL_BLOCK = "transformer.layer.{i}."
DISTIL_PRE_CLASSIFIER = {"transform.dense": "pre_classifier", "output": "classifier"}
DISTIL_DROPOUT = (Key("seq_classif_dropout", "dropout_prob", 0.2),)
DISTILBERT = Family(
    model_type="distilbert",
    class_prefix="DistilBert",
    prefix="distilbert.",
    keys=(
        Key("vocab_size", "embeddings.vocab_size", 30522),
        Key("dim", "layer.hidden_size", 768),
        Key("n_layers", "num_hidden_layers", 6),
        Key("n_heads", "layer.num_attention_heads", 12),
        Key("hidden_dim", "layer.intermediate_size", 3072),
        Key("activation", "layer.hidden_act", "gelu"),
        Key("dropout", "layer.hidden_dropout_prob", 0.1),
        Key("attention_dropout", "layer.attention_dropout_prob", 0.1),
        Key("max_position_embeddings", "positions.max_position_embeddings", 512),
        Key("initializer_range", "initializer_range", 0.02),
    ),
    fixed={"layer.norm_eps": 1e-12},
    names={
        **{ours: theirs for ours, theirs in BERT_NAMES.items() if ours.startswith("body.embeddings")},
        "body.blocks.{i}.attention.qkv": tuple(DISTIL_BLOCK + f"attention.{part}_lin" for part in "qkv"),
        "body.blocks.{i}.attention.out": DISTIL_BLOCK + "attention.out_lin",
        "body.blocks.{i}.attention_norm": DISTIL_BLOCK + "sa_layer_norm",
        "body.blocks.{i}.feed_forward.up": DISTIL_BLOCK + "ffn.lin1",
        "body.blocks.{i}.feed_forward.down": DISTIL_BLOCK + "ffn.lin2",
        "body.blocks.{i}.feed_forward_norm": DISTIL_BLOCK + "output_layer_norm",
    },
    heads=(
        HeadTable(
            task="mlm",
            architecture="ForMaskedLM",
            names={
                "transform.dense": "vocab_transform",
                "transform.norm": "vocab_layer_norm",
                "output": "vocab_projector",
            },
            vocabulary=True,
        ),
        HeadTable(
            task="classify",
            architecture="ForSequenceClassification",
            names=DISTIL_PRE_CLASSIFIER,
            reads="first",
            act="relu",
            keys=DISTIL_DROPOUT,
        ),
        HeadTable(
            task="choice",
            architecture="ForMultipleChoice",
            names=DISTIL_PRE_CLASSIFIER,
            reads="first",
            act="relu",
            num_labels=1,
            keys=DISTIL_DROPOUT,
        ),
        TAG,
        replace(QA, keys=(Key("qa_dropout", "dropout_prob", 0.1),)),
    ),
)
