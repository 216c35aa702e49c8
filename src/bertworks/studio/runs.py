"""Training runs in a folder, while they run and after: their curves, what tells them apart, their reports.

A run is a directory with a `config.toml`; `metrics.jsonl` grows with its steps (several seeds have one each, in `seeds/`,
and the trials of a search in `search/`), `metrics.json` is written last. All of it is what `pretrain`, `distill`,
`finetune`, `translate train` and `vectors train` write anyway; nothing is written here.

A report is a page that may have come from elsewhere with its run. It is sent with a policy that runs no script, loads
nothing and gives it an origin of its own.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse

from bertworks.errors import UsageError, did_you_mean
from bertworks.train.directory import CHECKPOINTS, CONFIG_FILE, METRICS, REPORT, is_finished, is_run
from bertworks.train.figures import is_share
from bertworks.train.log import METRICS_FILE, read_metrics

MAX_DEPTH = 6
MAX_FOLDERS = 3000  # looked into, every few seconds; a folder of runs is not a whole disk
MAX_RUNS = 500
MAX_COMPARED = 12
MAX_LINES = 800
"""Of one curve: more points than a screen has columns are thinned out. Evaluations are few and all kept."""
TAIL_BYTES = 65_536  # of a file, which hold its last line
STILL = 300.0  # seconds without a new line after which nobody can tell whether a run goes on
PARTS = {"seeds": "seed", "search": "trial"}
"""Folders of a fine-tuning that has several trainings, and what one of them is called."""
REPORT_HEADERS = {
    "Content-Security-Policy": (
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
}


def find_runs(root: Path) -> list[str]:
    """The runs in a folder and below it, as paths within it (`.` for the folder itself), the newest first."""
    found = [path for path in _walk(root) if is_run(path)]
    found.sort(key=lambda path: (-_changed(path), path.as_posix()))
    return [path.relative_to(root).as_posix() for path in found[:MAX_RUNS]]


def _walk(root: Path) -> Iterator[Path]:
    """Folders that may be runs; what is inside a run belongs to it."""
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder; give --runs the folder in which the runs are")
    waiting, seen = [(root, 0)], 0
    while waiting and seen < MAX_FOLDERS:
        path, depth = waiting.pop()
        seen += 1
        yield path
        if depth == MAX_DEPTH or is_run(path):
            continue
        try:
            with os.scandir(path) as entries:
                below = [Path(one.path) for one in entries if one.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # one that may not be read has no runs to show
        waiting += [(one, depth + 1) for one in below if one.name != CHECKPOINTS and not one.name.startswith(".")]


def run_path(root: Path, run: str) -> Path:
    """The directory of a run of the folder; an error where there is none, or where it lies elsewhere."""
    path = (root / run).resolve()
    if not path.is_relative_to(root.resolve()) or not is_run(path):
        there = find_runs(root)
        raise UsageError(f"there is no run {run!r} in {root}{did_you_mean(run, there)}; there are {len(there)}")
    return path


def describe(root: Path, run: str) -> dict[str, Any]:
    """What a list shows of a run."""
    path = run_path(root, run)
    config, result = _config(path), _result(path)
    section = config.get("run")
    section = section if isinstance(section, Mapping) else {}
    last = max((step for file in _metrics_files(path) if (step := _last_step(file)) is not None), default=None)
    if last is None and isinstance(result.get("losses"), list):
        last = len(result["losses"])
    changed = _changed(path)
    finished = is_finished(path)
    return {
        "run": run,
        "name": path.name if run == "." else run,
        "command": _command(config, section),
        "task": result.get("task") or section.get("task"),
        "model": result.get("model") or section.get("model"),
        "state": "finished" if finished else "running" if time.time() - changed < STILL else "unfinished",
        "changed": changed,
        "step": last if last is not None else result.get("steps"),
        "steps": section.get("steps") or result.get("steps"),
        "metric": result.get("metric"),
        "metrics": (figures := _figures(path)),
        "shares": _shares(figures),
        "report": (path / REPORT).is_file(),
    }


def _command(config: Mapping[str, Any], section: Mapping[str, Any]) -> str:
    if "command" in section:
        return str(section["command"])
    training = config.get("training")
    return "vectors" if isinstance(training, Mapping) and "algorithm" in training else "?"


def curves(root: Path, run: str) -> dict[str, Any]:
    """The lines of a run: one trace, or one for each seed; `names` are the numbers that can be drawn."""
    path = run_path(root, run)
    traces = [{"name": name, "lines": [_finite(line) for line in _thinned(lines)]} for name, lines in _traces(path)]
    names = dict.fromkeys(
        key
        for trace in traces
        for line in trace["lines"]
        for key, value in line.items()
        if key not in ("step", "seconds") and isinstance(value, int | float)
    )
    return {
        "run": run,
        "traces": traces,
        "names": list(names),
        "shares": _shares(names),
        "changed": _changed(path),
        "finished": is_finished(path),
    }


def compare(root: Path, runs: Sequence[str]) -> dict[str, Any]:
    """The settings in which runs differ, and their figures."""
    if not runs:
        raise UsageError("no run is chosen; choose at least one")
    if len(runs) > MAX_COMPARED:
        raise UsageError(f"{len(runs)} runs are chosen; {MAX_COMPARED} at most are compared at once")
    paths = [run_path(root, run) for run in runs]
    settings = [dict(_flat(_config(path))) for path in paths]
    names = sorted({name for one in settings for name in one})
    metrics = [_figures(path) for path in paths]
    return {
        "runs": list(runs),
        "settings": [
            {"name": name, "values": values}
            for name in names
            if len(set(map(repr, values := [one.get(name) for one in settings]))) > 1
        ],
        "metrics": metrics,
        "shares": _shares(dict.fromkeys(name for one in metrics for name in one)),
    }


def _shares(names: Iterable[str]) -> list[str]:
    """Those of the figures that are shown in percent, as in the terminal and in reports."""
    return [name for name in names if is_share(name)]


# -- files -------------------------------------------------------------------------------------------------------------


def _metrics_files(path: Path) -> dict[Path, str]:
    """The growing files of a run, and what each is of: the run itself, a seed, a trial."""
    found = {path / METRICS_FILE: ""} if (path / METRICS_FILE).is_file() else {}
    for part, called in PARTS.items():
        folders = sorted((path / part).glob(f"*/{METRICS_FILE}"), key=lambda file: (len(file.parent.name), file))
        found |= {file: f"{called} {file.parent.name}" for file in folders}
    return found


def _traces(path: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """(name, lines) of each of them, or of the epochs that only `metrics.json` tells."""
    found = [(name, read_metrics(file.parent)) for file, name in _metrics_files(path).items()]
    losses = _result(path).get("losses")
    if found or not isinstance(losses, list):
        return found
    return [("", [{"step": epoch, "loss": loss} for epoch, loss in enumerate(losses, start=1)])]


def _last_step(file: Path) -> int | None:
    """The step of the last whole line, without reading the file from its beginning."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - TAIL_BYTES))
            lines = stream.read().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines):
        try:
            step = json.loads(line)["step"]
        except (ValueError, KeyError, TypeError):
            continue  # the end of the file, or a line that is being written
        if isinstance(step, int):
            return step
    return None


