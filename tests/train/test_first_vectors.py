"""The first vectors: near each other for tokens in the same company, the same in every run, and kept in its settings."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from bertworks import hub
from bertworks.data.corpus import Corpus, CorpusOptions, LocalEngine, build_corpus
from bertworks.models.model import Model
from bertworks.train import first_vectors
from bertworks.train.architecture import ModelSection, new_config
from bertworks.train.directory import CONFIG_FILE
from bertworks.train.events import Note
from bertworks.train.first_vectors import MIN_COUNT, SPREAD, FirstVectors
from bertworks.train.recipes import load_recipe
from bertworks.train.run import Planned, pretrain
from bertworks.train.settle import RunOptions
from tests.data.corpus_helpers import tokenizer_directory
from tests.train.runs import SMALL, losses, make_corpus, run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("vectors"), "bert")


def test_tokens_in_the_same_company_are_near_each_other(tmp_path: Path) -> None:
    tokenizer = tokenizer_directory(tmp_path / "tokenizer", "bert")
    letters = np.random.default_rng(0)
    groups = ("abcd", "wxyz")  # letters of one group stand together only
    lines = [" ".join(letters.choice(list(groups[number % 2]), 30)) for number in range(9000)]
    (tmp_path / "letters.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    build_corpus(
        [str(tmp_path / "letters.txt")], tokenizer, tmp_path / "corpus", CorpusOptions(), engine=LocalEngine(1)
    )
    opened = Corpus.open(tmp_path / "corpus")
    text = first_vectors.Source(opened, opened.tokenizer(), np.arange(opened.num_documents), 0)
    found = first_vectors.learn(text, 10**6, 16)
    assert found.counts.sum() == text.num_tokens == opened.num_tokens
    ids = [opened.tokenizer().encode(letter, special=False).ids[0] for letter in "".join(groups)]
    rows = found.matrix[ids] - found.matrix[ids].mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T  # (8, 8)
    assert cosines[:4, :4].min() > 0.5 > 0.0 > cosines[:4, 4:].max()


def test_only_tokens_that_were_seen_get_one(corpus: Path) -> None:
    opened = Corpus.open(corpus)
    model = Model(new_config(ModelSection(family="modernbert", size="2x24x3"), opened.tokenizer(), ("mlm",)))
    table = first_vectors.token_table(model)
    before = table.detach().clone()
    counts = np.where(np.arange(len(table)) % 2, MIN_COUNT, MIN_COUNT - 1)
    drawn = np.random.default_rng(0).normal(3.0, 2.0, table.shape).astype(np.float32)
    FirstVectors(drawn, counts).put_into(model)
    assert torch.equal(table[::2], before[::2])
    assert table[1::2].std(correction=0).item() == pytest.approx(SPREAD, rel=1e-4)
    assert table[1::2].mean(dim=0).abs().max() < 1e-6
    FirstVectors(drawn, np.zeros(len(table), np.int64)).put_into(model)  # nothing was seen: nothing changes
    assert torch.equal(table[::2], before[::2])


def test_a_run_learns_them_once_and_keeps_from_how_many_tokens(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = run(corpus, tmp_path / "run", steps=2)
    stored = load_recipe(tmp_path / "run" / CONFIG_FILE)
    assert stored.run is not None
    opened = Corpus.open(corpus)
    assert 0 < (stored.run.vector_tokens or 0) <= min(10 * 2 * 512, opened.num_tokens)
    assert not any(isinstance(event, Note) for event in events)
    monkeypatch.setattr("bertworks.train.run.MANY_VECTOR_TOKENS", 10)
    notes = [event.text for event in run(corpus, tmp_path / "many", steps=1) if isinstance(event, Note)]
    assert [note for note in notes if "the tokens' first vectors come from skip-gram over" in note]
    random = run(corpus, tmp_path / "random", "model.first_vectors=random", steps=2)
    assert losses(events) != losses(random)


def test_a_run_that_begins_again_has_the_same_vectors(corpus: Path, tmp_path: Path) -> None:
    """Killed before its first checkpoint, it knows from how many tokens they were learnt, whatever the clock says now."""
    options = RunOptions(corpus=corpus, output=tmp_path / "run", recipe="modern", settings=SMALL, budget=1.0, track=())
    events = pretrain(options)
    planned = next(event for event in events if isinstance(event, Planned))
    events.close()  # type: ignore[attr-defined]
    assert planned.recipe.run is not None
    assert planned.recipe.run.vector_tokens
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    first, second = (
        list(pretrain(RunOptions(corpus=corpus, output=tmp_path / name, resume=True, track=())))
        for name in ("run", "again")
    )
    assert losses(first) == losses(second) != []
    ours, theirs = (hub.load(tmp_path / name).model.state_dict() for name in ("run", "again"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_recurrent_model_starts_with_them_too(corpus: Path, tmp_path: Path) -> None:
    small = ("model.size=2x24",)
    events = run(corpus, tmp_path / "run", *small, recipe="lstm", steps=2)
    assert load_recipe(tmp_path / "run" / CONFIG_FILE).run.vector_tokens  # type: ignore[union-attr]
    random = run(corpus, tmp_path / "random", *small, "model.first_vectors=random", recipe="lstm", steps=2)
    assert losses(events) != losses(random)
