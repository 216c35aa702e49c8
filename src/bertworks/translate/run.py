"""A whole translation run: parallel texts and a recipe in, a finished directory out.

    settle  ->  read, tokenizer, model  ->  measure, plan  ->  train (log, evaluate, save)  ->  finish
                                             config.toml       checkpoints/, metrics.jsonl    model, metrics.json, report …

`train_translator` is a generator of events, so that a terminal, a notebook and a test can all follow it; nothing is printed
here. Epochs or a budget of time are turned into steps once, when the run begins. A run that is killed at any moment and resumed
ends with the same weights as one that was not.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bertworks.config import to_dict, to_toml
from bertworks.data.pairs import PairBatches, PairSource
from bertworks.errors import UsageError
from bertworks.models.device import usable_device
from bertworks.objectives.seq2seq import Seq2Seq
from bertworks.text.tokenizer import Tokenizer
from bertworks.train import state
from bertworks.train.course import plan_of, take_steps, timed_evaluation, with_evaluations, with_length
from bertworks.train.directory import CHECKPOINTS, CONFIG_FILE, begin, is_finished, read_result
from bertworks.train.events import Note, Stepped, Stopped
from bertworks.train.feed import Feed, Phase
from bertworks.train.log import check_trackers
from bertworks.train.measure import MEASURED_STEPS, measure_steps
from bertworks.train.parallel import Parallel
from bertworks.train.plan import EACH, Plan
from bertworks.translate.assemble import RunData, describe, new_model, new_tokenizer, pair_sources, read_data
from bertworks.translate.config import RunSection, TrainSection, TranslationConfig
from bertworks.translate.evaluate import Judge
from bertworks.translate.finish import finish
from bertworks.translate.settle import TOKENIZER_FILES, TranslateOptions, changes, settled

__all__ = ["Event", "Finished", "Note", "Planned", "Stepped", "Stopped", "TranslateOptions", "train_translator"]


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The training begins."""

    plan: Plan
    model: str
    data: tuple[str, ...]
    """What was read, in sentences."""
    vocab_size: int
    config: TranslationConfig


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The run's directory is a model now."""

    directory: Path
    result: dict[str, Any]
    """The content of `metrics.json`."""
    already: bool = False


FEW = 50
"""Development pairs below which their BLEU is mostly chance."""
Event = Note | Planned | Stepped | Stopped | Finished


def train_translator(options: TranslateOptions, *, stop: threading.Event | None = None) -> Iterator[Event]:
    """Train, or continue, as `options` say. Setting `stop` saves after the step in hand and ends with `Stopped`."""
    track = check_trackers(options.track, resumed=options.output if options.resume else None)
    device = usable_device(options.device)
    stored, config = settled(options)
    saved = None
    if stored is not None:
        changed = changes(to_dict(stored), config)
        if is_finished(options.output):
            yield Finished(directory=options.output, result=read_result(options.output), already=True)
            return
        if changed:
            yield Note(f"changed, which changes no result: {'; '.join(changed)}")
        saved = state.latest(options.output / CHECKPOINTS)
        if saved is None:
            yield Note("there is no checkpoint yet: the training begins again at step 0")
        else:  # config.toml may have been changed by hand since
            changes(saved.settings, config)
            for note in saved.notes:
                yield Note(note)
    elif options.resume:
        yield Note(f"there is no run in {options.output} yet: a new one begins")
    run = _run(config)
    data = read_data(run, config.data)
    if stored is None:
        tokenizer = new_tokenizer(data.train, config.data)
        config = replace(config, run=replace(run, data_sha256=data.sha256))
    elif data.sha256 != run.data_sha256:
        raise UsageError(
            f"the run in {options.output} was started with other pairs than its files hold now; resume it with the same "
            "files, or begin another run in another directory"
        )
    else:
        tokenizer = Tokenizer.from_directory(options.output)
    parallel = Parallel(device=device, precision=config.train.precision)
    try:
        torch.manual_seed(run.seed)
        model = new_model(config.model, tokenizer, max_length=config.data.max_length)
        trainer = _Trainer(options.output, config, data, tokenizer, model, parallel)
        for note in trainer.notes():
            yield Note(note)
        if stored is None:
            trainer.begin()
        yield trainer.planned(0 if saved is None else saved.step)
        yield from trainer.train(saved, track, stop)
    finally:
        parallel.close()


def _run(config: TranslationConfig) -> RunSection:
    assert config.run is not None
    return config.run


