"""A model out of PyTorch: one graph that ONNX Runtime runs, its tokenizer, and a page that says how to use them.

    DIR/model.onnx            the graph (ids in; an embedding, or the logits of one head, out)
    DIR/tokenizer.json …      the tokenizer, as in every model directory
    DIR/export.json           what the graph is for: task, labels, window, what was settled on development examples
    DIR/README.md             a program of a few lines that uses all of it

A graph is compared with PyTorch before it is handed out, on a batch with padding; in int8, how far it is off is told. It
sees one window: what Bertworks does with longer texts is not part of it.

Legend: B sequences, T tokens of the packed batch.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from bertworks.atomic import write_text
from bertworks.data.labelled.examples import Example
from bertworks.data.labelled.options import ReadOptions
from bertworks.data.labelled.read import read
from bertworks.errors import ModelError, UsageError, choice
from bertworks.hub.files import write_json, writing
from bertworks.hub.sentence import POOLINGS, Pooling
from bertworks.infer.embed import normalize_rows
from bertworks.infer.export_readme import readme
from bertworks.infer.loaded import LoadedModel, load
from bertworks.infer.onnx_graph import INPUTS, GraphKind, make_graph, takes_segments
from bertworks.infer.onnx_int8 import GraphSimilarity, measured_loss, quantise
from bertworks.infer.onnx_run import Session, flat_tokens, need_onnx
from bertworks.infer.predict import Predictor
from bertworks.infer.quantize_gate import MAX_DROP, MIN_COSINE, Loss, PrecisionError
from bertworks.models.model import Model
from bertworks.nn.packed import Packed, max_per_sequence, mean_per_sequence
from bertworks.tasks.base import Decision, Task
from bertworks.tasks.regression import Regression

TASKS = ("embed", "classify", "pair", "regress", "choice", "tag", "qa", "fill")
HEADS = {"pair": "classify", "fill": "mlm"}
"""The model's name of the head, where it differs from the task's."""
TOLERANCE = 1e-4
"""Of outputs around 1. Scores of a vocabulary reach 40, where single precision itself is no better than this."""
GRAPH = "model.onnx"
SINGLE_FILE_BYTES = 2**31 - 2**24
"""A protobuf message cannot be larger than 2 GiB; the weights of a larger model are in a file beside the graph."""
CHECKED_LENGTHS = (1, 5, 12, 12, 3, 33, 150)
"""The longest is longer than what ModernBERT's local layers see, which is 64 tokens each way."""


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What was written."""

    directory: Path
    task: str
    precision: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    window: int
    bytes: int
    """Of the graph."""
    difference: float
    """The largest one between this graph and PyTorch, over all outputs of a batch of random tokens with padding."""
    loss: Loss | None = None
    """What int8 costs, where it was measured."""


def export_onnx(
    model: str | Path | LoadedModel,
    directory: str | Path,
    *,
    task: str | None = None,
    pooling: Pooling | None = None,
    normalize: bool | None = None,
    int8: bool = False,
    data: str | Path | None = None,
    reading: ReadOptions | None = None,
    max_drop: float = MAX_DROP,
    min_cosine: float = MIN_COSINE,
) -> ExportReport:
    """Write a model as a graph of ONNX.

    task       embed, fill, or what the model was fine-tuned for; default: what it was made for
    pooling    embed: mean, cls or max; default: the model's own, else mean
    normalize  embed: scale to length 1 within the graph; default: what the model was made for
    int8       products in 8 bits
    data       int8: labelled rows on which the loss is measured; past `max_drop` points of the task's figure (embed: a
               cosine below `min_cosine`) nothing is written
    """
    need_onnx()
    loaded = model if isinstance(model, LoadedModel) else load(model, precision="fp32")
    predictor, name = _purpose(loaded, task)
    if data is not None and not int8:
        raise UsageError("data is there to measure what int8 costs; ask for int8, or leave it out")
    if data is not None and name == "fill":
        raise UsageError("what int8 costs cannot be measured for fill: it has no figure; leave the data out")
    kind = _kind(loaded, name, pooling, normalize)
    output = Path(directory)
    window = min(loaded.window or loaded.model.num_positions, loaded.model.num_positions)
    if predictor is not None:
        window = predictor.window
    with _folder_in(output) as made:
        _save(make_graph(loaded.model, kind), made / GRAPH)
        full = Session(made / GRAPH)
        difference = _difference(loaded.model, kind, full, TOLERANCE)
        loss = None
        if int8:
            _save(make_graph(loaded.model, kind, for_int8=True), made / "prepared.onnx")
            quantise(made / "prepared.onnx", made / "int8.onnx")
            quick = Session(made / "int8.onnx")
            difference = _difference(loaded.model, kind, quick, math.inf)
            if data is not None:
                judge = predictor or Predictor(
                    loaded, task=GraphSimilarity(kind="scored", pooling=kind.pooling), window=window
                )
                loss = measured_loss(judge, full, quick, _examples(judge, data, reading or ReadOptions()))
                if (problem := loss.problem(max_drop, min_cosine)) is not None:
                    raise PrecisionError(f"{problem}; allow more, or export without --int8")
            for path in (*made.glob("prepared.onnx*"), *made.glob(f"{GRAPH}*")):
                path.unlink()
            (made / "int8.onnx").rename(made / GRAPH)
        report = ExportReport(
            directory=output,
            task=name,
            precision="int8" if int8 else "fp32",
            inputs=INPUTS if takes_segments(loaded.model) else INPUTS[:2],
            outputs=kind.outputs,
            window=window,
            bytes=sum(path.stat().st_size for path in made.iterdir()),
            difference=difference,
            loss=loss,
        )
        about = _about(report, kind, loaded, predictor)
        with writing(output):
            loaded.tokenizer.save(output, model_max_length=window)
            write_json(output / "export.json", about)
            write_text(output / "README.md", readme(about))
            for path in made.iterdir():
                shutil.move(path, output / path.name)
    return report


@contextmanager
def _folder_in(output: Path) -> Iterator[Path]:
    """A folder to write in, within the directory that is to be; after an error nothing is left that was not there."""
    is_new = not output.exists()
    try:
        with writing(output):
            output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output, prefix=".export-") as folder:
            yield Path(folder)
    except BaseException:
        if is_new:
            with suppress(OSError):
                output.rmdir()  # refused where something is in it
        raise


def _purpose(loaded: LoadedModel, task: str | None) -> tuple[Predictor | None, str]:
    """What the graph is for, and the predictor of a fine-tuned model."""
    heads = loaded.model.config.heads
    if task is not None:
        choice(task, TASKS, "task")
    if task in (None, "embed") and loaded.settings is not None:
        return None, "embed"
    if task == "embed" or (task is None and not heads):
        return None, "embed"
    if task == "fill" or (task is None and all(head.task in ("mlm", "nsp", "sop", "rtd") for head in heads)):
        loaded.model.head("mlm")  # an error that says which heads there are
        return None, "fill"
    predictor = Predictor(loaded, task=task)
    return predictor, predictor.task.name


def _kind(loaded: LoadedModel, task: str, pooling: str | None, normalize: bool | None) -> GraphKind:
    if task != "embed":
        if pooling is not None or normalize is not None:
            raise UsageError(f"pooling and normalize are for embeddings; this graph is for {task!r}")
        return GraphKind(head=HEADS.get(task, task))
    settings = loaded.settings
    own = settings.pooling if settings is not None else "mean"
    pooling = choice(pooling or own, POOLINGS, "pooling")
    if normalize is None:
        normalize = settings is not None and settings.normalize and pooling == settings.pooling
    return GraphKind(pooling=cast(Pooling, pooling), normalize=normalize)


def _save(graph: Any, path: Path) -> None:
    import onnx

    large = graph.ByteSize() > SINGLE_FILE_BYTES
    onnx.save(graph, path, save_as_external_data=large, location=f"{path.name}.data" if large else None)


def _difference(model: Model, kind: GraphKind, session: Session, tolerance: float) -> float:
    """The largest difference between the graph and the packed stack on one batch of different lengths."""
    generator = np.random.default_rng(0)
    config = model.config.transformer
    lengths = [min(length, model.num_positions) for length in CHECKED_LENGTHS]
    ids = [generator.integers(config.embeddings.vocab_size, size=length) for length in lengths]
    segments = None
    if takes_segments(model):
        segments = [generator.integers(config.embeddings.type_vocab_size, size=length) for length in lengths]
    batch = Packed.from_sequences(ids, segments)
    wanted = packed_outputs(model, kind, batch)
    given = session.run(batch)
    if kind.head is not None and model.head(kind.head).config.reads == "tokens":
        given = [flat_tokens(output, batch.layout) for output in given]
    difference = max(float(np.abs(one - other).max()) for one, other in zip(given, wanted, strict=True))
    if not difference <= tolerance * max(1.0, *(float(np.abs(output).max()) for output in wanted)):  # nor NaN
        raise ModelError(
            f"the graph differs from the model by {difference:.1e}, more than {tolerance:.0e}; use the model"
        )
    return difference


def packed_outputs(model: Model, kind: GraphKind, batch: Packed) -> list[np.ndarray]:
    """What the packed stack says, in the order of the graph's outputs; a row per token for heads that read tokens."""
    with torch.inference_mode():
        device = model.body.embeddings.tokens.weight.device
        batch = batch.to(device)
        if kind.head is not None:
            logits = model.logits(batch, kind.head).float().cpu().numpy()
            return [logits[:, 0], logits[:, 1]] if kind.head == "qa" else [logits]
        if kind.pooling == "cls":
            pooled = model.body(batch, rows=batch.layout.first()).last
        else:
            reduce = mean_per_sequence if kind.pooling == "mean" else max_per_sequence
            pooled = reduce(model.body(batch).last, batch.layout)
        vectors = pooled.float().cpu().numpy()
    return [normalize_rows(vectors) if kind.normalize else vectors]


