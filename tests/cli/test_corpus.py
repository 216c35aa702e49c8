"""`bertworks corpus build` and `info`: what is written, what is said, which exit code."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from bertworks.cli import corpus as corpus_command
from bertworks.cli.main import main
from bertworks.data.corpus import Corpus, Report
from bertworks.data.corpus.writer import Totals
from tests.data.corpus_helpers import DOCUMENTS, tokenizer_directory, write_documents

Said = pytest.CaptureFixture[str]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tokenizer_directory(tmp_path / "tokenizer")
    write_documents(tmp_path / "text.txt", [*DOCUMENTS, DOCUMENTS[0]])
    monkeypatch.chdir(tmp_path)
    return tmp_path


BUILD = ["corpus", "build", "text.txt", "--tokenizer", "tokenizer", "-o", "out", "--workers", "1"]


def test_build_and_info(place: Path, capsys: Said) -> None:
    assert main([*BUILD, "--drop-duplicates"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("out: 5 documents, 10 sentences, ")
    assert "1 left out: the same text was there before" in said
    assert main([*BUILD, "--drop-duplicates"]) == 0
    assert "out: already built, nothing to do: 5 documents" in capsys.readouterr().out
    assert main(["corpus", "info", "out", "--verify"]) == 0
    said = capsys.readouterr().out
    assert "documents             5\n" in said
    assert "verified              yes" in said
    assert "  text.txt  " in said
    assert "document 0 (" in said
    assert "the river runs past the old mill." in said


def test_json(place: Path, capsys: Said) -> None:
    assert main([*BUILD, "--json", "--shard-tokens", "80", "--language", "en"]) == 0
    built = json.loads(capsys.readouterr().out)
    corpus = Corpus.open("out")
    assert built["documents"] == 6
    assert built["tokens"] == corpus.num_tokens
    assert built["shards"] == len(corpus.manifest["shards"]) > 1
    assert main(["corpus", "info", "out", "--json", "--samples", "1"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["options"]["language"] == "en"
    assert facts["longest_document"] == max(map(len, corpus))
    assert facts["disk_bytes_per_token"] == built["disk_bytes_per_token"]
    assert [sample["document"] for sample in facts["samples"]] == [0]


def test_standard_input(place: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["corpus", "build", "-", "--tokenizer", "tokenizer", "-o", "piped", "--workers", "1", "--quiet"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("text.txt").read_bytes())))
    assert main(command) == 0
    assert main([*BUILD, "--quiet"]) == 0
    said = capsys.readouterr()
    assert [line.split(":")[0] for line in said.out.splitlines()] == ["piped", "out"], "one line each"
    assert said.err == ""
    assert Path("piped/shard-00000.bin").read_bytes() == Path("out/shard-00000.bin").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Another text.")))
    assert main(command) == 2, "it must not be taken for the text that is there"
    assert "whether this is the same text cannot be told; use --overwrite" in capsys.readouterr().err
    rows = "".join(json.dumps({"body": text, "n": 1}) + "\n" for text in DOCUMENTS)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(rows.encode())))
    assert main([*command, "--restart", "--format", "jsonl", "--text-column", "body"]) == 0
    assert Corpus.open("piped").num_documents == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--tokenizer", "./nowhere"], "directory nowhere does not exist"),
        (["--document", "page"], "unknown document 'page'; allowed: blank-line, line, row, file"),
        (["--language", "se"], "unknown language 'se'"),
        (["--workers", "0"], "--workers 0 is too small; it must be at least 1"),
        (["--encoding", "klingon"], "unknown encoding 'klingon'"),
        (["none.txt"], "none.txt: no such file"),
    ],
)
def test_errors_are_one_sentence(place: Path, capsys: Said, change: list[str], message: str) -> None:
    assert main([*BUILD, *change]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert message in said.err
    assert sorted(path.name for path in place.iterdir()) == ["text.txt", "tokenizer"]


def test_changed_options_are_refused(place: Path, capsys: Said) -> None:
    assert main(BUILD) == 0
    assert main([*BUILD, "--document", "file"]) == 2
    assert "(document: none there, file now); use --overwrite to replace it" in capsys.readouterr().err
    assert main([*BUILD, "--document", "file", "--overwrite"]) == 0
    assert Corpus.open("out").num_documents == 1


def test_a_line_of_a_text_is_a_row(place: Path, capsys: Said) -> None:
    assert main([*BUILD, "--document", "line"]) == 0
    assert "bytes on disk a token" in capsys.readouterr().out
    assert main([*BUILD, "--document", "row"]) == 0
    assert "already built" in capsys.readouterr().out
    assert Corpus.open("out").num_documents == sum(1 for _ in Path("text.txt").read_text().splitlines() if _)


def test_files_that_are_empty_or_given_twice_are_told(place: Path, capsys: Said) -> None:
    Path("empty.txt").touch()
    command = [*BUILD, "empty.txt", "./text.txt"]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "note: empty.txt is empty\n" in said
    assert "note: ./text.txt is given twice, and is read twice\n" in said
    assert main([*command, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_info_of_what_is_no_corpus(place: Path, capsys: Said) -> None:
    assert main(["corpus", "info", "tokenizer"]) == 2
    assert "tokenizer: is no corpus: it has no manifest.json" in capsys.readouterr().err
    assert main(BUILD) == 0
    shard = Path("out/shard-00000.bin")
    shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    assert main(["corpus", "info", "out", "--verify"]) == 2
    assert "shard-00000.bin: is damaged" in capsys.readouterr().err


def test_ctrl_c(place: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Any, report: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(corpus_command.BuildProgress, "show", stop)
        assert main([*BUILD, "--shard-tokens", "50"]) == 130
    assert "stopped: the " in (said := capsys.readouterr().err)
    assert "finished shards are kept in out.part; the same command continues" in said
    assert not Path("out").exists()
    assert main([*BUILD, "--shard-tokens", "50"]) == 0


def test_progress_of_a_build_that_was_all_but_done() -> None:
    totals = Totals(text_bytes=100, tokens=10)
    report = Report(Path("out"), totals, bytes_read=100, bytes_total=100, resumed=totals)
    corpus_command.BuildProgress(quiet=True).show(report)


def test_an_alias_names_a_tokenizer(place: Path) -> None:
    assert main([*BUILD, "--tokenizer", "minilm", "--quiet"]) == 0
    assert Corpus.open("out").vocab_size == 30_522


def test_progress_lines(place: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertworks.cli.console.PLAIN_INTERVAL_SECONDS", 0.0)
    assert main(BUILD) == 0
    said = capsys.readouterr().err
    assert said.startswith("building: ")
    for part in ("building: 100%, ", " tokens, ", " MB/s, ", " tokens/s"):
        assert part in said
