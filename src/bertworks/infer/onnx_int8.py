"""Graphs with 8-bit products, and the gate: what they lose on the user's own examples.

ONNX Runtime's dynamic quantisation stores each weight matrix with a scale per output and rounds activations as they come.
Weights are unsigned: processors without VNNI instructions add products of signed weights in 16 bits, which overflow
without a word. How the graph is written beforehand matters as much (`onnx_nodes`): on MiniLM and 512 sentences the worst
cosine to the vectors in full precision is 0.983, and 0.969 without.

The gate is that of `bertworks quantize`: both graphs are compared on labelled rows, and the task's own figure may fall by
some points; vectors may turn a little.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bertworks.data.labelled.examples import Example
from bertworks.infer.onnx_run import GraphModel, Session
from bertworks.infer.predict import Predictor
from bertworks.infer.quantize_gate import Loss, MeasuredRows
from bertworks.models.model import Model
from bertworks.objectives.base import Batch
from bertworks.tasks.similarity import Similarity
from bertworks.tasks.units import split_by

BATCH_TOKENS = 1024


def quantise(source: Path, destination: Path) -> None:
    """Write the graph at `source` with 8-bit products."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _without_advice():
        quantize_dynamic(
            source,
            destination,
            per_channel=True,
            weight_type=QuantType.QUInt8,
            op_types_to_quantize=["MatMul"],
            extra_options={"MatMulConstBOnly": True},  # products of two activations (attention) stay as they are
        )


def measured_loss(predictor: Predictor, full: Session, int8: Session, examples: Sequence[Example]) -> Loss:
    """What the graph in int8 loses against the full one; for vectors, the predictor's task is a `GraphSimilarity`."""
    model = predictor.loaded.model
    rows = MeasuredRows(predictor, examples, full=cast(Model, GraphModel(model, full)), batch_tokens=BATCH_TOKENS)
    return rows.loss(cast(Model, GraphModel(model, int8)))


class GraphSimilarity(Similarity):
    """The similarity of texts by the vectors that a graph gives, which are pooled already."""

    def outputs(self, model: Model, batch: Batch) -> list[NDArray[np.float32]]:
        """Vectors, (texts of the unit, H) each."""
        vectors = cast(GraphModel, model).vectors(batch.packed)[batch.tensors["places"].numpy()]
        return split_by(vectors, batch.tensors["counts"].numpy())


@contextmanager
def _without_advice() -> Iterator[None]:
    """The quantiser advises, through the root logger, a step that a graph written here does not need."""
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
