"""Whole runs: every task from its files to a directory that others open; killed anywhere it goes on to the same result."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertworks
from bertworks import hub
from bertworks.config import resolve
from bertworks.errors import BertworksError, CheckpointError, ConfigError, DataError, OutputError, UsageError
from bertworks.finetune import finish, seeds
from bertworks.finetune.config import FinetuneConfig
from bertworks.finetune.describe import how_made
from bertworks.finetune.events import Begun, Fitted, Note, Planned, Stepped, Stopped, Understood
from bertworks.finetune.run import FinetuneOptions, finetune
from bertworks.infer.predict import Predictor
from bertworks.nn.packed import Packed
from tests.finetune.small import (
    NOUNS,
    assert_same_run,
    finished,
    losses,
    make_files,
    make_model,
    options,
    rows,
    run,
    weights,
    write_csv,
    write_model,
)

Files = dict[str, Path]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# -- every task --------------------------------------------------------------------------------------------------------


def pair_file(path: Path) -> Path:
    lines = [f"{text}\t{text[::-1] if number % 2 else text}\t{number % 2}" for number, (text, _) in enumerate(rows(24))]
    path.write_text("sentence1\tsentence2\tlabel\n" + "\n".join(lines) + "\n")
    return path


def score_file(path: Path) -> Path:
    lines = [f"{text}\t{text}\t{len(text.split())}.5" for text, _ in rows(24)]
    path.write_text("sentence1\tsentence2\tscore\n" + "\n".join(lines) + "\n")
    return path


def choice_file(path: Path) -> Path:
    lines = [f"{text},walks,runs,is old,{number % 3}" for number, (text, _) in enumerate(rows(24))]
    path.write_text("text,ending0,ending1,ending2,label\n" + "\n".join(lines) + "\n")
    return path


def tag_file(path: Path) -> Path:
    blocks = []
    for text, _ in rows(24):
        words = [f"{word} {'B-LOC' if word in NOUNS[:3] else 'O'}" for word in text.split()]
        blocks.append("\n".join(words))
    path.write_text("\n\n".join(blocks) + "\n")
    return path


def question_file(path: Path) -> Path:
    articles = []
    for number, (text, _) in enumerate(rows(12)):
        word = text.split()[1]
        question = {
            "id": f"q{number}",
            "question": "what is second?",
            "answers": [{"text": word, "answer_start": text.index(word)}],
        }
        articles.append({"title": f"a{number}", "paragraphs": [{"context": text, "qas": [question]}]})
    path.write_text(json.dumps({"version": "1.1", "data": articles}))
    return path


TASKS: dict[str, tuple[str, Callable[[Path], Path], str | None]] = {
    "pair": ("pairs.tsv", pair_file, "AutoModelForSequenceClassification"),
    "regress": ("scores.tsv", score_file, "AutoModelForSequenceClassification"),
    "choice": ("choices.csv", choice_file, "AutoModelForMultipleChoice"),
    "tag": ("tags.conll", tag_file, "AutoModelForTokenClassification"),
    "qa": ("questions.json", question_file, "AutoModelForQuestionAnswering"),
    "similarity": ("scores.tsv", score_file, None),
}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_from_a_file_to_a_directory(task: Any, files: Files, tmp_path: Path) -> None:
    import transformers

    name, write, their_class = TASKS[task]
    path = write(tmp_path / name)
    output = tmp_path / "run"
    events = run(files, output, "train.epochs=1", task=task, train=path, dev=path)
    told = finished(events).figures
    assert told
    for file in ("config.toml", "metrics.json", "predictions.jsonl", "report.html", "README.md", "bertworks.json"):
        assert (output / file).is_file(), file
    assert not list(output.rglob("checkpoints"))
    # The saved model gives the figures that are told of it.
    predictor = Predictor(output)
    assert predictor.task.name == task
    from bertworks.data.labelled.read import read

    again = predictor.evaluate(read(path, task).examples)
    assert again.figures == pytest.approx(told, abs=1e-4)
    lines = [json.loads(line) for line in (output / "predictions.jsonl").read_text().splitlines()]
    assert len(lines) == len(again.predictions)
    assert all(line["truth"] is not None for line in lines)
    if their_class is not None:
        getattr(transformers, their_class).from_pretrained(output)
    else:
        from sentence_transformers import SentenceTransformer

        texts = [text for example in read(path, task).examples for text in example.texts]
        theirs = SentenceTransformer(str(output), device="cpu").encode(texts)
        np.testing.assert_allclose(bertworks.load(output).embed(texts), theirs, atol=1e-5)


def test_a_classifier_opens_elsewhere_with_the_same_numbers(files: Files, tmp_path: Path) -> None:
    import transformers

    output = tmp_path / "run"
    events = run(files, output, test=files["dev"])
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(output).eval()
    assert theirs.config.id2label == {0: "quick", 1: "still"}
    loaded = hub.load(output)
    ids = [*loaded.tokenizer.encode("the river runs").ids]
    with torch.inference_mode():
        expected = theirs(torch.tensor([ids])).logits
        ours = loaded.model.logits(Packed.from_sequences([ids]), "classify")
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)
    result = json.loads((output / "metrics.json").read_text())
    assert set(result) >= {"task", "metrics", "seeds", "data", "model", "seconds", "baseline"}
    assert result["metrics"] == finished(events).figures
    assert result["test"] == result["metrics"]  # the same file
    assert how_made(output)["made_by"] == "bertworks finetune classify"


def test_events_in_their_order(files: Files, tmp_path: Path) -> None:
    events = run(files, tmp_path / "run")
    kinds = [type(event) for event in events]
    assert kinds[:3] == [Understood, Planned, Begun]
    assert kinds.count(Stepped) == 10
    assert kinds[-2] is Fitted
    understood = next(event for event in events if isinstance(event, Understood)).sentences
    assert any("train.csv" in sentence for sentence in understood)
    planned = next(event for event in events if isinstance(event, Planned))
    assert planned.task.labels == ("quick", "still")
    assert planned.baseline


def test_a_share_of_the_training_file_is_kept(files: Files, tmp_path: Path) -> None:
    events = run(files, tmp_path / "run", dev=None, dev_fraction=0.25)
    understood = next(event for event in events if isinstance(event, Understood)).sentences
    assert any("10 of 40 examples (25%) are kept for evaluation" in sentence for sentence in understood)
    result = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert result["examples"] == {"train": 30, "dev": 10}
    assert len((tmp_path / "run" / "predictions.jsonl").read_text().splitlines()) == 10


def test_single_texts_are_learnt_without_evaluation(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\n" for text, _ in rows(24)))
    events = run(files, tmp_path / "run", "train.epochs=1", task="similarity", train=path, dev=None)
    assert finished(events).figures == {}
    assert (tmp_path / "run" / "predictions.jsonl").read_text() == ""


def test_several_labels_in_training_and_one_in_development(files: Files, tmp_path: Path) -> None:
    parts = {"train": (rows(24), lambda label: [label]), "dev": (rows(8, seed=1), lambda label: label)}
    written = {}
    for name, (table, form) in parts.items():
        written[name] = tmp_path / f"{name}.jsonl"
        written[name].write_text(
            "".join(json.dumps({"text": text, "label": form(label)}) + "\n" for text, label in table)
        )
    assert "f1_macro" in finished(run(files, tmp_path / "run", "train.epochs=1", **written)).figures
    assert "texts have at least one wrong label" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("family", ["gpt2", "modernbert", "albert"])
def test_other_families(family: str, files: Files, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", family)
    events = run({**files, "model": model}, tmp_path / "run", "train.epochs=1", seeds=2)
    assert len(finished(events).seeds) == 2
    assert Predictor(tmp_path / "run").predict("the river runs").label in ("quick", "still")  # type: ignore[union-attr]


def test_settings_come_from_data_file_and_options(files: Files, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[train]\nbatch_size = 10\nepochs = 1.0\n[task]\nclass_weights = "balanced"\n')
    given = FinetuneOptions(
        task="classify",
        output=tmp_path / "run",
        train=files["train"],
        dev=files["dev"],
        model=str(files["model"]),
        config=file,
        settings=("train.batch_size=20",),
        track=(),
    )
    events = list(finetune(given))
    stored = resolve(FinetuneConfig, tmp_path / "run" / "config.toml")
    assert (stored.train.epochs, stored.train.batch_size) == (1.0, 20)
    assert stored.train.optimizer.learning_rate == 2e-4  # for few examples
    assert stored.run is not None
    assert set(stored.run.pinned) == {"train.batch_size", "train.epochs", "task.class_weights"}
    assert next(event for event in events if isinstance(event, Planned)).task.class_weights == (1.0, 1.0)  # type: ignore[attr-defined]
    # The settings of a run are a file of settings, too.
    again = replace(given, output=tmp_path / "again", config=tmp_path / "run" / "config.toml", settings=())
    assert losses(list(finetune(again))) == losses(events)


def test_a_head_on_frozen_vectors(files: Files, tmp_path: Path) -> None:
    output = tmp_path / "run"
    events = run(files, output, "frozen.folds=3", frozen=True)
    result = json.loads((output / "metrics.json").read_text())
    assert len(result["cross_validation"]["folds"]) == 3
    assert finished(events).cross_validation == result["cross_validation"]
    before, after = weights(files["model"]), weights(output)
    name = "body.blocks.1.attention.qkv.weight"
    assert torch.equal(before[name], after[name])
    again = Predictor(output).predict([text for text, _ in rows(16, seed=1)])
    told = [json.loads(line)["label"] for line in (output / "predictions.jsonl").read_text().splitlines()]
    assert [prediction.label for prediction in again] == told  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="--frozen is for classify"):
        run(files, tmp_path / "qa", task="qa", frozen=True)


# -- several seeds -----------------------------------------------------------------------------------------------------


def test_seeds(files: Files, tmp_path: Path) -> None:
    output = tmp_path / "run"
    events = run(files, output, seeds=3, seed=5)
    result = json.loads((output / "metrics.json").read_text())
    assert result["seeds"] == [5, 6, 7]
    assert set(result["spread"]) == set(result["metrics"])
    values = [each["metrics"]["accuracy"] for each in result["runs"]]
    assert result["metrics"]["accuracy"] == pytest.approx(sum(values) / 3)
    assert result["kept_seed"] == 5 + values.index(max(values))
    assert finished(events).spread == result["spread"]
    titles = [event.title for event in events if isinstance(event, Begun)]
    assert titles == ["seed 5 (1 of 3)", "seed 6 (2 of 3)", "seed 7 (3 of 3)"]
    assert not list(output.rglob("candidate"))
    alone = run(files, tmp_path / "alone", seed=result["kept_seed"])
    assert finished(alone).figures == result["runs"][result["kept_seed"] - 5]["metrics"]
    ours, theirs = weights(output), weights(tmp_path / "alone")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.fixture(scope="module")
def whole(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole") / "run"
    run(files, output, "train.checkpoint_steps=3", seeds=2)
    return output


def kill_at(files: Files, output: Path, number: int, **more: Any) -> None:
    """Run, and die after event `number`."""
    events = finetune(options(files, output, "train.checkpoint_steps=3", resume=True, seeds=2, **more))
    for count, _ in enumerate(events):
        if count == number:
            events.close()  # type: ignore[attr-defined]
            return


def test_killed_after_an_event_and_resumed(files: Files, whole: Path, tmp_path: Path) -> None:
    for number in (1, 2, 6, 12, 13, 14, 20, 25):
        output = tmp_path / f"killed-{number}"
        kill_at(files, output, number)
        run(files, output, "train.checkpoint_steps=3", resume=True, seeds=2)
        assert_same_run(output, whole)


def test_killed_again_and_again(files: Files, whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    for number in (5, 8, 6, 10, 7, 4):
        kill_at(files, output, number)
    run(files, output, "train.checkpoint_steps=3", resume=True, seeds=2)
    assert_same_run(output, whole)


@pytest.mark.parametrize(
    ("module", "name"),
    [(seeds, "save_model"), (seeds, "write_outcome"), (finish, "write_task"), (finish, "report"), (finish, "clean")],
)
def test_killed_while_writing(
    module: Any, name: str, files: Files, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "run"

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, name, killed)
        with pytest.raises(KeyboardInterrupt):
            run(files, output, "train.checkpoint_steps=3", seeds=2)
    run(files, output, resume=True)  # nothing else need be said
    assert_same_run(output, whole)


def test_resuming_needs_only_the_directory(files: Files, tmp_path: Path) -> None:
    whole = run(files, tmp_path / "whole")
    output = tmp_path / "run"
    stop = threading.Event()
    for event in finetune(options(files, output), stop=stop):
        if isinstance(event, Stepped) and event.report.step == 4:
            stop.set()
    assert isinstance(event, Stopped)
    words = f"an unfinished finetune run; continue with: bertworks finetune classify -o {output} --resume"
    with pytest.raises(CheckpointError, match=re.escape(words)):
        hub.load(output)
    rest = list(finetune(FinetuneOptions(task="classify", output=output, resume=True, track=())))
    assert losses(rest) == losses(whole)[5:]
    assert_same_run(output, tmp_path / "whole")
    again = list(finetune(FinetuneOptions(task="classify", output=output, resume=True, track=())))
    assert [type(event) for event in again] == [type(rest[-1])]
    assert finished(again).already
    assert finished(again).figures == finished(whole).figures


def test_resuming_with_something_else(files: Files, tmp_path: Path) -> None:
    output = tmp_path / "run"
    train = write_csv(tmp_path / "train.csv", rows(40))
    given = options({**files, "train": train}, output)
    events = finetune(given)
    next(event for event in events if isinstance(event, Stepped))
    events.close()  # type: ignore[attr-defined]
    resumed = replace(given, resume=True)
    with pytest.raises(UsageError, match=r"train.epochs: 2.0 -> 3.0"):
        list(finetune(replace(resumed, epochs=3.0)))
    with pytest.raises(UsageError, match=r"run.seeds: 1 -> 2"):
        list(finetune(replace(resumed, seeds=2)))
    with pytest.raises(UsageError, match=r'run.task: "classify" -> "pair"'):
        list(finetune(replace(resumed, task="pair")))
    write_csv(train, rows(41))
    with pytest.raises(UsageError, match="was started with other examples"):
        list(finetune(resumed))
    moved = write_csv(tmp_path / "moved.csv", rows(40))
    other, tokenizer = make_model(layers=3)
    model = tmp_path / "model"
    hub.save(other, tokenizer, model)
    stored = output / "config.toml"
    before = stored.read_text()
    stored.write_text(before.replace(str(files["model"]), str(model)))  # as if other weights had come to the same place
    with pytest.raises(UsageError, match=r"was started with other weights than .* holds now"):
        list(finetune(FinetuneOptions(task="classify", train=moved, output=output, resume=True, track=())))
    stored.write_text(before)
    rest = list(finetune(replace(resumed, train=moved, settings=("train.checkpoint_steps=5",))))
    assert "train.checkpoint_steps: null -> 5" in next(event.text for event in rest if isinstance(event, Note))
    assert finished(rest)


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_bad_input_is_told_before_any_work(files: Files, tmp_path: Path) -> None:
    output = tmp_path / "run"
    unknown = write_csv(tmp_path / "unknown.csv", [("the mill runs", "quick"), ("the river", "sleepy")])
    one = write_csv(tmp_path / "one.csv", [("the mill runs", "quick")] * 4)
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    plain = tmp_path / "plain.txt"
    plain.write_text("".join(f"{text}\n" for text, _ in rows(24)))
    scored, tags = score_file(tmp_path / "scores.tsv"), tag_file(tmp_path / "tags.conll")
    cases: list[tuple[dict[str, Any], tuple[str, ...], type[BertworksError], str]] = [
        ({"task": "clasify"}, (), UsageError, "unknown task 'clasify' (did you mean 'classify'?)"),
        ({"train": None}, (), UsageError, "say what to train on: --train FILE"),
        ({"train": None, "resume": True}, (), UsageError, "there is no run in"),
        ({"dev_fraction": 0.2}, (), UsageError, "give --dev or --dev-fraction, not both"),
        ({"dev": unknown}, (), DataError, f"{unknown}:3: "),
        ({"dev": unknown}, (), DataError, "sleepy"),
        ({"test": unknown}, (), DataError, f"{unknown}:3: "),
        ({"train": one}, (), DataError, "one.csv: classification needs at least two different labels"),
        ({"train": empty}, (), DataError, "empty.csv"),
        ({"train": tmp_path / "none.csv"}, (), DataError, "none.csv"),
        ({}, ("task.distribution=poisson",), ConfigError, "means nothing to 'classify'"),
        ({}, ("method.freeze_layers=9",), ConfigError, "the model has 2 layers"),
        ({}, ("train.epoch=9",), ConfigError, "did you mean 'epochs'"),
        ({}, ("train.evaluation.metric=mcc",), ConfigError, "it is 'accuracy', by task.metric: set that"),
        ({}, ("task.metric=f2",), UsageError, "unknown metric 'f2'"),
        ({"seeds": 0}, (), UsageError, "--seeds must be at least 1"),
        ({"frozen": True, "search": 2}, (), UsageError, "--frozen and --search exclude each other"),
        ({"device": "cuda:77"}, (), UsageError, "device"),
        ({"track": ("tensorbord",)}, (), UsageError, "did you mean 'tensorboard'"),
        ({"resume": True, "overwrite": True}, (), UsageError, "exclude each other"),
        ({"task": "similarity", "train": plain, "dev": None, "search": 2}, (), UsageError, "there are none: give some"),
        (
            {"task": "similarity", "train": scored, "dev": None},
            ("task.metric=mrr",),
            ConfigError,
            "which these develop",
        ),
        ({"task": "tag", "train": tags, "dev": None, "frozen": True}, ("task.crf=true",), UsageError, "a CRF is not"),
        ({"config": tmp_path / "none.toml"}, (), ConfigError, "none.toml"),
    ]
    for changes, settings, kind, words in cases:
        with pytest.raises(kind) as caught:
            run(files, output, *settings, **changes)
        assert words in str(caught.value), f"{changes} {settings}: {caught.value}"
        assert not output.exists(), changes


def test_unknown_labels_can_be_left_out(files: Files, tmp_path: Path) -> None:
    unknown = write_csv(tmp_path / "unknown.csv", [("the mill runs", "quick"), ("the river", "sleepy")])
    events = run(files, tmp_path / "run", "train.epochs=1", "data.skip_bad_rows=true", dev=unknown, test=unknown)
    told = [sentence for event in events if isinstance(event, Understood) for sentence in event.sentences]
    assert any("1 development examples left out, the first: " in sentence and "sleepy" in sentence for sentence in told)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["examples"]["dev"] == 1


def test_the_output_is_never_overwritten_silently(files: Files, tmp_path: Path) -> None:
    output = tmp_path / "run"
    run(files, output, "train.epochs=1")
    with pytest.raises(OutputError, match="which is finished; choose another directory or --overwrite"):
        run(files, output)
    before = json.loads((output / "metrics.json").read_text())["runs"][0]["steps"]
    run(files, output, overwrite=True)
    assert json.loads((output / "metrics.json").read_text())["runs"][0]["steps"] == 2 * before
    letter = tmp_path / "letter"
    letter.mkdir()
    (letter / "dear.txt").write_text("you")
    with pytest.raises(OutputError, match="not empty and holds no run"):
        run(files, letter)
    (letter / "dear.txt").unlink()
    (letter / "config.toml").write_text('[run]\ncommand = "pretrain"\n')
    with pytest.raises(UsageError, match="is one of bertworks pretrain; continue it with that command"):
        run(files, letter, resume=True)


def test_a_rare_label_may_be_on_either_side_of_the_split(files: Files, tmp_path: Path) -> None:
    table = [*rows(30), ("the old daughter", "once")]
    events = run({**files, "train": write_csv(tmp_path / "rare.csv", table)}, tmp_path / "run", dev=None)
    assert next(event for event in events if isinstance(event, Planned)).task.labels == ("once", "quick", "still")
