"""The study of layers: vectors are the model's own, taggers learn what is there, a stopped study goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertworks import hub
from bertworks.data.unfinished import Unfinished
from bertworks.errors import DataError, OutputError, UsageError
from bertworks.finetune import probe
from bertworks.finetune.probe import Finished, Note, ProbeOptions, Row, Working, probe_layers, rows_of
from bertworks.finetune.probe_states import States, open_states, write_states
from bertworks.finetune.probe_taggers import BILSTM, LINEAR, Selection, TaggerConfig, Trained, train_tagger
from bertworks.infer.loaded import LoadedModel
from tests.finetune.probing import make_files
from tests.finetune.small import make_model
from tests.reader import Reader
from tests.tasks import small

QUICK_LINEAR = replace(LINEAR, epochs=3, min_steps=0, batch_sentences=4)
QUICK_BILSTM = replace(BILSTM, epochs=1, min_steps=0, hidden_size=7, num_layers=1, batch_sentences=4)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# -- rows --------------------------------------------------------------------------------------------------------------


def test_the_rows_of_the_paper() -> None:
    found = {row.name: row for row in rows_of(12)}
    assert list(found)[:13] == [str(number) for number in range(13)]
    assert found["0"].title == "layer 0 (embeddings: first)"
    assert found["11"].title == "layer 11 (second-to-last)"
    assert found["12"].title == "layer 12 (last)"
    assert found["sum-all"].selection == Selection(tuple(range(1, 13)), "sum")
    assert found["weighted-all"].selection == Selection(tuple(range(1, 13)), "weighted")
    for name in ("sum-last-4", "weighted-last-4", "concat-last-4"):
        assert found[name].selection.layers == (9, 10, 11, 12)
    assert found["concat-last-4"].selection.width(10) == 40
    assert len(found) == 18


def test_small_models_have_fewer_rows() -> None:
    assert [row.name for row in rows_of(1)] == ["0", "1"]
    assert [row.name for row in rows_of(4)][5:] == ["sum-all", "weighted-all", "concat-last-4"]


# -- vectors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["first", "mean"])
def test_vectors_are_the_models_own(tmp_path: Path, words: Any) -> None:
    model, tokenizer = small.make_model("bert", num_hidden_layers=5)
    loaded = LoadedModel(model, tokenizer, window=12)  # some sentences need several windows
    sentences = [tuple(text.split()) for text in small.SENTENCES if text] + [("\u200b", "river")]  # a lost word
    done = list(write_states(tmp_path / "v", loaded, sentences, words=words))
    assert done[-1] == sum(map(len, sentences))
    states = open_states(tmp_path / "v", loaded, sentences)
    assert states.lengths.tolist() == [len(sentence) for sentence in sentences]
    for layer in (0, 2, 5):
        for number, sentence in enumerate(sentences):
            own = states.vectors[layer, states.starts[number] : states.starts[number + 1]]
            if words == "mean":
                expected = [word.vector for word in loaded.embed_words([sentence], layers=layer)[0]]
                np.testing.assert_allclose(own, expected, atol=4e-3)
            assert own.shape == (len(sentence), 36)


def test_chunks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = small.make_model("bert", num_hidden_layers=5)
    loaded = LoadedModel(model, tokenizer, window=40)
    sentences = [tuple(text.split()) for text in small.SENTENCES if text]
    for _ in write_states(tmp_path / "one", loaded, sentences):
        pass
    monkeypatch.setattr("bertworks.finetune.probe_states.CHUNK_BYTES", 6 * 36 * 4 * 10)
    assert len(list(write_states(tmp_path / "many", loaded, sentences))) > 3
    one, many = (np.asarray(open_states(tmp_path / name, loaded, sentences).vectors) for name in ("one", "many"))
    np.testing.assert_allclose(one, many, atol=2e-3)


# -- taggers -----------------------------------------------------------------------------------------------------------


def made_up(seed: int, *, sentences: int = 60, width: int = 6) -> tuple[States, np.ndarray]:
    """Three layers: noise; what tells the tag; what tells the previous word's tag."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 9, sentences)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    tags = random.integers(0, 3, starts[-1])
    before = np.concatenate([[0], tags[:-1]])
    before[starts[:-1]] = 0
    vectors = 0.1 * random.standard_normal((3, starts[-1], width))
    vectors[1, np.arange(len(tags)), tags] += 20.0  # a large scale, which must not matter
    vectors[2, np.arange(len(tags)), 1 + (tags + before) % 3] += 1.0
    return States(vectors.astype(np.float16), starts), tags


