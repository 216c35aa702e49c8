"""What a trained model says of text that it has not seen: masks filled, texts continued, replacements found.

For the report of a run. Nothing here is random, so that reports can be compared.

Legend: T tokens in the packed batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from bertworks.text.tokenizer import Tokenizer

NUM_SAMPLES = 4
SAMPLE_TOKENS = 56
MASK_EVERY = 7
PROMPT_TOKENS, NEW_TOKENS = 16, 32

Mark = Literal["", "right", "wrong"]


@dataclass(frozen=True)
class Shown:
    """A stretch of text; marked where the model wrote or judged it, with what stood there as its `title`."""

    text: str
    mark: Mark = ""
    title: str = ""
    own: str = ""
    """What stands there in the text, where that is another word."""


Sample = list[Shown]


@torch.inference_mode()
def filled(model: Model, tokenizer: Tokenizer, documents: Iterable[NDArray[np.int64]]) -> list[Sample]:
    """The beginnings of some documents, every seventh token masked and filled with the most likely one."""
    samples = []
    for ids, masked, places in _masked(model, tokenizer, documents):
        batch = Packed.from_sequences([masked]).to(_device(model))
        logits = model.logits(batch, "mlm", rows=batch.layout.rows(torch.from_numpy(places)))  # (M, V)
        guesses = masked.copy()
        guesses[places] = logits.argmax(dim=-1).cpu().numpy()
        marks = {int(place): guesses[place] == ids[place] for place in places}
        samples.append(_shown(tokenizer, guesses, ids, marks))
    return samples


@torch.inference_mode()
def continued(model: Model, tokenizer: Tokenizer, documents: Iterable[NDArray[np.int64]]) -> list[Sample]:
    """The beginnings of some documents, and the most likely token after them again and again."""
    samples = []
    prefix = tokenizer.template.prefix
    for document in _first(documents):
        prompt = np.concatenate([prefix, document[:PROMPT_TOKENS]]).astype(np.int64)
        ids = prompt
        for _ in range(min(NEW_TOKENS, model.num_positions - len(prompt))):
            batch = Packed.from_sequences([ids]).to(_device(model))
            logits = model.logits(batch, "lm", rows=batch.layout.last())  # (1, V)
            ids = np.append(ids, int(logits.argmax()))
        start = tokenizer.decode(prompt.tolist())
        whole = tokenizer.decode(ids.tolist())
        samples.append([Shown(start), Shown(whole[len(start) :], "right", "continued by the model")])
    return samples


@torch.inference_mode()
def detected(
    generator: Model, discriminator: Model, tokenizer: Tokenizer, documents: Iterable[NDArray[np.int64]]
) -> list[Sample]:
    """Masks filled by the generator, and marked where the discriminator tells rightly what is not the text's own."""
    samples = []
    for ids, masked, places in _masked(discriminator, tokenizer, documents):
        batch = Packed.from_sequences([masked]).to(_device(generator))
        logits = generator.logits(batch, "mlm", rows=batch.layout.rows(torch.from_numpy(places)))
        guesses = masked.copy()
        guesses[places] = logits.argmax(dim=-1).cpu().numpy()
        scores: Tensor = discriminator.logits(Packed.from_sequences([guesses]).to(_device(discriminator)), "rtd")
        found = scores.reshape(-1).cpu().numpy() > 0  # (T,)
        shown = {int(place) for place in places} | {int(place) for place in np.flatnonzero(found)}
        marks = {place: bool(found[place] == (guesses[place] != ids[place])) for place in shown}
        samples.append(_shown(tokenizer, guesses, ids, marks))
    return samples


def _device(model: Model) -> torch.device:
    return model.body.embeddings.tokens.weight.device


def _first(documents: Iterable[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """The first documents that are long enough to say something; any, where none is."""
    kept: list[NDArray[np.int64]] = []
    short: list[NDArray[np.int64]] = []
    for document in documents:
        (kept if len(document) >= 2 * MASK_EVERY else short).append(np.asarray(document, np.int64))
        if len(kept) == NUM_SAMPLES:
            break
    return (kept + short)[:NUM_SAMPLES]


def _masked(
    model: Model, tokenizer: Tokenizer, documents: Iterable[NDArray[np.int64]]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """For each document its ids with special tokens, the same with masks, and the places of these."""
    mask, before = tokenizer.specials.require("mask"), len(tokenizer.template.prefix)
    room = min(SAMPLE_TOKENS, model.num_positions - tokenizer.num_special())
    rows = []
    for document in _first(documents):
        text = document[:room]
        ids = tokenizer.template.wrap(text).ids.astype(np.int64)
        places = np.arange(before + min(3, len(text) - 1), before + len(text), MASK_EVERY)
        masked = ids.copy()
        masked[places] = mask
        rows.append((ids, masked, places))
    return rows


def _shown(tokenizer: Tokenizer, ids: Sequence[int] | NDArray[np.int64], own: NDArray[np.int64], marks: dict) -> Sample:
    """The text of `ids`, token by token, with the tokens at `marks` marked right (True) or wrong."""
    sample: Sample = []
    text, plain = "", ""
    for place, token in enumerate(ids):
        # What one token adds to the text is what decoding says of all up to it: spaces are the decoder's business.
        whole = tokenizer.decode([int(number) for number in ids[: place + 1]])
        added, text = (whole[len(text) :], whole) if whole.startswith(text) else (tokenizer.token(int(token)), whole)
        if place not in marks:
            plain += added
            continue
        bare = added.lstrip(" ")
        plain += added[: len(added) - len(bare)]
        if plain:
            sample.append(Shown(plain))
            plain = ""
        true = tokenizer.token(int(own[place]))
        other = true if int(own[place]) != int(token) else ""
        mark: Mark = "right" if marks[place] else "wrong"
        sample.append(Shown(bare or tokenizer.token(int(token)), mark, f"in the text: {true}", other))
    if plain:
        sample.append(Shown(plain))
    return sample
