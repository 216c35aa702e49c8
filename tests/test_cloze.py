"""The cloze questions: frozen, well formed, and judged as the page says."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks import cloze
from benchmarks.cloze import Answered, Question

from tests.train.runs import make_corpus, run


def test_the_questions_are_the_frozen_ones(tmp_path: Path) -> None:
    questions = cloze.read_questions()
    assert Counter(question.kind for question in questions) == dict.fromkeys(cloze.KINDS, 50)
    assert len({question.text for question in questions}) == 200
    for question in questions:
        assert question.text.count("[MASK]") == 1
        assert question.text[-1] in '.?!"'
        assert question.answers
        assert len(set(question.answers)) == len(question.answers)
        assert all(re.fullmatch(r"[a-z]+|\d{4}", answer) for answer in question.answers)
    changed = tmp_path / "questions.jsonl"
    changed.write_bytes(cloze.QUESTIONS.read_bytes() + b"\n")
    with pytest.raises(SystemExit, match="is not the frozen set"):
        cloze.read_questions(changed)


QUESTIONS = [
    Question("fact", "The sky is [MASK].", ("blue", "grey")),
    Question("idiom", "As cold as [MASK].", ("ice",)),
]


class Scripted:
    """A model that gives the same words for every question; words of more than four letters are two pieces."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.tokenizer = SimpleNamespace(vocab_size=100)

    def fill(self, text: str, top_k: int = 5, targets: Any = None) -> Any:
        if targets is not None:
            return [SimpleNamespace(num_tokens=1 + (len(target) > 4), target=target) for target in targets]
        return [[SimpleNamespace(token=word) for word in self.words[:top_k]]]


def test_accuracy_by_hand() -> None:
    answered = cloze.ask(Scripted("ice", "red", "Grey", "x", "y", "blue"), QUESTIONS)
    assert [each.rank for each in answered] == [3, 1]
    found = cloze.accuracies(answered)
    assert found == {
        "fact": {"@1": 0.0, "@5": 1.0},
        "idiom": {"@1": 1.0, "@5": 1.0},
        "all": {"@1": 0.5, "@5": 1.0},
    }


def test_words_of_several_pieces_count_as_wrong() -> None:
    question = Question("fact", "The capital is [MASK].", ("london",))
    (answered,) = cloze.ask(Scripted("lon", "rome", "paris", "oslo", "bern"), [question])
    assert answered.rank is None
    assert answered.reachable == 0


def test_chance_and_unigram_by_hand() -> None:
    # one and two accepted words among ten tokens: of five different ones, at least one is right
    answered = [Answered(QUESTIONS[0], (), 2), Answered(QUESTIONS[1], (), 1)]
    found = cloze.chance(answered, 10)
    assert found["fact"]["@1"] == pytest.approx(0.2)
    assert found["fact"]["@5"] == pytest.approx(1 - (5 * 4) / (10 * 9))
    assert found["idiom"]["@5"] == pytest.approx(0.5)
    words, count = cloze.frequent_words(["The ice, the ICE!", "the blue"])
    assert (words, count) == (["the", "ice", "blue"], 6)
    assert cloze.unigram(QUESTIONS, words)["all"] == {"@1": 0.0, "@5": 1.0}


def test_the_program_with_a_tiny_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(make_corpus(tmp_path, "bert"), tmp_path / "tiny", recipe="bert", steps=1)
    text = tmp_path / "text.txt"
    text.write_text("of the river of the mill\n")
    (tmp_path / "docs" / "benchmarks").mkdir(parents=True)
    monkeypatch.setattr(cloze, "ROOT", tmp_path)
    output = tmp_path / "cloze.json"
    given = ["--corpus", str(text), "--threads", "1", "--output", str(output), "--write-docs"]
    cloze.main([str(tmp_path / "tiny"), *given])
    cloze.main([f"again={tmp_path / 'tiny'}", *given])
    report = json.loads(output.read_text())
    assert list(report["models"]) == ["tiny", "again"]
    row = report["models"]["tiny"]
    assert row["accuracy"] == report["models"]["again"]["accuracy"]
    assert len(row["answers"]) == 200
    assert 150 < row["out_of_reach"] < 200  # its vocabulary is that of a few sentences
    assert report["unigram"]["words"] == ["of", "the", "mill", "river"]
    assert report["unigram"]["accuracy"]["grammar"]["@1"] > 0
    page = (tmp_path / "docs" / "benchmarks" / "cloze.md").read_text()
    assert page + "\n" == capsys.readouterr().out[-len(page) - 1 :]
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert len(rows) == 2 + 4


def test_a_model_without_a_masked_lm_head_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("of the river\n")
    with pytest.raises(SystemExit, match="no-model: "):
        cloze.main([str(tmp_path / "no-model"), "--corpus", str(text), "--output", str(tmp_path / "cloze.json")])
