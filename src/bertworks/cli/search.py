"""`bertworks search`: an index over the texts of a file, and questions to it."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bertworks.cli.common import (
    DEFAULT_DEVICE,
    DEFAULT_MODEL,
    PRECISIONS,
    DeviceOption,
    EncodingOption,
    FormatOption,
    JsonOption,
    ModelOption,
    NoHeaderOption,
    PrecisionOption,
    QuietOption,
    StoppedError,
    TextColumnOption,
    ThreadsOption,
    model_identity,
    prepare,
)
from bertworks.cli.console import Progress, StageProgress, duration, print_json, print_note, print_result
from bertworks.errors import DataError, UsageError, choice

if TYPE_CHECKING:
    from bertworks.data.readers import TextReader
    from bertworks.infer.search import Hit, SearchIndex
    from bertworks.infer.search_build import SearchBuild

app = typer.Typer(help="Find texts by their meaning.", no_args_is_help=True)


@app.command("build")
def build(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Texts: .txt (one per line), .csv, .tsv, .jsonl, .parquet; also .gz, .xz; or -."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory of the index.")],
    text_column: TextColumnOption = None,
    model: ModelOption = DEFAULT_MODEL,
    precision: PrecisionOption = None,
    index: Annotated[
        str,
        typer.Option(
            help="exact: compare all vectors; usearch: a graph of neighbours; auto: by the number of texts.",
            metavar="KIND",
        ),
    ] = "auto",
    restart: Annotated[
        bool, typer.Option("--restart", help="Drop what an unfinished build left, and start again.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the index that is in DIR.")] = False,
    encoding: EncodingOption = "utf-8",
    file_format: FormatOption = None,
    no_header: NoHeaderOption = False,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Build an index over the texts of FILE.

    Stopped in the middle, the same command continues where it was. Up to
    some ten thousand texts a question is compared with all of them; beyond
    that a graph of neighbours is built, and how much it finds of what an
    exact search finds (recall@10) is measured and told.

    \b
    Examples:
      bertworks search build reviews.csv --text-column review -o reviews-index
      bertworks search query reviews-index "slow, but worth it"
    """
    from bertworks.data.readers import TextReader
    from bertworks.infer.search_build import SearchBuild, is_whole, model_name

    choice(precision or "fp32", PRECISIONS, "precision")
    if output.is_dir() and any(output.iterdir()) and not _is_ours(output):
        raise UsageError(f"{output} exists already and is not a search index; choose another name")
    if is_whole(output) and not overwrite:
        raise UsageError(f"{output} is a finished index; choose another name, or replace it with --overwrite")
    started = time.monotonic()
    with TextReader(
        file, text_column=text_column, encoding=encoding, file_format=file_format, header=not no_header
    ) as reader:
        settings = {**reader.identity(), "model": model_identity(model), "precision": precision}
        chunks = reader.chunks()
        first = next(chunks, None)  # before the model is loaded, so that a bad file is told at once
        if first is None:
            raise DataError("holds no texts", path=reader.name)
        with SearchBuild(
            output,
            model=model_name(model),
            settings=settings,
            index=index,
            restart=restart,
            resumable=reader.repeatable,
        ) as result:
            if result.rows:
                print_note(f"continuing after the {result.rows:,} texts of an earlier run", quiet=quiet)
            try:
                _embed(result, reader, itertools.chain([first], chunks), model, device, precision, threads, quiet)
                with StageProgress(quiet=quiet) as progress:
                    found = result.finish(lambda what, done: progress.update(what, done, f"{done:.0%}"))
            except KeyboardInterrupt:
                raise StoppedError(result.output.kept()) from None
    _tell_built(found, time.monotonic() - started, json=json)


@app.command("query")
def query(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of an index.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The question; - reads one from each line of the input.")],
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="How many texts to show.", min=1, metavar="K")] = 10,
    exact: Annotated[bool, typer.Option("--exact", help="Compare all vectors, whatever the index.")] = False,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Where the model is now, if it was moved.", show_default="the index's"),
    ] = None,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Show the texts that are nearest to TEXT, with the cosines of their vectors.

    \b
    Examples:
      bertworks search query reviews-index "slow, but worth it"
      bertworks search query reviews-index - --json < questions.txt
    """
    from bertworks.infer.search import SearchIndex

    index = SearchIndex(directory, model=model, device=device)
    prepare(seed=0, threads=threads)
    questions = [line.rstrip("\n") for line in sys.stdin] if text == "-" else [text]
    if not questions:
        raise UsageError("there is no question in the input")
    for question, hits in zip(questions, index.search(questions, top_k, exact=exact), strict=True):
        _tell_found(question, hits, alone=text != "-", json=json)


def _is_ours(directory: Path) -> bool:
    """Whether there is an index in the directory, or the beginning of one."""
    from bertworks.infer.search_files import EMBEDDED, MANIFEST

    return (directory / MANIFEST).exists() or any(directory.glob(f"{EMBEDDED}*"))


def _embed(
    result: SearchBuild,
    reader: TextReader,
    chunks: Iterable[list[str]],
    model: str,
    device: str,
    precision: str | None,
    threads: int | None,
    quiet: bool,
) -> None:
    """Embed what is not embedded yet. Chunks are the same in every run, so whole ones are passed over."""
    import bertworks
    from bertworks.infer.few_rows import settle_few_rows

    prepare(seed=0, threads=threads)
    settle_few_rows(reader.total_bytes)
    loaded = bertworks.load(model, device=device, precision=precision)
    done = result.rows
    with Progress("embedding", reader.total_bytes, finished_rows=done, quiet=quiet) as progress:
        for texts in chunks:
            if done > 0:
                done -= len(texts)
                continue
            progress.begin_chunk(len(texts), reader.bytes_read)
            result.append(texts, loaded.embed(texts, progress=progress.within_chunk))
            progress.end_chunk()


def _tell_built(index: SearchIndex, seconds: float, *, json: bool) -> None:
    facts = index.facts
    if json:
        print_json({"directory": str(index.directory), **facts.as_json(), "seconds": round(seconds, 3)})
        return
    print_result(f"{index.directory}: {facts.rows:,} texts, vectors of width {facts.width}, in {duration(seconds)}")
    if facts.index == "exact":
        print_result("index: exact (every question is compared with all texts)")
    else:
        print_result(f"index: {facts.index}; recall@10 against an exact search: {facts.recall:.3f}")


def _tell_found(question: str, hits: list[Hit], *, alone: bool, json: bool) -> None:
    if json:
        found = [{"row": hit.row, "score": round(hit.score, 6), "text": hit.text} for hit in hits]
        print_json({"query": question, "hits": found})
        return
    if not alone:
        print_result(question)
    for hit in hits:
        print_result(f"{hit.score:6.3f}  {hit.row:>8,}  {' '.join(hit.text.split())}")
