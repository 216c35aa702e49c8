"""Cloze answers against `fill`, and the layers' answers against the model itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import bertworks
from bertworks.errors import ModelError, UsageError
from bertworks.infer.loaded import LoadedModel
from bertworks.nn.packed import Packed
from bertworks.studio.cloze import MAX_MASKS, cloze_answer
from tests.infer.foreign import Foreign

CAPITAL = "北京是中国的首[MASK]。"


def test_one_mask(albert: LoadedModel) -> None:
    answer = cloze_answer(albert, CAPITAL, ["都"], top_k=4)
    (best,) = albert.fill(CAPITAL, top_k=4)
    assert answer["masks"] == [[{"token": one.token, "probability": one.probability} for one in best]]
    assert answer["masks"][0][0]["token"] == "都"
    assert answer["joint"] == []
    assert answer["originals"] == ["都"]


def test_the_last_layer_says_what_fill_says(albert: LoadedModel) -> None:
    answer = cloze_answer(albert, CAPITAL, ["都"])
    assert len(answer["layers"]) == albert.model.num_layers + 1
    last = answer["layers"][-1][0]
    assert last["best"][0]["token"] == "都"
    assert last["best"][0]["probability"] == pytest.approx(answer["masks"][0][0]["probability"], abs=1e-5)
    assert last["original"] == {"rank": 1, "probability": pytest.approx(last["best"][0]["probability"])}


def test_a_layer_in_between_is_the_head_on_its_states(albert: LoadedModel) -> None:
    answer = cloze_answer(albert, CAPITAL, [])
    ids = albert.tokenizer.encode(CAPITAL).ids
    place = int(np.flatnonzero(ids == albert.tokenizer.mask_id)[0])
    batch = Packed.from_sequences([ids])
    with torch.inference_mode():
        state = albert.model.body(batch, layers=[2]).layers[2][place : place + 1]
        shares = torch.softmax(albert.model.apply_head("mlm", state, batch.layout)[0], dim=-1)
    probability, token = shares.max(0)
    best = answer["layers"][2][0]["best"][0]
    assert best["token"] == albert.tokenizer.token(int(token))
    assert best["probability"] == pytest.approx(float(probability), abs=1e-5)
    assert "original" not in answer["layers"][2][0]


def test_several_masks(albert: LoadedModel) -> None:
    text = "北京是中国的[MASK][MASK]。"
    answer = cloze_answer(albert, text, ["首", "xyzzy"], top_k=3)
    joint = albert.fill(text, top_k=3, joint=True)
    assert [one["text"] for one in answer["joint"]] == [one.text for one in joint]
    assert len(answer["masks"]) == len(answer["layers"][0]) == 2
    assert answer["originals"] == ["首", None]


def test_a_byte_level_word_is_the_token_that_stood_there(tmp_path: Path) -> None:
    Foreign(tmp_path, "roberta", "ForMaskedLM")
    model = bertworks.load(tmp_path)
    text, word = "The river runs past the old mill.", "the"
    start = text.index(word)
    with_space = int(model.tokenizer.encode(" the", special=False).ids[0])
    without = int(model.tokenizer.encode("the", special=False).ids[0])
    assert with_space != without
    answer = cloze_answer(model, text.replace("the", "[MASK]"), [word], top_k=3)
    encoding = model.tokenizer.encode(text[:start] + "<mask>" + text[start + len(word) :])
    with torch.inference_mode():
        logits = model.model.logits(Packed.from_sequences([encoding.ids]), "mlm")
    place = int(np.flatnonzero(encoding.ids == model.tokenizer.mask_id)[0])
    shares = torch.softmax(logits[place], dim=-1)
    assert answer["originals"] == ["the"]  # as `fill` spells, without the mark of a space
    assert answer["layers"][-1][0]["original"]["probability"] == pytest.approx(float(shares[with_space]), abs=1e-6)
    assert [one["token"] for one in answer["layers"][-1][0]["best"]] == [one["token"] for one in answer["masks"][0]]


def test_wrong_use_explains_itself(albert: LoadedModel, minilm: LoadedModel) -> None:
    with pytest.raises(ModelError, match="no masked-LM head; start the studio with one"):
        cloze_answer(minilm, "A [MASK].", [])
    with pytest.raises(UsageError, match="has no mask"):
        cloze_answer(albert, "A text.", [])
    with pytest.raises(UsageError, match=f"{MAX_MASKS} at most"):
        cloze_answer(albert, "[MASK] " * (MAX_MASKS + 1), [])
    with pytest.raises(UsageError, match="100,000 characters"):
        cloze_answer(albert, "x" * 100_000, [])
