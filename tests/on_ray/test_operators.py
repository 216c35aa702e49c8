"""Work on a local Ray cluster of two workers: what comes out is what one process says, even where a worker is killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import bertworks
from bertworks.cli.main import main
from bertworks.errors import BertworksError, DataError, UsageError
from bertworks.infer.predict import Predictor
from bertworks.text.tokenizer import Tokenizer
from tests.infer.foreign import Foreign

ray_data = pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install 'ray[data]'")

TEXTS = [
    f"{who} {what} {where}{end}"
    for who in ("The miller", "A goose", "Nobody", "The river", "Her daughter")
    for what in ("runs past", "walks to", "never saw")
    for where in ("the old mill", "the market", "the sea")
    for end in (".", ", and the geese walked home after seventeen miles" * 6 + ".")
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    Foreign(directory, "bert", "ForSequenceClassification", id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
    return directory


def write_parquet(texts: list[str], directory: Path, files: int) -> Path:
    directory.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(texts)), files)):
        table = pyarrow.table({"number": rows, "text": [texts[row] for row in rows]})
        pyarrow.parquet.write_table(table, directory / f"{number:03d}.parquet")
    return directory


def read_back(directory: Path) -> pyarrow.Table:
    return pyarrow.parquet.read_table(directory).sort_by("number")


def vectors_of(table: pyarrow.Table) -> Any:
    return np.stack(table.column("vector").to_numpy(zero_copy_only=False))


def test_what_workers_add(model: Path) -> None:
    """Without a cluster: each step's worker, called with a table."""
    import bertworks.ray.operators as operators

    texts = TEXTS[:6]
    table = pyarrow.table({"text": texts, "vector": [0] * len(texts)})
    settings = {"model": str(model), "threads": 1, "device": "cpu", "text_column": "text", "task": None}
    options = {"layers": "last", "pooling": "mean", "normalize": True}
    exact, int8 = bertworks.load(model), bertworks.load(model, precision="int8")
    found = operators.EmbedWorker(settings | options | {"output_column": "vector"})(table)
    assert found.column_names == ["text", "vector"], "a column of that name is replaced"
    np.testing.assert_allclose(vectors_of(found), exact.embed(texts, pooling="mean", normalize=True), atol=1e-6)
    for loaded in (exact, int8):
        asked = settings | {"output_column": "prediction", "precision": loaded.precision}
        lines = operators.PredictWorker(asked)(table.select(["text"])).column("prediction").to_pylist()
        given = [json.loads(line)["probabilities"]["yes"] for line in lines]
        wanted = [one.probabilities["yes"] for one in Predictor(loaded).predict(texts)]
        assert given == pytest.approx(wanted, abs=1e-6)
    with pytest.raises(UsageError, match="there is no column 'review'; there are: text, vector"):
        operators.texts_of(table, "review")


def test_a_step_on_the_cluster(cluster: None, model: Path) -> None:
    import bertworks.ray

    dataset = ray_data.from_items([{"number": number, "text": text} for number, text in enumerate(TEXTS[:20])])
    dataset = bertworks.ray.tokenize(dataset, tokenizer=model)
    dataset = bertworks.ray.predict(dataset, model=model, workers=1, batch_rows=7)
    rows = sorted(dataset.take_all(), key=lambda row: row["number"])
    assert [row["text"] for row in rows] == TEXTS[:20]
    tokenizer = Tokenizer.from_directory(model)
    assert [list(row["input_ids"]) for row in rows] == [tokenizer.encode(text).ids.tolist() for text in TEXTS[:20]]
    wanted = Predictor(model).predict(TEXTS[:20])
    assert [json.loads(row["prediction"])["label"] for row in rows] == [one.label for one in wanted]


@pytest.mark.slow
def test_parquet_in_and_out(cluster: None, model: Path, tmp_path: Path) -> None:
    """All three steps in one pipeline, on a cluster that is smaller than what they would like."""
    import bertworks.ray

    dataset = ray_data.read_parquet(str(write_parquet(TEXTS, tmp_path / "in", files=2)))
    dataset = bertworks.ray.tokenize(dataset, tokenizer=model)
    dataset = bertworks.ray.embed(dataset, model=model, pooling="mean", normalize=True, batch_rows=7)
    dataset = bertworks.ray.predict(dataset, model=model)
    dataset.write_parquet(str(tmp_path / "out"))
    table = read_back(tmp_path / "out")
    assert table.column("number").to_pylist() == list(range(len(TEXTS)))
    assert table.column("text").to_pylist() == TEXTS
    loaded = bertworks.load(model)
    np.testing.assert_allclose(vectors_of(table), loaded.embed(TEXTS, pooling="mean", normalize=True), atol=1e-6)
    tokenizer = Tokenizer.from_directory(model)
    assert table.column("input_ids").to_pylist() == [tokenizer.encode(text).ids.tolist() for text in TEXTS]
    wanted = Predictor(loaded).predict(TEXTS)
    for line, prediction in zip(table.column("prediction").to_pylist(), wanted, strict=True):
        given = json.loads(line)
        assert given["label"] == prediction.label
        assert given["probabilities"]["yes"] == pytest.approx(prediction.probabilities["yes"], abs=1e-6)


