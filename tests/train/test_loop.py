"""The loop: exact resume, exact accumulation, what is not a number, evaluation, stopping."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bertworks.errors import BertworksError, ConfigError
from bertworks.models.model import Model
from bertworks.objectives.base import Batch, Loss
from bertworks.train import state
from bertworks.train.config import EvaluationConfig, OptimizerConfig, ScheduleConfig, TrainConfig
from bertworks.train.loop import NonFiniteError, StepReport, train
from bertworks.train.measure import measure_steps, parse_budget
from bertworks.train.parallel import Parallel
from bertworks.train.step import Stepper
from tests.train.small import SmallData, SmallObjective, make_model

CONFIG = TrainConfig(optimizer=OptimizerConfig(learning_rate=3e-3), checkpoint_minutes=None)


def weights(model: Model) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], two[name]) for name in one)


def run(
    model: Model, config: TrainConfig = CONFIG, *, steps: int = 12, micro: int = 2, objective=None, **options
) -> list[StepReport]:
    objective = objective or SmallObjective()
    data = SmallData(objective, micro=micro)
    return list(train(model, objective, data, config, total_steps=steps, seed=3, **options))


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "muon"])
def test_it_learns(optimizer):
    rate = {"adamw": 5e-3, "lamb": 2e-2, "muon": 2e-2}[optimizer]
    config = TrainConfig(optimizer=OptimizerConfig(name=optimizer, learning_rate=rate), checkpoint_minutes=None)
    reports = run(make_model(), config, steps=80)
    assert [report.step for report in reports] == list(range(1, 81))
    assert sum(report.losses["mlm"] for report in reports[-5:]) < 0.75 * sum(r.losses["mlm"] for r in reports[:5])
    assert set(reports[0].losses) == {"mlm", "nsp"}
    assert set(reports[0].accuracy) == {"mlm"}
    assert all(0.0 <= report.accuracy["mlm"] <= 1.0 for report in reports)
    assert all(report.num_tokens > 0 and report.grad_norm > 0 for report in reports)


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "muon"])
def test_resumed_equals_uninterrupted_bit_for_bit(optimizer, tmp_path):
    config = TrainConfig(
        optimizer=OptimizerConfig(name=optimizer, learning_rate=3e-3),
        ema=0.9,
        checkpoint_steps=3,
        checkpoint_minutes=None,
        evaluation=EvaluationConfig(steps=4),
    )

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        assert not model.training
        return {"loss": float(sum(weight.sum() for weight in model.parameters()))}

    whole = make_model(dropout=0.1)
    expected = run(whole, config, steps=20, directory=tmp_path / "whole", evaluate=evaluate)
    chance = random.Random(1)
    seen: dict[int, StepReport] = {}
    starts = []
    while True:
        model = make_model(dropout=0.1)
        torch.manual_seed(chance.randrange(1000))  # whatever state the process is in
        objective = SmallObjective()
        saved = state.latest(tmp_path / "cut")
        starts.append(0 if saved is None else saved.step)
        steps = train(
            model,
            objective,
            SmallData(objective, micro=2),
            config,
            total_steps=20,
            seed=3,
            directory=tmp_path / "cut",
            state=saved,
            evaluate=evaluate,
        )
        taken = list(itertools.islice(steps, chance.randrange(1, 9)))
        steps.close()
        seen.update({report.step: report for report in taken})
        if not taken or taken[-1].step == 20:
            break
    assert len(starts) > 3
    model = make_model()
    run(model, config, steps=20, directory=tmp_path / "cut", state=state.latest(tmp_path / "cut"), evaluate=evaluate)
    assert same(weights(model), weights(whole))
    for report in expected:
        again = seen[report.step]
        for name in ("losses", "accuracy", "grad_norm", "learning_rate", "evaluation", "num_tokens"):
            assert getattr(again, name) == getattr(report, name), name


CHILD = """
import sys
from pathlib import Path
from bertworks.train import state
from bertworks.train.config import TrainConfig
from bertworks.train.loop import train
from tests.train.small import SmallData, SmallObjective, make_model
directory = Path(sys.argv[1])
objective = SmallObjective()
config = TrainConfig(checkpoint_steps=4, checkpoint_minutes=None, ema=0.9)
saved = state.latest(directory)
print("from", 0 if saved is None else saved.step, flush=True)
model = make_model(dropout=0.1)
for report in train(model, objective, SmallData(objective), config, total_steps=60, seed=3, directory=directory, state=saved):
    print(report.step, report.losses["mlm"].hex(), flush=True)
