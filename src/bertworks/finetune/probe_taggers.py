"""Taggers on frozen word vectors: what a linear layer, or a BiLSTM, can read out of one layer or several.

    linear     vectors -> dropout -> linear layer: only what is there already, word by word
    bilstm     vectors -> dropout -> bidirectional LSTM -> linear layer: as in the feature-based approach of the BERT
               paper (Devlin et al. 2019, section 5.3), which has two layers of 768; smaller here by default

The vectors of a row are scaled as a whole, by one number, to a mean square of 1: a sum of twelve layers is larger than
one of them, and one learning rate must suit both. Trained by Adam with a learning rate that falls to 0; the weights of
the last step count, none are chosen by the development sentences.

Legend: W words of a batch, H hidden, F width of the input, C tags.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.data.pretraining.flat import ranges
from bertworks.finetune.probe_states import States
from bertworks.nn.mix import LayerMix
from bertworks.nn.packed import Layout
from bertworks.nn.recurrent import Recurrent

Kind = Literal["linear", "bilstm"]
Combine = Literal["one", "sum", "weighted", "concat"]

SAMPLE_WORDS = 20_000
"""The scale is measured on this many words."""
EVALUATION_SENTENCES = 64


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    """One kind of tagger and how it is trained."""

    kind: Kind
    hidden_size: int = 128
    """Of the LSTM, each direction."""
    num_layers: int = 2
    dropout_prob: float = 0.2
    epochs: int
    min_steps: int = 1000
    """Few sentences are seen more often, until there were so many steps."""
    batch_sentences: int = 32
    learning_rate: float


LINEAR = TaggerConfig(kind="linear", epochs=5, learning_rate=5e-3, dropout_prob=0.0)
BILSTM = TaggerConfig(kind="bilstm", epochs=3, learning_rate=2e-3)


@dataclass(frozen=True)
class Selection:
    """Which layers a row of the study reads, and how they become one vector."""

    layers: tuple[int, ...]
    combine: Combine

    def width(self, hidden_size: int) -> int:
        return hidden_size * (len(self.layers) if self.combine == "concat" else 1)

    def read(self, states: States, words: NDArray[np.int64]) -> Tensor:
        """The vectors of `words`: (W, F), or (layers, W, H) where their weights are learned."""
        found = [torch.from_numpy(states.vectors[layer, words]).float() for layer in self.layers]
        if self.combine == "concat":
            return torch.cat(found, dim=1)
        if self.combine == "weighted":
            return torch.stack(found)
        return torch.stack(found).sum(dim=0) if len(found) > 1 else found[0]

    def scale(self, states: States) -> float:
        """What the vectors are multiplied by."""
        total = int(states.starts[-1])
        words = np.linspace(0, max(total - 1, 0), min(total, SAMPLE_WORDS)).astype(np.int64)
        vectors = self.read(states, words)
        if self.combine == "weighted":
            vectors = vectors.mean(dim=0)
        return float(vectors.square().mean().clamp_min(1e-12) ** -0.5)


class Tagger(nn.Module):
    """Vectors of words to scores of tags."""

    def __init__(
        self, selection: Selection, config: TaggerConfig, *, hidden_size: int, num_tags: int, scale: float
    ) -> None:
        super().__init__()
        self.scale = scale
        self.mix = LayerMix(len(selection.layers)) if selection.combine == "weighted" else None
        self.dropout = nn.Dropout(config.dropout_prob)
        width = selection.width(hidden_size)
        self.recurrent: Recurrent | None = None
        if config.kind == "bilstm":
            self.recurrent = Recurrent(
                input_size=width,
                hidden_size=config.hidden_size,
                num_layers=config.num_layers,
                bidirectional=True,
                dropout_prob=config.dropout_prob,
            )
            width = self.recurrent.output_size
        self.output = nn.Linear(width, num_tags)

    def forward(self, vectors: Tensor, layout: Layout) -> Tensor:
        """(W, F) or (layers, W, H) -> (W, C)"""
        x = vectors if self.mix is None else self.mix(vectors)
        x = self.dropout(x * self.scale)  # (W, F)
        if self.recurrent is not None:
            x = self.dropout(self.recurrent(x, layout)[0])  # (W, 2 * LSTM's width)
        return self.output(x)


@dataclass(frozen=True)
class Trained:
    """What a tagger says of the development sentences."""

    tags: NDArray[np.int64]
    """(words of all development sentences,): the number of each word's tag."""
    weights: tuple[float, ...]
    """The layers' learned shares; () where none are learned."""


def train_tagger(
    selection: Selection,
    config: TaggerConfig,
    train: States,
    tags: NDArray[np.int64],
    dev: States,
    *,
    num_tags: int,
    seed: int,
) -> Generator[float, None, Trained]:
    """Train on `tags` (one number per training word), tag the development sentences; yields the share done."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        hidden_size = int(train.vectors.shape[2])
        tagger = Tagger(selection, config, hidden_size=hidden_size, num_tags=num_tags, scale=selection.scale(train))
        optimizer = torch.optim.Adam(tagger.parameters(), lr=config.learning_rate)
        steps_per_epoch = max(-(-train.num_sentences // config.batch_sentences), 1)
        total = max(steps_per_epoch * config.epochs, config.min_steps)
        for step in range(total):
            epoch, number = divmod(step, steps_per_epoch)
            if number == 0:
                order = np.random.default_rng([seed, epoch]).permutation(train.num_sentences)
            for group in optimizer.param_groups:
                group["lr"] = config.learning_rate * (1 - step / total)
            words, layout = _words(train, order[number * config.batch_sentences :][: config.batch_sentences])
            scores = tagger(selection.read(train, words), layout)
            loss = F.cross_entropy(scores, torch.from_numpy(tags[words]))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(tagger.parameters(), 5.0)
            optimizer.step()
            yield (step + 1) / total
    tagger.eval()
    found = np.zeros(int(dev.starts[-1]), np.int64)
    with torch.inference_mode():
        for first in range(0, dev.num_sentences, EVALUATION_SENTENCES):
            words, layout = _words(dev, np.arange(first, min(first + EVALUATION_SENTENCES, dev.num_sentences)))
            found[words] = tagger(selection.read(dev, words), layout).argmax(dim=1).numpy()
    weights = () if tagger.mix is None else tuple(tagger.mix.weights.tolist())
    return Trained(found, weights)


def _words(states: States, sentences: NDArray[np.int64]) -> tuple[NDArray[np.int64], Layout]:
    """The numbers of the sentences' words, and where each sentence lies among them."""
    lengths = states.lengths[sentences]
    return ranges(states.starts[sentences], lengths), Layout(lengths.tolist())
