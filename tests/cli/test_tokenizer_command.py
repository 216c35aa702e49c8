"""`bertworks tokenizer train | encode | compare` as a user types them."""

import json
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
    assert ours["bytes_per_token"] == pytest.approx(len(TEXT.replace("\n", "")) / ours["tokens"])
    assert theirs["fertility"] == pytest.approx(theirs["tokens"] / theirs["words"])
    html = page.read_text(encoding="utf-8")
    assert "<svg" in html
    assert "http" not in html
    code, out, _ = run("tokenizer", "compare", made, "--text", corpus)
    assert code == 0
    assert "tokens/word" in out


def test_wrong_use_gets_one_sentence(run, corpus, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("", encoding="utf-8")
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("x", encoding="utf-8")
    for words, arguments in [
        ("unknown algorithm 'unigram'", ["train", corpus, "--algorithm", "unigram", "-o", tmp_path / "a"]),
        ("exists already and is not empty", ["train", corpus, "-o", full]),
        ("no words to learn from", ["train", empty, "-o", tmp_path / "b", "--workers", 1]),
        ("vocabulary", ["train", corpus, "--vocab-size", 3, "-o", tmp_path / "c", "--workers", 1]),
        ("missing.txt", ["train", tmp_path / "missing.txt", "-o", tmp_path / "d", "--workers", 1]),
        ("holds no words to compare on", ["compare", "minilm", "--text", empty]),
    ]:
        code, _, err = run("tokenizer", *arguments)
        assert code == 2, arguments
        assert words in err
        assert len(err.strip().splitlines()) == 1
