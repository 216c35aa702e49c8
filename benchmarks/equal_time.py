"""The same minutes for both: our recipe `modern` against a BERT of the same shape trained by `transformers`' Trainer.

    python -m benchmarks.equal_time --minutes 20 --seeds 3 [--size 4x256x4] [--precision bf16] [--side-by-side] [--write-docs]

Same corpus, same tokenizer, same held-out documents, same threads, same precision, one after the other on an otherwise idle
machine; the Trainer gets the seconds that our run took, should that have overrun its budget. `--side-by-side` runs both at
once instead, which with one thread each on two cores takes half the time. Each then lacks what the other takes of the memory's
bandwidth; ours knows that when it counts the steps that fit its minutes, while the Trainer takes as many as fit its minutes
when it is alone, and so takes longer. It runs the usual masked-LM recipe: rows
of 128 tokens joined and cut by `group_texts`, its MLM collator, AdamW, warm-up over a tenth and linear decay over as many
steps as fit the minutes (measured first, like ours). Rows in a batch and learning rate (`--peer-settings`) are the best of a
few trials of a share of the time each (`--trial-share`), by the loss on held-out text, given beside its minutes.

Judged alike: masked accuracy at 15 % on held-out text, and SST-2 after fine-tuning both with the same program,
`bertworks finetune`, several seeds. What is finished is kept in benchmarks/.cache and not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import describe_machine
from benchmarks.judge import judge
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.report import table, write_json
from benchmarks.studies import HELD_OUT_TOKENS, Variant
from benchmarks.study import corpus_directory, spread, train

CACHE = ROOT / "benchmarks" / ".cache" / "equal_time"
OURS, THEIRS = "bertworks, modern", "transformers' Trainer, BERT"
LENGTH = 128
SETTINGS = ("32:3e-4", "32:5e-4", "8:2e-4", "8:5e-4")
"""Rows in a batch and learning rate of the Trainer."""


def place(name: str, options: argparse.Namespace) -> Path:
    """Where a model of these conditions is kept: `ours`, `theirs`, `trial`."""
    side = "-side" if options.side_by_side else ""
    conditions = (
        f"{options.minutes:g}m-{options.size}-{options.precision}-{options.threads}-{options.trial_share:.2f}{side}"
    )
    return CACHE / conditions / name


def silence() -> None:
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def rows_of(corpus_path: Path) -> np.ndarray:
    """The training documents joined and cut into full rows, as `group_texts` does: int32 (rows, 128)."""
    from bertworks.data.corpus import Corpus
    from bertworks.data.pretraining import split_documents

    corpus = Corpus.open(corpus_path)
    tokenizer = corpus.tokenizer()
    training, _ = split_documents(corpus, HELD_OUT_TOKENS)
    edges = np.array([tokenizer.sep_id, tokenizer.cls_id])
    joined = np.concatenate([np.append(corpus.document(int(number)), edges) for number in training])
    count = len(joined) // LENGTH
    return joined[: count * LENGTH].reshape(count, LENGTH).astype(np.int32)


def peer_trainer(
    rows: np.ndarray, tokenizer_path: Path, size: str, setting: str, steps: int, precision: str = "fp32"
) -> Any:
    import transformers

    silence()
    layers, width, heads = map(int, size.split("x"))
    batch_rows, rate = setting.split(":")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_path)
    transformers.set_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )

    class Dataset:
        def __len__(self) -> int:
            return len(rows)

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"input_ids": rows[index].astype(np.int64)}

    arguments = transformers.TrainingArguments(
        output_dir=str(CACHE / "trainer"),
        per_device_train_batch_size=int(batch_rows),
        max_steps=steps,
        learning_rate=float(rate),
        weight_decay=0.01,
        warmup_steps=max(1, steps // 10),
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        bf16=precision == "bf16",
        seed=0,
        logging_steps=max(1, steps // 10),
    )
    return transformers.Trainer(
        model=transformers.BertForMaskedLM(config),
        args=arguments,
        data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
        train_dataset=Dataset(),
        processing_class=tokenizer,
    )


def seconds_per_step(corpus: Path, setting: str, options: argparse.Namespace) -> float:
    rows, tokenizer = rows_of(corpus), corpus / "tokenizer"
    peer_trainer(rows, tokenizer, options.size, setting, 2, options.precision).train()  # warm
    started = time.perf_counter()
    peer_trainer(rows, tokenizer, options.size, setting, 20, options.precision).train()
    return (time.perf_counter() - started) / 20


def train_peer(corpus: Path, setting: str, steps: int, output: Path, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    trainer = peer_trainer(rows_of(corpus), corpus / "tokenizer", options.size, setting, steps, options.precision)
    started = time.perf_counter()
    trainer.train()
    taken = time.perf_counter() - started
    trainer.save_model(str(output))
    tokens = steps * int(setting.split(":")[0]) * LENGTH
    return {"setting": setting, "steps": steps, "tokens": tokens, "seconds": taken, "threads": torch.get_num_threads()}


def run_ours(corpus: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train `modern`; what it cost and reached."""
    import torch

    torch.set_num_threads(options.threads)
    output = place("ours", options)
    settings = (f"train.precision={options.precision}",)
    seconds = 60 * options.minutes
    entry = train(
        Variant("modern", "modern", settings),
        corpus,
        output,
        data=options.data,
        size=options.size,
        seed=0,
        seconds=seconds,
    )
    entry |= {"threads": options.threads, "seconds": entry["wall_seconds"]}  # all of it: vectors, measuring, saving
    return {**entry, "judged": judge(output, corpus, options.data), "difference": difference(output, options.data)}


