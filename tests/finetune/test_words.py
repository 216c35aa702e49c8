"""`finetune tag --model bilstm` from files to a finished directory: vectors from anywhere, CRF, text without tags."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertworks
from bertworks.config import resolve
from bertworks.data.labelled.examples import Place, TaggedExample
from bertworks.errors import BertworksError, ModelError, UsageError
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.defaults import suited
from bertworks.finetune.events import Event, Finished, Fitted, Stepped, Stopped
from bertworks.finetune.fit import TrainingData, fit
from bertworks.finetune.run import FinetuneOptions, finetune
from bertworks.finetune.words import VECTORS, make_vocabulary, read_unlabelled, scale_of
from bertworks.infer.predict import Predictor
from bertworks.models.words import WordStack
from bertworks.tasks import for_examples
from bertworks.tasks.word_inputs import WordInputs
from tests.finetune.small import QUICK, assert_same_run, write_model
from tests.tasks.word_models import FakeSource, make_model

SMALL = (
    *QUICK,
    "train.optimizer.learning_rate=3e-2",
    "words.word_size=7",
    "words.hidden_size=9",
    "words.character_features=6",
    "words.dropout=0.1",
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tagged_lines(count: int, *, seed: int = 0) -> str:
    """Who went where: a person before the verb, a place after it, of one word or two."""
    random = np.random.default_rng(seed)
    people, places = ["Ann", "Bo Li", "Cy", "Di Ng"], ["Rome", "New York", "Oslo", "Ulm"]
    lines = []
    for _ in range(count):
        person, place = random.choice(people), random.choice(places)
        for words, label in ((person, "PER"), ("went to", None), (place, "LOC"), (".", None)):
            for number, word in enumerate(words.split()):
                lines.append(f"{word} {'O' if label is None else ('I-' if number else 'B-') + label}")
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / f"{name}.conll" for name in ("train", "dev")}
    found["train"].write_text(tagged_lines(32), encoding="utf-8")
    found["dev"].write_text(tagged_lines(10, seed=1), encoding="utf-8")
    words = sorted({line.split()[0].lower() for line in tagged_lines(32).splitlines() if line})
    random = np.random.default_rng(2)
    rows = [f"{word} {' '.join(f'{value:.4f}' for value in random.normal(size=5))}" for word in words]
    found["vectors"] = tmp_path / "vectors.txt"
    found["vectors"].write_text("\n".join(rows) + "\n", encoding="utf-8")
    return found


def options(files: dict[str, Path], output: Path, *settings: str, **more: Any) -> FinetuneOptions:
    given = {"task": "tag", "train": files["train"], "dev": files["dev"], "model": "bilstm", "track": (), **more}
    return FinetuneOptions(output=output, settings=(*SMALL, *settings), **given)


def run(files: dict[str, Path], output: Path, *settings: str, **more: Any) -> list[Event]:
    return list(finetune(options(files, output, *settings, **more)))


def finished(events: Sequence[Event]) -> Finished:
    assert isinstance(events[-1], Finished), events[-1]
    return events[-1]


# -- a whole run -------------------------------------------------------------------------------------------------------


def test_a_run_ends_with_a_model_that_predicts_the_same(files: dict[str, Path], tmp_path: Path) -> None:
    bert = write_model(tmp_path / "bert")
    output = tmp_path / "run"
    sources = (f"words.vectors={files['vectors']},{bert}", f"words.between={bert}")
    result = finished(run(files, output, *sources, "task.crf=true", "train.epochs=20"))
    assert result.figures["f1"] > 0.8
    assert not (output / VECTORS).exists()
    assert not (output / "checkpoints").exists()
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["metrics"]["f1"] == result.figures["f1"]
    assert "<html" in (output / "report.html").read_text()
    assert "bilstm" in (output / "README.md").read_text()

    predictor = Predictor(output)
    lines = [json.loads(line) for line in (output / "predictions.jsonl").read_text().splitlines()]
    again = predictor.predict([line["words"] for line in lines])
    assert [list(prediction.tags) for prediction in again] == [line["tags"] for line in lines]
    for prediction, line in zip(again, lines, strict=True):
        assert prediction.probabilities == pytest.approx(line["probabilities"], abs=2e-3)

    text = "  Bo Li\twent to New   York . "
    spans = bertworks.load(output).predict(text).spans
    assert [(span.label, text[span.start : span.end]) for span in spans] == [("PER", "Bo Li"), ("LOC", "New   York")]
    for span in spans:
        assert span.text == text[span.start : span.end]
    body = predictor.loaded.model.body
    assert isinstance(body, WordStack)
    static, mixed, between = body.config.vectors
    assert (static.width, static.num_layers, static.between) == (5, 1, False)
    assert (mixed.num_layers, mixed.between) == (3, False)  # two layers and the embeddings
    assert (between.width, between.num_layers, between.between) == (mixed.width, 1, True)
    assert between.scale != pytest.approx(mixed.scale)  # of the last layer alone


def test_a_stopped_run_goes_on_to_the_same_end(files: dict[str, Path], tmp_path: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("\n".join(f"Bo went to {place} ." for place in ("Rome", "Ulm", "Bonn", "Paris", "York")))
    settings = (f"words.vectors={files['vectors']}", "task.crf=true", f"words.unlabelled={plain}")
    settings = (*settings, "words.unlabelled_batch_size=2")
    run(files, tmp_path / "whole", *settings)
    stop = threading.Event()
    seen = []
    for event in finetune(options(files, tmp_path / "parts", *settings), stop=stop):
        seen.append(event)
        if isinstance(event, Stepped) and event.report.step == 3:
            stop.set()
    assert isinstance(seen[-1], Stopped)
    kept = list((tmp_path / "parts" / VECTORS).iterdir())
    assert len(kept) == 3  # of the sentences to learn from, to be judged by, and without tags: computed once
    finished(list(finetune(options(files, tmp_path / "parts", *settings, resume=True))))
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_every_seed_draws_its_own_weights(files: dict[str, Path], tmp_path: Path) -> None:
    result = finished(run(files, tmp_path / "run", "train.epochs=1", seeds=2))
    outcomes = [json.loads((tmp_path / "run" / "seeds" / str(seed) / "outcome.json").read_text()) for seed in (0, 1)]
    assert [outcome["seed"] for outcome in outcomes] == [0, 1]
    curves = [(tmp_path / "run" / "seeds" / str(seed) / "metrics.jsonl").read_text().splitlines() for seed in (0, 1)]
    first, second = (json.loads(lines[0])["loss"] for lines in curves)
    assert first != second
    assert result.seeds == [0, 1]
    assert Predictor(tmp_path / "run").task.name == "tag"


def test_classify_over_words(tmp_path: Path, files: dict[str, Path]) -> None:
    rows = [
        (f"Ann went to {place} .", "near" if place in ("Rome", "Ulm") else "far")
        for place in ("Rome", "Oslo", "Ulm", "York")
    ]
    table = tmp_path / "train.csv"
    table.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows * 6))
    given = {"train": table, "dev": table}
    result = finished(
        run(
            {**files, **given},
            tmp_path / "run",
            f"words.vectors={files['vectors']}",
            "train.epochs=12",
            task="classify",
        )
    )
    assert result.figures["accuracy"] == 1.0
    found = Predictor(tmp_path / "run").predict(["she went to ROME", ""])
    assert found[0].label == "near"
    assert found[1].label in ("near", "far")


# -- what can be wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "more", "message"),
    [
        (["words.vectors={vectors}"], {"model": "minilm"}, "are for new models over words"),
        (["words.vectors={vectors}"], {"task": "pair"}, "are for tag and classify, not for pair"),
        ([], {"frozen": True}, "bilstm is a new one"),
        (["words.between={vectors}", "words.num_layers=1"], {}, "between two recurrent layers"),
        (["words.vectors=nowhere/to/be/found"], {}, "nowhere/to/be/found"),
        (["words.unlabelled=nowhere.txt"], {}, "nowhere.txt"),
        (["words.unlabelled={train}", "words.vectors={bert}"], {}, "do not know their neighbours"),
        (["words.characters=lstm", "words.character_features=7"], {}, "must be even"),
        (["method.lora_rank=4"], {}, "lora_rank"),
    ],
)
def test_contradictions_are_told_before_anything_is_written(
    files: dict[str, Path], tmp_path: Path, settings: list[str], more: dict[str, Any], message: str
) -> None:
    files["bert"] = write_model(tmp_path / "bert")
    with pytest.raises(BertworksError, match=message):
        run(files, tmp_path / "run", *(setting.format(**files) for setting in settings), **more)
    assert not (tmp_path / "run").exists()


def test_vectors_that_are_not_the_same_any_more(files: dict[str, Path], tmp_path: Path) -> None:
    output = tmp_path / "run"
    settings = (f"words.vectors={files['vectors']}", "train.epochs=1")
    stop = threading.Event()
    stop.set()
    list(finetune(options(files, output, *settings), stop=stop))
    text = files["vectors"].read_text()
    files["vectors"].write_text(text.replace("1", "2"))
    with pytest.raises(UsageError, match="other word vectors"):
        list(finetune(options(files, output, *settings, resume=True)))
    files["vectors"].write_text(text)
    finished(list(finetune(options(files, output, *settings, resume=True))))
    assert Predictor(output).predict("Ann went to Rome .").tags
    with pytest.raises(UsageError, match="is a model over words"):
        list(
            finetune(
                FinetuneOptions(task="tag", train=files["train"], model=str(output), output=tmp_path / "more", track=())
            )
        )
    files["vectors"].write_text(text.replace("1", "2"))
    with pytest.raises(ModelError, match="other word vectors"):
        Predictor(output)
    files["vectors"].unlink()
    with pytest.raises(ModelError, match="cannot be opened"):
        Predictor(output)


def test_words_without_labels_are_unknown_words(files: dict[str, Path], tmp_path: Path) -> None:
    """A row of the table that no tag was ever learnt for would be a random vector; the unknown word's row is learnt."""
    text = tmp_path / "plain.txt"
    text.write_text("Xanadu met Xanadu .\nXanadu saw Xanadu .\n")
    tokenizers = []
    for name, settings in (("without", ()), ("with", (f"words.unlabelled={text}",))):
        run(files, tmp_path / name, "train.epochs=1", *settings)
        tokenizers.append(json.loads((tmp_path / name / "tokenizer.json").read_text())["model"]["vocab"])
    assert tokenizers[0] == tokenizers[1]


