"""Generation token for token as `transformers` has it: batches of different lengths, greedy and beams, four families."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertworks.infer.decode import Beam, Decoder, Greedy, Strategy, decode
from bertworks.infer.decoders import decoder_for
from bertworks.models.seq2seq import TargetIds
from tests.hub.reference import convert, make_reference, single_thread
from tests.infer.seq2seq_reference import generated, make_translator, ours

SOURCES = [[7, 9, 11, 0], [20, 21, 22, 23, 24, 25, 26, 0], [50, 0], [61, 62, 63, 64, 0], [8, 8, 8, 0]]
PROMPTS = [[7, 9, 11], [20, 21, 22, 23, 24, 25, 26], [50], [61, 62, 63, 64], [8, 8, 8]]
STRATEGIES: list[tuple[Strategy, dict[str, Any]]] = [
    (Greedy(), {"num_beams": 1}),
    (Beam(width=2), {"num_beams": 2}),
    (Beam(width=5, num=3, length_penalty=0.6), {"num_beams": 5, "num_return_sequences": 3, "length_penalty": 0.6}),
    (Beam(width=4, length_penalty=0.0), {"num_beams": 4, "length_penalty": 0.0}),
    (Beam(width=3, early_stopping=True, num=3), {"num_beams": 3, "early_stopping": True, "num_return_sequences": 3}),
    (Beam(width=3, length_penalty=2.0), {"num_beams": 3, "length_penalty": 2.0}),
]


@pytest.fixture(autouse=True)
def quick():
    with single_thread():
        yield


def written(decoder: Decoder[Any], inputs: list[list[int]], strategy: Strategy, ids: TargetIds, most: int) -> Any:
    found = decode(decoder, [np.array(row) for row in inputs], strategy, max_new_tokens=most, ids=ids)
    return [best.tokens.tolist() for some in found for best in some]


@pytest.mark.parametrize(("strategy", "options"), STRATEGIES)
@pytest.mark.parametrize("ending", [0.0, 2.5])
@pytest.mark.parametrize("model_type", ["marian", "bart"])
def test_translators(model_type: str, ending: float, strategy: Strategy, options: Any, tmp_path: Path) -> None:
    for seed in (0, 5):
        reference = make_translator(model_type, ending=ending, seed=seed)
        model = ours(reference, tmp_path / str(seed))
        expected = generated(reference, SOURCES, max_new_tokens=17, do_sample=False, **options)
        assert written(decoder_for(model), SOURCES, strategy, model.config.target, 17) == expected


def test_forbidden_tokens_and_a_settled_end(tmp_path: Path) -> None:
    reference = make_translator("marian", ending=-3.0, forced_eos_token_id=0)
    reference.generation_config.forced_eos_token_id = 0
    plain = generated(reference, SOURCES, max_new_tokens=9, do_sample=False, num_beams=3)
    common = int(np.bincount(np.concatenate(plain)).argmax())
    reference.generation_config.bad_words_ids = [[common], [210]]
    model = ours(reference, tmp_path)
    assert model.config.target == TargetIds(start=210, end=(0,), last=0, forbidden=(common, 210))
    expected = generated(reference, SOURCES, max_new_tokens=9, do_sample=False, num_beams=3)
    assert expected != plain
    assert written(decoder_for(model), SOURCES, Beam(width=3), model.config.target, 9) == expected
    expected = generated(reference, SOURCES, max_new_tokens=9, do_sample=False, num_beams=1)
    assert written(decoder_for(model), SOURCES, Greedy(), model.config.target, 9) == expected


@pytest.mark.parametrize(("strategy", "options"), STRATEGIES)
@pytest.mark.parametrize("family", ["gpt2", "openai-gpt"])
def test_language_models(family: str, strategy: Strategy, options: Any) -> None:
    reference = make_reference(family, "LMHeadModel", eos_token_id=3)
    reference.generation_config.pad_token_id = reference.config.pad_token_id
    model = convert(reference)
    with torch.no_grad():
        expected = generated(reference, PROMPTS, left=True, max_new_tokens=21, do_sample=False, **options)
        if family == "openai-gpt":  # which takes no positions: with padding on the left its prompts stand elsewhere
            alone = [
                generated(reference, [row], left=True, max_new_tokens=21, do_sample=False, **options) for row in PROMPTS
            ]
            expected = [row for rows in alone for row in rows]
    assert written(decoder_for(model), PROMPTS, strategy, TargetIds(end=(3,)), 21) == expected


def test_scores_are_those_of_the_reference(tmp_path: Path) -> None:
    reference = make_translator("marian", ending=1.5)
    model = ours(reference, tmp_path)
    found = decode(
        decoder_for(model),
        [np.array(SOURCES[1])],
        Beam(width=4, num=4),
        max_new_tokens=15,
        ids=model.config.target,
    )[0]
    expected = reference.generate(
        torch.tensor([SOURCES[1]]),
        num_beams=4,
        num_return_sequences=4,
        max_new_tokens=15,
        return_dict_in_generate=True,
        output_scores=True,
    ).sequences_scores
    np.testing.assert_allclose([best.score for best in found], expected.numpy(), atol=1e-5)
