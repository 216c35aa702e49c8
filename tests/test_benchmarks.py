"""The benchmark harness on fake engines: who is asked what, in which order, what is reported. Never a time."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import decode
from benchmarks.embed import (
    compare_pairs,
    compare_vectors,
    encoder_flops,
    judge,
    make_engines,
    parse,
    read_long,
    read_pairs,
    read_short,
    startup_programs,
)
from benchmarks.harness import Workload, describe_machine, measure, measure_startup, rotated, summary, tune
from benchmarks.process import Engine, EngineError, EngineProcess, prepare, thread_environment
from benchmarks.report import render, write_json, write_page

FAKES = """
import os, time

def plus(threads, amount):
    def engine(call, batch_size=1):
        time.sleep(0.02 / batch_size)
        return [number + amount for number in call]
    engine.notes = {"threads": threads, "environment": os.environ["OMP_NUM_THREADS"]}
    return engine

def unloadable(threads):
    raise ValueError("no such\\nmodel")

def dying(threads):
    def engine(call):
        os._exit(9)
    return engine

def failing_later(threads):
    passes = []
    def engine(call):
        passes.append(call)
        if len(passes) > 1:
            raise RuntimeError("only once")
        return call
    return engine

def probe(threads):
    return lambda call: 1e9

def prepare_ok(amount):
    return {"prepared": amount, "process": os.getpid()}

def prepare_bad(amount):
    raise OSError("disk full")