def test_text_without_labels_must_be_the_same_when_a_run_goes_on(files: dict[str, Path], tmp_path: Path) -> None:
    text = tmp_path / "plain.txt"
    text.write_text("Bo went to Bonn .\n")
    stop = threading.Event()
    stop.set()
    settings = (f"words.unlabelled={text}", "train.epochs=1")
    list(finetune(options(files, tmp_path / "run", *settings), stop=stop))
    text.write_text("Bo went to Ulm .\n")
    with pytest.raises(UsageError, match=r"other text without labels.*plain\.txt"):
        list(finetune(options(files, tmp_path / "run", *settings, resume=True)))


# -- parts -------------------------------------------------------------------------------------------------------------


def test_text_without_tags_becomes_sentences_of_words(tmp_path: Path) -> None:
    text = tmp_path / "some.txt"
    text.write_text("Ann went home. She slept!\nOne\n" + "x " * 300 + "\n", encoding="utf-8")
    found = [example.words for example in read_unlabelled([str(text)])]
    assert found == [("Ann", "went", "home", "."), ("She", "slept", "!")]
    text.write_text("One\n")
    with pytest.raises(BertworksError, match=r"some\.txt: has no sentences"):
        list(read_unlabelled([str(text)]))


def test_sources_are_scaled_to_one_size() -> None:
    source = FakeSource()
    sentences = [["ab", "c"], ["def"]]
    vectors = np.concatenate([array.ravel() for array in source.vectors(sentences)])
    assert np.sqrt(np.mean((vectors * scale_of(source, sentences)) ** 2)) == pytest.approx(0.5)
    assert np.isfinite(scale_of(source, []))
    last = np.concatenate(
        [array[-1].ravel() for array in source.vectors(sentences)]
    )  # all that a model between layers reads
    assert np.sqrt(np.mean((last * scale_of(source, sentences, last=True)) ** 2)) == pytest.approx(0.5)
    assert scale_of(source, sentences, last=True) != pytest.approx(scale_of(source, sentences))


