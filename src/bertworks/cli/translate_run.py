"""`bertworks translate run`: every text of a file to its translation, streamed, and safe to stop at any moment."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import (
    DEFAULT_DEVICE,
    DeviceOption,
    EncodingOption,
    FormatOption,
    JsonOption,
    NoHeaderOption,
    QuietOption,
    SeedOption,
    StoppedError,
    TextColumnOption,
    ThreadsOption,
    model_identity,
    prepare,
)
from bertworks.cli.console import Progress, duration, print_json, print_note, print_result
from bertworks.errors import DataError, OutputError, UsageError

if TYPE_CHECKING:
    from bertworks.data.readers import TextReader
    from bertworks.data.writers import Kind
    from bertworks.infer.decode import Strategy
    from bertworks.infer.generate import Generation
    from bertworks.infer.translate import AlignmentMatrix, Translator

DEFAULT_BEAM = 5
PICTURES = 20
"""Sentences of a file that are drawn."""
CHUNK_CHARACTERS = 4096
SAVED_CHARACTERS = 8192
"""To a file: what a stop can lose, some seconds of work."""
"""Of texts that are translated before the first of them is printed."""


def run(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="What translate train made, or a Marian or BART model.")
    ],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Texts: .txt (one per line), .csv, .tsv, .jsonl, .parquet; or -.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where to write: .jsonl with scores, any other name for a translation per line.",
            show_default="standard output",
        ),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(help="How many beginnings are kept; 1 is greedy.", min=1, metavar="N", show_default="5"),
    ] = None,
    length_penalty: Annotated[
        float,
        typer.Option(help="Scores are divided by length to this power; more gives longer translations.", metavar="X"),
    ] = 1.0,
    coverage_penalty: Annotated[
        float, typer.Option(help="What it costs to leave source words out.", min=0.0, metavar="X")
    ] = 0.0,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Draw from the K most probable tokens.", metavar="K")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Draw from the most probable tokens that make up P.", metavar="P")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Draw: flatter above 1, sharper below.", metavar="T")
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            help="The most tokens to write for a text, or a part of one.",
            min=1,
            metavar="N",
            show_default="twice its source",
        ),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="A file with a reference per line: tells the BLEU.", metavar="FILE")
    ] = None,
    alignment: Annotated[
        Path | None,
        typer.Option(help="Where the decoder looked, of the first sentences: a .html page, or .json.", metavar="FILE"),
    ] = None,
    text_column: TextColumnOption = None,
    encoding: EncodingOption = "utf-8",
    file_format: FormatOption = None,
    no_header: NoHeaderOption = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Drop what an unfinished run left, and start again.")
    ] = False,
    seed: SeedOption = 0,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Translate every text of FILE, a line for a line.

    The file is streamed, so it may be larger than memory. Stopped in the
    middle, the same command continues where it was. A text longer than the
    model reads at once is translated in parts; an empty line stays empty.

    \b
    Examples:
      bertworks translate run en-de test.en -o test.de --reference reference.de
      echo "A dog runs." | bertworks translate run en-de - --beam 1
      bertworks translate run en-de test.en -o test.de --alignment pictures.html
    """
    if alignment is not None and alignment.suffix not in (".html", ".json"):
        raise UsageError(f"--alignment is {alignment}; give a name that ends in .html (pictures) or .json (numbers)")
    from bertworks.data.outputs import not_an_input
    from bertworks.data.readers import TextReader

    prepare(seed=seed, threads=threads)
    strategy = _strategy(
        beam,
        scores=json if output is None else output.suffix == ".jsonl",
        drawing=any(value is not None for value in (top_k, top_p, temperature)),
        top_k=top_k,
        top_p=top_p,
        temperature=temperature,
        seed=seed,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
    )
    read = [file, *([] if reference is None else [reference])]
    for written in (output, alignment):
        if written is not None:
            not_an_input(written, *read)
    if alignment is not None and not alignment.parent.is_dir():
        raise OutputError(f"cannot write {alignment}: there is no directory {alignment.parent}")
    if output is not None and output == alignment:
        raise UsageError(f"-o and --alignment are both {output}; give each a name of its own")
    reading: dict[str, Any] = {
        "text_column": text_column,
        "encoding": encoding,
        "file_format": file_format,
        "header": not no_header,
    }
    with TextReader(file, **reading) as reader:
        from bertworks.infer.translate import Translator

        if reference is not None and reader.repeatable:  # else a wrong one would be found when all is translated
            with TextReader(file, **reading) as counted:
                _check_reference(reference, len(_lines(reference, encoding)), sum(map(len, counted.chunks())))
        translator = Translator.load(model, device=device)
        work = _Work(
            translator,
            strategy,
            max_tokens=max_tokens,
            reference=reference,
            encoding=encoding,
            pictures=alignment is not None,
        )
        if output is None:
            work.to_standard_output(reader, json=json)
        else:
            settings = {
                **reader.identity(),
                "model": model_identity(model),
                "strategy": repr(strategy),
                **({} if max_tokens is None else {"max_tokens": max_tokens}),
            }
            resumed = work.to_file(reader, output, settings, restart=restart, json=json, quiet=quiet)
            if resumed and alignment is not None:  # its first texts were translated by an earlier run
                with TextReader(file, **reading) as again:
                    work.align_first(again, output)
    if alignment is not None:
        _write_alignment(alignment, model, work.alignments)
        print_note(f"alignment: {alignment}", quiet=quiet)
    for note in work.notes():
        print_note(note, quiet=quiet)