def _thinned(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    stride = math.ceil(len(lines) / MAX_LINES) if lines else 1
    last = len(lines) - 1
    return [
        line
        for number, line in enumerate(lines)
        if number % stride == 0 or number == last or any(name.startswith("held_out_") for name in line)
    ]


def _config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads((path / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # being written, or damaged: the curves can be shown all the same
        return {}


def _result(path: Path) -> dict[str, Any]:
    try:
        found = json.loads((path / METRICS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _figures(path: Path) -> dict[str, Any]:
    """What a finished run has come to, by name."""
    found = _result(path).get("metrics")
    return {name: _finite(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _finite(values: Any) -> Any:
    """Without numbers that JSON has no word for: a loss that exploded is None."""
    if isinstance(values, float):
        return values if math.isfinite(values) else None
    if isinstance(values, Mapping):
        return {key: _finite(value) for key, value in values.items()}
    return [_finite(value) for value in values] if isinstance(values, list) else values


def _changed(path: Path) -> float:
    """When the run was last written to, in seconds since 1970."""
    times = []
    for file in (path / CONFIG_FILE, path / METRICS, *_metrics_files(path)):
        try:
            times.append(file.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def router(root: Path | None) -> APIRouter:
    """The routes under /api/runs; without a folder they say how to give one."""
    routes = APIRouter(prefix="/api/runs")

    def folder() -> Path:
        if root is None:
            raise UsageError("the studio was started without a folder of runs: bertworks studio --runs DIR")
        return root

    @routes.get("")
    def list_runs() -> dict[str, Any]:
        if root is None:
            return {"folder": None, "runs": []}
        found = []
        for run in find_runs(root):
            with contextlib.suppress(UsageError):  # deleted since it was found
                found.append(describe(root, run))
        return {"folder": str(root), "runs": found}

    @routes.get("/curves")
    def show_curves(run: Annotated[list[str], Query()]) -> dict[str, Any]:
        if len(run) > MAX_COMPARED:
            raise UsageError(f"{len(run)} runs are chosen; {MAX_COMPARED} at most are drawn at once")
        return {"runs": [curves(folder(), one) for one in run]}

    @routes.get("/compare")
    def compare_runs(run: Annotated[list[str], Query()]) -> dict[str, Any]:
        return compare(folder(), run)

    @routes.get("/report")
    def show_report(run: str) -> FileResponse:
        path = (run_path(folder(), run) / REPORT).resolve()
        if not path.is_relative_to(folder().resolve()):
            raise UsageError(f"the {REPORT} of the run {run!r} leads out of the folder of runs")
        if not path.is_file():
            raise UsageError(f"the run {run!r} has no {REPORT} yet; it is written when the run is finished")
        return FileResponse(path, media_type="text/html; charset=utf-8", headers=REPORT_HEADERS)

    return routes
