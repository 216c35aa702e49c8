"""The vanishing gradient, made visible: how strongly the loss at a token reaches what a recurrent model remembered before.

    | d loss_T / d s_t |    s_t the state after token t, of all layers (an LSTM's cells included), by the distance T - t

In training by backpropagation through time this is all that a token learns from its distant future. In a simple RNN it
shrinks by about the same factor with every step (Bengio et al. 1994, Pascanu et al. 2013), in an LSTM or a GRU as slowly as
their gates let it. It is measured on held-out text, token by token, since a kernel does not show the states inside; norms
are means over texts, relative to distance 1: how fast they fall is what tells the cells apart.

Legend: B texts, S steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertworks.errors import ModelError
from bertworks.models.model import Model
from bertworks.models.recurrent import RecurrentStack
from bertworks.nn.packed import Layout, Packed
from bertworks.nn.recurrent import RecurrentState
from bertworks.objectives.vocabulary import output_of, vocabulary_loss
from bertworks.page import curves

STEPS = 64
TEXTS = 16
SHORTEST = 3
"""Tokens of a text, at least: two states, and what comes after."""
SMALLEST = 1e-30
"""Below it a norm is as good as 0; logarithms want a floor."""

Floats = NDArray[np.float64]


def texts_of(documents: Iterable[NDArray[np.int64]], steps: int = STEPS, texts: int = TEXTS) -> NDArray[np.int64]:
    """(B, S + 1): the beginnings of the first documents that are long enough; fewer steps where none is."""
    kept: list[NDArray[np.int64]] = []
    short: list[NDArray[np.int64]] = []
    for document in documents:
        (kept if len(document) > steps else short).append(np.asarray(document, np.int64))
        if len(kept) == texts:
            break
    if not kept:
        kept = sorted(short, key=len, reverse=True)[:texts]
        kept = [document for document in kept if 2 * len(document) > len(kept[0])]  # not the few tokens of the shortest
    length = min((len(document) for document in kept), default=0)
    if length < SHORTEST:
        return np.zeros((0, SHORTEST), np.int64)
    return np.stack([document[: min(length, steps + 1)] for document in kept])


def gradient_reach(model: Model, texts: NDArray[np.int64]) -> Floats:
    """(S - 1,): the gradient's norm at distance 1, 2, 3 … before the end of `texts` (B, S + 1), relative to the first."""
    body = model.body
    if not isinstance(body, RecurrentStack) or "lm" not in model.heads:
        raise ModelError(
            f"only a recurrent language model has states between its tokens; this one is {model.config.describe()}"
        )
    count, steps = texts.shape[0], texts.shape[1] - 1
    ids = torch.from_numpy(texts).to(body.embeddings.tokens.weight.device)
    state: RecurrentState | None = None
    states: list[RecurrentState] = []
    was_training = model.training
    model.eval()
    with torch.enable_grad():
        for step in range(steps):
            _, state = body.read(Packed(input_ids=ids[:, step], layout=Layout([1] * count)), state)
            states.append(state)
        assert state is not None, "a text has at least three tokens"
        loss = vocabulary_loss(output_of(model, "lm", state.summary()), ids[:, steps])
        wanted = [tensor for each in states[:-1] for tensor in _parts(each)]
        gradients = iter(torch.autograd.grad(loss.sum, wanted))
    model.train(was_training)
    norms = []
    for each in states[:-1]:
        squares = [next(gradients).double().square().sum(dim=(0, 1, 3)) for _ in _parts(each)]  # (B,) each
        norms.append(float(torch.stack(squares).sum(dim=0).sqrt().mean()))
    backwards = np.array(norms[::-1])
    return backwards / max(backwards[0], SMALLEST)


def untrained(model: Model, seed: int = 0) -> Model:
    """A new model of the same shape."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Model(model.config)


MEANING = (
    "Across: how many tokens before. How much the loss at a token of held-out text would change with what the model remembered "
    "some tokens earlier, relative to one token earlier. Where the line falls fast, nothing is learnt over that distance."
)


def figure(reaches: Mapping[str, Floats]) -> str:
    """One line per model."""
    lines = {
        name: [(float(distance), float(np.log10(max(norm, SMALLEST)))) for distance, norm in enumerate(norms, 1)]
        for name, norms in reaches.items()
    }
    return curves("Gradient of a token's loss by distance before it, as a power of ten", lines, over="tokens before it")


def _parts(state: RecurrentState) -> list[Tensor]:
    return [state.hidden] if state.cell is None else [state.hidden, state.cell]
