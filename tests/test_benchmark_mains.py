"""The benchmarks' own programs with tiny or stubbed work: they run, do nothing twice, and render what they found."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import distill, equal_time, finetune, harness, judge, pretrain, quality, studies, study
from benchmarks.process import Engine

from bertworks import hub
from bertworks.train.directory import read_result
from tests.finetune import small
from tests.train.runs import make_corpus, run

FAKE = """
def falling(threads):
    return lambda rows: [5.0, 4.0]

def probe(threads):
    return lambda call: 1e9
"""
JUDGED = {"accuracy": 0.25, "loss": 4.5, "bits_per_byte": 1.75, "sst2": 0.7, "entity_accuracy": 0.1}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pages, results and caches go to a folder of the test."""
    (tmp_path / "docs" / "benchmarks").mkdir(parents=True)
    for module in (distill, equal_time, finetune, pretrain, study):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    for module in (distill, equal_time, study):
        monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    for module in (distill, finetune):
        monkeypatch.setattr(module, "matmul_probe", lambda threads: lambda _: 1e11)
    monkeypatch.setattr("benchmarks.process.SETTLE_SECONDS", 0.0)
    return tmp_path


@pytest.fixture(autouse=True)
def _threads() -> Any:
    """The programs set them."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny corpus with the name of one of the studies'."""
    path = make_corpus(tmp_path_factory.mktemp("corpus"), "bert")
    return path.rename(path.with_name("sv"))


