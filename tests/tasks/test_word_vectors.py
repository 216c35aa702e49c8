"""Vectors are computed once, kept in half precision, and found again only by the same source and sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bertworks.tasks import word_vectors
from bertworks.tasks.word_vectors import vectors_of
from tests.tasks.word_models import FakeSource

SENTENCES = [["a", "bcd"], [], ["ef"]]
# word, layer, (length, place, layer)
WANTED = [[[1, 0, 0], [1, 0, 1]], [[3, 1, 0], [3, 1, 1]], [[2, 0, 0], [2, 0, 1]]]


@pytest.mark.parametrize("kept", [False, True])
def test_word_after_word(tmp_path: Path, kept: bool) -> None:
    found = vectors_of(FakeSource(), SENTENCES, cache=tmp_path / "cache" if kept else None)
    assert found.dtype == np.float16
    assert found.tolist() == WANTED
    last = vectors_of(FakeSource(), SENTENCES, last=True, cache=tmp_path / "cache" if kept else None)
    assert last.tolist() == [[word[-1]] for word in WANTED]


def test_a_kept_source_is_asked_once(tmp_path: Path) -> None:
    source = FakeSource()
    first = vectors_of(source, SENTENCES, key="one", cache=tmp_path)
    assert np.array_equal(first, vectors_of(source, SENTENCES, key="one", cache=tmp_path))
    assert source.asked == [3]
    vectors_of(source, SENTENCES, key="another", cache=tmp_path)
    vectors_of(source, SENTENCES[::-1], key="one", cache=tmp_path)
    vectors_of(source, [["a", "b", "cd"], [], ["ef"]], key="one", cache=tmp_path)
    assert len(source.asked) == 4
    assert len(list(tmp_path.iterdir())) == 4


def test_many_words_come_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_vectors, "CHUNK_WORDS", 4)
    source = FakeSource()
    sentences = [["w"] * size for size in (3, 1, 2, 9, 1)]
    assert np.array_equal(vectors_of(source, sentences)[:, 0, 1], [*range(3), 0, *range(2), *range(9), 0])
    assert source.asked == [2, 1, 1, 1]


def test_no_words_have_no_vectors(tmp_path: Path) -> None:
    assert vectors_of(FakeSource(), [[], []], cache=tmp_path).shape == (0, 2, 3)


def test_what_was_not_finished_is_not_there(tmp_path: Path) -> None:
    class Failing(FakeSource):
        def vectors(self, sentences: object) -> list[np.ndarray]:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        vectors_of(Failing(), SENTENCES, cache=tmp_path)
    assert not list(tmp_path.iterdir())
