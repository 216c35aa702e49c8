"""The search index: what it finds is what comparing all vectors finds, or its recall says how much of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import bertworks
from bertworks.cli.main import main
from bertworks.errors import BertworksError, CheckpointError, UsageError
from bertworks.infer import search_build
from bertworks.infer.embed import normalize_rows
from bertworks.infer.search import (
    SearchIndex,
    measured_recall,
    nearest,
    new_graph,
    questions_at_once,
    recall,
    through_graph,
)
from bertworks.infer.search_build import SearchBuild, build_index
from tests.infer.foreign import Foreign

pytest.importorskip("usearch", reason="usearch is not installed: pip install 'bertworks[index]'")

TEXTS = [
    f"{who} {what} {where}."
    for who in ("The miller", "A goose", "Nobody", "The river")
    for what in ("runs past", "walks to", "never saw")
    for where in ("the old mill", "the market", "the sea")
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    Foreign(directory, "bert", "Model")
    return directory


def some_vectors(rows: int, width: int = 24, seed: int = 0) -> Any:
    return normalize_rows(np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32))


def graph_of(vectors: Any) -> Any:
    graph = new_graph(vectors.shape[1])
    graph.add(np.arange(len(vectors)), vectors)
    return graph


# -- the arithmetic ----------------------------------------------------------------------------------------------------


def test_by_hand() -> None:
    vectors = np.array([[1, 0], [0, 1], [0.6, 0.8], [-1, 0]], np.float32)
    rows, scores = nearest(vectors, np.array([[1, 0], [0, 1]], np.float32), 3)
    assert rows.tolist() == [[0, 2, 1], [1, 2, 0]]
    np.testing.assert_allclose(scores, [[1, 0.6, 0], [1, 0.8, 0]])
    assert recall(np.array([[0, 1], [2, 3]]), np.array([[1, 0], [3, 4]])) == 0.75


@given(
    vectors=arrays.arrays(np.float32, st.tuples(st.integers(1, 40), st.just(3)), elements=st.integers(-3, 3)),
    k=st.integers(1, 12),
)
def test_blocks_change_nothing(vectors: Any, k: int) -> None:
    k = min(k, len(vectors))
    questions = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bertworks.infer.search.ROWS_AT_ONCE", 7)
        rows, scores = nearest(vectors, questions, k)
    every = questions @ vectors.T
    np.testing.assert_array_equal(scores, -np.sort(-every, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(every, rows, 1), scores)
    assert all(len(set(row)) == k for row in rows.tolist())


def test_a_graph_finds_nearly_all_and_scores_are_exact() -> None:
    vectors = some_vectors(3000)
    graph = graph_of(vectors)
    questions = some_vectors(20, seed=1)
    rows, scores = through_graph(graph, vectors, questions, 10)
    np.testing.assert_allclose(scores, np.take_along_axis(questions @ vectors.T, rows, 1), atol=1e-6)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert measured_recall(graph, vectors, questions=100) > 0.9
    assert recall(rows, nearest(vectors, questions, 10)[0]) > 0.9


def test_recall_is_of_what_there_is() -> None:
    vectors = some_vectors(3000)
    half = new_graph(vectors.shape[1])
    half.add(np.arange(1500), vectors[:1500])  # the other half cannot be found
    assert 0.3 < measured_recall(half, vectors, questions=100) < 0.7
    few = some_vectors(4)
    assert measured_recall(graph_of(few), few) == 1.0
    rows, scores = through_graph(graph_of(few[:2]), few, few[:1], 4)  # a walk that meets fewer than are asked for
    assert sorted(rows[0].tolist()) == [-1, -1, 0, 1]
    assert np.isneginf(scores[0, 2:]).all()


# -- directories -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["exact", "usearch"])
def test_texts_find_themselves(index: str, model: Path, tmp_path: Path) -> None:
    built = build_index(TEXTS, tmp_path / "index", model=model, index=index)
    assert (built.facts.rows, built.facts.index) == (len(TEXTS), index)
    opened = SearchIndex(tmp_path / "index")
    assert opened.facts == built.facts
    for row in (0, 17, len(TEXTS) - 1):
        hits = opened.search(TEXTS[row], 3)
        assert (hits[0].row, hits[0].text) == (row, TEXTS[row])
        assert hits[0].score == pytest.approx(1, abs=1e-5)
    vectors = normalize_rows(bertworks.load(model).embed(TEXTS))
    several = opened.search(["A goose runs.", "The sea"], len(TEXTS) + 5, exact=True)
    assert [len(hits) for hits in several] == [len(TEXTS)] * 2
    wanted = normalize_rows(bertworks.load(model).embed(["A goose runs."])) @ vectors.T
    np.testing.assert_allclose([hit.score for hit in several[0]], -np.sort(-wanted[0]), atol=1e-5)


def test_many_texts_get_a_graph(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build_index(TEXTS, tmp_path / "few", model=model).facts.index == "exact"
    monkeypatch.setattr(search_build, "EXACT_BELOW", 10)
    assert build_index(iter(TEXTS), tmp_path / "many", model=model).facts.index == "usearch"
    monkeypatch.setattr(search_build, "has_usearch", lambda: False)
    assert build_index(TEXTS, tmp_path / "without", model=model).facts.index == "exact"
    with pytest.raises(UsageError, match="usearch is not installed"):
        build_index(TEXTS, tmp_path / "asked", model=model, index="usearch")


def test_another_model_is_noticed(model: Path, tmp_path: Path) -> None:
    build_index(TEXTS, tmp_path / "index", model=model)
    Foreign(tmp_path / "other", "distilbert", "Model")
    for other in (tmp_path / "other", bertworks.load(tmp_path / "other")):
        index = SearchIndex(tmp_path / "index", model=other)
        for _ in range(2):  # and not only the first time
            with pytest.raises(UsageError, match=r"the model \S*/other is not the one that \S*/index was built with"):
                index.search("The sea")
    assert index.agreement(bertworks.load(model)) == pytest.approx(1, abs=1e-5)


def test_the_first_text_alone_does_not_make_a_model_the_same(model: Path, tmp_path: Path) -> None:
    loaded = bertworks.load(model)
    with SearchBuild(tmp_path / "index", model=str(model), settings={}, restart=True, resumable=False) as build:
        build.append(TEXTS, np.concatenate([loaded.embed(TEXTS[:1]), some_vectors(len(TEXTS) - 1, 36)]))
        index = build.finish()
    with pytest.raises(UsageError, match="is not the one"):
        index.search("The sea")


def test_a_model_without_a_directory(model: Path, tmp_path: Path) -> None:
    loaded = bertworks.load(model)
    loaded.directory = None
    with pytest.raises(UsageError, match="in memory only"):
        build_index(TEXTS, tmp_path / "index", model=loaded)


@pytest.mark.parametrize("index", ["exact", "usearch"])
def test_questions_come_in_blocks(index: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build_index(TEXTS, tmp_path / "index", model=model, index=index)
    questions = some_vectors(11, 36)
    rows, scores = built.search_vectors(questions, 4)
    monkeypatch.setattr("bertworks.infer.search.questions_at_once", lambda k, width: 3)
    again = built.search_vectors(questions, 4)
    np.testing.assert_array_equal(again[0], rows)
    np.testing.assert_allclose(again[1], scores, atol=1e-6)
    assert questions_at_once(10, 384) == 512
    assert questions_at_once(10**6, 384) == 1


@pytest.mark.parametrize("name", ["vectors.npy", "texts.arrow", "graph.usearch"])
def test_damaged_files_say_so(name: str, indexes: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(indexes[0], tmp_path / "index")
    path = tmp_path / "index" / name
    whole = path.read_bytes()
    damages = [whole[: len(whole) // 2], whole[:20], b"", (indexes[1] / name).read_bytes(), None]
    for content in damages:
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        with pytest.raises(CheckpointError, match=rf"{name} .*; build the index again"):
            SearchIndex(tmp_path / "index")


def test_a_damaged_manifest(indexes: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(indexes[0], tmp_path / "index")
    path = tmp_path / "index" / "search.json"
    whole = json.loads(path.read_text())
    for name, value in (("rows", None), ("rows", 0), ("width", "36"), ("model", 5), ("index", "faiss"), ("version", 9)):
        path.write_text(json.dumps({**whole, name: value}))
        with pytest.raises(CheckpointError, match=name):
            SearchIndex(tmp_path / "index")


@pytest.fixture(scope="module")
def indexes(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two graphs: over all texts, and over one."""
    directory = tmp_path_factory.mktemp("indexes")
    build_index(TEXTS, directory / "all", model=model, index="usearch")
    one = build_index(TEXTS[:1], directory / "one", model=model, index="usearch")
    assert one.facts.recall == 1.0, "there is nothing that it could miss"
    return directory / "all", directory / "one"


