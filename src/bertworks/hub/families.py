"""Every family that can be loaded and saved, by its `model_type`; the head that a task gets on a model of one.

A new family is a `Family` (of two stacks: a `Seq2SeqFamily`) and a row here.
"""

from __future__ import annotations

from bertworks.hub.families_bert import ALBERT, BERT, CAMEMBERT, DISTILBERT, ELECTRA, ERNIE, MPNET, ROBERTA, XLM_ROBERTA
from bertworks.hub.families_gpt import GPT2, OPENAI_GPT
from bertworks.hub.families_modernbert import MODERNBERT
from bertworks.hub.families_seq2seq import BART, MARIAN
from bertworks.hub.family import Family
from bertworks.hub.family_seq2seq import Seq2SeqFamily
from bertworks.models.config import HeadConfig, ModelConfig, RecurrentConfig, Task
from bertworks.models.word_config import WordStackConfig

FAMILIES: dict[str, Family] = {
    "bert": BERT,
    "distilbert": DISTILBERT,
    "roberta": ROBERTA,
    "xlm-roberta": XLM_ROBERTA,
    "camembert": CAMEMBERT,
    "albert": ALBERT,
    "electra": ELECTRA,
    "ernie": ERNIE,
    "mpnet": MPNET,
    "modernbert": MODERNBERT,
    "openai-gpt": OPENAI_GPT,
    "gpt2": GPT2,
}
SEQ2SEQ_FAMILIES: dict[str, Seq2SeqFamily] = {"marian": MARIAN, "bart": BART}
"""Those of two stacks."""


def has_head(config: ModelConfig, task: Task) -> bool:
    """Whether the model's family has a head for `task`, so that a model with one can be saved as the family spells it."""
    family = FAMILIES.get(config.family)
    wanted = "classify" if task == "regress" else task
    return family is not None and any(table.task == wanted for table in family.heads)


def new_head(config: ModelConfig, task: Task, num_labels: int) -> HeadConfig:
    """A head for `task` with as many outputs, to be trained on a model with `config`: its family's, where it has one.

    Otherwise one of our own, for a model that is saved in our own format: a stack that sees both sides is read at its
    first token, through a dense layer as RoBERTa has it, a causal one at its last. A recurrent one is read as ULMFiT does
    (Howard & Ruder 2018): last state, maximum and mean side by side. The paper's second layer is left out: its units need
    norms over the batch, on which nothing may depend here, or they die in the paper's learning rate.
    """
    if has_head(config, task):
        return FAMILIES[config.family].head(config, task, num_labels)
    if isinstance(config.body, RecurrentConfig | WordStackConfig):
        dropout = config.body.hidden_dropout_prob
        if task in ("tag", "qa"):
            return HeadConfig(task=task, reads="tokens", num_labels=num_labels, dropout_prob=dropout)
        return HeadConfig(task=task, reads="concat", num_labels=num_labels, dropout_prob=dropout)
    layer = config.transformer.layer
    if task in ("tag", "qa"):
        return HeadConfig(task=task, reads="tokens", num_labels=num_labels, dropout_prob=layer.hidden_dropout_prob)
    return HeadConfig(
        task=task,
        reads="last" if config.body.causal else "first",
        num_labels=num_labels,
        transform_size=None if config.body.causal else layer.hidden_size,
        transform_act="tanh",
        norm_eps=layer.norm_eps,
        dropout_prob=layer.hidden_dropout_prob,
    )
