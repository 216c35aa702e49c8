"""`bertworks embed`: vectors for every text of a file, streamed, and safe to stop at any moment."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

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
    SeedOption,
    StoppedError,
    TextColumnOption,
    ThreadsOption,
    model_identity,
    prepare,
)
from bertworks.cli.console import Progress, duration, print_json, print_note, print_result
from bertworks.errors import DataError, UsageError, choice

if TYPE_CHECKING:
    import numpy as np

    from bertworks.data.outputs import ResumableOutput
    from bertworks.data.writers import Kind, Rows

# What an option asks for, and so what a row of the output holds.
POOLINGS: dict[str, Kind] = {"mean": "vector", "cls": "vector", "max": "vector", "none": "tokens", "words": "words"}
ENGINES = ("local", "ray")
PIECE_CHUNK_CHARACTERS = 32_768  # a vector per token takes far more room than one per text, so those chunks are shorter


def embed(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Texts: .txt (one per line), .csv, .tsv, .jsonl, .parquet; also .gz, .xz; or -."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write: a .npy, .parquet or .jsonl file.")],
    text_column: TextColumnOption = None,
    model: ModelOption = DEFAULT_MODEL,
    layers: Annotated[
        str,
        typer.Option(
            help="last, first, second-to-last, sum-last-4, concat-last-4, sum-all, or a number (0: the embeddings)."
        ),
    ] = "last",
    pooling: Annotated[
        str | None,
        typer.Option(
            help="mean, cls, max: a vector per text; none: one per token; words: one per word.",
            show_default="the model's own, else mean",
        ),
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option("--normalize/--no-normalize", help="Scale to length 1.", show_default="the model's own"),
    ] = None,
    precision: PrecisionOption = None,
    batch_tokens: Annotated[
        int | None, typer.Option("--batch-tokens", help="How many tokens to compute at once.", min=1, metavar="N")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="local: this process; ray: the workers of a Ray cluster, for one vector per text.")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option("--workers", help="ray: how many hold the model.", min=1, metavar="N", show_default="all cores"),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Drop what an unfinished run left, and start again.")
    ] = False,
    encoding: EncodingOption = "utf-8",
    file_format: FormatOption = None,
    no_header: NoHeaderOption = False,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Turn every text of FILE into vectors.

    The file is streamed, so it may be larger than memory. Stopped in the
    middle, the same command continues where it was; the output appears under
    its name only when it is whole. A text longer than the model's window is
    embedded over several windows.

    \b
    Examples:
      bertworks embed reviews.csv --text-column review -o reviews.npy
      bertworks embed lines.txt.gz -o words.parquet --pooling words
      cat lines.txt | bertworks embed - -o lines.jsonl --layers sum-last-4
      bertworks embed reviews.parquet -o reviews.npy --engine ray --workers 8
    """
    from bertworks.data.outputs import ResumableOutput, not_an_input
    from bertworks.data.readers import CHUNK_CHARACTERS, TextReader

    not_an_input(output, file)
    kind = "vector" if pooling is None else POOLINGS[choice(pooling, POOLINGS, "pooling")]
    choice(precision or "fp32", PRECISIONS, "precision")
    if normalize and kind != "vector":
        raise UsageError(f"--normalize is for one vector per text; leave it out with --pooling {pooling}")
    if choice(engine, ENGINES, "engine") == "ray" and kind != "vector":
        raise UsageError(f"--engine ray makes one vector per text; leave it out with --pooling {pooling}")
    with TextReader(
        file, text_column=text_column, encoding=encoding, file_format=file_format, header=not no_header
    ) as reader:
        settings = {
            **reader.identity(),
            "model": model_identity(model),
            "layers": layers,
            "pooling": pooling,
            "normalize": normalize,
            "precision": precision,
        }
        with ResumableOutput(output, kind, settings, restart=restart, resumable=reader.repeatable) as result:
            if result.resumed_rows:
                print_note(f"continuing after the {result.resumed_rows:,} rows of an earlier run", quiet=quiet)
            try:
                characters = CHUNK_CHARACTERS if kind == "vector" else PIECE_CHUNK_CHARACTERS
                chunks = reader.chunks(characters=characters, skip=result.rows)
                first = next(chunks, None)  # before the model is loaded, so that a bad file is told at once
                if first is None and not result.rows:
                    raise DataError("holds no texts", path=reader.name)
                prepare(seed=seed, threads=threads)
                embedder: _Embedder | _OnRay
                if engine == "ray":
                    reading = {"text_column": text_column, "encoding": encoding, "file_format": file_format}
                    embedder = _OnRay(
                        file,
                        reading={**reading, "header": not no_header},
                        skip=result.rows,
                        model=model,
                        device=device,
                        precision=precision,
                        batch_tokens=batch_tokens,
                        layers=layers,
                        pooling=pooling,
                        normalize=normalize,
                        workers=workers,
                        threads=threads or 1,
                    )
                else:
                    options = (model, device, precision, batch_tokens, layers, pooling, normalize)
                    embedder = _Embedder(*options, num_bytes=reader.total_bytes)
                started = time.monotonic()
                with Progress("embedding", reader.total_bytes, finished_rows=result.rows, quiet=quiet) as progress:
                    for texts in itertools.chain([first] if first else [], chunks):
                        progress.begin_chunk(len(texts), reader.bytes_read)
                        rows, windowed = embedder.rows(result.rows, texts, progress)
                        result.append(rows, {"windowed": windowed})
                        progress.end_chunk()
                result.finish()
            except KeyboardInterrupt:
                raise StoppedError(result.kept()) from None
        _report(result, time.monotonic() - started, json=json, quiet=quiet)