def page_of(name: str, root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, which is the page that was written; its tables are whole."""
    page = (root / "docs" / "benchmarks" / f"{name}.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == page + "\n"
    assert page.startswith("# ")
    assert "do not edit by hand" in page
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert len(rows) > 2
    return page


def write_sst2(data: Path) -> Path:
    (data / "sst2").mkdir(parents=True)
    for name, count in (("train", 24), ("dev", 8)):
        lines = [f"{text}\t{int(label == 'quick')}\n" for text, label in small.rows(count)]
        (data / "sst2" / f"{name}.tsv").write_text("".join(lines))
    return data


# -- steps of pretraining ----------------------------------------------------------------------------------------------


def test_pretrain(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "fake_steps.py").write_text(FAKE)
    monkeypatch.syspath_prepend(root)

    def measure(engines: list[Engine], *arguments: Any, **options: Any) -> dict[str, Any]:
        stubs = [dataclasses.replace(engine, factory="fake_steps:falling", options={}) for engine in engines]
        probe = Engine(name="probe", factory="fake_steps:probe")
        return harness.measure(stubs, *arguments, **options, probe=probe)

    monkeypatch.setattr(pretrain, "measure", measure)
    monkeypatch.setattr(pretrain, "default_model", lambda: root)
    monkeypatch.setattr(pretrain, "rows_of_text", lambda data, tokenizer, rows, length: np.zeros((rows, length), int))
    output = root / "pretrain.json"
    given = ["--steps", "2", "--rounds", "1", "--threads", "1", "--batch-rows", "3", "--length", "8"]
    pretrain.main([*given, "--output", str(output), "--write-docs"])
    page = page_of("pretrain", root, capsys)
    assert "Loss in the first pass, first and last step: 5.00 to 4.00; 5.00 to 4.00" in page
    report = json.loads(output.read_text())
    assert report["workloads"]["masked LM"]["items"] == 48
    assert report["command"].startswith("python -m benchmarks.pretrain --steps 2")


def test_both_engines_of_pretrain_take_steps(minilm_directory: Path) -> None:
    rows = np.random.default_rng(0).integers(1000, 2000, (4, 64))
    rows[:, 0], rows[:, -1] = pretrain.CLS, pretrain.SEP
    for make in (pretrain.bertworks_engine, pretrain.transformers_engine):
        losses = make(1, "1x8x2", 2, str(minilm_directory))(rows)
        assert len(losses) == 2
        assert losses == pytest.approx([np.log(30_522)] * 2, abs=0.3)  # they know nothing yet
    assert pretrain.needed_flops("1x2x1", 3, 10, 5) == pytest.approx(60 * (48 + 12 + 0.15 * (4 + 10)))


def test_rows_of_text(shared_data: Path, minilm_directory: Path) -> None:
    rows = pretrain.rows_of_text(shared_data, str(minilm_directory), 32, 64)
    assert rows.shape == (32, 64)
    assert (rows[:, 0] == pretrain.CLS).all()
    assert (rows[:, -1] == pretrain.SEP).all()


# -- studies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(studies.STUDIES))
def test_study(name: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trained: list[tuple[str, int]] = []

    def train(variant: studies.Variant, corpus: Path, output: Path, *, seed: int, **options: Any) -> dict[str, Any]:
        assert (options["size"], options["tokens"], options["teacher"]) == ("2x24x3", 10_000, root)
        assert study.batch_tokens(variant) > 0
        trained.append((variant.name, seed))
        figures = {"loss": 5.0 - seed, "mlm_accuracy": 0.2}
        cost = {"seconds": 3.0, "wall_seconds": 4.0, "processor_share": 0.5}
        return {"steps": 7, "tokens": 1e6, "metrics": figures, "first_metrics": figures, **cost}

    monkeypatch.setattr(study, "corpus_directory", lambda corpus, data: root / corpus)
    monkeypatch.setattr(study, "train", train)
    monkeypatch.setattr(study, "judge", lambda output, corpus, data: JUDGED)
    monkeypatch.setattr(study, "by_frequency", lambda corpus: {"accuracy": 0.05, "loss": 7.0})
    monkeypatch.setattr(study, "half", lambda teacher: "1x24x3")
    (root / "model.safetensors").write_bytes(b"a teacher")
    output = root / "study.json"
    given = [name, "--tokens", "10000", "--size", "2x24x3", "--threads", "1", "--teacher", str(root)]
    given += ["--output", str(output), "--write-docs"]
    study.main([*given, "--seeds", "1"])
    variants = [variant.name for variant in studies.STUDIES[name].variants]
    assert trained == [(variant, 0) for variant in variants]
    page = page_of(f"study_{name}", root, capsys)
    assert "10,000 tokens a run, 1 seed (mean" in page
    study.main([*given, "--seeds", "2"])  # what is done is not repeated
    assert trained == [(variant, seed) for seed in (0, 1) for variant in variants]
    assert "25.0% (25.0%–25.0%)" in page_of(f"study_{name}", root, capsys)
    study.main([*given, "--seeds", "3", "--only", variants[0]])
    assert len(trained) == 2 * len(variants) + sum(each.startswith(variants[0]) for each in variants)
    report = json.loads(output.read_text())
    assert len(report["runs"]) == len(trained)
    assert report["command"].count("benchmarks.study") == 3  # all that made it
    assert ("word frequency alone" in page_of(f"study_{name}", root, capsys)) == ("accuracy" in JUDGED)


def test_a_run_of_a_study_is_trained_and_judged(corpus: Path, tmp_path: Path) -> None:
    variant = studies.Variant("modern", "modern", ("train.batch_tokens=512",), "sv")
    entry = study.train(variant, corpus, tmp_path / "run", data=tmp_path, size="2x24x3", seed=0, tokens=3 * 512)
    assert entry["steps"] == 3
    assert entry["metrics"].keys() == entry["first_metrics"].keys()
    judged = judge.judge(tmp_path / "run", corpus, tmp_path)
    assert judged.keys() == {"accuracy", "loss", "bits_per_byte"}
    assert judged["loss"] == pytest.approx(entry["metrics"]["loss"], rel=0.2)  # other masks on the same text
    assert study.key(variant, 1, None) != study.key(variant, 2, None)
    taught = dataclasses.replace(variant, taught=True)
    assert study.key(variant, 1, tmp_path / "run") == study.key(variant, 1, None)
    assert study.key(taught, 1, tmp_path / "run") != study.key(taught, 1, None)
    assert study.half(tmp_path / "run") == "1x24x3"
    frequency = judge.by_frequency(corpus)
    assert frequency.keys() == judged.keys()
    assert frequency["loss"] == pytest.approx(read_result(tmp_path / "run")["baseline"]["loss"], rel=0.1)
    assert 0 <= judge.sst2(tmp_path / "run", write_sst2(tmp_path)) <= 1


def test_a_study_of_students_needs_a_teacher(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        study.parse(["distill"])
    assert "needs --teacher" in capsys.readouterr().err


# -- equal time --------------------------------------------------------------------------------------------------------


def test_equal_time(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Any] = []

    def train(variant: studies.Variant, corpus: Path, output: Path, **options: Any) -> dict[str, Any]:
        asked.append((options["seconds"],))
        output.mkdir(parents=True)
        return {"steps": 10, "tokens": 2e6, "seconds": 60.0, "wall_seconds": 66.0}

    def train_peer(corpus: Path, setting: str, steps: int, output: Path, options: Any) -> dict[str, Any]:
        asked.append((setting, steps, output.name))
        output.mkdir(parents=True, exist_ok=True)
        return {"setting": setting, "steps": steps, "tokens": 1e6, "seconds": 66.0}

    def judge(output: Path, corpus: Path, data: Path) -> dict[str, float]:
        return JUDGED | {"loss": {("32:3e-4", 22): 7.5, ("8:2e-4", 22): 7.0}.get(asked[-1][:2], 4.5)}

    def tuned(directory: Path, data: Path, seed: int, rate: float, precision: str) -> float:
        asked.append((directory.name, seed, rate))
        return 0.8 + rate + 0.01 * seed

    monkeypatch.setattr(equal_time, "corpus_directory", lambda corpus, data: root / corpus)
    monkeypatch.setattr(equal_time, "train", train)
    monkeypatch.setattr(equal_time, "train_peer", train_peer)
    monkeypatch.setattr(equal_time, "judge", judge)
    monkeypatch.setattr(equal_time, "seconds_per_step", lambda corpus, setting, options: 1.0)
    monkeypatch.setattr(equal_time, "difference", lambda directory, data: 0.5)
    monkeypatch.setattr(equal_time, "finetune", tuned)
    given = ["--minutes", "1", "--threads", "1", "--finetune-rates", "0.001", "0.01", "--write-docs"]
    given += ["--peer-settings", "32:3e-4", "8:2e-4"]
    given += ["--output", str(root / "equal_time.json"), "--seeds"]
    equal_time.main([*given, "1"])
    # The Trainer has the time that ours took, in the trials a third of it, and goes on with the better setting.
    assert asked[:4] == [(60.0,), ("32:3e-4", 22, "trial"), ("8:2e-4", 22, "trial"), ("8:2e-4", 66, "theirs")]
    assert len(asked) == 4 + 2 * 2
    page_of("equal_time", root, capsys)
    equal_time.main([*given, "2"])  # only the second seed, with the better rate
    assert asked[8:] == [("ours", 1, 0.01), ("theirs", 1, 0.01)]
    shutil.rmtree(equal_time.CACHE)
    with pytest.raises(SystemExit, match="are no longer in"):
        equal_time.main([*given, "3"])
    page = page_of("equal_time", root, capsys)
    assert f"| {equal_time.OURS} | 1.1 | 2.00 | 25.0% | 4.500 | 0.50 | 70.0% | 81.5% (81.0%–82.0%) |" in page


def test_equal_time_side_by_side(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are there or neither; another number of threads is another measurement."""
    asked: list[str] = []
    fails = [True]

    def run_ours(corpus: Path, options: Any) -> dict[str, Any]:
        asked.append("ours")
        return {"tokens": 2e6, "seconds": 66.0, "judged": JUDGED, "difference": 0.5}

    def run_peer(corpus: Path, setting: str, steps: int, output: Path, options: Any) -> dict[str, Any]:
        asked.append(output.name)
        if output.name == "theirs" and fails:
            fails.clear()
            raise OSError("no space")
        return {"tokens": 1e6, "seconds": 70.0, "judged": JUDGED, "difference": 0.5}

    monkeypatch.setattr(equal_time, "corpus_directory", lambda corpus, data: root / corpus)
    monkeypatch.setattr(equal_time, "run_ours", run_ours)
    monkeypatch.setattr(equal_time, "run_peer", run_peer)
    monkeypatch.setattr(equal_time, "seconds_per_step", lambda corpus, setting, options: 1.0)
    monkeypatch.setattr(equal_time, "ProcessPoolExecutor", lambda count, mp_context: ThreadPoolExecutor(count))
    given = ["--minutes", "1", "--peer-settings", "8:2e-4", "--side-by-side", "--precision", "bf16", "--write-docs"]
    given += ["--output", str(root / "equal_time.json"), "--phases", "ours", "trials", "theirs", "--threads"]
    with pytest.raises(OSError, match="no space"):
        equal_time.main([*given, "1"])
    assert json.loads((root / "equal_time.json").read_text())["engines"] == {}
    equal_time.main([*given, "1"])
    assert sorted(asked) == ["ours", "ours", "theirs", "theirs", "trial"]
    page = page_of("equal_time", root, capsys)
    assert "bf16, 1 thread of" in page
    assert "both at once" in page
    equal_time.main([*given, "1"])
    assert len(asked) == 5
    equal_time.main([*given, "2"])
    assert len(asked) == 8
    with pytest.raises(SystemExit):
        equal_time.parse(["--side-by-side", "--phases", "ours"])


def test_rows_of_the_trainer(corpus: Path) -> None:
    rows = equal_time.rows_of(corpus)
    assert rows.shape[1] == equal_time.LENGTH
    assert rows.dtype == np.int32


# -- distillation ------------------------------------------------------------------------------------------------------


def test_distill(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    teacher, tokenizer = small.make_model(layers=4)
    hub.save(teacher, tokenizer, root / "teacher")
    data = write_sst2(root / "data")
    (data / "glue" / "STS-B").mkdir(parents=True)
    texts = [text for text, _ in small.rows(12)]
    rows = [["x"] * 7 + [one, other, str(float(n))] for n, (one, other) in enumerate(pairwise(texts))]
    (data / "glue" / "STS-B" / "dev.tsv").write_text("".join("\t".join(row) + "\n" for row in [["x"] * 10, *rows]))

    def train(corpus: Path, output: Path, seconds: float) -> dict[str, Any]:
        assert seconds == 30.0
        hub.save(*small.make_model(layers=3), output)
        return {"steps": 2, "tokens": 1e6}

    monkeypatch.setattr(distill, "TEACHER", str(root / "teacher"))
    monkeypatch.setattr(distill, "corpus_of_the_teacher", lambda data: root / "corpus")
    monkeypatch.setattr(distill, "train", train)
    given = ["--minutes", "0.5", "--rounds", "2", "--threads", "1", "--data", str(data), "--write-docs"]
    distill.main([*given, "--output", str(root / "distill.json")])
    page = page_of("distill", root, capsys)
    assert "| teacher | 4 |" in page
    assert "| student before training | 3 |" in page
    report = json.loads((root / "distill.json").read_text())
    assert len(report["speeds"]["student"]) == 2
    assert all(-1 <= value <= 1 for value in report["similarity"].values())


def test_the_student_of_the_benchmark_is_trained(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(corpus, tmp_path / "teacher", "model.size=2x24x3", recipe="bert", steps=1)
    monkeypatch.setattr(distill, "TEACHER", str(tmp_path / "teacher"))
    monkeypatch.setattr(distill, "SIZE", "1x24x3")
    entry = distill.train(corpus, tmp_path / "student", 0.2)
    assert entry["steps"] >= 1
    assert hub.load(tmp_path / "student").model.num_layers == 1


# -- fine-tuning -------------------------------------------------------------------------------------------------------


def test_finetune(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, str, int]] = []

    def trained(engine: str, name: str, seed: int, options: Any) -> dict[str, Any]:
        asked.append((engine, name, seed))
        seconds = 10.0 if engine == finetune.OURS else 25.0
        figures = {finetune.SETS[name].metric: 0.5 + 0.1 * seed}
        found = {"seconds": seconds, "peak_mebibytes": 100.0, "figures": figures}
        return {"engine": engine, "set": name, "seed": seed, **found}

    monkeypatch.setattr(finetune, "trained", trained)
    given = ["--rows", "9", "--threads", "1", "--output", str(root / "finetune.json"), "--write-docs", "--seeds"]
    finetune.main([*given, "1"])
    assert asked == [(engine, name, 0) for name in finetune.SETS for engine in (finetune.OURS, finetune.THEIRS)]
    page_of("finetune", root, capsys)
    finetune.main([*given, "2", "sst2"])  # in the other order, and nothing twice
    assert asked[-2:] == [(finetune.THEIRS, "sst2", 1), (finetune.OURS, "sst2", 1)]
    page = page_of("finetune", root, capsys)
    assert (
        "| SST-2, 3 epochs, 5e-05 | accuracy | 55.0% (50.0%–60.0%) | 55.0% (50.0%–60.0%) | 2.50 (2.50–2.50) |" in page
    )
    count = len(asked)
    capsys.readouterr()
    report = json.loads((root / "finetune.json").read_text(encoding="utf-8"))
    report["runs"] = [run for run in report["runs"] if (run["set"], run["engine"]) != ("sst2", finetune.THEIRS)]
    (root / "finetune.json").write_text(json.dumps(report), encoding="utf-8")
    finetune.main([*given, "1", "sst2", "--threads", "2"])  # half a pair from elsewhere is no use; whole ones stay
    assert asked[count:] == [(finetune.OURS, "sst2", 0), (finetune.THEIRS, "sst2", 0)]
    assert re.search(
        "CoNLL-2003, MRPC, .*: 1 thread of .*; SST-2: 2 threads of .*, 100 GFLOP/s", page_of("finetune", root, capsys)
    )
    finetune.main([*given, "2", "stsb", "--threads", "2"])
    assert asked[count + 2 :] == [(finetune.THEIRS, "stsb", 1), (finetune.OURS, "stsb", 1)]
    assert "| 2.50 (2.50–2.50) | 10 / 10 | 25 / 25 |" in page_of("finetune", root, capsys)
    finetune.main([*given, "2", "cola", "--untimed"])  # another seed, but no other time
    page = page_of("finetune", root, capsys)
    assert re.search(r"CoLA.* \| 0.550 \(.*\) \| 0.550 \(.*\) \| 2.50 \(2.50–2.50\) \| 10 \| 25 \| .* \| 2 \|", page)


def test_both_sides_of_finetune_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune, "MODEL", str(small.write_model(tmp_path / "model")))
    prepared = finetune.Prepared(finetune.SETS["sst2"], write_sst2(tmp_path / "data"), 12)
    for train in (finetune.train_ours, finetune.train_theirs):
        output = tmp_path / train.__name__
        output.mkdir()
        assert train(prepared, 0, output)["seconds"] > 0
        assert 0 <= finetune.judge(prepared, output)["accuracy"] <= 1


def test_numbers_of_the_trainer_are_not_scaled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune, "MODEL", str(small.write_model(tmp_path / "model")))
    (tmp_path / "a.csv").write_text("text,score\n" + "".join(f"the mill {n},{100 + n}\n" for n in range(6)))
    numbers = dataclasses.replace(finetune.SETS["stsb"], train="a.csv", dev="a.csv", epochs=1)
    prepared = finetune.Prepared(numbers, tmp_path, None)
    assert prepared.task.center > 100
    (tmp_path / "out").mkdir()
    finetune.train_theirs(prepared, 0, tmp_path / "out")
    assert (prepared.task.center, prepared.task.scale) == (0.0, 1.0)


