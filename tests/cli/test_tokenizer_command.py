"""`bertworks tokenizer train | encode | compare` as a user types them."""

import json
import lzma
from pathlib import Path

import pytest

from bertworks.cli.main import main

TEXT = "\n".join(["the cat sat on the mat", "the cats sit on mats", "a cat is not a rat", "rats sat too"] * 30)


@pytest.fixture
def run(capsys):
    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def corpus(tmp_path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize("algorithm", ["wordpiece", "bpe", "byte-bpe"])
def test_train_encode_compare(run, corpus, tmp_path, algorithm):
    from transformers import AutoTokenizer

    size = 300 if algorithm == "byte-bpe" else 40
    made = tmp_path / algorithm
    arguments = ["--algorithm", algorithm, "--vocab-size", size, "--workers", 1, "-o", made, "--json"]
    code, out, _ = run("tokenizer", "train", corpus, *arguments)
    assert code == 0
    facts = json.loads(out)
    assert facts["vocab_size"] <= size
    assert (facts["texts"], facts["characters"]) == (120, len(TEXT.replace("\n", "")))

    code, out, _ = run("tokenizer", "encode", "the cat", "--tokenizer", made, "--json")
    assert code == 0
    rows = json.loads(out)
    assert [row["id"] for row in rows] == AutoTokenizer.from_pretrained(made)("the cat")["input_ids"]
    assert all("the cat"[row["start"] : row["end"]] == row["text"] for row in rows if row["text"])

    page = tmp_path / "compare.html"
    code, out, _ = run("tokenizer", "compare", made, "minilm", "--text", corpus, "-o", page, "--json")
    assert code == 0
    ours, theirs = json.loads(out)
    assert ours["words"] == theirs["words"] == len(TEXT.split())
    assert ours["text_bytes_per_token"] == pytest.approx(len(TEXT.replace("\n", "")) / ours["tokens"])
    assert theirs["fertility"] == pytest.approx(theirs["tokens"] / theirs["words"])
    html = page.read_text(encoding="utf-8")
    assert "<svg" in html
    assert "http" not in html
    code, out, _ = run("tokenizer", "compare", made, "--text", corpus)
    assert code == 0
    assert "tokens/word" in out
    assert ("byte-level BPE" in out) == (algorithm == "byte-bpe")
    assert ["tokens", "word", "cut", "into"] in [line.split() for line in out.splitlines()]


def test_wrong_use_gets_one_sentence(run, corpus, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("", encoding="utf-8")
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("x", encoding="utf-8")
    for words, arguments in [
        ("unknown algorithm 'unigram'", ["train", corpus, "--algorithm", "unigram", "-o", tmp_path / "a"]),
        ("exists already and is not empty", ["train", corpus, "-o", full]),
        ("there is no text in", ["train", empty, "-o", tmp_path / "b", "--workers", 1]),
        ("vocabulary", ["train", corpus, "--vocab-size", 3, "-o", tmp_path / "c", "--workers", 1]),
        (
            "100 is too small for byte-bpe: 5 special tokens and 256 bytes need 261; ask for more with --vocab-size",
            ["train", corpus, "--algorithm", "byte-bpe", "--vocab-size", 100, "-o", tmp_path / "c"],
        ),
        ("missing.txt", ["train", tmp_path / "missing.txt", "-o", tmp_path / "d", "--workers", 1]),
        ("holds no words to compare on", ["compare", "minilm", "--text", empty]),
        ("there is no directory", ["compare", "minilm", "--text", corpus, "-o", tmp_path / "no" / "page.html"]),
        ("cannot write /proc/page.html", ["compare", "minilm", "--text", corpus, "-o", "/proc/page.html", "-q"]),
    ]:
        code, _, err = run("tokenizer", *arguments)
        assert code == 2, arguments
        assert words in err
        assert len(err.strip().splitlines()) == 1


def test_bad_files_leave_nothing(run, corpus, tmp_path):
    packed = lzma.compress(TEXT.encode() * 50)
    for name, content, words in [
        ("blank.txt", b"\n \n", "there is no text in"),
        ("binary.txt", b"the cat\n\x7fELF\0", "binary.txt:2: has a NUL byte at column 5: this is not a text file"),
        ("latin.txt", b"the cat\n\xe5\n", "latin.txt:2: is not valid utf-8 (0xe5 at byte 1 of the line)"),
        ("cut.txt.xz", packed[: len(packed) // 2], "the compressed file is damaged or cut off"),
        ("plain.txt.xz", b"the cat\n", "plain.txt.xz: is not xz-compressed at all: it begins with b'the ca'"),
        ("twice.csv", b"text,text\na,b\n", "twice.csv:1: the column name 'text' occurs twice"),
    ]:
        (tmp_path / name).write_bytes(content)
        files = [tmp_path / name] if name == "blank.txt" else [corpus, tmp_path / name]
        code, out, err = run("tokenizer", "train", *files, "-o", tmp_path / "made", "--workers", 1)
        assert (code, out) == (2, "")
        assert words in err
        assert str(tmp_path / name) in err
        assert len(err.strip().splitlines()) == 1
        assert not (tmp_path / "made").exists()
    # A name that is wrong is told before the files in front of it are read.
    (tmp_path / "binary.txt").write_bytes(b"\0")
    code, _, err = run("tokenizer", "train", tmp_path / "binary.txt", tmp_path / "none.txt", "-o", tmp_path / "made")
    assert code == 2
    assert "none.txt: no such file" in err


def test_reading_options(run, tmp_path):
    table = tmp_path / "table"
    table.write_text("1,the cat sat\n2,the cats sit\n" * 20, encoding="utf-8")
    how = ["--format", "csv", "--no-header", "--text-column", "2"]
    made = tmp_path / "made"
    code, out, _ = run("tokenizer", "train", table, *how, "--vocab-size", 30, "-o", made, "--workers", 1, "--quiet")
    assert code == 0
    assert out.startswith(f"{made}: wordpiece with ")
    assert out.count("\n") == 1
    code, out, _ = run("tokenizer", "compare", made, "--text", table, *how, "--json")
    assert code == 0
    assert json.loads(out)[0]["words"] == 120


def test_no_permission_has_one_wording(run, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # the tests may be run by root
    code, _, err = run("tokenizer", "train", corpus, "-o", tmp_path / "made")
    assert code == 2
    assert err == f"error: cannot write {tmp_path / 'made'}: no permission in {tmp_path}\n"


def test_accents_that_are_removed_are_told(run, tmp_path):
    text = tmp_path / "svensk.txt"
    text.write_text("en å är en å, och en ö är en ö\n" * 20, encoding="utf-8")
    train = ["tokenizer", "train", text, "--vocab-size", 30, "--workers", 1, "--form", "NFC"]
    code, _, err = run(*train, "-o", tmp_path / "a")
    assert code == 0
    assert "20.0% of the characters have accents, which were removed (å is now a); --keep-accents keeps them" in err
    for number, more in enumerate((["--keep-accents"], ["--quiet"])):
        code, _, err = run(*train, *more, "-o", tmp_path / f"b{number}")
        assert code == 0
        assert "accents" not in err


def test_wide_characters_keep_the_columns(run):
    code, out, _ = run("tokenizer", "encode", "北京 cafe")
    assert code == 0
    lines = out.splitlines()
    wide = next(line for line in lines if line.startswith("北"))
    plain = next(line for line in lines if line.startswith("cafe"))
    assert wide.index("1781") + 1 == plain.index("7668") == lines[0].index("id"), "北 is as wide as two letters"
