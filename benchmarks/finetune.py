"""Fine-tuning MiniLM: ours against `transformers`' Trainer, on the same sequences, judged by the same program.

    python -m benchmarks.finetune sst2 conll mrpc stsb cola squad --seeds 3 [--rows N] [--write-docs]

Both get the same token ids (ours; tokenizing is in our time and not in theirs), the same model, epochs, batch size,
learning rate, warm-up, decay and threads; rates were settled on parts of the training files (SST-2, where there is
little between them, has BERT's 5e-5). The Trainer pads each batch to its longest sequence. Each training is a process of
its own, ours and theirs in turn, seed by seed; the time is that of the training without evaluation. Both results are
Hugging Face directories, and both are judged by `bertworks`, whose figures equal the reference implementations' by test.

Trainings that are in the JSON file already are not repeated, so the benchmark can be done in pieces, and on different
machines: the two trainings of a seed, which are held against each other, come from one. With `--untimed` more seeds can be
had of a machine that has other work as well: their figures count, their time is not kept.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import describe_machine, matmul_probe
from benchmarks.options import ROOT, add_places, command_line, say, whole_command
from benchmarks.process import memory_mebibytes, thread_environment
from benchmarks.report import table, write_json
from benchmarks.study import spread

if TYPE_CHECKING:
    from bertworks.tasks.base import TaskName

MODEL = "minilm"
OURS, THEIRS = "bertworks", "transformers"
BATCH_SIZE, WARMUP, WEIGHT_DECAY = 32, 0.1, 0.01


@dataclass(frozen=True)
class Set:
    """A data set: its files, the task, how long, and the figure that counts."""

    title: str
    task: TaskName
    train: str
    dev: str
    epochs: float
    rate: float
    """The highest learning rate."""
    metric: str
    architecture: str
    window: int = 128


SETS = {
    "sst2": Set("SST-2", "classify", "sst2/train.tsv", "sst2/dev.tsv", 3, 5e-5, "accuracy", "SequenceClassification"),
    "conll": Set(
        "CoNLL-2003", "tag", "conll2003/train.conll", "conll2003/dev.conll", 1, 2e-4, "f1", "TokenClassification"
    ),
    "mrpc": Set(
        "MRPC", "pair", "glue/MRPC/train.tsv", "glue/MRPC/dev.tsv", 2, 1e-4, "accuracy", "SequenceClassification"
    ),
    "stsb": Set(
        "STS-B", "regress", "glue/STS-B/train.tsv", "glue/STS-B/dev.tsv", 2, 2e-4, "spearman", "SequenceClassification"
    ),
    "cola": Set(
        "CoLA", "classify", "glue/CoLA/train.tsv", "glue/CoLA/dev.tsv", 2, 1e-4, "mcc", "SequenceClassification"
    ),
    "squad": Set(
        "SQuAD 1.1",
        "qa",
        "squad/train-v1.1-44articles.json",
        "squad/dev-v1.1-24articles.json",
        1,
        2e-4,
        "f1",
        "QuestionAnswering",
        384,
    ),
}


class Prepared:
    """A set, read: the task, its examples and the model that both sides start from."""

    def __init__(self, wanted: Set, data: Path, rows: int | None) -> None:
        from bertworks import hub
        from bertworks.data.labelled import read
        from bertworks.tasks import for_examples

        self.set = wanted
        self.train, self.dev = (read(data / file, wanted.task).examples[:rows] for file in (wanted.train, wanted.dev))
        self.task: Any = for_examples(wanted.task, self.train)
        self.loaded = hub.load(MODEL)


def train_ours(prepared: Prepared, seed: int, output: Path) -> dict[str, float]:
    """Our loop, without evaluation; the result goes to `output`."""
    from bertworks import hub
    from bertworks.finetune.defaults import suited
    from bertworks.finetune.events import Fitted
    from bertworks.finetune.fit import TrainingData, fit

    wanted, loaded = prepared.set, prepared.loaded
    config = suited(prepared.task, len(prepared.train), loaded.model)
    optimizer = replace(config.train.optimizer, learning_rate=wanted.rate, weight_decay=WEIGHT_DECAY)
    config = replace(
        config, train=replace(config.train, epochs=wanted.epochs, batch_size=BATCH_SIZE, optimizer=optimizer)
    )
    data = TrainingData(prepared.train, window=wanted.window)
    started = time.perf_counter()
    *_, last = fit(prepared.task, data, loaded.model, loaded.tokenizer, config, seed=seed)
    seconds = time.perf_counter() - started
    assert isinstance(last, Fitted)
    prepared.task = last.task
    hub.save(last.model, last.tokenizer, output)
    return {"seconds": seconds}


def train_theirs(prepared: Prepared, seed: int, output: Path) -> dict[str, float]:
    """`transformers`' Trainer on the ids of our units."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    wanted, task, directory = prepared.set, prepared.task, prepared.loaded.directory
    units = task.encode(prepared.train, prepared.loaded.tokenizer, window=wanted.window, training=True)
    rows = trainer_rows(task, prepared.train, units)
    transformers.set_seed(seed)
    kind = getattr(transformers, f"AutoModelFor{wanted.architecture}")
    named = {"id2label": dict(enumerate(task.labels)), "label2id": {name: i for i, name in enumerate(task.labels)}}
    options = {"num_labels": 1, "problem_type": "regression"} if wanted.task == "regress" else named
    model = kind.from_pretrained(directory, **({} if wanted.task == "qa" else options))
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    collators = {"tag": transformers.DataCollatorForTokenClassification}
    arguments = transformers.TrainingArguments(
        output_dir=str(output / "trainer"),
        per_device_train_batch_size=BATCH_SIZE,
        num_train_epochs=wanted.epochs,
        learning_rate=wanted.rate,
        weight_decay=WEIGHT_DECAY,
        warmup_steps=WARMUP,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=seed,
    )
    trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=collators.get(wanted.task, transformers.DataCollatorWithPadding)(tokenizer),
    )
    started = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - started
    if wanted.task == "regress":  # it has learnt the numbers as they are
        prepared.task = replace(task, center=0.0, scale=1.0)
    trainer.save_model(str(output))
    prepared.loaded.tokenizer.save(output)
    return {"seconds": seconds}


