"""Which layer? A table of what taggers can read out of each layer of a frozen model, and out of combinations of layers.

The study of the BERT paper (Devlin et al. 2019, section 5.3 and table 7) for any model and any set of tagged words:

    single layers     0 (the embeddings, "first") to L ("last"; L - 1 is "second-to-last")
    plain sums        of all layers 1 to L, and of the last four
    learned sums      the same with a weight for each layer (`bertworks.nn.mix`)
    concatenation     of the last four

each read by a linear tagger and by a BiLSTM. The vectors are computed once (`probe_states`), the taggers are trained on
them one after the other (`probe_taggers`). Stopped at any moment, the same study goes on after the last finished row.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from bertworks.atomic import TEMPORARY_SUFFIX, write_text
from bertworks.data.labelled.examples import TaggedExample
from bertworks.data.labelled.options import ReadOptions
from bertworks.data.labelled.read import read
from bertworks.data.unfinished import Unfinished
from bertworks.errors import OutputError, UsageError, choice
from bertworks.finetune.probe_states import States, Words, open_states, write_states
from bertworks.finetune.probe_taggers import BILSTM, LINEAR, Combine, Selection, TaggerConfig, Trained, train_tagger
from bertworks.infer.loaded import LoadedModel, load
from bertworks.tasks.predictions import TagPrediction
from bertworks.tasks.tagging import Tagging
from bertworks.tasks.tags import to_bio
from bertworks.train.state import weights_sha256

RESULT, PAGE = "probe.json", "report.html"
VECTORS, TAGGERS = "vectors", "taggers"
KINDS = ("linear", "bilstm")


@dataclass(frozen=True)
class Layers:
    """One row of the table."""

    name: str
    """As `bertworks embed --layers` calls it, where it can do the same."""
    title: str
    selection: Selection


def rows_of(num_layers: int) -> list[Layers]:
    """The rows for a model of `num_layers` layers; those of the last four need as many layers above the embeddings."""

    def row(name: str, title: str, layers: Sequence[int], combine: Combine) -> Layers:
        return Layers(name, title, Selection(tuple(layers), combine))

    also = {0: " (embeddings: first)", num_layers - 1: " (second-to-last)", num_layers: " (last)"}
    rows = [row(str(n), f"layer {n}{also.get(n, '')}", [n], "one") for n in range(num_layers + 1)]
    every = range(1, num_layers + 1)
    if num_layers > 1:
        rows.append(row("sum-all", f"sum of all {num_layers}", every, "sum"))
        rows.append(row("weighted-all", f"learned sum of all {num_layers}", every, "weighted"))
    if num_layers > 4:
        four = range(num_layers - 3, num_layers + 1)
        rows.append(row("sum-last-4", "sum of the last four", four, "sum"))
        rows.append(row("weighted-last-4", "learned sum of the last four", four, "weighted"))
    if num_layers >= 4:
        rows.append(
            row("concat-last-4", "concatenation of the last four", range(num_layers - 3, num_layers + 1), "concat")
        )
    return rows


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """What is asked for."""

    train: Path
    dev: Path
    output: Path
    model: str = "minilm"
    taggers: tuple[TaggerConfig, ...] = (LINEAR, BILSTM)
    words: Words = "first"
    """Which vector a word of several tokens has: its first token's, or the mean of all."""
    max_sentences: int | None = None
    """Train on no more than the first so many."""
    seeds: int = 1
    seed: int = 0
    read: ReadOptions = field(default_factory=ReadOptions)
    device: str = "cpu"
    restart: bool = False
    """Drop what an unfinished study left."""
    overwrite: bool = False


@dataclass(frozen=True)
class Note:
    """A sentence for the user."""

    text: str