class _Embedder:
    """The loaded model and what is asked of it."""

    def __init__(
        self,
        model: str,
        device: str,
        precision: str | None,
        batch_tokens: int | None,
        layers: str,
        pooling: str | None,
        normalize: bool | None,
        *,
        num_bytes: int | None,
    ) -> None:
        import bertworks
        from bertworks.infer.few_rows import settle_few_rows

        settle_few_rows(num_bytes)
        self.model = bertworks.load(model, device=device, precision=precision, batch_tokens=batch_tokens)
        self.layers, self.pooling, self.normalize = layers, pooling, normalize

    def rows(self, start: int, texts: list[str], progress: Progress) -> tuple[Rows, int]:
        """The results for `texts`, numbered from `start`, and how many of them were longer than the window."""
        from bertworks.data.writers import Rows
        from bertworks.infer.embed import EmbedReport

        report = EmbedReport()
        if self.pooling in ("none", "words"):
            per_piece = self.model.embed_words if self.pooling == "words" else self.model.embed_tokens
            pieces = per_piece(texts, layers=self.layers, report=report, progress=progress.within_chunk)
            rows = Rows(start=start, texts=texts, pieces=pieces)
        else:
            vectors = self.model.embed(
                texts,
                layers=self.layers,
                pooling=self.pooling,
                normalize=self.normalize,
                report=report,
                progress=progress.within_chunk,
            )  # (rows, width)
            rows = Rows(start=start, texts=texts, vectors=cast("np.ndarray", vectors))
        return rows, report.windowed


class _OnRay:
    """The same, from the workers of a cluster, which read the same file in the same chunks."""

    def __init__(self, file: str, **options: Any) -> None:
        from bertworks.ray import embed_file

        self.chunks = embed_file(file, **options)

    def rows(self, start: int, texts: list[str], progress: Progress) -> tuple[Rows, int]:
        """The next chunk's results, which must be those of `texts`."""
        from bertworks.data.writers import Rows

        chunk = next(self.chunks, None)
        if chunk is None or chunk.texts != texts:
            raise DataError("the file changed while it was read")
        return Rows(start=start, texts=texts, vectors=chunk.vectors), chunk.windowed


def _report(result: ResumableOutput, seconds: float, *, json: bool, quiet: bool) -> None:
    windowed = sum(notes["windowed"] for notes in result.notes)
    if json:
        print_json(
            {
                "output": str(result.path),
                "rows": result.rows,
                "width": result.width,
                "windowed": windowed,
                "seconds": round(seconds, 3),
                "resumed_rows": result.resumed_rows,
            }
        )
    else:
        rate = (result.rows - result.resumed_rows) / max(seconds, 1e-9)
        print_result(
            f"{result.path}: {result.rows:,} rows of width {result.width} in {duration(seconds)} ({rate:,.0f} rows/s)"
        )
        if windowed and not quiet:
            which = (
                "text was longer than the model's window and was"
                if windowed == 1
                else "texts were longer than the model's window and were"
            )
            print_result(f"{windowed:,} {which} embedded over several windows")