def test_a_row_comes_after_the_one_it_begins_with(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "RUNS", root / "runs")
    assert quality.in_order(["squad2", "trec"], {}) == ["squad1", "squad2", "trec"]
    assert quality.in_order(["squad2", "squad1"], {"squad1": {}, "trec": {}}) == [
        "squad1",
        "squad2",
    ]  # its model is gone
    (root / "runs" / "squad1").mkdir(parents=True)
    (root / "runs" / "squad1" / "metrics.json").write_text("{}")
    assert quality.in_order(list(quality.ROWS), dict.fromkeys(quality.ROWS.keys() - {"squad2"})) == ["squad2"]


def test_quality_asks_for_figures_that_there_are() -> None:
    figures = {"accuracy": 0.9, "f1_macro": 0.8, "mcc": 0.7}
    metrics = {"metric": "accuracy", "metrics": figures, "baseline": {}, "examples": {"train": 2, "dev": 1}}
    entry = {"command": "bertworks …", "metrics": {**metrics, "seconds": 60, "seeds": [0]}}
    report = {"command": "…", "rows": {"trec": entry}}
    assert "accuracy 0.900, f1_macro 0.800" in quality.render(report)
    entry["embeddings"] = {
        "MiniLM": {"bertworks": 0.86721, "sentence-transformers": 0.86719, "largest_difference": 2e-7}
    }
    assert "| MiniLM | 0.8672 | 0.8672 | 2.0e-07 |" in quality.render(report)
    del figures["f1_macro"]
    with pytest.raises(SystemExit, match="trec has no figure f1_macro"):
        quality.render(report)
