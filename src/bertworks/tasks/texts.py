"""What the tasks about whole texts, or pairs of texts, share (`classification`, `regression`).

A text that is longer than the window is cut in training (of a pair, the longer text first) and read whole in
prediction: in windows, whose outputs are averaged. Of a pair, the longer text runs through the windows and the other
stands in each.

Legend: N examples, U units, B sequences of a batch (one per unit), C outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertworks.data.labelled.examples import Example, TextExample
from bertworks.errors import DataError
from bertworks.models.model import Model
from bertworks.nn.packed import Packed
from bertworks.objectives.base import Batch
from bertworks.tasks.base import Chosen, Units
from bertworks.tasks.units import (
    Framed,
    Runs,
    cut_pairs,
    cut_texts,
    frame_pairs,
    frame_texts,
    of_examples,
    pack_units,
    room_for,
    units_of,
)
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.windows import windows

Ints = NDArray[np.int64]


def encode_texts(
    examples: Sequence[TextExample],
    tokenizer: Tokenizer,
    *,
    window: int,
    whole: bool,
    targets: NDArray[Any] | None = None,
) -> Units:
    """One unit per example or, where `whole` is True and an example is longer than the window, several.

    targets: (N, …), one per example; goes into the units' arrays under that name
    """
    first = text_runs(tokenizer, [example.text for example in examples])
    if has_pairs(examples):
        second = text_runs(tokenizer, [example.pair or "" for example in examples])
        sequences, owners, num_cut = _pairs(first, second, tokenizer, window, whole)
    else:
        sequences, owners, num_cut = _singles(first, tokenizer, window, whole)
    arrays = {} if targets is None else {"targets": targets[owners]}
    return units_of(sequences, owners, arrays=arrays, num_cut=num_cut)


def text_runs(tokenizer: Tokenizer, texts: Sequence[str]) -> Runs:
    """The texts' ids, without special tokens."""
    return Runs(*tokenizer.ids(texts))


def has_pairs(examples: Sequence[TextExample]) -> bool:
    """Whether each example is a pair; an error where only some are."""
    if not examples or all(example.pair is None for example in examples):
        return False
    for example in examples:
        if example.pair is None:
            raise data_error(example, "this example has no second text, but others have one")
    return True


def _singles(texts: Runs, tokenizer: Tokenizer, window: int, whole: bool) -> tuple[Framed, Ints, int]:
    """Sequences, their owners, and how many texts were cut."""
    room = room_for(tokenizer.template, window, pair=False)
    longer = int((texts.lengths > room).sum())
    if not whole or not longer:
        return frame_texts(tokenizer.template, cut_texts(texts, room)), np.arange(len(texts.lengths)), longer
    owners, starts, lengths = _windows(texts.lengths, np.full(len(texts.lengths), room))
    return frame_texts(tokenizer.template, texts.take(texts.starts[owners] + starts, lengths)), owners, 0


def _pairs(first: Runs, second: Runs, tokenizer: Tokenizer, window: int, whole: bool) -> tuple[Framed, Ints, int]:
    room = room_for(tokenizer.template, window, pair=True, least=2)
    total = first.lengths + second.lengths
    longer = int((total > room).sum())
    if not whole or not longer:
        return frame_pairs(tokenizer.template, *cut_pairs(first, second, room)), np.arange(len(total)), longer
    # The shorter text stands in every window, at most half of it; the longer one runs through the rest.
    first_runs = first.lengths > second.lengths
    shorter = np.minimum(first.lengths, second.lengths)
    kept = np.minimum(shorter, np.where(total <= room, room, room // 2))
    num_cut = int((kept < shorter).sum())
    owners, starts, lengths = _windows(np.maximum(first.lengths, second.lengths), room - kept)
    runs, kept = first_runs[owners], kept[owners]

    def part(texts: Runs, running: NDArray[np.bool_]) -> Runs:
        return texts.take(texts.starts[owners] + np.where(running, starts, 0), np.where(running, lengths, kept))

    return frame_pairs(tokenizer.template, part(first, runs), part(second, ~runs)), owners, num_cut


def _windows(lengths: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """Windows of at most sizes[i] tokens over each of N texts: owners, starts within the text, lengths; (windows,) each."""
    found = [
        (owner, window.start, len(window))
        for owner, (length, size) in enumerate(zip(lengths.tolist(), sizes.tolist(), strict=True))
        for window in windows(length, size, overlap=0)
    ]
    owners, starts, sizes_found = np.array(found, np.int64).reshape(-1, 3).T
    return owners, starts, sizes_found


def prepare_texts(rows: Chosen, loss: str, packed: Packed | None = None) -> Batch:
    """The chosen units, packed as usual where nothing else is given, with their targets where they have any."""
    targets = rows.units.arrays.get("targets")
    return Batch(
        packed=pack_units(rows) if packed is None else packed,
        counts={loss: 0 if targets is None else len(rows.numbers)},
        tensors={} if targets is None else {"targets": torch.from_numpy(targets[rows.numbers])},
    )


def logits_of(model: Model, batch: Batch, task: str) -> list[NDArray[np.float32]]:
    """(C,) per unit."""
    return list(model.logits(batch.packed, task).float().cpu().numpy())


def averaged(units: Units, outputs: Sequence[NDArray[np.float32]], num_examples: int) -> NDArray[np.float64]:
    """(N, C): the mean over each example's windows."""
    flat = np.array(outputs, np.float64)  # (U, C)
    if len(flat) == num_examples:
        return flat
    return np.array([flat[own.start : own.stop].mean(axis=0) for own in of_examples(units, num_examples)])


def data_error(example: Example, message: str) -> DataError:
    """An error that names the example's place."""
    return DataError(message, path=example.place.path, line=example.place.line)
