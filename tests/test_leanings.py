"""She or he: the measure by hand, and the table."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks import leanings

import bertworks


class Scripted:
    """Gives *she* a probability that hangs on the profession alone."""

    def __init__(self, **she: float) -> None:
        self.she = she
        self.asked: list[str] = []

    def fill(self, text: str, targets: Any) -> Any:
        self.asked.append(text)
        (she,) = (probability for word, probability in self.she.items() if word in text)
        assert [target.lower() for target in targets] == ["she", "he"]
        assert targets[0][0].isupper() == text.startswith("[MASK]")
        return [
            SimpleNamespace(target=targets[0], probability=she),
            SimpleNamespace(target=targets[1], probability=1 - she),
        ]


def test_sentences() -> None:
    assert leanings.sentence("[MASK] is a {}.", "actuary") == "[MASK] is an actuary."
    assert leanings.sentence("The {} left.", "actuary") == "The actuary left."
    assert all("{}" in form and form.count("[MASK]") == 1 for form in leanings.SENTENCES)


def test_leanings_by_hand() -> None:
    model = Scripted(person=0.25, nurse=0.75, clerk=0.25, pilot=0.1)
    found = leanings.measure(model, {"pilot": -0.9, "nurse": 0.8, "clerk": 0.0})
    assert list(found["leanings"]) == ["nurse", "clerk", "pilot"]
    assert found["leanings"]["nurse"] == pytest.approx(math.log(3) + math.log(3))
    assert found["leanings"]["clerk"] == pytest.approx(0.0)
    assert found["neutral_she"] == pytest.approx(0.25)
    assert found["more_he"] == pytest.approx(2 / 3)
    assert found["spearman"] == pytest.approx(1.0)
    assert len(model.asked) == 4 * len(leanings.SENTENCES)
    report = {
        "command": "c",
        "machine": {"date": "2026-01-01T"},
        "professions": 3,
        "sentences": leanings.SENTENCES,
        "models": {"m": found},
    }
    assert "| m | 25% | 67% | 1.00 | nurse, clerk, pilot | pilot, clerk, nurse |" in leanings.render(report)


def test_the_published_list_is_asked(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Even:
        """Every second word is a woman's, but for the neutral one."""

        def fill(self, text: str, targets: Any) -> Any:
            she = 0.5 if "person" in text else 0.25 + 0.5 * (len(text) % 2)
            return [
                SimpleNamespace(target=word, probability=p) for word, p in zip(targets, (she, 1 - she), strict=True)
            ]

    monkeypatch.setattr(bertworks, "load", lambda place: {"a": Even()}[place])
    output = tmp_path / "leanings.json"
    for name in ("one=a", "two=a"):  # the second joins the first
        leanings.main([name, "--data", str(shared_data), "--output", str(output), "--threads", "1"])
    report = json.loads(output.read_text())
    assert list(report["models"]) == ["one", "two"]
    assert report["models"]["one"] == report["models"]["two"]
    assert report["professions"] == len(report["models"]["one"]["leanings"]) > 200
    assert "actress" not in report["models"]["one"]["leanings"]