def test_the_vocabulary_is_a_function_of_the_words() -> None:
    first, second = (make_vocabulary([["b", "a"], ["B", "c"]][::step], 1) for step in (1, -1))
    assert first.backend.to_str() == second.backend.to_str()


def test_new_models_get_settings_of_their_own() -> None:
    task = for_examples("tag", [sentence("a b", "X Y")], inputs=WordInputs())
    model, _ = make_model([("a",)])
    config = suited(task, 14_000, model, fresh=True)
    assert config.train.optimizer.learning_rate > 1e-3
    assert config.train.epochs > suited(task, 50_000, model, fresh=True).train.epochs


# -- cross-view training -----------------------------------------------------------------------------------------------


def sentence(words: str, tags: str | None = None) -> TaggedExample:
    return TaggedExample(
        words=tuple(words.split()), tags=None if tags is None else tuple(tags.split()), place=Place("made", 1)
    )


def test_text_without_tags_helps_where_tags_are_few() -> None:
    """Titles tell people from places, but names also stand alone. The tagged sentences teach what titles mean, by names that
    can be either; the text without tags tells who is called by which. A tagger that has read it knows the names alone.

    The letters of the names are random, and are not read: a tagger that learns them by heart teaches nonsense.
    """
    random = np.random.default_rng(0)
    spelled = ["".join(random.choice(list("aeiklmnorst"), 4)) for _ in range(48)]
    either, names = spelled[:8], {"PER": spelled[8:28], "LOC": spelled[28:]}
    titles = {"PER": ["mr", "dr", "lady"], "LOC": ["in", "near", "at"]}
    train = [
        sentence(f"{t} {name} sang", f"O B-{label} O") for label in names for name in either for t in titles[label]
    ]
    train += [
        sentence(f"{name} sang", f"B-{label} O") for label in names for name in names[label][:4] for _ in range(3)
    ]
    unlabelled = [sentence(f"{t} {name} sang") for label in names for name in names[label] for t in titles[label]]
    dev = [sentence(f"{name} sang", f"B-{label} O") for label in names for name in names[label][4:]]
    settings = ["train.batch_size=16", "train.epochs=50", "train.optimizer.learning_rate=2e-2"]
    settings += ["train.evaluation.metric=f1", "train.evaluation.steps=125", "words.unlabelled_batch_size=24"]
    config = resolve(FinetuneConfig, settings=settings)
    reached = {}
    for views in (0.0, 1.0):
        task = for_examples("tag", train, inputs=WordInputs(), views=views)
        words = [each.words for each in (*train, *unlabelled)]
        table = {"size": 16, "characters": "none"}
        model, tokenizer = make_model(words, embeddings=table, direction_size=32, hidden_dropout_prob=0.1)
        data = TrainingData(train, dev, window=99, unlabelled=unlabelled if views else ())
        *_, last = fit(task, data, model, tokenizer, config, fresh=True, seed=0)
        assert isinstance(last, Fitted)
        reached[views] = last.figures["f1"]
    assert reached[0.0] < 0.75 < 0.85 < reached[1.0], reached