"""


def test_killed_and_resumed(tmp_path):
    """kill -9 at random moments, saving included: the same losses in the end."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", "OMP_NUM_THREADS": "1"}
    chance = random.Random(2)

    def child(directory: Path) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, str(directory)], stdout=subprocess.PIPE, text=True, env=environment, cwd=root
        )

    losses: dict[int, str] = {}
    starts = []
    for attempt in range(3):
        process = child(tmp_path / "cut")
        last = attempt == 2
        lines = 0
        for line in process.stdout:
            if not line.endswith("\n"):  # the kill cut it off
                continue
            step, value = line.split()
            if step == "from":
                starts.append(int(value))
                continue
            assert losses.setdefault(int(step), value) == value  # a step done twice gives the same
            lines += 1
            if not last and lines == 11 + 6 * attempt:
                threading.Timer(chance.random() * 0.05, os.kill, (process.pid, signal.SIGKILL)).start()
        process.wait()
        process.stdout.close()
    assert starts[0] == 0
    assert starts == sorted(starts)
    assert starts[-1] > 0
    objective, model = SmallObjective(), make_model(dropout=0.1)
    config = TrainConfig(ema=0.9, checkpoint_minutes=None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    expected = [
        report.losses["mlm"].hex()
        for report in train(model, objective, SmallData(objective), config, total_steps=60, seed=3)
    ]
    torch.set_num_threads(threads)
    # A step may be saved and its line not printed when the process dies: at most one a kill.
    assert len(losses) >= 58
    assert all(value == expected[step - 1] for step, value in losses.items())
    kept = make_model()
    state.load_weights(state.latest(tmp_path / "cut").path, kept)
    assert same(weights(kept), weights(model))


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "muon"])
def test_accumulation_equals_one_large_batch(optimizer):
    """32 sequences at once, or 4 × 8, with counts that differ from one micro-batch to the next."""
    config = TrainConfig(optimizer=OptimizerConfig(name=optimizer, learning_rate=1e-3), checkpoint_minutes=None)
    at_once, in_parts = make_model().double(), make_model().double()
    objective = SmallObjective()
    results = []
    for model, micro in ((at_once, 1), (in_parts, 4)):
        data = SmallData(objective, sequences=32, micro=micro)
        results.append(list(train(model, objective, data, config, total_steps=5, seed=0)))
    for one, two in zip(*results, strict=True):
        assert two.losses == pytest.approx(one.losses, rel=1e-6)
        assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-6)
        assert two.num_tokens == one.num_tokens
    for one, two in zip(at_once.parameters(), in_parts.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-9)


def test_accumulated_gradients_in_fp32():
    objective = SmallObjective()
    gradients = []
    for micro in (1, 4):
        model = make_model()
        stepper = Stepper(model, objective, TrainConfig(clip_norm=None), seed=0, parallel=Parallel())
        stepper.gradients(0, SmallData(objective, sequences=32, micro=micro).micro_batches(0, rank=0, world=1))
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert (gradients[0] - gradients[1]).norm() <= 1e-6 * gradients[0].norm()


def test_empty_micro_batches_change_nothing():
    objective = SmallObjective()

    class WithEmpty(SmallData):
        def micro_batches(self, step: int, *, rank: int, world: int) -> list[Batch]:
            empty = self.objective.prepare([], 0.0)
            return [empty, *super().micro_batches(step, rank=rank, world=world), empty]

    plain, other = make_model(), make_model()
    one = list(train(plain, objective, SmallData(objective), CONFIG, total_steps=3, seed=0))
    two = list(train(other, objective, WithEmpty(objective), CONFIG, total_steps=3, seed=0))
    assert [report.losses for report in one] == [report.losses for report in two]
    assert same(weights(plain), weights(other))


