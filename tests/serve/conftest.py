"""Models that `bertworks finetune` has made, one for each task, and an application that serves them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import bertworks
from bertworks.finetune.run import FinetuneOptions, finetune
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.search import SearchIndex
from bertworks.infer.search_build import build_index
from bertworks.serve import ServeSettings, create_app
from tests.finetune import small

SAMPLES = Path(bertworks.__file__).parent / "samples"
FILES = {
    "classify": "messages.csv",
    "pair": "same.tsv",
    "regress": "stars.csv",
    "choice": "endings.csv",
    "tag": "names.conll",
    "qa": "questions.json",
    "similarity": "search.csv",
}
SMALL = ServeSettings(max_items=50, max_tokens=20_000, max_numbers=100_000)


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny model fine-tuned for each task, and one without any head (`plain`)."""
    folder = tmp_path_factory.mktemp("served")
    found = {"plain": small.write_model(folder / "plain")}
    for task, name in FILES.items():
        files = {"model": found["plain"], "train": SAMPLES / name, "dev": SAMPLES / name}
        small.finished(small.run(files, folder / task, "train.epochs=1", task=task))
        found[task] = folder / task
    return found


@pytest.fixture(scope="session")
def word_tagger(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """A recurrent tagger over words: it has no tokens and no vectors of texts."""
    output = tmp_path_factory.mktemp("words") / "run"
    names = SAMPLES / "names.conll"
    settings = (*small.QUICK, "train.epochs=1", "words.word_size=7", "words.hidden_size=9")
    given = FinetuneOptions(
        task="tag", train=names, dev=names, model="bilstm", output=output, settings=settings, track=()
    )
    small.finished(list(finetune(given)))
    return bertworks.load(output)


@pytest.fixture(scope="session")
def models(directories: dict[str, Path], word_tagger: LoadedModel, weights_minidata: Path) -> dict[str, LoadedModel]:
    """All of them, loaded; `fill` is a real masked language model of Chinese."""
    found = {name: bertworks.load(directory) for name, directory in directories.items()}
    return {**found, "words": word_tagger, "fill": bertworks.load(weights_minidata)}


@pytest.fixture(scope="session")
def minilm(minilm_directory: Path) -> LoadedModel:
    return bertworks.load(minilm_directory)


@pytest.fixture(scope="session")
def indexes(tmp_path_factory: pytest.TempPathFactory, models: dict[str, LoadedModel]) -> dict[str, SearchIndex]:
    """The sample library, as the model for similarity sees it."""
    texts = (SAMPLES / "library.txt").read_text(encoding="utf-8").splitlines()
    return {"library": build_index(texts, tmp_path_factory.mktemp("index") / "library", model=models["similarity"])}


@pytest.fixture(scope="session")
def app(models: dict[str, LoadedModel], indexes: dict[str, SearchIndex]) -> FastAPI:
    """The first model is the one without a head."""
    return create_app(models, SMALL, indexes=indexes)


@pytest.fixture(scope="session")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as found:
        yield found


def tiny() -> LoadedModel:
    """A model that is loaded from nothing."""
    return LoadedModel(*small.make_model())
