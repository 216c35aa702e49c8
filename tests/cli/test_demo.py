"""`bertworks demo`: its texts, what it finds, what it writes, and its page."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from bertworks.cli import demo as command
from bertworks.cli import demo_steps as steps
from bertworks.cli.demo_finetune import Answer, FineTuned
from bertworks.cli.demo_page import page
from bertworks.cli.main import main
from bertworks.data.labelled.options import ReadOptions
from bertworks.data.labelled.read import read

FILES = {
    "messages-model", "demo.html", "searches.json", "predictions.jsonl", "messages.npy", "library.parquet",
    "messages.csv", "library.txt", "long.txt",
}  # fmt: skip


# The texts.


def test_messages_are_many_different_and_evenly_labelled() -> None:
    texts, labels = steps.read_messages()
    assert len(texts) == len(set(texts)) >= 150
    assert all(text == text.strip() and text for text in texts)
    counts = Counter(labels)
    assert len(counts) == 6
    assert min(counts.values()) >= 20
    assert any(not text.isascii() for text in texts)


def test_the_library_has_one_note_per_line() -> None:
    notes = steps.read_sample("library.txt").splitlines()
    assert len(notes) == len(set(notes)) >= 60
    assert all(5 <= len(note.split()) <= 30 for note in notes)


def test_the_long_text_is_long() -> None:
    assert len(steps.read_sample("long.txt").split()) >= 600


# Two runs with the real model: one for people, one for machines.


@dataclass(frozen=True)
class Run:
    directory: Path
    said: str
    summary: dict[str, Any]


def run(*arguments: str) -> tuple[int, str, str]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(["demo", *arguments])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def finished(minilm_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    directory = tmp_path_factory.mktemp("demo") / "new" / "folder"
    code, said, _ = run("--output", str(directory))
    assert code == 0
    first = {name: (directory / name).read_bytes() for name in ("predictions.jsonl", "searches.json")}
    code, summary, _ = run("--output", str(directory), "--json")  # into the same folder
    assert code == 0
    assert first == {name: (directory / name).read_bytes() for name in first}
    return Run(directory, said, json.loads(summary))


def test_all_files_are_there_and_named(finished: Run) -> None:
    assert {path.name for path in finished.directory.iterdir()} == FILES
    assert {Path(file).name for file in finished.summary["files"]} == FILES | {"report.html"}
    assert all(str(finished.directory / name) in finished.said for name in FILES)


def test_it_begins_with_the_fine_tuned_model(finished: Run) -> None:
    report = finished.directory / "messages-model" / "report.html"
    assert finished.said.startswith("1/8  Fine-tune the model 'minilm' to sort 154 messages")
    assert f"report: {report}" in finished.said.split("2/8")[0]
    found = finished.summary["fine_tuned"]
    assert found["report"] == str(report)
    assert found["accuracy"] > max(found["tfidf_accuracy"], found["majority_accuracy"]) + 0.1
    assert [answer["label"] for answer in found["answers"]] == ["delivery", "technical", "praise"]
    assert "Label by label" in report.read_text(encoding="utf-8")
    assert found["num_train"] + found["num_dev"] == 154


def test_the_files_of_every_task(tmp_path: Path) -> None:
    code, said, _ = run("--files-only", "-o", str(tmp_path / "samples"))
    assert code == 0
    written = {path.name for path in (tmp_path / "samples").iterdir()}
    assert {line.split()[0] for line in said.splitlines() if line} == {str(tmp_path / "samples" / n) for n in written}
    for name, task, labels in [
        ("messages.csv", "classify", False),
        ("topics.jsonl", "classify", True),
        ("same.tsv", "pair", False),
        ("stars.csv", "regress", False),
        ("endings.csv", "choice", False),
        ("names.conll", "tag", False),
        ("questions.json", "qa", False),
        ("search.csv", "similarity", False),
        ("library.txt", "similarity", False),
    ]:
        found = read(tmp_path / "samples" / name, task, ReadOptions(multi_label=labels))  # type: ignore[arg-type]
        assert len(found.examples) >= 40
        assert found.skipped == 0
    code, summary, _ = run("--files-only", "-o", str(tmp_path / "samples"), "--json")
    assert {Path(file).name for file in json.loads(summary)["files"]} == written


def test_a_page_is_shown_only_to_somebody_with_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("DISPLAY", ":0")
    command._open(Path("report.html"))
    assert shown == []  # the output goes to a file
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    command._open(Path("report.html"))
    assert shown == [Path("report.html").resolve().as_uri()]
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    command._open(Path("report.html"))
    assert len(shown) == 1


def test_vectors_belong_to_the_texts(finished: Run) -> None:
    vectors = np.load(finished.directory / "messages.npy", allow_pickle=False)
    texts, _ = steps.read_messages()
    assert vectors.shape == (len(texts), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    table = pq.read_table(finished.directory / "library.parquet")
    assert table["text"].to_pylist() == steps.read_sample("library.txt").splitlines()
    assert len(table["vector"][0]) == 384


def test_searches_find_by_meaning(finished: Run) -> None:
    found = json.loads((finished.directory / "searches.json").read_text(encoding="utf-8"))
    assert found == finished.summary["searches"]
    best = [search["hits"][0]["text"] for search in found]
    assert [word in note for word, note in zip(("Onions", "neural network", "saxophone"), best, strict=True)] == [
        True
    ] * 3
    for search in found:
        scores = [hit["score"] for hit in search["hits"]]
        assert scores == sorted(scores, reverse=True)
        assert search["query"] in finished.said


def test_tokens_point_into_the_text(finished: Run) -> None:
    rows = finished.summary["tokens"]
    assert all(steps.SENTENCE[row["start"] : row["end"]] == row["original"] for row in rows)
    assert {"token": "zoe", "start": 0, "end": 3, "original": "Zoë"} in rows
    assert [row["original"] for row in rows if row["token"] == "[UNK]"] == ["🍮"]


def test_frozen_vectors_beat_the_baselines(finished: Run) -> None:
    found = finished.summary["classification"]
    lines = (finished.directory / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == found["num_texts"]
    assert found["accuracy"] == pytest.approx(np.mean([row["label"] == row["predicted"] for row in rows]))
    assert 0.7 < found["accuracy"] < 1
    assert found["accuracy"] > found["tfidf_accuracy"] + 0.2 > found["majority_accuracy"] + 0.2
    first, second = found["mixed_up"]
    pairs = [{row["label"], row["predicted"]} for row in rows]
    assert pairs.count({first, second}) == found["mixed_up_count"]


def test_layers_are_compared(finished: Run) -> None:
    rows = finished.summary["layers"]
    assert [row["width"] for row in rows] == [384, 384, 384, 4 * 384]
    accuracy = {row["layers"]: row["accuracy"] for row in rows}
    assert accuracy["6 (last)"] > accuracy["first (embeddings)"]


def test_the_long_text_is_read_whole(finished: Run) -> None:
    found = finished.summary["long_text"]
    assert found["num_windows"] == -(-found["num_tokens"] // 254)  # 256 places, two of them special
    assert found["score_whole"] > found["score_first_window"]
    assert found["share_in_first"] == pytest.approx(1 / found["num_windows"], abs=0.05)


def test_the_model_is_described(finished: Run) -> None:
    facts = finished.summary["model"]
    assert (facts["family"], facts["num_layers"], facts["hidden_size"], facts["window"]) == ("bert", 6, 384, 256)
    assert facts["texts_per_second"] > 0
    assert "22.7 million parameters" in finished.said


def test_plain_output_is_plain(finished: Run) -> None:
    assert "\x1b" not in finished.said
    assert not [line for line in finished.said.splitlines() if line != line.rstrip()]


def test_a_file_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    place = tmp_path / "taken"
    place.write_text("")
    code, said, error = run("--output", str(place))
    assert (code, said) == (2, "")
    assert error.count("\n") == 1
    assert "it is a file" in error


# The page.


class Reader(HTMLParser):
    """Notes what a browser would do with the page: open tags and everything that it would fetch."""

    VOID = ("meta", "br", "img", "link", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag == "a":
            self.links += [value or "" for name, value in attrs if name == "href"]
        else:
            self.fetched += [f"{name}={value}" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone(finished: Run) -> None:
    text = (finished.directory / "demo.html").read_text(encoding="utf-8")
    seen = Reader(text)
    assert seen.open == []
    assert seen.fetched == []
    assert [(finished.directory / link).is_file() for link in seen.links] == [True]
    assert seen.tags["script"] == seen.tags["link"] == 0
    assert "url(" not in text
    assert "@import" not in text
    assert seen.tags["circle"] == len(steps.read_messages()[0])
    assert "prefers-color-scheme: dark" in text


def test_the_page_escapes_texts() -> None:
    bad = '<script>alert("1")</script>'
    rows = [steps.Prediction(bad, bad, "b", 0.5), steps.Prediction("x", "b", "b", 0.9)]
    results = steps.Results(
        fine_tuned=FineTuned(bad, bad, bad, 3, 1, 0.9, 0.5, 0.2, 1.0, [Answer(bad, bad, 0.5)]),
        model=steps.ModelFacts(bad, "bert", 10, 2, 3, None, 4.0),
        searches=[steps.Search(bad, [steps.Hit(bad, 0.5)])],
        sentence=bad,
        tokens=[steps.TokenRow(bad, 0, 1, bad)],
        classes=steps.Classes(2, [bad, "b"], 0.5, 0.1, 0.5, 0.5, (bad, "b"), 1, rows),
        layers=[steps.LayerRow(bad, 3, 0.5)],
        long_text=steps.LongText(1, 1, 2, 1.0, bad, 0.1, -0.1),
        points=np.zeros((2, 2)),
    )
    seen = Reader(page(results))
    assert seen.tags["script"] == 0
    assert seen.open == []


def test_map_points_are_principal_components() -> None:
    """Points on a line keep their distances along it; the second direction is empty."""
    vectors = np.outer([0.0, 1.0, 3.0], [3.0, 0.0, 4.0])  # steps of length 5
    points = steps.map_points(vectors)
    np.testing.assert_allclose(np.abs(np.diff(points[:, 0])), [5, 10], atol=1e-9)
    np.testing.assert_allclose(points[:, 1], 0, atol=1e-9)