def _examples(predictor: Predictor, data: str | Path, reading: ReadOptions) -> Sequence[Example]:
    options = replace(reading, remembered=predictor.columns, multi_label=reading.multi_label or predictor.multi_label)
    return read(data, predictor.task.name, options).examples


def _about(report: ExportReport, kind: GraphKind, loaded: LoadedModel, predictor: Predictor | None) -> dict[str, Any]:
    """The content of `export.json`."""
    tokenizer = loaded.tokenizer
    pad_id = tokenizer.pad_id or 0  # GPT has none; what stands in the padding does not matter
    about: dict[str, Any] = {
        "version": 1,
        "task": report.task,
        "graph": GRAPH,
        "precision": report.precision,
        "inputs": list(report.inputs),
        "outputs": list(report.outputs),
        "window": report.window,
        "pad_id": pad_id,
        "pad_token": tokenizer.token(pad_id),
        "difference": report.difference,
    }
    if kind.head is None:
        about |= {"pooling": kind.pooling, "normalize": kind.normalize, "width": loaded.model.hidden_size}
    if report.task == "fill":
        about["mask_token"] = tokenizer.specials.mask
    if predictor is not None:
        about |= _task_settings(predictor.task, predictor.decision)
        about["labels"] = list(predictor.labels)
        about["multi_label"] = predictor.multi_label
    if report.loss is not None:
        about["loss"] = report.loss.as_json()
    return about


def _task_settings(task: Task[Any, Any], decision: Decision) -> Mapping[str, Any]:
    counts = isinstance(task, Regression) and task.distribution == "poisson"
    return {"decision": dict(decision)} | ({"distribution": "poisson"} if counts else {})
