"""`bertworks predict` and `bertworks evaluate`: real directories, tiny models, every form of file, stops and bad input."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from bertworks.cli import predict as command
from bertworks.cli.main import main
from bertworks.infer import predict as predicting
from bertworks.infer.predict import Predictor
from bertworks.infer.saved import FILE
from tests.infer.foreign import Foreign

TEXTS = ["The river runs past the old mill.", "Seventeen geese", "", "河边有一座旧磨坊", "x " * 200]
LABELS = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}}
TAGS = {"id2label": {0: "O", 1: "B-LOC", 2: "I-LOC"}, "label2id": {"O": 0, "B-LOC": 1, "I-LOC": 2}}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("classifier")
    Foreign(directory, "bert", "ForSequenceClassification", **LABELS)
    return directory


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def left(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


# -- predict -----------------------------------------------------------------------------------------------------------


def test_a_file_of_texts(classifier: Path, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(classifier), str(lines), "-o", str(tmp_path / "out.jsonl")]) == 0
    rows = read(tmp_path / "out.jsonl")
    predictions = Predictor(classifier).predict(TEXTS)
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["line"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["label"] for row in rows] == [prediction.label for prediction in predictions]
    assert rows[0]["probabilities"] == pytest.approx(predictions[0].probabilities)
    said = capsys.readouterr()
    assert "out.jsonl: 5 predictions in " in said.out
    assert "1 row was longer than the model's window, and read in several" in said.out
    assert "one text per line" in said.err
    assert left(tmp_path) == {"texts.txt", "out.jsonl"}


def test_what_is_read_is_not_written(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a mill", "label": "no"}\n', encoding="utf-8")
    before = path.read_bytes()
    for given in (
        ["predict", str(classifier), str(path), "-o", f"{tmp_path}/./rows.jsonl"],
        ["evaluate", str(classifier), "--data", str(path), "-o", str(path)],
        ["embed", str(path), "--text-column", "text", "-o", str(path)],
        ["translate", "run", "nothing", str(path), "-o", str(path)],
    ):
        assert main(given) == 2
        assert "is what is read, and would be lost" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_standard_input_to_standard_output(
    classifier: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a mill\nthe river\n")))
    assert main(["predict", str(classifier), "-"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [sorted(row) for row in rows] == [["index", "label", "line", "probabilities"]] * 2


def test_a_table_and_json(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.csv").write_text('id,review\n1,"a, mill"\n2,geese walked on\n', encoding="utf-8")
    arguments = [str(tmp_path / "in.csv"), "-o", str(tmp_path / "out.jsonl"), "--text-column", "review", "--json"]
    assert main(["predict", str(classifier), *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {**told, "seconds": 0} == {
        "output": str(tmp_path / "out.jsonl"),
        "task": "classify",
        "rows": 2,
        "skipped": 0,
        "windowed": 0,
        "cut": 0,
        "seconds": 0,
        "resumed_rows": 0,
    }


def test_pairs(classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("sentence1\tsentence2\na mill\tthe river\n", encoding="utf-8")
    arguments = [str(tmp_path / "in.tsv"), "-o", str(tmp_path / "out.jsonl"), "--task", "pair", "-q"]
    assert main(["predict", str(classifier), *arguments]) == 0
    (wanted,) = Predictor(classifier).predict([("a mill", "the river")])
    assert read(tmp_path / "out.jsonl")[0]["probabilities"] == pytest.approx(wanted.probabilities)


def test_tags_of_running_text_and_of_columns(tmp_path: Path) -> None:
    Foreign(tmp_path / "model", "bert", "ForTokenClassification", **TAGS)
    text = "The  mill’s river, 河边 😀 — again "
    (tmp_path / "in.txt").write_text(text + "\n\nother line\n", encoding="utf-8")
    assert (
        main(["predict", str(tmp_path / "model"), str(tmp_path / "in.txt"), "-o", str(tmp_path / "o.jsonl"), "-q"]) == 0
    )
    rows = read(tmp_path / "o.jsonl")
    assert rows[0]["words"][:3] == ["The", "mill", "’s"]
    assert all(text[span["start"] : span["end"]] == span["text"] for span in rows[0]["spans"])
    (tmp_path / "in.conll").write_text("The O\nmill B-LOC\n\nriver O\n", encoding="utf-8")
    arguments = ["predict", str(tmp_path / "model"), str(tmp_path / "in.conll"), "-o", str(tmp_path / "c.jsonl"), "-q"]
    assert main(arguments) == 0
    assert [row["words"] for row in read(tmp_path / "c.jsonl")] == [["The", "mill"], ["river"]]


def test_answers(tmp_path: Path) -> None:
    Foreign(tmp_path / "model", "bert", "ForQuestionAnswering")
    context = "The river runs past the old mill. " * 30
    document = {
        "data": [{"title": "t", "paragraphs": [{"context": context, "qas": [{"id": "q7", "question": "What runs?"}]}]}]
    }
    (tmp_path / "in.json").write_text(json.dumps(document), encoding="utf-8")
    arguments = ["predict", str(tmp_path / "model"), str(tmp_path / "in.json"), "-o", str(tmp_path / "o.jsonl"), "-q"]
    assert main(arguments) == 0
    (row,) = read(tmp_path / "o.jsonl")
    assert row["id"] == "q7"
    assert context[row["start"] : row["end"]] == row["text"] != ""


def test_a_stopped_run_goes_on(
    classifier: Path, lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(predicting, "CHUNK_ROWS", 2)
    whole, stopped = tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl"
    assert main(["predict", str(classifier), str(lines), "-o", str(whole), "-q"]) == 0
    real = Predictor.predict_examples
    calls = []

    def interrupted(self: Predictor, examples: Any, **options: Any) -> Any:
        calls.append(len(examples))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, examples, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Predictor, "predict_examples", interrupted)
        assert main(["predict", str(classifier), str(lines), "-o", str(stopped), "-q"]) == 130
    assert "the 2 finished rows are kept" in capsys.readouterr().err
    assert not stopped.exists()
    assert main(["predict", str(classifier), str(lines), "-o", str(stopped)]) == 0
    assert "continuing after the 2 rows of an earlier run" in capsys.readouterr().err
    assert stopped.read_bytes() == whole.read_bytes()
    assert left(tmp_path) == {"texts.txt", "whole.jsonl", "stopped.jsonl"}


def test_bad_rows_are_told_or_left_out(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.tsv").write_text("text\tmore\na mill\t1\nno tab here\nthe river\t2\n", encoding="utf-8")
    arguments = ["predict", str(classifier), str(tmp_path / "in.tsv"), "-o", str(tmp_path / "out.jsonl")]
    assert main(arguments) == 2
    assert "in.tsv:3: " in capsys.readouterr().err
    assert main([*arguments, "--skip-bad-rows"]) == 0
    assert [row["line"] for row in read(tmp_path / "out.jsonl")] == [2, 4]
    assert "1 bad row left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["no-such-file.txt", "-o", "o.jsonl"], "no-such-file.txt: no such file"),
        (["{lines}", "-o", "o.csv"], "o.csv cannot hold predictions"),
        (["{lines}", "-o", "o.parquet"], "cannot hold predictions, which are one JSON object a line; use .jsonl"),
        (["{lines}", "--task", "pair"], "the task `pair` needs more than one text each"),
        (["{lines}", "--task", "qa"], "made for 'classify', not for 'qa'"),
        (["{empty}"], "is empty"),
    ],
)
def test_bad_requests(
    classifier: Path,
    lines: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    (tmp_path / "empty.txt").touch()
    places = {"lines": str(lines), "empty": str(tmp_path / "empty.txt")}
    given = [argument.format(**places) for argument in arguments]
    given = [str(tmp_path / argument) if argument.startswith("o.") else argument for argument in given]
    assert main(["predict", str(classifier), *given]) == 2
    assert problem in capsys.readouterr().err
    assert left(tmp_path) == {"texts.txt", "empty.txt"}


def test_chunks_are_small_enough_to_stop() -> None:
    assert predicting.CHUNK_ROWS <= 4096
    assert "Examples:" in (command.predict.__doc__ or "")


# -- evaluate ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def labelled(classifier: Path, tmp_path: Path) -> Path:
    """The model's own labels but for the last row."""
    labels = [prediction.label for prediction in Predictor(classifier).predict(TEXTS[:2] + TEXTS[3:])]
    labels[-1] = {"no": "yes", "yes": "no"}[labels[-1]]
    rows = [f"{text}\t{label}\n" for text, label in zip(TEXTS[:2] + TEXTS[3:], labels, strict=True)]
    path = tmp_path / "dev.tsv"
    path.write_text("sentence\tlabel\n" + "".join(rows), encoding="utf-8")
    return path