def test_errors(model: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a search index"):
        SearchIndex(tmp_path)
    index = build_index(TEXTS, tmp_path / "index", model=model)
    with pytest.raises(UsageError, match="k is 0"):
        index.search("x", 0)
    with pytest.raises(UsageError, match=r"must be \(questions, 36\)"):
        index.search_vectors(np.zeros((2, 3), np.float32))
    with pytest.raises(BertworksError, match="no texts"):
        build_index([], tmp_path / "empty", model=model)
    (tmp_path / "index" / "texts.arrow").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="build the index again"):
        SearchIndex(tmp_path / "index")


# -- the command -------------------------------------------------------------------------------------------------------


def test_build_stop_continue_query(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, index = tmp_path / "texts.txt", tmp_path / "index"
    file.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    monkeypatch.setattr(
        "bertworks.data.readers.TextReader.chunks.__kwdefaults__", {"rows": 8, "characters": 10**6, "skip": 0}
    )
    appended = SearchBuild.append
    calls = []

    def stop(build: SearchBuild, texts: list[str], vectors: Any) -> None:
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(texts)
        appended(build, texts, vectors)

    command = ["search", "build", str(file), "-o", str(index), "--model", str(model), "--index", "usearch", "--json"]
    monkeypatch.setattr(SearchBuild, "append", stop)
    assert main(command) == 130
    assert main(["search", "query", str(index), "sea"]) == 2
    monkeypatch.setattr(SearchBuild, "append", appended)
    measured = search_build.measured_recall

    def stop_late(graph: Any, vectors: Any) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(search_build, "measured_recall", stop_late)  # when everything is embedded
    assert main(command) == 130
    said = capsys.readouterr()
    assert "continuing after the 16 texts" in said.err
    assert f"the {len(TEXTS)} finished rows are kept" in said.err
    monkeypatch.setattr(search_build, "measured_recall", measured)
    assert main(command) == 0
    said = capsys.readouterr()
    assert f"continuing after the {len(TEXTS)} texts" in said.err
    facts = json.loads(said.out.splitlines()[-1])
    assert (facts["rows"], facts["index"]) == (len(TEXTS), "usearch")
    assert facts["recall"] > 0.9
    whole = normalize_rows(bertworks.load(model).embed(TEXTS))
    np.testing.assert_allclose(np.load(index / "vectors.npy"), whole, atol=1e-5)
    assert sorted(path.name for path in index.iterdir()) == [
        "graph.usearch",
        "search.json",
        "texts.arrow",
        "vectors.npy",
    ]
    assert main(command) == 2
    assert "is a finished index; choose another name, or replace it with --overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    capsys.readouterr()
    assert main(["search", "query", str(index), TEXTS[5], "-k", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["query"], found["hits"][0]["row"], len(found["hits"])) == (TEXTS[5], 5, 2)
    assert main(["search", "query", str(index), TEXTS[7], "--exact"]) == 0
    assert TEXTS[7] in capsys.readouterr().out.splitlines()[0]


def test_a_directory_of_something_else_is_left_alone(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text("One.\n", encoding="utf-8")
    assert main(["search", "build", str(tmp_path / "texts.txt"), "-o", str(model)]) == 2
    assert "is not a search index" in capsys.readouterr().err
