"""Steps of a Ray Data pipeline: a dataset in, the same dataset with one column more out.

    import ray, bertworks.ray

    texts = ray.data.read_parquet("reviews/")
    bertworks.ray.embed(texts, text_column="review").write_parquet("vectors/")

A step is lazy, as all of Ray Data: nothing runs before the result is written or iterated over, and blocks of rows stream
through, so a dataset may be larger than the cluster's memory. Each worker loads the model once and keeps it. A worker
that is lost (its machine, its memory) is started again, and Ray gives the blocks that it had in hand to another: nothing
comes twice and nothing is missing.

What shares a batch does not change a result, so how the rows are split among workers does not either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertworks import hub
from bertworks.data.corpus.layout import file_sha256
from bertworks.errors import UsageError
from bertworks.ray.cluster import connect
from bertworks.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import pyarrow
    import ray.data

BATCH_ROWS = 512
"""How many rows a worker computes at once; they are sorted by length within, so a few hundred make full batches."""


def embed(
    dataset: ray.data.Dataset,
    *,
    model: str | Path = "minilm",
    text_column: str = "text",
    output_column: str = "vector",
    layers: str | int = "last",
    pooling: str | None = None,
    normalize: bool | None = None,
    precision: str | None = None,
    workers: int | None = None,
    threads: int = 1,
    device: str = "cpu",
    batch_rows: int = BATCH_ROWS,
) -> ray.data.Dataset:
    """Add a column of vectors (float32, of a fixed size); the options are those of `LoadedModel.embed`.

    workers  how many hold the model; default: as many as the cluster has room for
    threads  processor threads of each
    """
    settings = {
        "model": model_path(model),
        "text_column": text_column,
        "output_column": output_column,
        "layers": layers,
        "pooling": pooling,
        "normalize": normalize,
        "precision": precision,
        "threads": threads,
        "device": device,
    }
    return _mapped(dataset, EmbedWorker, settings, workers, threads, device, batch_rows)


def predict(
    dataset: ray.data.Dataset,
    *,
    model: str | Path,
    task: str | None = None,
    output_column: str = "prediction",
    precision: str | None = None,
    workers: int | None = None,
    threads: int = 1,
    device: str = "cpu",
    batch_rows: int = BATCH_ROWS,
) -> ray.data.Dataset:
    """Add a column of predictions, each as JSON: the object that a line of `bertworks predict` holds.

    The rows' columns are called as `bertworks.infer.rows` calls them: text; text and pair; text and options; words;
    question and context. Rename yours with `dataset.rename_columns`.
    """
    settings = {
        "model": model_path(model),
        "task": task,
        "output_column": output_column,
        "precision": precision,
        "threads": threads,
        "device": device,
    }
    return _mapped(dataset, PredictWorker, settings, workers, threads, device, batch_rows)


def tokenize(
    dataset: ray.data.Dataset,
    *,
    tokenizer: str | Path = "minilm",
    text_column: str = "text",
    output_column: str = "input_ids",
    special: bool = True,
    batch_rows: int = 8 * BATCH_ROWS,
) -> ray.data.Dataset:
    """Add a column of token ids (lists of int32), special tokens included or not.

    tokenizer  a directory, or the model to which it belongs
    """
    directory = Path(tokenizer)
    if not directory.is_dir():
        directory = hub.resolve(tokenizer)
    settings = {
        "tokenizer": str(directory.absolute()),
        "digest": "".join(file_sha256(path) for path in sorted(directory.glob("*token*"))),
        "text_column": text_column,
        "output_column": output_column,
        "special": special,
    }
    connect()
    # Tasks, not workers that stay: a tokenizer is there in a moment, and tasks make room for the other steps.
    step: Any = _tokenize
    return dataset.map_batches(
        step,
        fn_kwargs={"settings": settings},
        batch_format="pyarrow",
        batch_size=_checked_rows(batch_rows),
    )


def model_path(model: str | Path) -> str:
    """A model as every machine finds it; a name that means nothing is told here, before anything runs."""
    hub.resolve(model)
    directory = Path(model)
    return str(directory.absolute()) if directory.is_dir() else str(model)


def _mapped(
    dataset: ray.data.Dataset,
    worker: type,
    settings: Mapping[str, Any],
    workers: int | None,
    threads: int,
    device: str,
    batch_rows: int,
) -> ray.data.Dataset:
    connect()
    # A block is what one worker takes and what is done again where one is lost. Ray makes blocks of 128 MB, which are
    # hours of work for a model.
    blocks = dataset.repartition(target_num_rows_per_block=_checked_rows(batch_rows))
    return blocks.map_batches(
        worker,
        fn_constructor_kwargs={"settings": dict(settings)},
        batch_format="pyarrow",
        batch_size=batch_rows,
        **worker_options(workers, threads, device),
    )


def worker_options(workers: int | None, threads: int, device: str) -> dict[str, Any]:
    """How many workers `map_batches` may start, and what each takes of its machine."""
    import ray
    from ray.data import ActorPoolStrategy

    for name, value in (("workers", workers), ("threads", threads)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}; it must be at least 1")
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cores = [machine.get("CPU", 0.0) for machine in machines]
    # Ray would wait for a machine that is large enough, for ever and without a word.
    if 0 < max(cores, default=0.0) < threads:
        raise UsageError(f"threads is {threads}; the largest machine of the cluster has {max(cores):g} processors")
    if device.startswith("cuda") and not any(machine.get("GPU") for machine in machines):
        raise UsageError(f"device is {device!r}; no machine of the cluster has a GPU")
    smallest = max(1.0, min((number for number in cores if number), default=1.0))
    most = max(1, int(sum(cores) // threads))
    pool = ActorPoolStrategy(size=workers) if workers else ActorPoolStrategy(min_size=1, max_size=most)
    # Workers stay until the end. If they took all processors, the steps before and after them would wait for ever, so
    # on every machine one is left over.
    share = threads * (smallest - 1) / smallest
    options: dict[str, Any] = {"compute": pool, "num_cpus": share}
    return options | ({"num_gpus": 1} if device.startswith("cuda") else {})


def _checked_rows(batch_rows: int) -> int:
    if batch_rows < 1:
        raise UsageError(f"batch_rows is {batch_rows}; it must be at least 1")
    return batch_rows


# --- in the workers ---------------------------------------------------------------------------------------------------


def load_model(settings: Mapping[str, Any]) -> Any:
    """The model, in as many threads as the worker was given."""
    import torch

    import bertworks

    torch.set_num_threads(settings["threads"])
    options = {name: settings[name] for name in ("precision", "batch_tokens") if name in settings}
    return bertworks.load(settings["model"], device=settings["device"], **options)


class EmbedWorker:
    """Holds a model; called with a table, adds its texts' vectors."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.model = load_model(settings)

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        import pyarrow

        settings = self.settings
        vectors = self.model.embed(
            texts_of(table, settings["text_column"]),
            layers=settings["layers"],
            pooling=settings["pooling"],
            normalize=settings["normalize"],
        )  # (rows, width)
        flat = pyarrow.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
        return _with_column(
            table, settings["output_column"], pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        )