class _Trainer:
    """The parts of one run, once they are all there."""

    def __init__(
        self,
        output: Path,
        config: TranslationConfig,
        data: RunData,
        tokenizer: Tokenizer,
        model: nn.Module,
        parallel: Parallel,
    ) -> None:
        self.output, self.config, self.data = output, config, data
        self.tokenizer, self.parallel = tokenizer, parallel
        self.module = model.to(parallel.device)
        self.pairs, dev = pair_sources(data, tokenizer, config.data)
        self.batches = PairBatches(self.pairs, config.train.batch_tokens, _run(config).seed)
        self.objective = Seq2Seq(label_smoothing=config.objective.label_smoothing)
        self.judge = Judge(data.dev, dev, tokenizer, parallel, num_sentences=config.data.dev_sentences)
        self.first_figures: dict[str, float] = {}

    @property
    def run(self) -> RunSection:
        return _run(self.config)

    def notes(self) -> Iterator[str]:
        """What a person should know of the data."""
        if self.pairs.too_long:
            yield (
                f"{self.pairs.too_long:,} of {len(self.data.train):,} training pairs are longer than data.max_length = "
                f"{self.config.data.max_length} tokens, and are left out"
            )
        if (few := len(self.data.dev)) < FEW:
            yield (
                f"{few} development pair{'' if few == 1 else 's'} to judge by, which tells little of which weights are best: "
                "give more with --dev, or keep more of the training pairs with --set data.dev_fraction=0.1"
            )

    def feed(self, total_steps: int) -> Feed:
        return Feed(
            [Phase(self.pairs, self.batches, 0, total_steps)],
            self.objective,
            total_steps=total_steps,
            micro_tokens=self.config.train.micro_tokens,
            device=self.parallel.device.type,
        )

    def begin(self) -> None:
        """Measure, turn epochs or a budget into steps, and write down everything that decides the result."""
        measured = measure_steps(
            self.module,
            self.objective,
            self.feed(MEASURED_STEPS),
            self.config.train,
            seed=self.run.seed,
            parallel=self.parallel,
        )
        self.first_figures, per_evaluation = timed_evaluation(self._judge_untrained, self.parallel)
        run = with_length(self.run, measured, per_evaluation, every=self.config.train.evaluation.steps)
        if run.steps is None:
            run = replace(run, steps=max(1, round(self.config.train.epochs * self.batches.num_batches)))
        self.config = replace(self.config, run=run)
        if self.parallel.main:
            contents = (self.tokenizer.backend.to_str(), json.dumps(self.tokenizer.config, ensure_ascii=False))
            files = dict(zip(TOKENIZER_FILES, contents, strict=True))
            begin(self.output, {**files, CONFIG_FILE: to_toml(self.config)})
        self.parallel.barrier()

    def planned(self, first_step: int) -> Planned:
        """What is to come, in numbers."""
        plan = plan_of(
            self.run,
            self._train_config(),
            self.module,
            first_step=first_step,
            batch_tokens=self.config.train.batch_tokens,
            corpus_tokens=self.pairs.num_tokens,
            flops_per_token=flops_per_token(self.module, self.pairs),
        )
        return Planned(
            plan=plan,
            model=describe(self.config.model),
            data=self.data.understood,
            vocab_size=self.tokenizer.vocab_size,
            config=self.config,
        )

    def _train_config(self) -> TrainSection:
        """The recipe's, with what was settled when the run began."""
        return with_evaluations(self.config.train, self.run)

    def _judge_untrained(self) -> dict[str, float]:
        return self.judge.run(self.module, untrained=True)

    def train(self, saved: state.Saved | None, track: tuple[str, ...], stop: threading.Event | None) -> Iterator[Event]:
        """The steps, then the result."""
        if saved is None and not self.first_figures:  # killed before its first checkpoint, it begins again
            self.first_figures = self._judge_untrained()
        done = yield from take_steps(
            self.module,
            self.objective,
            self.feed(self.run.steps or 0),
            self._train_config(),
            run=self.run,
            output=self.output,
            settings=to_dict(self.config),
            parallel=self.parallel,
            saved=saved,
            first_figures=self.first_figures,
            evaluate=self.judge.run,
            track=track,
            stop=stop,
        )
        if done is None:
            return
        if self.parallel.main:
            yield Note("translating the development sentences" + (" and the test" if self.data.test else ""))
            result = finish(
                self.config,
                self.data,
                self.tokenizer,
                self.module,
                self.output,
                losses=self.judge.losses,
                steps=done.steps,
                best=done.best,
            )
            yield Finished(directory=self.output, result=result)
        self.parallel.barrier()


def flops_per_token(module: nn.Module, pairs: PairSource) -> float:
    """Of a token of either side, in the mean: 6 for each weight that it meets (`bertworks.train.plan`), attention aside."""
    source = target = 0
    for name, parameter in module.named_parameters():
        if "embeddings" in name:
            continue
        if name.startswith("encoder."):
            source += parameter.numel()
        else:
            target += parameter.numel()
    weight = module.output_weight
    assert isinstance(weight, torch.Tensor)
    target += weight.numel()
    operations = source * int(pairs.source_lengths.sum()) + target * int(pairs.target_lengths.sum())
    return EACH * operations / pairs.num_tokens