def train(selection: Selection, config: TaggerConfig, seed: int = 0) -> tuple[Trained, float]:
    states, tags = made_up(0)
    dev, truth = made_up(1, sentences=20)
    config = replace(config, min_steps=0)
    training = train_tagger(selection, config, states, tags, dev, num_tags=3, seed=seed)
    shares = []
    while True:
        try:
            shares.append(next(training))
        except StopIteration as end:
            assert shares[-1] == 1.0
            return end.value, float((end.value.tags == truth).mean())


def test_a_linear_tagger_finds_what_is_there() -> None:
    config = replace(LINEAR, epochs=8, batch_sentences=8, learning_rate=0.05)
    assert train(Selection((1,), "one"), config)[1] > 0.99
    assert train(Selection((0,), "one"), config)[1] < 0.6
    assert train(Selection((0, 1), "sum"), config)[1] > 0.99
    assert train(Selection((0, 1), "concat"), config)[1] > 0.99
    assert train(Selection((2,), "one"), config)[1] < 0.8  # the word before is not seen


def test_a_bilstm_sees_the_words_around() -> None:
    linear = replace(LINEAR, epochs=8, batch_sentences=8, learning_rate=0.05)
    config = replace(
        BILSTM, epochs=15, batch_sentences=8, hidden_size=16, num_layers=1, learning_rate=0.03, dropout_prob=0.0
    )
    assert train(Selection((2,), "one"), config)[1] > train(Selection((2,), "one"), linear)[1] + 0.1


def test_learned_weights_prefer_the_layer_that_helps() -> None:
    config = replace(LINEAR, epochs=10, batch_sentences=8, learning_rate=0.05)
    trained, right = train(Selection((0, 1), "weighted"), config)
    assert len(trained.weights) == 2
    assert sum(trained.weights) == pytest.approx(1.0)
    assert trained.weights[1] > 0.55
    assert right > 0.99


def test_few_sentences_are_seen_more_often() -> None:
    states, tags = made_up(0, sentences=10)
    config = replace(LINEAR, epochs=2, min_steps=17, batch_sentences=4)
    training = train_tagger(Selection((1,), "one"), config, states, tags, states, num_tags=3, seed=0)
    assert len(list(training)) == 17
    config = replace(config, epochs=9)
    training = train_tagger(Selection((1,), "one"), config, states, tags, states, num_tags=3, seed=0)
    assert len(list(training)) == 27


def test_the_seed_decides() -> None:
    config = replace(LINEAR, epochs=1, batch_sentences=8)
    selection = Selection((1, 2), "weighted")
    one, again, other = (train(selection, config, seed)[0] for seed in (0, 0, 1))
    assert one.weights == again.weights != other.weights
    assert (one.tags == again.tags).all()


# -- the whole study ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_files(tmp_path_factory.mktemp("probe"))


def options(files: dict[str, Path], output: Path, **more: Any) -> ProbeOptions:
    given: dict[str, Any] = {
        "train": files["train"],
        "dev": files["dev"],
        "output": output,
        "model": str(files["model"]),
        "taggers": (QUICK_LINEAR, QUICK_BILSTM),
        **more,
    }
    return ProbeOptions(**given)


def figures(found: Finished) -> dict[tuple[str, str], float]:
    return {(row.tagger, row.layers): row.mean("f1") for row in found.study.rows}


def test_a_study(files: dict[str, Path], tmp_path: Path) -> None:
    events = list(probe_layers(options(files, tmp_path / "out", seeds=2)))
    found = events[-1]
    assert isinstance(found, Finished)
    assert [event.text for event in events if isinstance(event, Note)]
    stages = dict.fromkeys(event.stage for event in events if isinstance(event, Working))
    assert list(stages) == ["vectors (train)", "vectors (dev)", "linear taggers", "bilstm taggers"]
    shares = [event.share for event in events if isinstance(event, Working) and event.stage == "linear taggers"]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert len(found.study.rows) == 2 * len(rows_of(5))
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"probe.json", "report.html"}
    told = json.loads((tmp_path / "out" / "probe.json").read_text())
    assert told["metric"] == "f1"
    assert len(told["rows"]) == 22
    weighted = next(row for row in told["rows"] if row["layers"] == "weighted-all")
    assert len(weighted["weights"]) == 5
    assert {"f1", "precision", "recall", "accuracy", "spread"} <= set(weighted)
    seen = Reader((tmp_path / "out" / "report.html").read_text())
    assert seen.open == []
    assert (seen.fetched, seen.scripts) == ([], 0)
    for words in ("layer 0 (embeddings: first)", "concatenation of the last four", "BiLSTM tagger", "±"):
        assert words in seen.text, words


