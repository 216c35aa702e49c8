"""Counting words: the quick way equals the plain way, in any number of processes, within a bound."""

from __future__ import annotations

import lzma
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import UsageError
from bertworks.text.train import TrainerOptions, count_words
from bertworks.text.train.pipeline import Pipeline

PIPELINES: list[tuple[str, dict[str, Any]]] = [
    ("wordpiece", {}),
    ("wordpiece", {"lowercase": False, "strip_accents": False, "split_cjk": False, "form": "nfkc"}),
    ("wordpiece", {"clean_text": False, "split_punctuation": False, "form": "nfd"}),
    ("bpe", {}),
    ("bpe", {"clean_text": False, "split_punctuation": False, "form": "nfc"}),
    ("byte-bpe", {}),
    ("byte-bpe", {"add_prefix_space": True}),
    ("byte-bpe", {"clean_text": True, "strip_accents": True, "split_cjk": True, "form": "nfkd", "lowercase": True}),
]
# Every kind of white space that someone treats differently, marks that combine, signs that decompose into spaces,
# control characters that are deleted, GPT-2's contractions, and scripts without spaces.
PARTS = [
    *" \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u2028\u3000",
    *"aZé9'!<=_^~\u0301\u0338\u00b4\u200d\ufffd\x00\x7f\ufe0f中文あ한\u1112\u1161\u05d0\u0661\ufdfaßİΣς𝒳😀▁Ġ#",
    *["'s", "'ll", "don't", "  ", "word", " word"],
]


@pytest.mark.parametrize(("algorithm", "changes"), PIPELINES)
def test_quick_way_is_the_plain_way(algorithm: str, changes: dict[str, Any]) -> None:
    pipeline = Pipeline(TrainerOptions.of(algorithm, **changes))

    @settings(deadline=None, max_examples=150)
    @given(st.lists(st.lists(st.sampled_from(PARTS), max_size=12).map("".join) | st.text(max_size=20), max_size=4))
    def check(texts: list[str]) -> None:
        assert pipeline.count(texts) == Counter(word for text in texts for word in pipeline.words(text))

    check()


@pytest.mark.parametrize(("algorithm", "changes"), PIPELINES[::2])
@pytest.mark.parametrize("name", ["wiki-en-00", "novels-sv-00", "wiki-zh-00"])
def test_quick_way_on_real_text(algorithm: str, changes: dict[str, Any], name: str, shared_data: Path) -> None:
    with lzma.open(shared_data / "corpus" / f"{name}.txt.xz", "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in islice(file, 600)]
    pipeline = Pipeline(TrainerOptions.of(algorithm, **changes))
    for texts in (lines, ["\n".join(lines)], ["  ".join(lines) + " "]):
        assert pipeline.count(texts) == Counter(word for text in texts for word in pipeline.words(text))


@pytest.mark.parametrize("algorithm", ["wordpiece", "bpe", "byte-bpe"])
def test_unpaired_surrogates(algorithm: str) -> None:
    options = TrainerOptions.of(algorithm, clean_text=False)
    assert sum(count_words(["ab \ud800cd", "\udfff", "ab"], options).values()) >= 3


@pytest.mark.parametrize("max_words", [None, 60])
def test_workers_give_the_same(max_words: int | None) -> None:
    texts = [f"word{i % 37} and {'x' * (i % 11)} number {i * i % 101}" for i in range(400)]
    options = TrainerOptions.of("byte-bpe")
    one, two = (
        count_words(texts, options, workers=workers, max_words=max_words, batch_characters=500) for workers in (1, 2)
    )
    assert one == two
    assert (len(one) <= 60) == (max_words is not None)


def test_bound_keeps_the_most_frequent() -> None:
    texts = ["a a a", "b b", "c", "d", "e", "a b"]  # one batch each; bound 4: after e, a 3 and b 2 stay
    assert count_words(texts, TrainerOptions.of("wordpiece"), max_words=4, batch_characters=1) == {"a": 4, "b": 3}


def test_progress_and_streaming() -> None:
    calls: list[tuple[str, int, int | None]] = []
    texts = (text for text in ["ab cd", "efg", "h"])
    count_words(texts, TrainerOptions.of("bpe"), progress=lambda *call: calls.append(call), batch_characters=6)
    assert calls == [("count words", 8, None), ("count words", 9, None)]


def test_counting_does_without_the_compiler() -> None:
    program = "import sys, bertworks.text.train.words; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"max_words": 1}])
def test_bad_arguments(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="must be at least"):
        count_words([], TrainerOptions.of("bpe"), **wrong)  # type: ignore[arg-type]