def trainer_rows(task: Any, examples: Sequence[Any], units: Any) -> list[dict[str, Any]]:
    """Our units as the Trainer takes them."""
    segments = np.zeros_like(units.ids) if units.segments is None else units.segments
    cuts = units.starts[1:-1]
    sequences = zip(np.split(units.ids, cuts), np.split(segments, cuts), targets(task, examples, units), strict=True)
    return [{"input_ids": ids, "token_type_ids": kinds, **labels} for ids, kinds, labels in sequences]


def targets(task: Any, examples: Sequence[Any], units: Any) -> list[dict[str, Any]]:
    """What the Trainer's models call the labels, one entry per unit."""
    owners, arrays = units.owners, units.arrays
    match task.name:
        case "regress":
            return [{"labels": float(examples[owner].label)} for owner in owners]
        case "tag":
            found = []
            for unit, length in enumerate(units.num_tokens):
                chosen = slice(arrays["bounds"][unit], arrays["bounds"][unit + 1])
                labels = np.full(length, -100)
                labels[arrays["places"][chosen]] = arrays["targets"][chosen]
                found.append({"labels": labels.tolist()})
            return found
        case "qa":  # counted from the class token and then in the context
            places = np.where(arrays["targets"] == 0, 0, arrays["context"][:, :1] + arrays["targets"] - 1)
            return [{"start_positions": int(start), "end_positions": int(end)} for start, end in places]
        case _:
            numbers = {label: number for number, label in enumerate(task.labels)}
            return [{"labels": numbers[examples[owner].label]} for owner in owners]