def test_a_stopped_study_goes_on(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(probe_layers(options(files, tmp_path / "whole")))[-1]
    assert isinstance(whole, Finished)
    for stop_after in (1, 4):
        with pytest.raises(KeyboardInterrupt, match="kept in .*out.part" if stop_after else ""):
            _stopped(options(files, tmp_path / "out"), stop_after)
    computed: list[str] = []
    monkeypatch.setattr(probe, "write_states", lambda *a, **k: computed.append("again") or iter(()))
    events = list(probe_layers(options(files, tmp_path / "out")))
    assert isinstance(events[-1], Finished)
    assert computed == []  # the vectors were there
    assert figures(events[-1]) == figures(whole)


def _stopped(asked: ProbeOptions, after: int) -> None:
    study = probe_layers(asked)
    count = 0
    for event in study:
        count += isinstance(event, Row)
        if count == after and isinstance(event, Working) and event.stage.endswith("taggers"):
            study.throw(KeyboardInterrupt)


def test_other_settings_do_not_continue(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _stopped(options(files, tmp_path / "out"), 1)
    with pytest.raises(OutputError, match=r"unfinished run that differs.*words: first there, mean now"):
        list(probe_layers(options(files, tmp_path / "out", words="mean")))
    given = options(files, tmp_path / "out")
    other, tokenizer = make_model(layers=3)
    model = tmp_path / "model"
    hub.save(other, tokenizer, model)
    with pytest.raises(OutputError, match=r"unfinished run that differs.*weights"):
        list(probe_layers(replace(given, model=str(model))))
    events = list(probe_layers(options(files, tmp_path / "out", words="mean", restart=True, taggers=(QUICK_LINEAR,))))
    assert isinstance(events[-1], Finished)


def test_what_is_there_is_not_overwritten(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(OutputError, match="holds no study"):
        list(probe_layers(options(files, tmp_path / "mine", overwrite=True)))
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "probe.json").write_text("{}")
    with pytest.raises(OutputError, match="--overwrite"):
        list(probe_layers(options(files, tmp_path / "old")))
    with pytest.raises(UsageError, match="no tagger"):
        list(probe_layers(options(files, tmp_path / "new", taggers=())))


def test_a_tag_that_only_the_development_sentences_have(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "dev.conll").write_text("river B-LOC\nmill B-PER\n")
    with pytest.raises(DataError, match=r"dev\.conll.*'B-PER'"):
        list(probe_layers(options(files | {"dev": tmp_path / "dev.conll"}, tmp_path / "out")))
    assert not (tmp_path / "out.part").exists()


def test_plain_tags_are_measured_by_accuracy(files: dict[str, Path], tmp_path: Path) -> None:
    given = dict(files)
    for name in ("train", "dev"):
        text = files[name].read_text().replace("B-LOC", "NOUN").replace(" O", " VERB")
        given[name] = tmp_path / f"{name}.conll"
        given[name].write_text(text)
    found = list(probe_layers(options(given, tmp_path / "out", taggers=(QUICK_LINEAR,), max_sentences=10)))[-1]
    assert isinstance(found, Finished)
    assert found.study.metric == "accuracy"
    assert found.study.num_train == 10


def test_unfinished_counts_rows_not_vectors(tmp_path: Path) -> None:
    left = Unfinished(tmp_path / "x", {}, unit="row", units_in=probe._is_row)
    left.add("train.vectors", lambda path: path.write_text("v") and {})
    assert "the 0 finished rows" in left.kept()
    left.add("a.json", lambda path: probe._write_row(path, {"file": "a.json"}))
    assert "the 1 finished row is kept" in left.kept()
    left.close()
