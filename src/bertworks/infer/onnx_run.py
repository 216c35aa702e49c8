"""Exported graphs, run: a session of ONNX Runtime fed with packed batches, as the packed stack is.

So whatever takes a `Model` to compute logits (the tasks, their figures) takes a graph instead, and the two can be compared
number by number.

Legend: B sequences, L tokens of the longest, T tokens of the packed batch, C labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertworks.errors import ModelError, UsageError
from bertworks.models.model import Model
from bertworks.nn.packed import Layout, Packed, Rows

Array = NDArray[Any]


def need_onnx() -> None:
    """A `UsageError` where what exporting needs is not installed."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise UsageError(f"ONNX is not installed ({error}); pip install 'bertworks[onnx]'") from error


class Session:
    """One graph in ONNX Runtime."""

    def __init__(self, graph: str | Path | bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        source = graph if isinstance(graph, bytes) else str(graph)
        try:
            self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the library has no common class of its own for them
            raise ModelError(f"ONNX Runtime cannot open the graph: {error}") from error
        self._inputs = {value.name for value in self._session.get_inputs()}

    def run(self, batch: Packed) -> list[Array]:
        """The graph's outputs for a packed batch, which is padded on the way: (B, …) each."""
        lengths = np.array(batch.layout.lengths, np.int64)
        kept = np.arange(lengths.max(initial=0)) < lengths[:, None]  # (B, L)

        def padded(flat: Array) -> Array:
            dense = np.zeros(kept.shape, np.int64)
            dense[kept] = flat
            return dense

        ids = batch.input_ids.numpy()
        segments = np.zeros_like(ids) if batch.segments is None else batch.segments.numpy()
        inputs = {
            "input_ids": padded(ids),
            "attention_mask": kept.astype(np.int64),
            "token_type_ids": padded(segments),
        }
        found: list[Array] = self._session.run(None, {name: inputs[name] for name in self._inputs})
        return found


def flat_tokens(dense: Array, layout: Layout) -> Array:
    """(B, L, …) -> (T, …): padding left out."""
    return np.concatenate([row[:length] for row, length in zip(dense, layout.lengths, strict=True)])


class GraphModel:
    """A model whose logits or vectors come out of a graph; the rest is that of the model which the graph was written from."""

    def __init__(self, model: Model, session: Session) -> None:
        self._model = model
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def logits(self, batch: Packed, task: str, *, rows: Rows | None = None) -> Tensor:
        """As `Model.logits`."""
        outputs = self._session.run(batch)
        found = outputs[0] if len(outputs) == 1 else np.stack(outputs, axis=-1)
        if self._model.head(task).config.reads == "tokens":
            found = flat_tokens(found, batch.layout)
        logits = torch.from_numpy(found)
        return logits if rows is None else rows.take(logits)

    def vectors(self, batch: Packed) -> Array:
        """(B, H), of a graph for embeddings."""
        return self._session.run(batch)[0]