def _strategy(beam: int | None, *, scores: bool, drawing: bool, **options: Any) -> Strategy:
    """Beam search, unless something else is asked for; a beam of one is greedy, quicker where nobody looks at `scores`."""
    from bertworks.infer.decode import Greedy
    from bertworks.infer.generate import choose_strategy

    width = DEFAULT_BEAM if beam is None and not drawing else beam
    found = choose_strategy(beam=None if width == 1 else width, **options)
    return Greedy(scores=scores) if found == Greedy() else found


class _Work:
    """Chunks of texts to their translations, and what is to be told in the end."""

    def __init__(
        self,
        translator: Translator,
        strategy: Strategy,
        *,
        max_tokens: int | None,
        reference: str | None,
        encoding: str,
        pictures: bool,
    ) -> None:
        self.translator, self.strategy, self.max_tokens = translator, strategy, max_tokens
        self.references = None if reference is None else _lines(reference, encoding)
        self.reference = reference
        self.texts: list[str] = []  # all translations, where they are to be judged
        self.alignments: dict[int, AlignmentMatrix] = {}
        """By the number of the text in the file, from 1."""
        self.pictures = pictures
        self.in_parts = self.unfinished = self.unknown = self.done = 0

    def translate(self, chunk: Sequence[str], progress: Progress | None = None) -> list[Generation]:
        """The next texts."""
        found = self.translator.translate(
            chunk,
            self.strategy,
            max_tokens=self.max_tokens,
            first=self.done,
            progress=None if progress is None else progress.within_chunk,
        )
        numbered = enumerate(zip(chunk, found, strict=True), start=self.done + 1)
        self.done += len(chunk)
        self.in_parts += sum(each.num_parts > 1 for each in found)
        self.unfinished += sum(not each.finished for each in found)
        self.unknown += self._with_unknown(chunk)
        for number, (source, each) in numbered:
            if self.pictures and each.num_parts == 1 and each.text and len(self.alignments) < PICTURES:
                self.alignments[number] = self.translator.align(source, each.text)
        return found

    def _with_unknown(self, texts: Sequence[str]) -> int:
        """How many of the texts have something that the model's vocabulary has not."""
        import numpy as np

        ids, lengths = self.translator.source.ids(texts)
        unknown = np.flatnonzero(ids == self.translator.source.unk_id)
        return len(np.unique(np.searchsorted(np.cumsum(lengths), unknown, side="right")))

    def to_standard_output(self, reader: TextReader, *, json: bool) -> None:
        """Print as they come."""
        for chunk in reader.chunks(characters=CHUNK_CHARACTERS):
            for source, each in zip(chunk, self.translate(chunk), strict=True):
                self.texts += [each.text] if self.references is not None else []
                if json:
                    print_json({"source": source, "translation": each.text, "score": round(each.score, 4)})
                else:
                    print_result(each.text)
        if self.references is not None:
            print_note(self._bleu())

    def to_file(
        self, reader: TextReader, output: Path, settings: dict[str, Any], *, restart: bool, json: bool, quiet: bool
    ) -> int:
        """Write, chunk by chunk; returns how many texts an earlier run had written."""
        from bertworks.data.outputs import ResumableOutput
        from bertworks.data.writers import Rows

        started = time.monotonic()
        kind: Kind = "record" if output.suffix == ".jsonl" else "line"
        with ResumableOutput(output, kind, settings, restart=restart, resumable=reader.repeatable) as result:
            before = self.done = result.resumed_rows
            if before:
                print_note(f"continuing after the {before:,} texts of an earlier run", quiet=quiet)
            try:
                with Progress("translate", reader.total_bytes, finished_rows=before, quiet=quiet or json) as progress:
                    for chunk in reader.chunks(characters=SAVED_CHARACTERS, skip=before):
                        progress.begin_chunk(len(chunk), reader.bytes_read)
                        found = self.translate(chunk, progress)
                        records = [
                            {"source": source, "translation": each.text, "score": round(each.score, 4)}
                            for source, each in zip(chunk, found, strict=True)
                        ]
                        result.append(Rows(start=result.rows, records=records))
                        progress.end_chunk()
            except KeyboardInterrupt:
                raise StoppedError(result.kept()) from None
            rows = result.rows
            result.finish()
        seconds = time.monotonic() - started
        bleu = None
        if self.references is not None:
            self.texts = list(_written(output))
            bleu = self._bleu()
        if json:
            score = None if bleu is None else self.score
            print_json({"output": str(output), "texts": rows, "seconds": round(seconds, 3), "bleu": score})
            return before
        rate = (rows - before) / max(seconds, 1e-9)
        print_result(f"{output}: {rows:,} translations in {duration(seconds)} ({rate:,.0f} texts/s)")
        if bleu is not None:
            print_result(bleu)
        return before

    def align_first(self, reader: TextReader, output: Path) -> None:
        """The pictures again, of the first texts of the whole file."""
        self.alignments = {}
        sources = chain.from_iterable(reader.chunks(characters=CHUNK_CHARACTERS))
        for number, (source, text) in enumerate(zip(sources, _written(output), strict=False), start=1):
            if len(self.alignments) == PICTURES:
                return
            if text and self.translator.fits(source, text):
                self.alignments[number] = self.translator.align(source, text)

    def _bleu(self) -> str:
        from bertworks.tasks.metrics.bleu import SIGNATURE, corpus_bleu

        assert self.references is not None
        _check_reference(self.reference, len(self.references), len(self.texts))
        found = corpus_bleu(self.texts, self.references)
        self.score = found.score
        precisions = "/".join(f"{precision:.1f}" for precision in found.precisions)
        return f"BLEU {found.score:.2f} ({precisions}, brevity {found.brevity:.3f}; {SIGNATURE})"

    def notes(self) -> Iterator[str]:
        """What a person should know."""
        if self.in_parts:
            count = "a text was" if self.in_parts == 1 else f"{self.in_parts:,} texts were"
            yield f"{count} longer than the {self.translator.window} tokens that are read at once, and translated in parts"
        if self.unknown:
            count = "a text has" if self.unknown == 1 else f"{self.unknown:,} texts have"
            yield f"{count} characters or words that are not in the model's vocabulary, and which it cannot read"
        if self.unfinished:
            count = "a translation" if self.unfinished == 1 else f"{self.unfinished:,} translations"
            yield f"{count} reached the longest length that is tried, and had not ended"


def _check_reference(path: str | None, lines: int, texts: int) -> None:
    if lines != texts:
        message = f"has {lines:,} lines for {texts:,} translations, which must belong together line by line"
        raise DataError(message, path=path)


def _lines(path: str, encoding: str) -> list[str]:
    from bertworks.data.source import Source

    source = Source(path, encoding)
    try:
        return [line.rstrip("\r\n") for _, line in source.lines()]
    finally:
        source.close()


def _written(output: Path) -> Iterator[str]:
    """The translations in a finished file, those of earlier runs included."""
    import json as json_module

    for line in _lines(str(output), "utf-8"):
        yield str(json_module.loads(line)["translation"]) if output.suffix == ".jsonl" else line


def _write_alignment(path: Path, model: str, alignments: Mapping[int, AlignmentMatrix]) -> None:
    from bertworks.atomic import write_text
    from bertworks.translate.alignment import alignment_json, alignment_page

    content = alignment_json(alignments) if path.suffix == ".json" else alignment_page(Path(model).name, alignments)
    try:
        write_text(path, content)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