def test_evaluate_prints_the_object_of_metrics_json(
    classifier: Path, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "predictions.jsonl"
    assert main(["evaluate", str(classifier), "--data", str(labelled), "--json", "-o", str(output)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"task", "metrics", "seeds", "data", "model", "seconds"} <= told.keys()
    assert (told["task"], told["metrics"]["accuracy"], told["data"]) == ("classify", 0.75, str(labelled))
    rows = read(output)
    assert [row["line"] for row in rows] == [2, 3, 4, 5]
    assert [row["label"] == row["truth"] for row in rows] == [True, True, True, False]


def test_evaluate_in_words(classifier: Path, labelled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(classifier), "--data", str(labelled)]) == 0
    said = capsys.readouterr()
    assert "on 4 examples of" in said.out
    assert "accuracy" in said.out
    assert "75.0%" in said.out
    assert "text = sentence, label = label" in said.err


def test_evaluate_tells_the_seed_of_the_run(
    classifier: Path, labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (classifier / "metrics.json").write_text('{"kept_seed": 4}', encoding="utf-8")
    try:
        assert main(["evaluate", str(classifier), "--data", str(labelled), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["seeds"] == [4]
    finally:
        (classifier / "metrics.json").unlink()


def test_evaluate_tells_the_place_of_an_unknown_label(
    classifier: Path, labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled.write_text(labelled.read_text(encoding="utf-8") + "a goose\tmaybe\n", encoding="utf-8")
    assert main(["evaluate", str(classifier), "--data", str(labelled)]) == 2
    said = capsys.readouterr().err
    assert "dev.tsv:6: unknown label 'maybe'" in said
    assert "--skip-bad-rows leaves out what cannot be used" in said
    assert main(["evaluate", str(classifier), "--data", str(labelled), "--skip-bad-rows", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["examples"] == {"test": 4, "skipped": 1}
    assert "1 examples left out, the first:" in said.err


def test_evaluate_needs_a_fine_tuned_model(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Foreign(tmp_path / "model", "bert", "Model")
    assert main(["evaluate", str(tmp_path / "model"), "--data", str(labelled)]) == 2
    assert "fine-tune it first" in capsys.readouterr().err
    (tmp_path / "model" / FILE).write_text('{"version": 1, "task": {"task": "guess"}}', encoding="utf-8")
    assert main(["evaluate", str(tmp_path / "model"), "--data", str(labelled)]) == 2
    assert "name the task 'guess'" in capsys.readouterr().err
