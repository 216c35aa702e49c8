"""Masked-LM pretraining steps: our loop against `transformers`' Trainer with its MLM collator.

    python -m benchmarks.pretrain --steps 12 --rounds 3 --threads 2 [--size 4x256x4] [--length 128] [--write-docs]

Both train the same BERT (vocabulary 30,522) from scratch in fp32 with AdamW, dropout 0.1 and 15 % of the tokens masked,
on the same rows of token ids, the same number of rows a step. The rows are full, so neither side pads. A pass is one
call of the whole loop: collating, masking, forward, backward, clipping, optimiser, learning rate.

The share of the machine's matrix-multiply rate counts the arithmetic that the task needs (three times the forward pass,
the vocabulary projection at the masked places only), for both alike.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embed import default_model
from benchmarks.harness import Workload, describe_machine, measure
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.process import Engine
from benchmarks.report import render, write_json, write_page
from benchmarks.tokenize import paragraphs

OURS, THEIRS = "bertworks", "transformers"
MASKED_SHARE = 0.15
LEARNING_RATE = 5e-4
CLS, SEP = 101, 102

Rows = np.ndarray  # int64 (rows, length)


def bert_config(size: str) -> dict[str, Any]:
    layers, width, heads = map(int, size.split("x"))
    return {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "vocab_size": 30_522,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
        "max_position_embeddings": 512,
    }


def bertworks_engine(threads: int, size: str, batch_rows: int, tokenizer: str) -> Callable[[Rows], list[float]]:
    import torch

    from bertworks.data.pretraining import Masker, MaskingConfig, Sequences, share
    from bertworks.models.model import Model
    from bertworks.objectives.base import Batch
    from bertworks.objectives.masked_lm import MaskedLM
    from bertworks.text import Tokenizer
    from bertworks.train.architecture import ModelSection, new_config
    from bertworks.train.config import OptimizerConfig, TrainConfig
    from bertworks.train.feed import MICRO_TOKENS
    from bertworks.train.loop import train

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    words = Tokenizer.from_directory(tokenizer)
    model = Model(new_config(ModelSection(family="bert", size=size), words, ("mlm",)))
    objective = MaskedLM(Masker(MaskingConfig(rate=MASKED_SHARE), words, seed=0))

    class FixedRows:
        """The rows as they are, in order."""

        def __init__(self, rows: Rows) -> None:
            self.rows = rows

        def micro_batches(self, step: int, *, rank: int, world: int) -> list[Batch]:
            numbers = np.arange(step * batch_rows, (step + 1) * batch_rows)
            lengths = np.full(len(self.rows), self.rows.shape[1])
            parts = share(lengths, numbers, rank=rank, world=world, micro_tokens=MICRO_TOKENS["cpu"])
            return [objective.prepare(self.sequences(part), 0.0) for part in parts]

        def sequences(self, numbers: np.ndarray) -> Sequences:
            ids = self.rows[numbers]
            return Sequences(
                ids=ids.reshape(-1),
                lengths=np.full(len(ids), ids.shape[1]),
                index=numbers,
                epoch=0,
                special=np.isin(ids, (CLS, SEP)).reshape(-1),
            )

    config = TrainConfig(optimizer=OptimizerConfig(learning_rate=LEARNING_RATE))

    def engine(rows: Rows) -> list[float]:
        steps = len(rows) // batch_rows
        return [
            report.losses["mlm"]
            for report in train(model, objective, FixedRows(rows), config, total_steps=steps, seed=0)
        ]

    return engine


def transformers_engine(threads: int, size: str, batch_rows: int, tokenizer: str) -> Callable[[Rows], list[float]]:
    import torch
    import transformers

    torch.set_num_threads(threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(transformers.BertConfig(**bert_config(size)))
    collator = transformers.DataCollatorForLanguageModeling(
        transformers.AutoTokenizer.from_pretrained(tokenizer), mlm_probability=MASKED_SHARE
    )
    folder = tempfile.mkdtemp()

    def engine(rows: Rows) -> list[float]:
        steps = len(rows) // batch_rows
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=batch_rows,
            max_steps=steps,
            learning_rate=LEARNING_RATE,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = transformers.Trainer(
            model=model,
            args=arguments,
            data_collator=collator,
            train_dataset=[{"input_ids": row} for row in rows.tolist()],
        )
        trainer.pop_callback(transformers.PrinterCallback)
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    return engine


def rows_of_text(data: Path, tokenizer: str, num_rows: int, length: int) -> Rows:
    """Full rows of English Wikipedia: [CLS] ids [SEP]."""
    from bertworks.text import Tokenizer

    paths = sorted((data / "corpus").glob("wiki-en-*.txt.xz"))
    if not paths:
        sys.exit(f"{data / 'corpus'} has no file wiki-en-*.txt.xz")
    ids, _ = Tokenizer.from_directory(tokenizer).ids(list(paragraphs(paths, num_rows * length * 8)))
    inner = ids[: num_rows * (length - 2)].reshape(num_rows, length - 2)
    edge = np.ones((num_rows, 1), np.int64)
    return np.concatenate([edge * CLS, inner, edge * SEP], axis=1).astype(np.int64)


def needed_flops(size: str, length: int, tokens: int, vocab_size: int) -> float:
    """Of the matrix products of training: per token 2 per weight forward, twice that backward."""
    layers, width, _ = map(int, size.split("x"))
    body = layers * (12 * width**2 + 2 * length * width)
    head = MASKED_SHARE * (width**2 + width * vocab_size)
    return 3 * 2 * tokens * (body + head)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pretrain", description="Pretraining steps, ours and the peer's."
    )
    parser.add_argument("--size", default="4x256x4", help="layers x width x heads (default 4x256x4)")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch-rows", type=int, default=32)
    parser.add_argument("--steps", type=int, default=12, help="per pass (default 12)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    add_places(parser, "pretrain")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    tokenizer = str(default_model())
    rows = rows_of_text(options.data, tokenizer, options.steps * options.batch_rows, options.length)
    settings = {"size": options.size, "batch_rows": options.batch_rows, "tokenizer": tokenizer}
    engines = [
        Engine(name=name, factory=f"benchmarks.pretrain:{name}_engine", options=settings) for name in (OURS, THEIRS)
    ]
    workload = Workload(
        name="masked LM",
        title=f"masked LM, BERT {options.size}, {options.batch_rows} rows of {options.length} tokens a step",
        calls=[rows],
        items=rows.size,
        unit="tokens",
        flops=needed_flops(options.size, options.length, rows.size, 30_522),
        facts={"tokens a pass": rows.size, "steps": options.steps},
    )
    losses: dict[str, list[float]] = {}

    def keep(result: list[Any], baseline: list[Any]) -> dict[str, float]:
        losses[f"run {len(losses)}"] = result[0]
        return {}

    measured = measure(
        engines,
        workload,
        rounds=options.rounds,
        threads=options.threads,
        baseline=THEIRS,
        compare=keep,
        say=say,
    )
    report: dict[str, Any] = {
        "benchmark": "pretrain",
        "title": "pretraining steps",
        "command": command_line("pretrain", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "torch", "transformers", "accelerate"]),
        "rounds": options.rounds,
        "workloads": {workload.name: measured},
        "losses": losses,
        "notes": [
            "Loss in the first pass, first and last step: "
            + "; ".join(f"{values[0]:.2f} to {values[-1]:.2f}" for values in losses.values())
            + " (ours, theirs; different random starts)."
        ],
    }
    write_json(report, options.output)
    if options.write_docs:
        write_page(report, ROOT / "docs" / "benchmarks" / "pretrain.md")
    print(render(report))


if __name__ == "__main__":
    main()
