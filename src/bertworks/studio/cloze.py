"""Routes and answers of the cloze view: what stands behind the masks, and what each layer would have said.

The last layer's answer is `bertworks.infer.fill`. For the others the masked-LM head is put on the hidden states of every layer
at the masks (nostalgebraist 2020, "the logit lens"): the head was trained on the last layer alone, so the lower a layer is,
the less its answer means. A stack with a norm at its end has it put on every layer first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from fastapi import APIRouter
from pydantic import BaseModel, Field
from torch import Tensor

from bertworks.errors import ModelError, UsageError
from bertworks.infer.fill import ANY_MASK, Cloze
from bertworks.infer.loaded import LoadedModel
from bertworks.models.transformer import Transformer
from bertworks.nn.packed import Packed
from bertworks.studio.models import Models, check_text
from bertworks.text.tokenizer import Tokenizer

MAX_CHARACTERS = 20_000
MAX_MASKS = 12
LAYER_TOP_K = 3


class ClozeRequest(BaseModel):
    """A text with [MASK] in it; `originals` are the words that stood there, in the text's order, or empty strings."""

    model: str
    text: str
    originals: list[str] = Field(default_factory=list)
    top_k: int = Field(default=8, ge=1, le=50)


def router(models: Models) -> APIRouter:
    """`POST /api/cloze`: candidates for each mask, for all together, and by layer."""
    routes = APIRouter()

    @routes.post("/api/cloze")
    def fill(request: ClozeRequest) -> dict[str, Any]:
        with models.use(request.model) as loaded:
            return cloze_answer(loaded, request.text, request.originals, top_k=request.top_k)

    return routes


def cloze_answer(loaded: LoadedModel, text: str, originals: list[str], *, top_k: int = 8) -> dict[str, Any]:
    """Candidates for each mask by itself, for several masks jointly, and the layers' candidates."""
    check_text(text, limit=MAX_CHARACTERS)
    if "mlm" not in loaded.model.heads:
        raise ModelError(
            "this model cannot fill masks: it has no masked-LM head; start the studio with one that has, "
            "for example bertworks-en or a finished run of `bertworks pretrain --recipe bert`"
        )
    count = text.count(ANY_MASK)
    if count > MAX_MASKS:
        raise UsageError(f"the text has {count} masks; {MAX_MASKS} at most are filled together: take some away")
    masks = loaded.fill(text, top_k=top_k)
    joint = loaded.fill(text, top_k=top_k, joint=True) if len(masks) > 1 else []
    originals = [*originals, *[""] * len(masks)][: len(masks)]
    return {
        "masks": [[{"token": one.token, "probability": one.probability} for one in best] for best in masks],
        "joint": [{"tokens": list(one.tokens), "probability": one.probability, "text": one.text} for one in joint],
        **_by_layer(loaded, text, originals),
    }


@torch.inference_mode()
def _by_layer(loaded: LoadedModel, text: str, originals: list[str]) -> dict[str, Any]:
    """`layers[layer][mask]`: its best tokens, and the place and probability of the word that stood there."""
    runner, tokenizer = loaded.runner, loaded.tokenizer
    cloze = Cloze(runner)
    text = text.replace(ANY_MASK, cloze.mask_token)
    ids = tokenizer.encode(text).ids.astype(np.int64)
    places = np.flatnonzero(ids == cloze.mask_id)
    batch = Packed.from_sequences([ids])
    rows = batch.layout.rows(torch.from_numpy(places))
    layers = range(runner.model.num_layers + 1)
    hidden = runner.model.body(batch.to(runner.device), layers=layers, rows=rows)
    words = _single_tokens(tokenizer, text.split(cloze.mask_token), originals)
    found = []
    for layer in layers:
        state: Tensor = hidden.layers[layer]  # (masks, H)
        body = runner.model.body
        if isinstance(body, Transformer) and body.final_norm is not None and layer < runner.model.num_layers:
            state = body.final_norm(state)
        shares = torch.softmax(runner.model.apply_head("mlm", state, rows.layout).float(), dim=-1).cpu()  # (masks, V)
        found.append([_best(cloze, share, word) for share, word in zip(shares, words, strict=True)])
    return {"layers": found, "originals": [None if word is None else cloze.spell(word) for word in words]}


def _best(cloze: Cloze, share: Tensor, word: int | None) -> dict[str, Any]:
    best, tokens = share.topk(min(LAYER_TOP_K, len(share)))
    entry: dict[str, Any] = {
        "best": [
            {"token": cloze.spell(token), "probability": probability, "was": token == word}
            for probability, token in zip(best.tolist(), tokens.tolist(), strict=True)
        ]
    }
    if word is not None:
        entry["original"] = {"probability": float(share[word]), "rank": int((share > share[word]).sum()) + 1}
    return entry


def _single_tokens(tokenizer: Tokenizer, pieces: list[str], originals: list[str]) -> list[int | None]:
    """The ids of the words that stood between the pieces, cut where they stand; None for several tokens or unknown ones.

    Byte-level models have one token for a word behind a space and another for the same word at the beginning.
    """
    whole, spans = "", []
    for before, word in zip(pieces, [*originals, ""], strict=True):
        spans.append((len(whole) + len(before), len(whole) + len(before) + len(word)))
        whole += before + word
    encoding = tokenizer.encode(whole)
    found: list[int | None] = []
    for start, end in spans[:-1]:
        here = (encoding.offsets[:, 0] < end) & (encoding.offsets[:, 1] > start) & ~encoding.special
        ids = encoding.ids[here] if end > start else encoding.ids[:0]
        found.append(int(ids[0]) if len(ids) == 1 and int(ids[0]) != tokenizer.unk_id else None)
    return found
