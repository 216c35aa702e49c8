"""Every family that can be loaded and saved, by its `model_type`. A new one is a `Family` and a row here."""

from __future__ import annotations

from bertworks.hub.families_bert import ALBERT, BERT, CAMEMBERT, DISTILBERT, ELECTRA, ERNIE, MPNET, ROBERTA, XLM_ROBERTA
from bertworks.hub.families_gpt import GPT2, OPENAI_GPT
from bertworks.hub.families_modernbert import MODERNBERT
from bertworks.hub.family import Family

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
