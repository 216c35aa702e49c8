"""`bertworks translate`, as it is typed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bertworks.cli.main import main
from bertworks.data.readers import TextReader
from bertworks.infer.decode import Greedy, Strategy
from bertworks.infer.generate import Generation
from bertworks.infer.translate import Translator
from tests.translate.small import SHARED, SMALL, SMALL_OF, write_pairs

SETTINGS = [part for setting in SMALL for part in ("--set", setting)]
RECURRENT = [part for setting in (*SHARED, *SMALL_OF["rnn-attention"]) for part in ("--set", setting)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translate")
    source, target = write_pairs(folder)
    output = folder / "run"
    arguments = ["translate", "train", "--train", source, target, "--dev", source, target, "--steps", "3"]
    assert main([*arguments, *SETTINGS, "-o", str(output), "--track", "none", "--quiet"]) == 0
    return output


def test_train_tells_what_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = write_pairs(tmp_path)
    pairs = tmp_path / "pairs.tsv"
    rows = zip(Path(source).read_text().splitlines(), Path(target).read_text().splitlines(), strict=True)
    pairs.write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    arguments = [
        "translate",
        "train",
        "--train",
        str(pairs),
        "--columns",
        "2,1",
        "--recipe",
        "rnn-attention",
        "--epochs",
        "0.3",
    ]
    assert main([*arguments, *RECURRENT, "-o", str(tmp_path / "run"), "--track", "none"]) == 0
    said = capsys.readouterr().out
    assert "data       training: " in said
    assert "pairs from pairs.tsv, from column 2 to column 1, without a header" in said
    assert "GRU with Bahdanau's attention, 2 + 2 layers of width 32" in said
    assert "bleu greedy" in said
    assert main(["translate", "train", "-o", str(tmp_path / "run"), "--resume"]) == 0
    assert "finished already" in capsys.readouterr().out
    assert main(["info", str(tmp_path / "run")]) == 0
    assert "bahdanau" in capsys.readouterr().out
    assert main(["translate", "run", str(tmp_path / "run"), str(target), "-o", str(tmp_path / "out.en")]) == 0


def test_scores_that_nobody_reads_are_not_worked_out(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "texts.en").write_text("The dog sees the cat.\n")
    used: list[Strategy] = []
    translate = Translator.translate

    def spied(self: Translator, texts: Sequence[str], strategy: Strategy, **options: Any) -> list[Generation]:
        used.append(strategy)
        return translate(self, texts, strategy, **options)

    monkeypatch.setattr(Translator, "translate", spied)
    arguments = ["translate", "run", str(model), str(tmp_path / "texts.en"), "--beam", "1"]
    for more in ([], ["--json"], ["-o", str(tmp_path / "out.de")], ["-o", str(tmp_path / "out.jsonl")]):
        assert main([*arguments, *more]) == 0
    assert used == [Greedy(scores=scores) for scores in (False, True, False, True)]


@pytest.mark.parametrize(("other", "value"), [("--steps", "3"), ("--budget", "10s")])
def test_one_length_only(tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str, value: str) -> None:
    arguments = ["translate", "train", "--train", "a.en", "a.de", "-o", str(tmp_path / "run"), "--epochs", "2"]
    assert main([*arguments, other, value]) == 2
    assert f"--epochs and {other} say different things; give one of" in capsys.readouterr().err


def test_run_translates_line_for_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = tmp_path / "texts.en"
    texts.write_text("The dog sees the cat.\n\nThe bird sings.\n")
    reference = tmp_path / "reference.de"
    reference.write_text("Der Hund sieht die Katze.\n\nDer Vogel singt.\n")
    output = tmp_path / "texts.de"
    arguments = ["translate", "run", str(model), str(texts), "-o", str(output), "--reference", str(reference)]
    page = tmp_path / "page.html"
    assert main([*arguments, "--alignment", str(page)]) == 0
    said = capsys.readouterr().out
    assert "3 translations" in said
    assert "BLEU" in said
    lines = output.read_text(encoding="utf-8").split("\n")
    assert len(lines) == 4
    assert lines[1] == ""
    content = page.read_text(encoding="utf-8")
    assert content.count("<section>") == 2
    assert "layer 2: 4 heads" in content
    assert main(["translate", "run", str(model), str(texts)]) == 0
    assert capsys.readouterr().out.split("\n") == lines
    assert main([*arguments[:-3], str(tmp_path / "out.jsonl"), "--json", "--alignment", str(tmp_path / "a.json")]) == 0
    assert json.loads(capsys.readouterr().out)["texts"] == 3
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["translation"] for row in rows] == lines[:3]
    alignments = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert alignments[0]["source"][1:4] == ["The", "dog", "sees"]
    assert [each["number"] for each in alignments] == [1, 3]  # the second line is empty
    drawn = page.read_text(encoding="utf-8")
    assert "Text 3" in drawn
    assert "Text 2" not in drawn
    for options in (["--beam", "1"], ["--top-k", "4", "--seed", "2"], ["--coverage-penalty", "0.3"]):
        assert main(["translate", "run", str(model), str(texts), *options]) == 0
        assert len(capsys.readouterr().out.split("\n")) == 4
    assert main(["translate", "run", str(model), str(texts), "--max-tokens", "1", "--json"]) == 0
    short = [json.loads(line)["translation"] for line in capsys.readouterr().out.splitlines()]
    assert all(len(text) < len(line) for text, line in zip(short, lines, strict=False) if line)


def test_errors_are_sentences(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts.en"
    texts.write_text("The dog.\nThe cat.\n")
    short = tmp_path / "short.de"
    short.write_text("Der Hund.\n")
    cases = {
        "1 lines for 2 translations": [str(model), str(texts), "--reference", str(short)],
        "wider than the vocabulary": [str(model), str(texts), "--beam", "500"],
        "ends in .html": [str(model), str(texts), "--alignment", "picture.png"],
        "no such file": [str(model), str(tmp_path / "absent")],
    }
    for sentence, arguments in cases.items():
        assert main(["translate", "run", *arguments]) == 2
        said = capsys.readouterr()
        assert sentence in said.err
        assert said.out == ""  # before anything is translated
    assert main(["translate", "train", "--train", str(texts), str(short), "-o", str(tmp_path / "x")]) == 2
    assert "short.de:1: ends after 1 line, but" in capsys.readouterr().err


def test_info_knows_translators(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(model)]) == 0
    said = capsys.readouterr().out
    assert "marian" in said
    assert "bertworks translate train" in said


def test_pictures_are_of_the_first_texts_also_after_a_stop(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.en"
    texts.write_text("".join(f"The dog sees {number} cats.\n" for number in range(40)))
    page = tmp_path / "a.json"
    arguments = ["translate", "run", str(model), str(texts), "-o", str(tmp_path / "out.de"), "--beam", "1"]
    chunks = TextReader.chunks
    monkeypatch.setattr(TextReader, "chunks", lambda self, **how: chunks(self, **{**how, "characters": 200}))
    plain = Translator.translate
    calls = []

    def stopped(self: Translator, *given: Any, **options: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(self, *given, **options)

    monkeypatch.setattr(Translator, "translate", stopped)
    assert main(arguments) == 130
    assert main([*arguments, "--alignment", str(page)]) == 0
    assert "continuing after" in capsys.readouterr().err
    rows = json.loads(page.read_text(encoding="utf-8"))
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[0]["source"][1:4] == ["The", "dog", "sees"]
    assert main([*arguments[:-2], "--alignment", str(tmp_path / "absent" / "a.html")]) == 2
    assert "there is no directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--set", "model.attention=luong"], "model.attention means nothing to a translator of the kind 'transformer'"),
        (
            ["--recipe", "rnn-attention", "--set", "model.positions=rotary"],
            "it is for 'transformer': --recipe transformer",
        ),
        (["--columns", "2,2"], "source and target are both the column '2'"),
        (
            ["--columns", "en,fr"],
            "has no column 'en'; its first line is 'Go.', 'Va !'. Where that is a pair and no header",
        ),
    ],
)
def test_what_would_be_ignored_or_misread_is_told(
    given: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.tsv").write_text("Go.\tVa !\nRun.\tCours !\n", encoding="utf-8")
    train = ["translate", "train", "--train", str(tmp_path / "pairs.tsv"), "-o", str(tmp_path / "run")]
    assert main([*train, *given]) == 2
    assert message in capsys.readouterr().err


def test_what_the_vocabulary_lacks_is_counted(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts.en"
    texts.write_text("東京 🍮 a dog.\nThe dog sees the cat.\n\n東京\n", encoding="utf-8")
    assert main(["translate", "run", str(model), str(texts)]) == 0
    assert "2 texts have characters or words that are not in the model's vocabulary" in capsys.readouterr().err
    texts.write_text("The dog sees the cat.\n", encoding="utf-8")
    assert main(["translate", "run", str(model), str(texts)]) == 0
    assert "vocabulary" not in capsys.readouterr().err


@pytest.mark.parametrize("penalty", ["nan", "inf"])
def test_penalties_are_numbers(penalty: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.en").write_text("A dog.\n")
    assert main(["translate", "run", str(model), str(tmp_path / "texts.en"), "--length-penalty", penalty]) == 2
    assert f"length_penalty is {penalty}" in capsys.readouterr().err


def test_columns_are_for_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in ("en", "de"):
        (tmp_path / side).write_text("a b\nc d\n")
    given = ["--train", str(tmp_path / "en"), str(tmp_path / "de"), "--columns", "2,1", "-o", str(tmp_path / "run")]
    assert main(["translate", "train", *given]) == 2
    assert "--columns are those of one file with both languages" in capsys.readouterr().err
