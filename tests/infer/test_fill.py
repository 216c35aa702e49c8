"""Cloze with a real masked LM (Chinese ALBERT), against brute force through the same model."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import bertworks
from bertworks.errors import ModelError, UsageError
from bertworks.infer.loaded import LoadedModel
from bertworks.nn.packed import Packed


@pytest.fixture(scope="module")
def albert(request) -> LoadedModel:
    return bertworks.load(request.getfixturevalue("weights_minidata"))


def log_probabilities(model: LoadedModel, ids, place: int) -> torch.Tensor:
    with torch.inference_mode():
        logits = model.model.logits(Packed.from_sequences([ids]), "mlm")
    return torch.log_softmax(logits[place], dim=-1)


def test_the_capital(albert):
    ((best, *_),) = albert.fill("北京是中国的首[MASK]。", top_k=3)
    assert best.token == "都"
    assert best.text == "北京是中国的首都。"
    ids = albert.tokenizer.encode("北京是中国的首[MASK]。").ids
    assert np.log(best.probability) == pytest.approx(float(log_probabilities(albert, ids, 8)[best.id]), abs=1e-4)


def test_several_masks(albert):
    masks = albert.fill("北京是中国的[MASK][MASK]。", top_k=4)
    assert [len(mask) for mask in masks] == [4, 4]
    assert all(a.probability >= b.probability for mask in masks for a, b in pairwise(mask))


def test_joint_filling_is_the_best_chain(albert):
    """With a beam as wide as it gets, the first answer is the best chain over the candidates, surest mask first."""
    text = "北京是中国的[MASK][MASK]。"
    best = albert.fill(text, top_k=3, joint=True)
    ids = albert.tokenizer.encode(text).ids.copy()
    places = np.flatnonzero(ids == albert.tokenizer.mask_id)
    first = [log_probabilities(albert, ids, place) for place in places]
    surest = int(torch.stack([log.max() for log in first]).argmax())
    other = 1 - surest
    scores = {}
    for token in first[surest].topk(6).indices.tolist():
        filled = ids.copy()
        filled[places[surest]] = token
        log, index = log_probabilities(albert, filled, places[other]).max(0)
        pair = {surest: token, other: int(index)}
        scores[albert.tokenizer.decode([pair[0], pair[1]]).replace(" ", "")] = float(first[surest][token] + log)
    answer = max(scores, key=scores.__getitem__)
    assert "".join(best[0].tokens) == answer
    assert np.log(best[0].probability) == pytest.approx(scores[answer], abs=1e-3)


def test_targets_are_scored_whole(albert):
    scores = albert.fill("北京是中国的[MASK]。", targets=["首都", "城", "苹果"])
    assert scores[0].target in ("首都", "城")
    assert scores[-1].target == "苹果"
    assert sum(score.share for score in scores) == pytest.approx(1.0)
    two = next(score for score in scores if score.target == "首都")
    assert two.num_tokens == 2
    ids = albert.tokenizer.encode("北京是中国的首都。").ids
    masked = ids.copy()
    masked[7:9] = albert.tokenizer.mask_id
    chain = float(log_probabilities(albert, masked, 7)[ids[7]])
    masked[7] = ids[7]
    chain += float(log_probabilities(albert, masked, 8)[ids[8]])
    assert np.log(two.probability) == pytest.approx(chain, abs=1e-3)


def test_wrong_use_explains_itself(albert, minilm_directory):
    with pytest.raises(UsageError, match=r"no mask: put \[MASK\]"):
        albert.fill("no mask here")
    with pytest.raises(UsageError, match="exactly one mask, this one has 2"):
        albert.fill("[MASK][MASK]", targets=["a"])
    with pytest.raises(UsageError, match="tokens, this model takes 512"):
        albert.fill("首[MASK]" + "字" * 600)
    with pytest.raises(ModelError, match="no masked-LM head; choose one that has"):
        bertworks.load(minilm_directory).fill("Paris is the [MASK] of France.")