def test_a_loss_without_items_is_left_out():
    class NoPairs(SmallObjective):
        def prepare(self, rows, progress):
            batch = super().prepare(rows, progress)
            labels = torch.full_like(batch.tensors["labels"], -100)
            return dataclasses.replace(
                batch, counts={**batch.counts, "nsp": 0}, tensors={**batch.tensors, "labels": labels}
            )

    reports = run(make_model(), objective=NoPairs(), steps=2)
    assert [set(report.losses) for report in reports] == [{"mlm"}, {"mlm"}]


def test_wrong_counts_are_found():
    class Wrong(SmallObjective):
        def losses(self, module, batch):
            found = super().losses(module, batch)
            return {**found, "mlm": dataclasses.replace(found["mlm"], count=1)}

    with pytest.raises(ValueError, match="the loss mlm is of 1 items"):
        run(make_model(), objective=Wrong())


def test_gradient_checkpointing_changes_no_result():
    plain, other = make_model(dropout=0.2), make_model(dropout=0.2)
    one = run(plain, steps=4)
    two = run(other, dataclasses.replace(CONFIG, gradient_checkpointing=True), steps=4)
    assert [report.losses for report in one] == [report.losses for report in two]
    assert same(weights(plain), weights(other))
    assert all("forward" not in vars(block) for block in other.body.blocks)


def test_bf16():
    plain, narrow = make_model(), make_model()
    one = run(plain, steps=3)
    two = run(narrow, dataclasses.replace(CONFIG, precision="bf16"), steps=3, parallel=Parallel(precision="bf16"))
    assert two[-1].losses["mlm"] == pytest.approx(one[-1].losses["mlm"], rel=0.03)
    assert two[-1].losses["mlm"] != one[-1].losses["mlm"]
    assert narrow.body.embeddings.tokens.weight.dtype == torch.float32