def run_peer(corpus: Path, setting: str, steps: int, output: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train the Trainer's model; what it cost and reached."""
    import torch

    torch.set_num_threads(options.threads)
    entry = train_peer(corpus, setting, steps, output, options)
    judged = judge(output, corpus, options.data)
    say(f"{setting}, {steps} steps: {judged}")
    return {**entry, "judged": judged, "difference": difference(output, options.data)}


def difference(directory: Path, data: Path) -> float:
    """How far the vectors of texts lie from their mean, relative to its length: 0 for a model that says the same of all."""
    from bertworks import load

    lines = (data / "sst2" / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:201]
    vectors = load(directory).embed([line.split("\t")[0] for line in lines], pooling="mean")
    mean = vectors.mean(0)
    return float(np.linalg.norm(vectors - mean, axis=1).mean() / np.linalg.norm(mean))


def finetune(directory: Path, data: Path, seed: int, rate: float, precision: str) -> float:
    """SST-2 dev accuracy after three epochs."""
    from bertworks import hub
    from bertworks.config import override
    from bertworks.data.labelled import read
    from bertworks.finetune.defaults import suited
    from bertworks.finetune.events import Fitted
    from bertworks.finetune.fit import TrainingData, fit
    from bertworks.tasks import for_examples
    from bertworks.tasks.run import evaluate_model

    train, dev = (read(data / "sst2" / f"{name}.tsv", "classify").examples for name in ("train", "dev"))
    loaded, task = hub.load(directory), for_examples("classify", train)
    config = override(
        suited(task, len(train), loaded.model),
        [f"train.optimizer.learning_rate={rate}", f"train.precision={precision}"],
    )
    *_, last = fit(task, TrainingData(train, window=LENGTH), loaded.model, loaded.tokenizer, config, seed=seed)
    assert isinstance(last, Fitted)
    evaluated = evaluate_model(last.task, last.model, dev, tokenizer=last.tokenizer, window=LENGTH)
    return float(evaluated.figures["accuracy"])


def best_rate(tuned: dict[str, list[float]]) -> str:
    """The learning rate that did best with the first seed."""
    return max(tuned, key=lambda rate: tuned[rate][0])


def render(report: dict[str, Any]) -> str:
    rows = []
    for name, entry in report["engines"].items():
        judged, tuned = entry["judged"], entry.get("sst2_finetuned", {})
        best = tuned[best_rate(tuned)] if tuned else []
        rows.append(
            [
                name,
                f"{entry['seconds'] / 60:.1f}",
                f"{entry['tokens'] / 1e6:.2f}",
                f"{judged['accuracy']:.1%}",
                f"{judged['loss']:.3f}",
                f"{entry['difference']:.2f}",
                f"{judged['sst2']:.1%}",
                spread(best, ".1%"),
            ]
        )
    counts = [
        len(rates[best_rate(rates)]) for entry in report["engines"].values() if (rates := entry.get("sst2_finetuned"))
    ]
    seeds = min(counts, default=0)
    trials = "; ".join(
        f"{rows} rows at {rate}: {trial['judged']['loss']:.3f}"
        for setting, trial in report["trials"].items()
        for rows, rate in [setting.split(":")]
    )
    header = [
        "",
        "minutes",
        "million tokens",
        "masked accuracy",
        "loss",
        "differ",
        "SST-2, frozen",
        "SST-2, fine-tuned",
    ]
    machine = report["machine"]
    threads = f"{machine['threads']} thread{'s' if machine['threads'] > 1 else ''} of {machine['processor']}"
    how = "both at once" if report.get("side_by_side") else "one after the other"
    conditions = (
        f"{report['minutes']:g} minutes of pretraining each, shape {report['size']}, vocabulary 30,522, "
        f"{report.get('precision', 'fp32')}, {threads}, {how}. Masked accuracy and loss: 15 % of "
        "the tokens of held-out documents. Fine-tuned: three epochs of `bertworks finetune` for both, the better of the "
        f"learning rates {', '.join(report['finetune_rates'])} for each, by the first seed; "
        f"over {seeds} seed{'s' if seeds != 1 else ''}: mean and range. Differ: how far the vectors of 200 texts lie from "
        f"their mean, relative to its length (0: the model says the same of every text).\n\nThe Trainer's settings are the "
        f"best of trials of {report.get('trial_share', 1 / 3):.0%} of the time each, by the loss on held-out text: "
        f"{trials}. It took as many steps as fit the minutes at its speed on the idle machine, however long they took."
    )
    return "\n".join(
        [
            "# Benchmark: equal time\n",
            f"Written by `{report['command']}` on {machine['date'][:10]}; do not edit by hand.\n",
            conditions + "\n",
            table(header, rows) + "\n",
        ]
    )


CONDITIONS = {
    "minutes": None,
    "size": None,
    "threads": 2,
    "precision": "fp32",
    "trial_share": 1 / 3,
    "side_by_side": False,
}
"""What a report is of, and what it was where a file does not say: with others, nothing that it holds is taken over."""
PHASES = ("ours", "trials", "theirs", "finetune")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.equal_time", description="The same minutes for both.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--size", default="4x256x4")
    parser.add_argument("--seeds", type=int, default=3, help="of fine-tuning (default 3)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer-settings", nargs="+", metavar="ROWS:RATE", default=SETTINGS)
    parser.add_argument("--finetune-rates", type=float, nargs="+", default=[3e-5, 1e-4, 3e-4])
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="of both")
    parser.add_argument("--trial-share", type=float, default=1 / 3, help="of the minutes, each of the Trainer's trials")
    parser.add_argument("--side-by-side", action="store_true", help="train both at once")
    parser.add_argument("--phases", nargs="+", choices=PHASES, default=PHASES)
    add_places(parser, "equal_time")
    options = parser.parse_args(arguments)
    if options.side_by_side and len({"ours", "trials", "theirs"} & set(options.phases)) not in (0, 3):
        parser.error("--side-by-side trains both: name the phases ours, trials and theirs, or none of them")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    import torch

    options = parse(arguments)
    torch.set_num_threads(options.threads)
    corpus = corpus_directory("en", options.data)
    report: dict[str, Any] = {
        "benchmark": "equal_time",
        "command": command_line("equal_time", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "torch", "transformers", "accelerate"]),
        **{name: getattr(options, name) for name in CONDITIONS},
        "seeds": options.seeds,
        "finetune_rates": [f"{rate:g}" for rate in options.finetune_rates],
        "engines": {},
        "seconds_per_step": {},
        "trials": {},
    }
    if options.output.exists():
        before = json.loads(options.output.read_text(encoding="utf-8"))
        if all(before.get(key, usual) == report[key] for key, usual in CONDITIONS.items()):
            report |= {
                key: before.get(key, report[key]) for key in ("engines", "machine", "seconds_per_step", "trials")
            }
    engines = report["engines"]

    def keep(name: str, entry: dict[str, Any]) -> None:
        engines[name] = entry
        write_json(report, options.output)

    def steps_in(setting: str, share: float) -> int:
        seconds = engines.get(OURS, {}).get("seconds", 60 * options.minutes)
        return int(share * seconds / report["seconds_per_step"][setting.split(":")[0]])

    def best_setting() -> str:
        return min(report["trials"], key=lambda setting: report["trials"][setting]["judged"]["loss"])

    if "ours" in options.phases and OURS not in engines and not options.side_by_side:
        keep(OURS, run_ours(corpus, options))
    if "trials" in options.phases:
        for rows, setting in {setting.split(":")[0]: setting for setting in options.peer_settings}.items():
            if rows not in report["seconds_per_step"]:
                report["seconds_per_step"][rows] = seconds_per_step(corpus, setting, options)
                write_json(report, options.output)
        for setting in options.peer_settings:
            if setting not in report["trials"]:
                steps = steps_in(setting, options.trial_share)
                report["trials"][setting] = run_peer(corpus, setting, steps, place("trial", options), options)
                write_json(report, options.output)
    if options.side_by_side and "ours" in options.phases and not engines:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as both:
            setting = best_setting()
            ours = both.submit(run_ours, corpus, options)
            theirs = both.submit(run_peer, corpus, setting, steps_in(setting, 1.0), place("theirs", options), options)
            found = {
                OURS: ours.result(),
                THEIRS: theirs.result(),
            }  # both or neither: alone, either is another measurement
        for name, entry in found.items():
            keep(name, entry)
    if "theirs" in options.phases and THEIRS not in engines:
        setting = best_setting()
        keep(THEIRS, run_peer(corpus, setting, steps_in(setting, 1.0), place("theirs", options), options))
    if "finetune" in options.phases:
        if not all(place(kept, options).is_dir() for kept in ("ours", "theirs")):
            sys.exit(
                f"the models of {options.output} are no longer in {CACHE}: give another --output to train them anew"
            )
        for seed in range(options.seeds):
            for name, kept in ((OURS, "ours"), (THEIRS, "theirs")):
                tuned = report["engines"][name].setdefault("sst2_finetuned", {})
                # Every learning rate with the first seed, the better one with the others.
                rates = [f"{rate:g}" for rate in options.finetune_rates] if seed == 0 else [best_rate(tuned)]
                for rate in rates:
                    known = tuned.setdefault(rate, [])
                    if len(known) == seed:
                        known.append(finetune(place(kept, options), options.data, seed, float(rate), options.precision))
                        say(f"{name}, seed {seed}, {rate}: {known[-1]:.4f}")
                        write_json(report, options.output)
    if options.write_docs:
        page = ROOT / "docs" / "benchmarks" / "equal_time.md"
        page.write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
