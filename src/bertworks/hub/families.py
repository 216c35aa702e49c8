"""Every family that can be loaded and saved, by its `model_type`; the head that a task gets on a model of one.

A new family is a `Family` and a row here.
"""

from __future__ import annotations

from bertworks.hub.families_bert import ALBERT, BERT, CAMEMBERT, DISTILBERT, ELECTRA, ERNIE, MPNET, ROBERTA, XLM_ROBERTA
from bertworks.hub.families_gpt import GPT2, OPENAI_GPT
from bertworks.hub.families_modernbert import MODERNBERT
from bertworks.hub.family import Family
from bertworks.models.config import HeadConfig, ModelConfig, Task

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


def has_head(config: ModelConfig, task: Task) -> bool:
    """Whether the model's family has a head for `task`, so that a model with one can be saved as the family spells it."""
    family = FAMILIES.get(config.family)
    wanted = "classify" if task == "regress" else task
    return family is not None and any(table.task == wanted for table in family.heads)


def new_head(config: ModelConfig, task: Task, num_labels: int) -> HeadConfig:
    """A head for `task` with as many outputs, to be trained on a model with `config`: its family's, where it has one.

    Otherwise one of our own, for a model that is saved in our own format: a stack that sees both sides is read at its
    first token, through a dense layer as RoBERTa has it, a causal one at its last.
    """
    if has_head(config, task):
        return FAMILIES[config.family].head(config, task, num_labels)
    layer = config.body.layer
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