"""

PROBE = Engine(name="probe", factory="fake_engines:probe")


@pytest.fixture(autouse=True)
def fake_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children get the parent's search path, so a module in a temporary directory serves."""
    (tmp_path / "fake_engines.py").write_text(FAKES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("benchmarks.process.SETTLE_SECONDS", 0.0)


def plus(name: str, amount: int, **more: Any) -> Engine:
    return Engine(name=name, factory="fake_engines:plus", options={"amount": amount}, **more)


def workload(**more: Any) -> Workload:
    return Workload(
        name="numbers", title="Numbers", calls=[[1, 2], [3]], items=3, flops=6e6, facts={"numbers": 3}, **more
    )


def difference(results: list[Any], reference: list[Any]) -> dict[str, float]:
    gap = float(
        max(
            abs(a - b)
            for ours, theirs in zip(results, reference, strict=True)
            for a, b in zip(ours, theirs, strict=True)
        )
    )
    return {"max_abs_difference": gap, "worst_cosine": 1.0}


def test_measure_reports_every_engine_and_survives_the_broken_ones(tmp_path: Path) -> None:
    engines = [
        plus("ours", 1),
        plus("peer", 3),
        Engine(name="unloadable", factory="fake_engines:unloadable"),
        Engine(name="dying", factory="fake_engines:dying"),
        Engine(name="later", factory="fake_engines:failing_later"),
        Engine(name="missing", factory="no_such_package_at_all:engine"),
        plus("unprepared", 1, prepare="fake_engines:prepare_bad"),
    ]
    said: list[str] = []
    measured = measure(
        engines,
        workload(),
        rounds=3,
        threads=2,
        baseline="peer",
        compare=difference,
        probe=PROBE,
        say=said.append,
    )
    rows = measured["engines"]
    assert list(rows) == [engine.name for engine in engines]
    assert rows["unloadable"] == {"error": "ValueError: no such model"}
    assert "exit code 9" in rows["dying"]["error"]
    assert rows["later"] == {"error": "RuntimeError: only once"}
    assert "no_such_package_at_all" in rows["missing"]["error"]
    assert "disk full" in rows["unprepared"]["error"]
    assert any("Traceback" in line for line in said)

    for name in ("ours", "peer"):
        row = rows[name]
        assert len(row["seconds"]) == len(row["cpu_seconds"]) == 3
        assert row["per_second"]["min"] <= row["per_second"]["median"] <= row["per_second"]["max"]
        assert row["notes"] == {"threads": 2, "environment": "2"}
        assert row["peak_mib"] > 0
        assert row["matmul_share"] == pytest.approx(summary([6e6 / s / 1e9 for s in row["seconds"]]))
    assert rows["peer"]["speed_ratio"] == {"median": 1.0, "min": 1.0, "max": 1.0}
    assert rows["peer"]["check"]["max_abs_difference"] == 0
    assert rows["ours"]["check"]["max_abs_difference"] == 2
    assert len(measured["matmul_flops_per_second"]["values"]) == 4  # before, between and after three rounds

    report = {
        "title": "numbers",
        "command": "python -m benchmarks.numbers",
        "machine": describe_machine(2, ["numpy", "no-such-package-at-all"]),
        "rounds": 3,
        "workloads": {"numbers": measured},
    }
    write_json(report, tmp_path / "deep" / "numbers.json")
    assert json.loads((tmp_path / "deep" / "numbers.json").read_text())["workloads"]["numbers"]["items"] == 3
    write_page(report, tmp_path / "deep" / "numbers.md")
    page = (tmp_path / "deep" / "numbers.md").read_text()
    assert page == render(report)
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1  # failed rows are as wide as the others
    assert any(line.startswith("| unloadable | failed: ValueError: no such model |") for line in lines)
    assert any(line.startswith("| ours |") and "2.0e+00" in line for line in lines)


def test_baseline_falls_back_to_the_first_engine_that_works() -> None:
    engines = [Engine(name="unloadable", factory="fake_engines:unloadable"), plus("ours", 1)]
    measured = measure(engines, workload(), rounds=1, threads=1, baseline="unloadable", probe=PROBE)
    assert measured["baseline"] == "ours"
    assert measured["engines"]["ours"]["speed_ratio"]["median"] == 1.0


def test_tuning_tries_every_candidate_and_takes_the_quickest() -> None:
    engine = plus("ours", 1, candidates=[{"batch_size": 1}, {"batch_size": 20}])
    settings, sweep = tune(engine, workload(sample=[[1]]), threads=1)
    assert [entry["settings"] for entry in sweep] == [{"batch_size": 1}, {"batch_size": 20}]
    assert settings == min(sweep, key=lambda entry: entry["seconds"])["settings"]
    assert tune(engine, workload(), threads=1) == ({"batch_size": 1}, [])  # nothing to try it on: the first one


def test_a_process_answers_passes_and_prepares_elsewhere() -> None:
    with EngineProcess(plus("ours", 10), threads=1) as process:
        process.set_calls([[1, 2], [3]])
        kept = process.run(keep=True)
        assert kept.results == [[11, 12], [13]]
        assert len(kept.call_seconds) == 2
        assert process.run().results is None
        assert process.memory()["peak"] > 0
    notes = prepare(plus("ours", 10, prepare="fake_engines:prepare_ok"), threads=1)
    assert notes["prepared"] == 10
    assert notes["process"] != os.getpid()
    with pytest.raises(EngineError, match="no such model"):
        EngineProcess(Engine(name="unloadable", factory="fake_engines:unloadable"), threads=1)


def test_rounds_rotate() -> None:
    engines = [plus(name, 0) for name in "abc"]
    assert ["".join(e.name for e in rotated(engines, number)) for number in range(4)] == ["abc", "bca", "cab", "abc"]
    assert summary([3.0, 1.0, 2.0]) == {"median": 2.0, "min": 1.0, "max": 3.0}


def test_environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("RAYON_NUM_THREADS", raising=False)
    with thread_environment(3):
        assert os.environ["OMP_NUM_THREADS"] == os.environ["RAYON_NUM_THREADS"] == "3"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "RAYON_NUM_THREADS" not in os.environ


def test_startup_runs_whole_processes() -> None:
    programs = {"good": "print('ready')", "bad": "raise SystemExit('broken on purpose')"}
    measured = measure_startup(programs, rounds=2, threads=1, baseline="bad")
    assert measured["baseline"] == "good"
    assert len(measured["engines"]["good"]["seconds"]) == 2
    assert "broken on purpose" in measured["engines"]["bad"]["error"]


def test_flops_by_hand() -> None:
    config = {"hidden_size": 2, "intermediate_size": 3, "num_hidden_layers": 5}
    # weights of a layer: 4·2·2 + 2·2·3 = 28; a text of 7 tokens: 2·7·28 + 4·49·2 = 784; of 1 token: 56 + 8 = 64
    assert encoder_flops(config, [7, 1]) == 5 * (784 + 64)


def test_vectors_are_compared_over_all_calls() -> None:
    reference = [np.eye(3, dtype=np.float32)[:2], np.eye(3, dtype=np.float32)[2:]]
    assert compare_vectors(reference, reference) == {"max_abs_difference": 0.0, "worst_cosine": 1.0}
    swapped = [reference[0][::-1], reference[1]]
    assert compare_vectors(swapped, reference) == {"max_abs_difference": 1.0, "worst_cosine": 0.0}
    broken = [np.full((3, 3), np.nan)]
    assert compare_vectors(broken, reference)["worst_cosine"] == -1.0


def test_texts_are_chosen_by_length(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    lines = ["word " * 253, "word " * 254, "", "word " * 510, "word " * 511]
    with lzma.open(tmp_path / "corpus" / "reviews-en-00.txt.xz", "wt") as file:
        file.write("\n".join(lines))

    def tokenize(texts: Any) -> list[list[int]]:
        return [[0] * (len(text.split()) + 2) for text in texts]

    assert [len(text.split()) for text in read_long(tmp_path, 2, tokenize)] == [254, 510]
    with pytest.raises(SystemExit, match="only 2 paragraphs"):
        read_long(tmp_path, 3, tokenize)
    with pytest.raises(SystemExit, match=r"train\.tsv does not exist"):
        read_short(tmp_path, 1)
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "train.tsv").write_text("a fine film\t1\nnot so\t0\n")
    assert read_short(tmp_path, 2) == ["a fine film", "not so"]


def test_the_command_line_knows_its_engines(tmp_path: Path) -> None:
    options = parse(["--engines", "bertworks", "ctranslate2", "--rounds", "1"])
    ours, peer = make_engines(options.engines, tmp_path, tmp_path)
    assert ours.options["window"] == peer.options["window"] == 512
    assert list(ours.candidates) == [{}]
    assert peer.prepare == "benchmarks.embed_engines:prepare_ctranslate2"
    assert peer.candidates[0] == {"batch_size": 32}
    assert set(startup_programs(tmp_path, None)) == {"bertworks", "sentence-transformers"}
    with pytest.raises(SystemExit):
        parse(["--engines", "no-such-engine"])


def test_decoding_is_compared_on_equal_terms(tmp_path: Path) -> None:
    folder = tmp_path / "multi30k"
    folder.mkdir()
    (folder / "test2016.en").write_text("A dog runs .\nTwo men\n")
    (folder / "test2016.de").write_text("Ein Hund läuft schnell .\nZwei Männer\n")
    pairs = decode.read_pairs(tmp_path, 2)
    task = decode.random_task(pairs, prompts=False)
    assert [len(row) for row in task.inputs] == [5, 3]  # with the token that ends a source
    assert task.limits == [5, 2]
    assert [len(part.inputs) for part in decode.split(task)] == [1, 1]
    assert decode.compare([[[1, 2], [3]]], [[[1, 2], [4]]]) == {"same": 0.5}
    with pytest.raises(SystemExit, match="has only 2 sentences"):
        decode.read_pairs(tmp_path, 3)
    options = decode.parse(["--rows", "7", "--workloads", "beam"])
    assert (options.rows, options.workloads) == (7, ["beam"])


def test_quality_stands_beside_speed(tmp_path: Path) -> None:
    (tmp_path / "glue" / "STS-B").mkdir(parents=True)
    with pytest.raises(SystemExit, match=r"dev\.tsv does not exist"):
        read_pairs(tmp_path / "nowhere", 1)
    rows = ["\t".join([*"1234567", f"first {score}", f"second {score}", str(score)]) for score in (0.5, 5.0, 2.5)]
    (tmp_path / "glue" / "STS-B" / "dev.tsv").write_text("\n".join(["header", *rows]) + "\n")
    texts, scores = read_pairs(tmp_path, 2)
    assert (texts, scores) == (["first 0.5", "second 0.5", "first 5.0", "second 5.0"], [0.5, 5.0])
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    assert compare_pairs(scores)([vectors], [vectors])["spearman"] == pytest.approx(100.0)

    def row(speed: float, cosine: float, spearman: float | None = None) -> dict[str, Any]:
        check = {"worst_cosine": cosine} | ({} if spearman is None else {"spearman": spearman})
        return {"per_second": {"median": speed}, "check": check}

    pairs = {
        "sentence-transformers": row(10, 1.0, 86.0),
        "bertworks-int8": row(30, 0.99, 85.9),
        "onnxruntime-int8": row(20, 0.99, 85.8),
        "onnxruntime-int8-signed": row(40, 0.99, 85.9),
        "ctranslate2-int8": row(40, 0.99, 85.4),
        "openvino-int8": {"error": "not installed"},
    }
    short = {name: row(10 * number, 0.97 if name.endswith("signed") else 0.985) for number, name in enumerate(pairs)}
    report = {
        "workloads": {
            "pairs": {"title": "Pairs", "baseline": "sentence-transformers", "engines": pairs},
            "short": {"title": "Short", "engines": short},
        }
    }
    said = judge(report)
    assert "is passed by bertworks-int8, onnxruntime-int8." in said
    told = "0.75 times as quick as onnxruntime-int8-signed, the quickest int8 peer, which does not pass, and 1.50 times"
    assert f"Pairs: bertworks-int8 is {told} as quick as onnxruntime-int8, the quickest that does." in said
    assert "and 0.50 times as quick as onnxruntime-int8, the quickest that does." in said
    del pairs["onnxruntime-int8"], short["onnxruntime-int8"]
    assert "none of the peers passes." in judge(report)
    assert short["ctranslate2-int8"]["check"]["spearman"] == 85.4
    assert (short["ctranslate2-int8"]["passes_gate"], short["onnxruntime-int8-signed"]["passes_gate"]) == (False, False)