def judge(prepared: Prepared, directory: Path) -> dict[str, float]:
    """The figures of a finished directory on the development examples."""
    from bertworks import hub
    from bertworks.tasks.run import evaluate_model

    loaded = hub.load(directory)
    evaluated = evaluate_model(
        prepared.task, loaded.model, prepared.dev, tokenizer=loaded.tokenizer, window=prepared.set.window
    )
    return dict(evaluated.figures)


def child(
    connection: Connection, engine: str, name: str, seed: int, data: Path, rows: int | None, threads: int
) -> None:
    """One training, in a process of its own."""
    import tempfile

    import torch

    torch.set_num_threads(threads)
    prepared = Prepared(SETS[name], data, rows)
    with tempfile.TemporaryDirectory() as place:
        output = Path(place) / "model"
        output.mkdir()
        result: dict[str, Any] = (train_ours if engine == OURS else train_theirs)(prepared, seed, output)
        result["peak_mebibytes"] = memory_mebibytes()["peak"]
        result["figures"] = judge(prepared, output)
    connection.send(result)


def settings(name: str) -> dict[str, float]:
    """What decides a training of a set, beside what all have."""
    return {"epochs": SETS[name].epochs, "rate": SETS[name].rate}


def paired(runs: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """The sets and seeds of which both trainings are there, from the same machine."""
    places = {(run["set"], run["seed"], run["engine"]): run["on"] for run in runs}
    found = {(name, seed) for name, seed, _ in places}
    return {each for each in found if (on := places.get((*each, OURS))) and on == places.get((*each, THEIRS))}


def trained(engine: str, name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """The result of one training."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    with thread_environment(options.threads):
        process = context.Process(
            target=child, args=(there, engine, name, seed, options.data, options.rows, options.threads)
        )
        process.start()
    there.close()
    try:
        result: dict[str, Any] = here.recv()
    except EOFError:
        raise SystemExit(f"{engine} on {name} failed; its error stands above") from None
    process.join()
    return {"engine": engine, "set": name, "seed": seed, **result}


def speed_ratios(report: dict[str, Any], name: str) -> list[float]:
    """The Trainer's time over ours, for each seed of a set whose trainings were both timed; the smallest first."""
    seconds = {
        (run["engine"], run["seed"]): run["seconds"]
        for run in report["runs"]
        if run["set"] == name and "seconds" in run
    }
    ours = [seed for engine, seed in seconds if engine == OURS and (THEIRS, seed) in seconds]
    return sorted(seconds[THEIRS, seed] / seconds[OURS, seed] for seed in ours)


def render(report: dict[str, Any]) -> str:
    rows = []
    for name, wanted in SETS.items():
        runs = {
            engine: {run["seed"]: run for run in report["runs"] if (run["set"], run["engine"]) == (name, engine)}
            for engine in (OURS, THEIRS)
        }
        both = sorted(runs[OURS].keys() & runs[THEIRS].keys())
        if not both:
            continue
        ratios = speed_ratios(report, name)
        form = ".1%" if wanted.metric in ("accuracy", "f1") else ".3f"
        epochs = f"{wanted.epochs:g} epoch{'s' if wanted.epochs != 1 else ''}"
        cells = [f"{wanted.title}, {epochs}, {wanted.rate:g}", wanted.metric]
        for engine in (OURS, THEIRS):
            cells.append(spread([runs[engine][seed]["figures"][wanted.metric] for seed in both], form))
        cells.append(f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})" if ratios else "")
        for engine in (OURS, THEIRS):
            seconds: dict[tuple[str, int], list[float]] = {}
            for run in (runs[engine][seed] for seed in both if "seconds" in runs[engine][seed]):
                seconds.setdefault(place(run), []).append(run["seconds"])
            cells.append(" / ".join(f"{statistics.median(each):.0f}" for each in seconds.values()))
        for engine in (OURS, THEIRS):
            cells.append(f"{max(runs[engine][seed]['peak_mebibytes'] for seed in both):.0f}")
        rows.append([*cells, str(len(both))])
    header = [
        "set, epochs, learning rate",
        "figure",
        "ours",
        "Trainer",
        "speed against the Trainer",
        "seconds, ours",
        "Trainer",
    ]
    header += ["peak MiB, ours", "Trainer", "seeds"]
    limit = f", the first {report['rows']:,} examples of each file" if report["rows"] else ""
    return "\n".join(
        [
            "# Benchmark: fine-tuning MiniLM\n",
            f"Written by `{report['command']}` on {report['machine']['date'][:10]}; do not edit by hand.\n",
            (
                f"Means over the seeds with their range, on each set's development file{limit}. Batches of {BATCH_SIZE}, "
                f"{WARMUP:.0%} warm-up, linear decay; epochs and learning rates stand in the table. Ours and the Trainer in "
                "turn; the speed ratio is taken seed by seed, seconds are medians (of each machine, where a set was on two); "
                "seeds of a machine that was busy count for the figures only. "
                f"{'; '.join(machines(report))}.\n"
            ),
            table(header, rows) + "\n",
        ]
    )


def place(run: dict[str, Any]) -> tuple[str, int]:
    """What a training ran on: the processor, and how many threads of it."""
    return run["on"]["processor"], run["on"]["threads"]


def machines(report: dict[str, Any]) -> list[str]:
    """What the sets were measured on: the processor, its threads and its matrix-multiply rate."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    whole = paired(report["runs"])
    for run in report["runs"]:
        if (run["set"], run["seed"]) in whole:
            found.setdefault(place(run), []).append(run)
    told = []
    for (processor, threads), runs in found.items():
        titles = ", ".join(wanted.title for name, wanted in SETS.items() if any(run["set"] == name for run in runs))
        rate = statistics.median(run["matmul"] for run in runs) / 1e9
        many = "s" if threads > 1 else ""
        told.append(f"{titles}: {threads} thread{many} of {processor}, {rate:.0f} GFLOP/s of matrix products")
    return told


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.finetune", description="Fine-tuning against Trainer.")
    parser.add_argument("sets", nargs="*", choices=[*SETS, []], help="default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="only the first so many examples of each file")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--untimed", action="store_true", help="the machine has other work: keep no times")
    add_places(parser, "finetune")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    machine = describe_machine(options.threads, ["bertworks", "torch", "transformers", "accelerate"])
    report: dict[str, Any] = {
        "benchmark": "finetune",
        "command": command_line("finetune", arguments),
        "machine": machine,
        "rows": options.rows,
        "runs": [],
    }
    chosen = options.sets or list(SETS)
    here = {name: machine[name] for name in ("threads", "processor", "packages")}
    if options.output.exists():
        before = json.loads(options.output.read_text(encoding="utf-8"))
        kept = before["runs"] if before["rows"] == options.rows else []
        kept = [run for run in kept if all(run.get(name) == value for name, value in settings(run["set"]).items())]
        whole = paired(kept)
        report["runs"] = [run for run in kept if (run["set"], run["seed"]) in whole or run["on"] == here]
    done = {(run["set"], run["seed"], run["engine"]) for run in report["runs"]}
    speed = matmul_probe(options.threads)(None)
    for name in chosen:
        for seed in range(options.seeds):
            order = (OURS, THEIRS) if seed % 2 == 0 else (THEIRS, OURS)
            for engine in order:
                if (name, seed, engine) in done:
                    continue
                result = trained(engine, name, seed, options)
                say(f"{name}, seed {seed}, {engine}: {result['seconds']:.0f} s, {result['figures']}")
                if options.untimed:
                    del result["seconds"]
                report["runs"].append({**result, **settings(name), "on": here, "matmul": speed})
                write_json(report, options.output)
    report["command"] = whole_command("finetune", arguments, [run["set"] for run in report["runs"]], SETS)
    write_json(report, options.output)
    if options.write_docs:
        (ROOT / "docs" / "benchmarks" / "finetune.md").write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