def test_one_process_on_the_cpu_needs_no_accelerate():
    code = (
        "import sys, bertworks.train.loop\nfrom bertworks.train.parallel import Parallel\nParallel()\n"
        "Parallel(precision='bf16')\nsys.exit('accelerate' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(BertworksError, match="fp16 needs a GPU"):
        Parallel(precision="fp16")


def test_dropout_is_a_function_of_seed_and_step():
    one, two = make_model(dropout=0.3), make_model(dropout=0.3)
    first = run(one, steps=3)
    torch.manual_seed(99)
    assert [report.losses for report in run(two, steps=3)] == [report.losses for report in first]
    objective = SmallObjective()
    other = list(
        train(make_model(dropout=0.3), objective, SmallData(objective, micro=2), CONFIG, total_steps=3, seed=4)
    )
    assert other[0].losses != first[0].losses


# What is not a number.


class Sometimes(SmallObjective):
    """Not a number at the given calls (one micro-batch per step: calls are steps)."""

    def __init__(self, *bad: int, gradient_only: bool = False) -> None:
        self.bad, self.calls, self.gradient_only = bad, 0, gradient_only

    def losses(self, module, batch) -> dict[str, Loss]:
        found = super().losses(module, batch)
        if self.calls in self.bad:
            wrong = found["mlm"].sum
            if self.gradient_only:
                wrong = wrong + (wrong.detach() - wrong).sqrt()  # 0, with an infinite slope
            else:
                wrong = wrong * float("nan")
            found["mlm"] = dataclasses.replace(found["mlm"], sum=wrong)
        self.calls += 1
        return found


@pytest.mark.parametrize("gradient_only", [False, True])
def test_not_a_number_stops(gradient_only, tmp_path):
    model = make_model()
    steps = train(
        model,
        objective := Sometimes(4, gradient_only=gradient_only),
        SmallData(objective),
        dataclasses.replace(CONFIG, checkpoint_steps=2),
        total_steps=9,
        seed=3,
        directory=tmp_path,
    )
    assert [next(steps).step for _ in range(4)] == [1, 2, 3, 4]
    with pytest.raises(NonFiniteError, match=r"step 5: .*nan.*step-00000004.*learning_rate"):
        next(steps)
    assert state.latest(tmp_path).step == 4
    assert all(weight.isfinite().all() for weight in model.parameters())


def test_not_a_number_is_skipped():
    config = dataclasses.replace(CONFIG, on_nonfinite="skip")
    model = make_model()
    before = []
    objective = Sometimes(2, 3, 6)
    for report in train(model, objective, SmallData(objective), config, total_steps=8, seed=3):
        assert bool(report.events) == (report.step in (3, 4, 7))
        if report.events:
            assert "skipped" in report.events[0]
            assert same(before[-1], weights(model))
        before.append(weights(model))
    assert all(weight.isfinite().all() for weight in model.parameters())


def test_a_skipped_step_is_never_the_best(tmp_path):
    wanted = EvaluationConfig(steps=1, keep="best")
    config = dataclasses.replace(CONFIG, on_nonfinite="skip", evaluation=wanted)
    values = iter([5.0, 4.0, 1.0, 3.0, 6.0])  # the lowest is that of step 3, which is skipped
    model, objective = make_model(), Sometimes(2)
    states = {}
    for report in train(
        model,
        objective,
        SmallData(objective),
        config,
        total_steps=5,
        seed=3,
        directory=tmp_path,
        evaluate=lambda module: {"loss": next(values)},
    ):
        states[report.step] = weights(model)
    assert state.latest(tmp_path).best.step == 4
    assert same(weights(model), states[4])


def test_three_times_in_a_row_rolls_back_once(tmp_path):
    config = dataclasses.replace(CONFIG, on_nonfinite="skip", checkpoint_steps=2)
    model = make_model()
    objective = Sometimes(3, 4, 5)
    states = {}
    for report in train(model, objective, SmallData(objective), config, total_steps=8, seed=3, directory=tmp_path):
        states[report.step] = weights(model)
        if report.step == 4:
            assert report.checkpoint is None  # due, but not with such weights
        if report.step == 6:
            assert "rolled back to the weights of step-00000002" in report.events[0]
            assert report.checkpoint is not None
            assert state.read(report.checkpoint).progress.rollbacks == 1
    assert not same(states[3], states[2])
    assert same(states[6], states[2])
    assert not same(states[7], states[6])

    objective = Sometimes(3, 4, 5, 7, 8, 9)
    steps = train(
        make_model(), objective, SmallData(objective), config, total_steps=20, seed=3, directory=tmp_path / "b"
    )
    assert [next(steps).step for _ in range(9)] == list(range(1, 10))
    with pytest.raises(NonFiniteError, match="once more"):
        next(steps)


def test_a_stop_among_bad_steps_waits_for_a_good_one(tmp_path):
    """What would be saved in between is what a rollback would go back to."""
    config = dataclasses.replace(CONFIG, on_nonfinite="skip", checkpoint_steps=2)
    objective, stop = Sometimes(3, 4), threading.Event()
    for report in train(
        make_model(), objective, SmallData(objective), config, total_steps=9, seed=3, directory=tmp_path, stop=stop
    ):
        if report.step == 3:
            stop.set()
        if report.step in (4, 5):
            assert not report.stopped
            assert report.checkpoint is None
    assert (report.step, report.stopped) == (6, True)
    assert state.latest(tmp_path).step == 6


def test_three_times_without_a_checkpoint_stops():
    with pytest.raises(NonFiniteError, match="there is no checkpoint"):
        run(make_model(), dataclasses.replace(CONFIG, on_nonfinite="skip"), objective=Sometimes(0, 1, 2), micro=1)


# Evaluation, stopping, errors.


class Figures:
    """An evaluation that gives the listed values one after the other."""

    def __init__(self, *values: float, losses: tuple[float, ...] = ()) -> None:
        self.values, self.losses = list(values), losses
        self.seen: list[dict[str, Tensor]] = []

    def __call__(self, model: torch.nn.Module) -> dict[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        self.seen.append({name: weight.detach().clone() for name, weight in model.named_parameters()})
        number = len(self.seen) - 1
        return {"accuracy": self.values[number], **({"loss": self.losses[number]} if self.losses else {})}


@pytest.mark.parametrize("saving", ["in memory", "at once", "with the next checkpoint"])
@pytest.mark.parametrize("ema", [None, 0.9])
def test_early_stopping_and_the_best_weights(saving, ema, tmp_path, monkeypatch):
    monkeypatch.setattr("bertworks.train.loop.HELD_SECONDS", 0.0 if saving == "at once" else 1000.0)
    evaluation = EvaluationConfig(steps=2, metric="accuracy", goal="highest", patience=2, keep="best")
    config = dataclasses.replace(CONFIG, evaluation=evaluation, ema=ema)
    figures = Figures(0.1, 0.5, 0.4, 0.5)
    model = make_model()
    directory = None if saving == "in memory" else tmp_path
    reports = run(model, config, steps=20, evaluate=figures, directory=directory)
    assert [report.step for report in reports if report.evaluation] == [2, 4, 6, 8]
    assert reports[-1].step == 8
    assert "stopped early: accuracy did not improve in 2 evaluations; the best was 0.5 at step 4" in reports[-1].events
    assert same(weights(model), figures.seen[1])
    if directory is not None:
        saved = state.latest(tmp_path)
        assert saved.finished
        best = {"step-00000004"} if saving == "at once" else set()
        assert {path.name for path in tmp_path.iterdir()} == {"step-00000008"} | best
        assert run(other := make_model(), config, steps=20, evaluate=figures, directory=directory, state=saved) == []
        assert same(weights(other), weights(model))


def test_the_loss_decides_between_equal_values(tmp_path):
    evaluation = EvaluationConfig(steps=2, metric="accuracy", goal="highest", keep="best")
    config = dataclasses.replace(CONFIG, evaluation=evaluation)
    figures = Figures(0.0, 0.0, 0.0, losses=(7.3, 6.9, 7.1))
    model = make_model()
    run(model, config, steps=6, evaluate=figures, directory=tmp_path)
    assert same(weights(model), figures.seen[1])
    assert state.latest(tmp_path).best.step == 4


def test_below_a_floor_the_loss_decides(tmp_path):
    """A BLEU of 0.3 is no better than one of 0.1: both are chance."""
    evaluation = EvaluationConfig(steps=2, metric="accuracy", goal="highest", keep="best", floor=0.4)
    config = dataclasses.replace(CONFIG, evaluation=evaluation)
    for values, best in (((0.3, 0.1, 0.2), 4), ((0.3, 0.1, 0.5), 6)):
        figures = Figures(*values, losses=(7.3, 6.9, 7.1))
        place = tmp_path / str(best)
        model = make_model()
        run(model, config, steps=6, evaluate=figures, directory=place)
        assert state.latest(place).best.step == best
        assert same(weights(model), figures.seen[best // 2 - 1])


@pytest.mark.parametrize("ema", [None, 0.9])
def test_best_weights_that_are_held_outlive_a_kill(ema, tmp_path):
    evaluation = EvaluationConfig(steps=2, metric="accuracy", goal="highest", keep="best")
    config = dataclasses.replace(CONFIG, evaluation=evaluation, ema=ema, checkpoint_steps=3)
    figures = Figures(0.5, 0.1, 0.2, 0.3)  # the best came before the checkpoint, and has none of its own
    objective = SmallObjective()
    options = {"total_steps": 8, "seed": 3, "evaluate": figures, "directory": tmp_path}
    for report in train(make_model(), objective, SmallData(objective, micro=2), config, **options):
        if report.step == 4:
            break
    saved = state.latest(tmp_path)
    assert saved.step == 3
    assert state.BEST in saved.files
    figures.values.insert(2, 0.1)  # step 4 is judged again
    model = make_model()
    run(model, config, steps=8, evaluate=figures, directory=tmp_path, state=saved)
    assert same(weights(model), figures.seen[0])


def test_the_average_is_evaluated_and_kept():
    config = dataclasses.replace(CONFIG, ema=0.9, evaluation=EvaluationConfig(steps=5, metric="accuracy"))
    figures = Figures(1.0, 1.0)
    model = make_model()
    objective = SmallObjective()
    trained = {}
    for report in train(
        model, objective, SmallData(objective), config, total_steps=10, seed=3, evaluate=figures, directory=None
    ):
        trained[report.step] = weights(model)
        assert model.training
    assert not same(trained[10], figures.seen[1])
    assert same(weights(model), figures.seen[1])


def test_evaluation_without_the_metric():
    config = dataclasses.replace(CONFIG, evaluation=EvaluationConfig(metric="f1"))
    with pytest.raises(ConfigError, match="'f1'; the evaluation gives: accuracy"):
        run(make_model(), config, evaluate=Figures(*[1.0] * 10))


def test_stop_saves_and_resumes(tmp_path):
    whole = make_model()
    expected = run(whole, steps=9)
    stop = threading.Event()
    objective, model = SmallObjective(), make_model()
    taken = []
    for report in train(
        model, objective, SmallData(objective, micro=2), CONFIG, total_steps=9, seed=3, directory=tmp_path, stop=stop
    ):
        taken.append(report)
        if report.step == 4:
            stop.set()
    assert taken[-1].step == 5
    assert [report.stopped for report in taken] == [False] * 4 + [True]
    assert taken[-1].events == ()  # it is in `stopped`
    assert taken[-1].checkpoint == tmp_path / "step-00000005"
    rest = run(model := make_model(), steps=9, directory=tmp_path, state=state.latest(tmp_path))
    assert [report.losses for report in taken + rest] == [report.losses for report in expected]
    assert same(weights(model), weights(whole))


def test_an_error_in_the_thread_is_raised_in_the_loop_and_the_thread_ends():
    class Broken(SmallData):
        def micro_batches(self, step: int, *, rank: int, world: int) -> list[Batch]:
            if step == 2:
                raise OSError("the disk is gone")
            return super().micro_batches(step, rank=rank, world=world)

    objective = SmallObjective()
    steps = train(make_model(), objective, Broken(objective), CONFIG, total_steps=9, seed=0)
    assert [next(steps).step, next(steps).step] == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(steps)
    abandoned = train(make_model(), objective, SmallData(objective), CONFIG, total_steps=9, seed=0)
    next(abandoned)
    assert any(thread.name.startswith("batches") for thread in threading.enumerate())
    abandoned.close()
    assert not any(thread.name.startswith("batches") for thread in threading.enumerate())


def test_the_learning_rate_follows_the_schedule():
    config = dataclasses.replace(CONFIG, schedule=ScheduleConfig(name="linear", warmup=2.0))
    reports = run(make_model(), config, steps=4)
    assert [report.learning_rate for report in reports] == pytest.approx([1.5e-3, 3e-3, 3e-3, 1.5e-3])


def test_measuring_leaves_no_trace():
    model, objective = make_model(dropout=0.1), SmallObjective()
    before, random_state = weights(model), torch.get_rng_state()
    config = dataclasses.replace(CONFIG, ema=0.9, gradient_checkpointing=True)
    measured = measure_steps(model, objective, SmallData(objective, micro=2), config, seed=3, num_steps=2)
    assert measured.seconds > 0
    assert measured.num_tokens > 8
    assert same(weights(model), before)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("1h30m", 5400), ("90s", 90), ("1.5h", 5400), ("2 h", 7200), ("1m30s", 90)]
)
def test_budgets(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "0s", "1d", "30m1h", "-5m"])
def test_senseless_budgets(text):
    with pytest.raises(BertworksError, match="30m, 1h30m or 90s"):
        parse_budget(text)
