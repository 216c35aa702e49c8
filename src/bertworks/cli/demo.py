"""`bertworks demo`: the main job end to end, on texts of our own and the offline model.

The steps are computed in `demo_steps`, the page is drawn in `demo_page`; here they are told to the user one by one.
"""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import (
    DEFAULT_DEVICE,
    DEFAULT_MODEL,
    DeviceOption,
    JsonOption,
    ModelOption,
    SeedOption,
    ThreadsOption,
    prepare,
)
from bertworks.cli.console import duration, print_json, print_result
from bertworks.errors import OutputError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import RenderableType

    from bertworks.cli.demo_steps import Classes, LayerRow, LongText, ModelFacts, Results, Search, TokenRow
    from bertworks.infer.loaded import LoadedModel

NUM_STEPS = 7
PLAIN_WIDTH = 100  # columns where there is no terminal to ask


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The directory to write the results to.", metavar="DIR")
    ] = Path("demo-output"),
    model: ModelOption = DEFAULT_MODEL,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Show the main job in a minute, without any download.

    Embeds and searches texts, tokenizes with offsets, classifies on frozen
    vectors, compares layers, reads a long text, and writes what it found.

    \b
    Example:
      bertworks demo --output demo-output
    """
    _make_directory(output)
    started = time.monotonic()
    teller = _Teller(quiet=json)
    results, files = _run(teller, output, model, device, threads, seed)
    seconds = time.monotonic() - started
    if json:
        print_json(_summary(results, files, seconds))
    else:
        teller.text(f"Done in {duration(seconds)}. What to type next:")
        for command in _next_commands(output):
            teller.line(f"  {command}")


def _run(
    teller: _Teller, output: Path, name: str, device: str, threads: int | None, seed: int
) -> tuple[Results, dict[str, Path]]:
    from bertworks.cli import demo_steps as steps

    messages, labels = steps.read_messages()
    notes = steps.read_sample("library.txt").splitlines()

    teller.step(1, f"Load the model {name!r}")
    prepare(seed=seed, threads=threads)
    import bertworks

    loaded = bertworks.load(name, device=device)
    message_vectors, rate = steps.embed_and_time(loaded, messages)
    facts = steps.describe(name, loaded, rate)
    teller.model(facts)

    teller.step(2, f"Embed {len(notes)} notes and search them by meaning")
    note_vectors = _vectors(loaded, notes)
    searches = steps.search(loaded, notes, note_vectors)
    teller.searches(searches)

    teller.step(3, "Tokenize, with offsets into the text as it was written")
    tokens = steps.token_rows(loaded)
    teller.tokens(steps.SENTENCE, tokens)

    teller.step(4, f"Classify {len(messages)} messages: logistic regression on frozen vectors")
    classes = steps.classify(messages, labels, message_vectors, seed)
    teller.classes(classes)

    teller.step(5, "Which layer? The same head on other layers")
    layers = steps.compare_layers(loaded, messages, labels, seed)
    teller.layers(layers)

    teller.step(6, "Embed a text longer than the model's window")
    long_text = steps.read_long(loaded, steps.read_sample("long.txt"))
    teller.long_text(long_text)

    results = steps.Results(
        model=facts,
        searches=searches,
        sentence=steps.SENTENCE,
        tokens=tokens,
        classes=classes,
        layers=layers,
        long_text=long_text,
        points=steps.map_points(message_vectors),
    )
    teller.step(7, f"Write the results to {output}")
    files = _write(output, results, messages, message_vectors, notes, note_vectors)
    teller.files(files)
    return results, files


def _vectors(model: LoadedModel, texts: list[str]) -> np.ndarray:
    import numpy as np

    return np.asarray(model.embed(texts, normalize=True))


def _write(
    output: Path,
    results: Results,
    messages: Sequence[str],
    message_vectors: np.ndarray,
    notes: Sequence[str],
    note_vectors: np.ndarray,
) -> dict[str, Path]:
    """Write every file; returns them with what they hold, in the order to look at them."""
    from bertworks.atomic import write_text
    from bertworks.cli.demo_page import page
    from bertworks.cli.demo_steps import read_sample

    def lines(rows: Sequence[Any]) -> str:
        return "".join(json_module.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)

    found = {name: output / name for name in ("demo.html", "searches.json", "predictions.jsonl")}
    try:
        write_text(found["demo.html"], page(results))
        rows = [asdict(search) for search in results.searches]
        write_text(found["searches.json"], json_module.dumps(rows, ensure_ascii=False, indent=2) + "\n")
        write_text(found["predictions.jsonl"], lines(results.classes.predictions))
        for name in ("messages.csv", "library.txt", "long.txt"):  # so that the next commands have something to work on
            write_text(output / name, read_sample(name))
    except OSError as error:
        raise OutputError(f"cannot write to {output}: {error.strerror or error}") from error
    found["messages.npy"] = _write_vectors(output / "messages.npy", messages, message_vectors)
    found["library.parquet"] = _write_vectors(output / "library.parquet", notes, note_vectors)
    return found | {name: output / name for name in ("messages.csv", "library.txt", "long.txt")}


def _write_vectors(path: Path, texts: Sequence[str], vectors: np.ndarray) -> Path:
    """The same files that `bertworks embed` writes."""
    from bertworks.data.outputs import ResumableOutput
    from bertworks.data.writers import Rows

    with ResumableOutput(path, "vector", {"demo": path.name}, resumable=False) as result:
        result.append(Rows(start=0, texts=texts, vectors=vectors))
        result.finish()
    return path


FILE_NOTES = {
    "demo.html": "all of this on one page; open it in a browser",
    "searches.json": "the queries and what they found",
    "predictions.jsonl": "every message with its label and the prediction",
    "messages.npy": "the vectors of the messages",
    "library.parquet": "the notes with their vectors",
    "messages.csv": "the messages",
    "library.txt": "the notes",
    "long.txt": "the long text",
}


def _next_commands(output: Path) -> list[str]:
    return [
        f"bertworks embed {output / 'library.txt'} -o vectors.npy",
        f"bertworks embed {output / 'messages.csv'} --text-column text --pooling words -o words.parquet",
        "bertworks info minilm",
        "bertworks --help",
    ]


def _make_directory(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if output.is_file() else (error.strerror or str(error))
        raise OutputError(f"cannot write to the directory {output}: {reason}; choose another --output") from error


def _summary(results: Results, files: dict[str, Path], seconds: float) -> dict[str, Any]:
    classes = asdict(replace(results.classes, predictions=[]))
    del classes["predictions"]  # one line each in predictions.jsonl
    return {
        "model": asdict(results.model),
        "searches": [asdict(search) for search in results.searches],
        "tokens": [asdict(row) for row in results.tokens],
        "classification": classes,
        "layers": [asdict(row) for row in results.layers],
        "long_text": asdict(results.long_text),
        "files": [str(path) for path in files.values()],
        "seconds": round(seconds, 3),
    }


class _Teller:
    """Says what the steps found: with colours and lines on a terminal, as plain text elsewhere, or not at all."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console

        self._quiet = quiet
        self._console = Console(highlight=False)
        self._plain = not self._console.is_terminal
        if self._plain:
            self._console = Console(highlight=False, no_color=True, width=PLAIN_WIDTH)

    def show(self, what: RenderableType) -> None:
        if self._quiet:
            return
        if not self._plain:
            self._console.print(what)
            return
        with self._console.capture() as captured:
            self._console.print(what)
        for line in captured.get().splitlines():
            print_result(line.rstrip())  # a log is easier to compare without the spaces that fill up a table

    def text(self, text: str, style: str = "") -> None:
        """Lines as they are: brackets in texts are not markup."""
        from rich.text import Text

        self.show(Text(text, style=style))

    def line(self, text: str) -> None:
        """A line that is never wrapped: a path or a command, to be copied."""
        if not self._quiet:
            print_result(text)

    def step(self, number: int, title: str) -> None:
        self.text(f"{number}/{NUM_STEPS}  {title}", style="bold cyan")

    def table(self, rows: Sequence[Sequence[str]], columns: Sequence[str], *, right: Sequence[int] = ()) -> None:
        """A table; the columns numbered in `right` are aligned to the right."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None if self._plain else SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="dim")
        for index, column in enumerate(columns):
            table.add_column(column, justify="right" if index in right else "left", no_wrap=index in right)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.show(table)
        if self._plain:  # elsewhere the table brings its own empty line
            self.text("")

    def question(self, question: str, answers: Sequence[tuple[float, str]]) -> None:
        """A question and what was found, with scores; a long answer goes on under its own beginning."""
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        self.text(f"? {question}", style="bold")
        grid = Table.grid(padding=(0, 2))
        for score, answer in answers:
            grid.add_row(Text(f"{score:.2f}"), Text(answer))
        self.show(Padding(grid, (0, 0, 0, 2), expand=False))

    def model(self, facts: ModelFacts) -> None:
        window = "no limit" if facts.window is None else f"{facts.window} tokens"
        self.text(
            f"{facts.family}, {facts.num_parameters / 1e6:.1f} million parameters, {facts.num_layers} layers of width "
            f"{facts.hidden_size}, window: {window}"
        )
        self.text(f"{facts.texts_per_second:,.0f} short texts per second on this machine\n")

    def searches(self, searches: Sequence[Search]) -> None:
        for search in searches:
            self.question(search.query, [(hit.score, hit.text) for hit in search.hits])
        self.text("")

    def tokens(self, sentence: str, tokens: Sequence[TokenRow]) -> None:
        self.text(sentence, style="bold")
        self.table(
            [(row.token, f"{row.start}–{row.end}", row.original) for row in tokens],
            ("token", "characters", "in the text"),
            right=(1,),
        )

    def classes(self, classes: Classes) -> None:
        self.table(
            [
                ("frozen vectors", f"{classes.accuracy:.1%} ± {classes.spread:.1%}"),
                ("word counts (TF-IDF)", f"{classes.tfidf_accuracy:.1%}"),
                ("always the most frequent label", f"{classes.majority_accuracy:.1%}"),
            ],
            ("features", "accuracy (5-fold)"),
            right=(1,),
        )
        if classes.mixed_up_count:
            first, second = classes.mixed_up
            self.text(f"most mixed up: {first} and {second}, {classes.mixed_up_count} times; for example")
            for row in [row for row in classes.predictions if {row.label, row.predicted} == {first, second}][:2]:
                self.text(f"  {row.label}, taken for {row.predicted}: {row.text}")
            self.text("")

    def layers(self, layers: Sequence[LayerRow]) -> None:
        rows = [(row.layers, str(row.width), f"{row.accuracy:.1%}") for row in layers]
        self.table(rows, ("layers", "width", "accuracy"), right=(1, 2))

    def long_text(self, found: LongText) -> None:
        self.text(str(found))
        if found.num_windows > 1:
            first = (
                f"only its first window: {found.share_in_first:.0%} of the words, all that is left where texts are cut"
            )
            self.question(found.question, [(found.score_whole, "the whole text"), (found.score_first_window, first)])
        self.text("")

    def files(self, files: dict[str, Path]) -> None:
        width = max(len(str(path)) for path in files.values())
        for name, path in files.items():
            self.line(f"{path!s:<{width}}  {FILE_NOTES[name]}")
        self.line("")
