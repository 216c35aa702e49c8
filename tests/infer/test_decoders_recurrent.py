"""Recurrent language models write: step by step with a state, as if everything had been read anew each time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bertworks.errors import ModelError, UsageError
from bertworks.infer.decode import Beam, Greedy, decode
from bertworks.infer.decoders import decoder_for
from bertworks.models.config import EmbeddingConfig, HeadConfig, ModelConfig, RecurrentConfig
from bertworks.models.model import Model
from bertworks.models.seq2seq import TargetIds
from bertworks.nn.packed import Packed

VOCABULARY = 17
PROMPTS = [np.array(ids) for ids in ([3, 4, 5], [6], [7, 8, 9, 10, 11])]
NEVER = TargetIds()


def language_model(cell: str, **options: object) -> Model:
    body = RecurrentConfig(
        embeddings=EmbeddingConfig(vocab_size=VOCABULARY, size=6, norm=False),
        cell=cell,  # type: ignore[arg-type]
        hidden_size=9,
        num_hidden_layers=2,
        initializer_range=1.0,
        **options,  # type: ignore[arg-type]
    )
    torch.manual_seed(2)
    head = HeadConfig(task="lm", reads="tokens", num_labels=VOCABULARY)
    return Model(ModelConfig(family="bertworks", body=body, heads=(head,))).eval()


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_greedy_is_reading_everything_anew(cell: str) -> None:
    model = language_model(cell)
    found = decode(decoder_for(model), PROMPTS, Greedy(), max_new_tokens=12, ids=NEVER)
    for prompt, (hypothesis,) in zip(PROMPTS, found, strict=True):
        ids = prompt
        for _ in range(12):
            batch = Packed.from_sequences([ids])
            with torch.inference_mode():
                ids = np.append(ids, int(model.logits(batch, "lm", rows=batch.layout.last()).argmax()))
        assert list(hypothesis.tokens) == ids[len(prompt) :].tolist()


def test_a_beam_finds_what_is_at_least_as_likely() -> None:
    model = language_model("lstm")
    decoder = decoder_for(model)
    (greedy,), (beam,) = (
        decode(decoder, PROMPTS[:1], strategy, max_new_tokens=6, ids=NEVER) for strategy in (Greedy(), Beam(width=5))
    )

    def likelihood(tokens: np.ndarray) -> float:
        ids = np.concatenate([PROMPTS[0], tokens])
        with torch.inference_mode():
            scores = model.logits(Packed.from_sequences([ids[:-1]]), "lm").log_softmax(dim=-1)
        start = len(PROMPTS[0]) - 1
        return float(scores[torch.arange(start, len(ids) - 1), torch.from_numpy(ids[start + 1 :])].sum())

    assert likelihood(np.array(beam[0].tokens)) >= likelihood(np.array(greedy[0].tokens)) - 1e-5


def test_prompts_and_models_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="the prompt is empty"):
        decode(decoder_for(language_model("gru")), [np.zeros(0, np.int64)], Greedy(), max_new_tokens=2, ids=NEVER)
    with pytest.raises(ModelError, match="looks at the tokens that are still to come"):
        decoder_for(language_model("gru", bidirectional=True))