def test_a_file_is_embedded_as_by_one_process(
    cluster: None, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import bertworks.ray

    file = tmp_path / "texts.csv"
    file.write_text("text\n" + "".join(f'"{text}"\n' for text in TEXTS), encoding="utf-8")
    command = ["embed", str(file), "--model", str(model), "--threads", "1", "--quiet"]
    assert main([*command, "-o", str(tmp_path / "local.npy")]) == 0
    assert main([*command, "-o", str(tmp_path / "ray.npy"), "--engine", "ray", "--workers", "2"]) == 0
    assert (tmp_path / "ray.npy").read_bytes() == (tmp_path / "local.npy").read_bytes()
    chunks = list(bertworks.ray.embed_file(file, model=model, skip=10, chunk_rows=20, workers=2))
    assert [len(chunk.texts) for chunk in chunks] == [20, 20, 20, 20]
    assert [text for chunk in chunks for text in chunk.texts] == TEXTS[10:]
    given = np.concatenate([chunk.vectors for chunk in chunks])
    np.testing.assert_allclose(given, bertworks.load(model).embed(TEXTS[10:]), atol=1e-6)
    assert sum(chunk.windowed for chunk in chunks) == sum(len(text) > 100 for text in TEXTS[10:])
    capsys.readouterr()
    assert main([*command, "-o", str(tmp_path / "w.parquet"), "--engine", "ray", "--pooling", "words"]) == 2
    assert "one vector per text" in capsys.readouterr().err


def test_errors_are_ours(cluster: None, model: Path, tmp_path: Path) -> None:
    import bertworks.ray

    (tmp_path / "bad.txt").write_bytes(b"One.\n\xff\n")
    with pytest.raises(DataError, match=r"bad.txt:2: is not valid utf-8"):
        list(bertworks.ray.embed_file(tmp_path / "bad.txt", model=model))
    (tmp_path / "good.txt").write_text("One.\n")
    with pytest.raises(BertworksError, match="'lst'"):  # found out by a worker
        list(bertworks.ray.embed_file(tmp_path / "good.txt", model=model, layers="lst"))
    with pytest.raises(UsageError, match="standard input"):
        list(bertworks.ray.embed_file("-", model=model))
    with pytest.raises(UsageError, match="workers is 0"):
        bertworks.ray.embed(ray_data.from_items([{"text": "x"}]), model=model, workers=0)
    with pytest.raises(UsageError, match="threads is 5; the largest machine of the cluster has 2 processors"):
        bertworks.ray.embed(ray_data.from_items([{"text": "x"}]), model=model, threads=5)
    with pytest.raises(UsageError, match="no machine of the cluster has a GPU"):
        bertworks.ray.predict(ray_data.from_items([{"text": "x"}]), model=model, device="cuda")
    with pytest.raises(BertworksError, match=r"nowhere"):
        bertworks.ray.embed(ray_data.from_items([{"text": "x"}]), model=tmp_path / "nowhere")


# -- a worker is lost ----------------------------------------------------------------------------------------------------


def workers_named(name: str) -> list[int]:
    """The processes of this cluster that hold a model."""
    psutil = pytest.importorskip("psutil")
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if name in " ".join(process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def kill_one(name: str, *, of: int = 2, seconds: float = 120) -> int:
    """Kill a worker as soon as there are `of`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pids = workers_named(name)
        if len(pids) >= of:
            os.kill(pids[0], signal.SIGKILL)
            return pids[0]
        time.sleep(0.05)
    raise AssertionError(f"there were never {of} processes {name}")


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_of_a_file(cluster: None, model: Path, tmp_path: Path) -> None:
    import bertworks.ray

    texts = [f"{number}: {text}" for number in range(60) for text in TEXTS]
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    chunks = bertworks.ray.embed_file(file, model=model, chunk_rows=200, workers=2)
    found = [next(chunks)]
    killed = kill_one("ChunkWorker")
    found += chunks
    assert killed not in workers_named("ChunkWorker")
    assert len(found) == len(texts) // 200
    assert [text for chunk in found for text in chunk.texts] == texts
    wanted = bertworks.load(model).embed(texts)
    np.testing.assert_allclose(np.concatenate([chunk.vectors for chunk in found]), wanted, atol=1e-6)


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_of_a_dataset(cluster: None, model: Path, tmp_path: Path) -> None:
    import bertworks.ray

    texts = [f"{number}: {text}" for number in range(60) for text in TEXTS]
    dataset = ray_data.read_parquet(str(write_parquet(texts, tmp_path / "in", files=2)))
    dataset = bertworks.ray.embed(dataset, model=model, workers=2, batch_rows=100)
    job = threading.Thread(target=dataset.write_parquet, args=[str(tmp_path / "out")])
    job.start()
    until = time.monotonic() + 120
    while not list((tmp_path / "out").glob("*.parquet")) and time.monotonic() < until:
        time.sleep(0.05)  # until the work has begun
    begun = len(list((tmp_path / "out").glob("*.parquet")))
    kill_one("EmbedWorker")
    assert job.is_alive()
    job.join(200)
    assert 0 < begun < len(list((tmp_path / "out").glob("*.parquet"))) / 2  # it was killed in the middle
    table = read_back(tmp_path / "out")
    assert table.column("number").to_pylist() == list(range(len(texts)))
    np.testing.assert_allclose(vectors_of(table), bertworks.load(model).embed(texts), atol=1e-6)