@dataclass(frozen=True)
class Working:
    """How far the work of one stage is, 0 to 1."""

    stage: str
    share: float
    detail: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One layer or combination, read by one kind of tagger."""

    layers: str
    title: str
    tagger: str
    figures: Mapping[str, tuple[float, ...]]
    """By name, one value for each seed: f1, precision, recall and accuracy, or accuracy and f1_macro for plain tags."""
    weights: tuple[float, ...] = ()
    """The learned shares of the layers, for the first seed."""
    seconds: float = 0.0

    def mean(self, metric: str) -> float:
        return statistics.fmean(self.figures[metric])

    def spread(self, metric: str) -> float | None:
        """The standard deviation between seeds."""
        return statistics.stdev(self.figures[metric]) if len(self.figures[metric]) > 1 else None


@dataclass(frozen=True, kw_only=True)
class Study:
    """The whole table."""

    model: str
    num_layers: int
    metric: str
    rows: Sequence[Row]
    train: str
    dev: str
    num_train: int
    num_dev: int
    words: str
    seeds: tuple[int, ...]
    taggers: Sequence[Mapping[str, Any]]
    understood: Sequence[str]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The object of `probe.json`."""
        return {
            "task": "probe layers",
            "model": self.model,
            "num_layers": self.num_layers,
            "metric": self.metric,
            "rows": [
                {
                    "layers": row.layers,
                    "title": row.title,
                    "tagger": row.tagger,
                    **{name: statistics.fmean(values) for name, values in row.figures.items()},
                    **({"spread": row.spread(self.metric)} if len(self.seeds) > 1 else {}),
                    **({"weights": list(row.weights)} if row.weights else {}),
                    "seconds": round(row.seconds, 3),
                }
                for row in self.rows
            ],
            "data": {"train": self.train, "dev": self.dev, "sentences": [self.num_train, self.num_dev]},
            "words": self.words,
            "seeds": list(self.seeds),
            "taggers": [dict(tagger) for tagger in self.taggers],
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class Finished:
    """The study is over, and written."""

    directory: Path
    study: Study


Event = Note | Working | Row | Finished


def probe_layers(options: ProbeOptions) -> Iterator[Event]:
    """The study, event by event; the last one is `Finished`. A `KeyboardInterrupt` carries a sentence on what is kept."""
    from bertworks.finetune.probe_page import page

    started = time.monotonic()
    _check(options)
    found = {name: read(path, "tag", options.read) for name, path in (("train", options.train), ("dev", options.dev))}
    train = [example for example in found["train"].examples if isinstance(example, TaggedExample) and example.words]
    dev = [example for example in found["dev"].examples if isinstance(example, TaggedExample) and example.words]
    for sentence in (*found["train"].understood, *found["dev"].understood):
        yield Note(sentence)
    if options.max_sentences is not None and options.max_sentences < len(train):
        train = train[: options.max_sentences]
        yield Note(f"trained on the first {len(train):,} sentences")
    task = Tagging.for_examples("tag", train)
    task.check(dev)
    model = load(options.model, device=options.device)
    unfinished = Unfinished(
        options.output, _settings(options, model, train, dev), unit="row", units_in=_is_row, restart=options.restart
    )
    rows: list[Row] = []
    try:
        states: dict[str, States] = {}
        for name, examples in (("train", train), ("dev", dev)):
            sentences = [example.words for example in examples]
            file = f"{name}.vectors"
            if not any(entry["file"] == file for entry in unfinished.entries):
                yield from _vectors(unfinished, file, model, sentences, options)
            states[name] = open_states(unfinished.path / file, model, sentences)
        study = _Taggers(task, train, dev, states["train"], states["dev"], options, unfinished)
        for event in study.events(rows_of(model.model.num_layers)):
            if isinstance(event, Row):
                rows.append(event)
            yield event
        result = Study(
            model=options.model,
            num_layers=model.model.num_layers,
            metric=task.metric,
            rows=rows,
            train=str(options.train),
            dev=str(options.dev),
            num_train=len(train),
            num_dev=len(dev),
            words=options.words,
            seeds=tuple(range(options.seed, options.seed + options.seeds)),
            taggers=[asdict(tagger) for tagger in options.taggers],
            understood=[*found["train"].understood, *found["dev"].understood],
            seconds=time.monotonic() - started,
        )
        states.clear()
        with unfinished.explained():
            options.output.mkdir(exist_ok=True)
            write_text(options.output / PAGE, page(result))
            write_text(options.output / RESULT, json.dumps(result.as_json(), indent=2, ensure_ascii=False) + "\n")
        unfinished.discard()
        yield Finished(options.output, result)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(unfinished.kept()) from None
    finally:
        unfinished.close()


def _check(options: ProbeOptions) -> None:
    for tagger in options.taggers:
        choice(tagger.kind, KINDS, "tagger")
    if not options.taggers:
        raise UsageError(f"there is no tagger to train; allowed: {', '.join(KINDS)}")
    if options.seeds < 1:
        raise UsageError(f"seeds is {options.seeds}; it must be at least 1")
    choice(options.words, ("first", "mean"), "vector of a word")
    output = options.output
    if output.exists() and not output.is_dir():
        raise OutputError(f"{output} is a file; give the name of a directory")
    if output.is_dir() and any(output.iterdir()):
        if not (output / RESULT).exists():
            raise OutputError(f"{output} is not empty and holds no study of layers; choose another name")
        if not options.overwrite:
            raise OutputError(f"{output} holds a study of layers already; choose another name or add --overwrite")


def _settings(options: ProbeOptions, model: LoadedModel, *parts: Sequence[TaggedExample]) -> dict[str, Any]:
    """What decides the content: a study with equal settings may be continued."""
    digest = hashlib.sha256()
    for part in parts:
        for example in part:
            digest.update(repr((example.words, example.tags)).encode("utf-8", "surrogatepass"))
        digest.update(b"|")
    return {
        "model": options.model,
        "weights": weights_sha256(model.model),
        "sentences": digest.hexdigest(),
        "taggers": [asdict(tagger) for tagger in options.taggers],
        "words": options.words,
        "seed": options.seed,
        "seeds": options.seeds,
    }


def _is_row(entry: Mapping[str, Any]) -> int:
    return int("row" in entry)


def _vectors(
    unfinished: Unfinished, file: str, model: LoadedModel, sentences: Sequence[Sequence[str]], options: ProbeOptions
) -> Iterator[Event]:
    """Compute the vectors into a file that counts only once it is whole."""
    making = unfinished.path / f"{file}.making{TEMPORARY_SUFFIX}"
    total = sum(map(len, sentences))
    with unfinished.explained():
        for done in write_states(making, model, sentences, words=options.words):
            yield Working(f"{VECTORS} ({file.partition('.')[0]})", done / max(total, 1), f"{done:,} of {total:,} words")

    def take(path: Path) -> dict[str, Any]:
        making.replace(path)
        return {}

    unfinished.add(file, take)


class _Taggers:
    """One tagger after the other."""

    def __init__(
        self,
        task: Tagging,
        train: Sequence[TaggedExample],
        dev: Sequence[TaggedExample],
        train_states: States,
        dev_states: States,
        options: ProbeOptions,
        unfinished: Unfinished,
    ) -> None:
        self.task, self.dev = task, dev
        self.train_states, self.dev_states = train_states, dev_states
        self.options, self.unfinished = options, unfinished
        numbers = {label: number for number, label in enumerate(task.labels)}
        tags = (tag for example in train for tag in to_bio(example.tags or (), task.scheme))
        self.targets = np.fromiter((numbers[tag] for tag in tags), np.int64)

    def events(self, rows: Sequence[Layers]) -> Iterator[Event]:
        done = {entry["row"]["file"]: entry["row"] for entry in self.unfinished.entries if "row" in entry}
        for config in self.options.taggers:
            for number, row in enumerate(rows):
                file = f"{config.kind}-{row.name}.json"
                if file in done:
                    kept = done[file]
                    figures = {name: tuple(values) for name, values in kept["figures"].items()}
                    yield Row(
                        layers=row.name,
                        title=row.title,
                        tagger=config.kind,
                        figures=figures,
                        weights=tuple(kept["weights"]),
                        seconds=kept["seconds"],
                    )
                    continue
                yield from self._train(config, row, file, number / len(rows), (number + 1) / len(rows))

    def _train(self, config: TaggerConfig, row: Layers, file: str, first: float, last: float) -> Iterator[Event]:
        started = time.monotonic()
        figures: dict[str, list[float]] = {}
        weights: tuple[float, ...] = ()
        for number in range(self.options.seeds):
            share, step = first + (last - first) * number / self.options.seeds, (last - first) / self.options.seeds
            trained = yield from self._trained(config, row, self.options.seed + number, share, step)
            weights = weights or trained.weights
            for name, value in self._measure(trained).items():
                figures.setdefault(name, []).append(value)
        found = Row(
            layers=row.name,
            title=row.title,
            tagger=config.kind,
            figures={name: tuple(values) for name, values in figures.items()},
            weights=weights,
            seconds=time.monotonic() - started,
        )
        kept = {"file": file, "figures": figures, "weights": list(weights), "seconds": found.seconds}
        self.unfinished.add(file, lambda path: _write_row(path, kept))
        yield found

    def _trained(
        self, config: TaggerConfig, row: Layers, seed: int, first: float, step: float
    ) -> Generator[Event, None, Trained]:
        training = train_tagger(
            row.selection,
            config,
            self.train_states,
            self.targets,
            self.dev_states,
            num_tags=len(self.task.labels),
            seed=seed,
        )
        while True:
            try:
                share = next(training)
            except StopIteration as end:
                return cast(Trained, end.value)
            yield Working(f"{config.kind} {TAGGERS}", first + step * share, row.title)

    def _measure(self, trained: Trained) -> dict[str, float]:
        names = [self.task.labels[number] for number in trained.tags.tolist()]
        predictions, start = [], 0
        for example in self.dev:
            stop = start + len(example.words)
            tags = tuple(names[start:stop])
            predictions.append(TagPrediction(example.words, tags, (1.0,) * len(tags), ()))
            start = stop
        return self.task.measure(self.dev, predictions)


def _write_row(path: Path, kept: Mapping[str, Any]) -> dict[str, Any]:
    path.write_text(json.dumps(kept), encoding="utf-8")
    return {"row": dict(kept)}
