"""One of several processes of a training, started by torchrun: `process.py OUTPUT JOB`, JOB a JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from bertworks.objectives.base import Batch
from bertworks.train import state
from bertworks.train.config import EvaluationConfig, OptimizerConfig, TrainConfig
from bertworks.train.loop import train
from bertworks.train.measure import measure_steps
from bertworks.train.parallel import Parallel
from tests.train.small import SmallData, SmallObjective, make_model


class Uneven(SmallData):
    """Process 1 has nothing in step 0, and only an empty second micro-batch in step 2."""

    def micro_batches(self, step: int, *, rank: int, world: int) -> list[Batch]:
        batches = super().micro_batches(step, rank=rank, world=world)
        empty = self.objective.prepare([], 0.0)
        if rank == 1 and step == 0:
            return [empty for _ in batches]
        if rank == 1 and step == 2:
            return [batches[0], empty]
        return batches


def main(output: Path, job: dict) -> None:
    config = TrainConfig(
        optimizer=OptimizerConfig(name=job.get("optimizer", "adamw"), learning_rate=1e-3),
        ema=job.get("ema"),
        sharded=job.get("sharded", False),
        gradient_checkpointing=job.get("gradient_checkpointing", False),
        checkpoint_steps=2,
        checkpoint_minutes=None,
        evaluation=EvaluationConfig(**job.get("evaluation", {"steps": 3})),
    )
    parallel = Parallel(sharded=config.sharded, precision=job.get("precision", "fp32"))
    objective = SmallObjective()
    data = (Uneven if job.get("uneven") else SmallData)(objective, sequences=job.get("sequences", 32), micro=2)
    model = make_model().to(torch.float64 if job.get("double", True) else torch.float32)
    if job.get("measure"):
        measure_steps(model, objective, data, config, seed=0, parallel=parallel, num_steps=1)

    def evaluate(module: torch.nn.Module) -> dict[str, float]:
        batch = SmallData(objective).micro_batches(1000, rank=0, world=1)[0]
        losses = objective.losses(module, batch)
        return {"loss": losses["mlm"].sum.item() / losses["mlm"].count}

    directory = output / "checkpoints"
    reports = []
    for report in train(
        model,
        objective,
        data,
        config,
        total_steps=5,
        seed=0,
        parallel=parallel,
        directory=directory,
        state=state.latest(directory),
        evaluate=evaluate,
    ):
        reports.append(report)
        if report.step == job.get("until"):
            break
    if parallel.main:
        figures = [
            {
                "step": report.step,
                "losses": report.losses,
                "accuracy": report.accuracy,
                "norm": report.grad_norm,
                "tokens": report.num_tokens,
                "evaluation": report.evaluation,
            }
            for report in reports
        ]
        (output / "reports.json").write_text(json.dumps(figures))
        kept = make_model().to(next(model.parameters()).dtype)
        saved = state.latest(directory)
        if config.evaluation.keep == "best":
            state.load_best(saved, kept)
        else:
            state.load_weights(saved.path, kept)
        save_file(dict(kept.named_parameters()), output / "kept.safetensors")
    elif not config.sharded:
        save_file(dict(model.named_parameters()), output / "kept-1.safetensors")
    parallel.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