class PredictWorker:
    """Holds a fine-tuned model; called with a table, adds its rows' predictions."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from bertworks.infer.predict import Predictor

        self.settings = settings
        self.predictor = Predictor(load_model(settings), task=settings["task"])

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        import pyarrow

        predictions = self.predictor.predict(table.to_pylist())
        lines = [json.dumps(prediction.as_json(), ensure_ascii=False) for prediction in predictions]
        return _with_column(table, self.settings["output_column"], pyarrow.array(lines, pyarrow.string()))


def _tokenize(table: pyarrow.Table, settings: Mapping[str, Any]) -> pyarrow.Table:
    import pyarrow

    tokenizer = _tokenizer(settings["tokenizer"], settings["digest"])
    ids, lengths = tokenizer.ids(texts_of(table, settings["text_column"]), special=settings["special"])
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    lists = pyarrow.ListArray.from_arrays(pyarrow.array(bounds), pyarrow.array(ids.astype(np.int32)))
    return _with_column(table, settings["output_column"], lists)


@lru_cache(maxsize=1)
def _tokenizer(directory: str, digest: str) -> Tokenizer:
    """One per process. Processes outlive a job, and a later one may find another tokenizer there: hence the digest."""
    return Tokenizer.from_directory(directory)


def texts_of(table: pyarrow.Table, column: str) -> list[str]:
    """The texts of a column; an error that says which columns there are, or which row has no text."""
    if column not in table.column_names:
        raise UsageError(f"there is no column {column!r}; there are: {', '.join(table.column_names)}")
    texts: list[Any] = table.column(column).to_pylist()
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"the column {column!r} holds {'null' if text is None else repr(text)}, not a text")
    return texts


def _with_column(table: pyarrow.Table, name: str, values: pyarrow.Array) -> pyarrow.Table:
    """The table with a column at its end; one of that name that was there before is replaced."""
    if name in table.column_names:
        table = table.drop_columns([name])
    return table.append_column(name, values)
