"""`bertworks corpus`: text files to a corpus that pretraining maps into memory, and a look at what is in one."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import (
    EncodingOption,
    FormatOption,
    JsonOption,
    NoHeaderOption,
    QuietOption,
    StoppedError,
    TextColumnOption,
    WorkersOption,
    tell_odd_files,
    tokenizer_directory,
)
from bertworks.cli.console import StageProgress, duration, print_facts, print_json, print_note, print_result
from bertworks.errors import UsageError

if TYPE_CHECKING:
    from bertworks.data.corpus import Corpus, Report

SAMPLES = 3
SAMPLE_TOKENS = 40

app = typer.Typer(help="Build a corpus for pretraining, and look into one.", no_args_is_help=True)


@app.command("build")
def build(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES…", help="Texts: .txt, .jsonl, .parquet, .csv, .tsv; also .gz, .xz; or - for standard input."
        ),
    ],
    tokenizer: Annotated[
        str,
        typer.Option("--tokenizer", help="A directory with a tokenizer, an alias or a Hub id.", metavar="TOKENIZER"),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to make.", metavar="DIR")],
    document: Annotated[
        str | None,
        typer.Option(
            help="What a document is: blank-line (the lines between blank lines), row (of a table; of a text file it is a "
            "line, and may be called so), or file.",
            show_default="blank-line for text files, row for tables",
        ),
    ] = None,
    text_column: TextColumnOption = None,
    language: Annotated[
        str, typer.Option(help="Whose sentences: en, sv, zh, or auto (told for each document by its text).")
    ] = "auto",
    drop_duplicates: Annotated[
        bool,
        typer.Option(
            "--drop-duplicates",
            help="Leave out documents that were there before, to the letter (110 bytes of memory each).",
        ),
    ] = False,
    shard_tokens: Annotated[
        int, typer.Option("--shard-tokens", help="Begin a new shard after this many tokens.", min=1, metavar="N")
    ] = 2**23,
    workers: WorkersOption = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", "--restart", help="Drop what an earlier build has left here, finished or not; start again."
        ),
    ] = False,
    encoding: EncodingOption = "utf-8",
    file_format: FormatOption = None,
    no_header: NoHeaderOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Turn text FILES into a corpus of token ids.

    The files are streamed, so they may be larger than memory. Stopped in the
    middle, the same command continues after the last whole shard and ends
    with the same bytes; the directory appears under its name only when it is
    whole. Sentences never go over a line end, documents never over a file.

    \b
    Examples:
      bertworks corpus build wiki-*.txt.xz --tokenizer my-tokenizer -o wiki
      bertworks corpus build pages.jsonl --text-column body --tokenizer my-tokenizer -o pages --drop-duplicates
    """
    from bertworks.data.corpus import CorpusOptions, LocalEngine, build_corpus

    options = CorpusOptions(
        document=document,
        text_column=text_column,
        language=language,
        drop_duplicates=drop_duplicates,
        shard_tokens=shard_tokens,
        encoding=encoding,
        file_format=file_format,
        header=not no_header,
    )
    tell_odd_files(files, quiet=quiet)
    started = time.monotonic()
    try:
        progress = BuildProgress(quiet=quiet)
        with progress:
            report = build_corpus(
                files,
                tokenizer_directory(tokenizer),
                output,
                options,
                engine=LocalEngine(workers),
                restart=overwrite,
                progress=progress.show,
            )
    except KeyboardInterrupt as stop:
        raise StoppedError(str(stop) or "nothing was kept") from None
    _tell(report, time.monotonic() - started, json=json, quiet=quiet)


class BuildProgress(StageProgress):
    """Megabytes of text and tokens a second; how much is left is told by the inputs' size as stored."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._began = time.monotonic()
        self._behind: float | None = None  # the share of the inputs that earlier runs had done

    def show(self, report: Report) -> None:
        """Show how far the build is."""
        share = report.bytes_read / report.bytes_total if report.bytes_read and report.bytes_total else 0.0
        done, before = report.totals, report.resumed
        if self._behind is None:
            self._behind = share * before.text_bytes / max(done.text_bytes, 1)
            if before.tokens:
                print_note(f"continuing after the {before.tokens:,} tokens of an earlier run", quiet=self._quiet)
        seconds = max(time.monotonic() - self._began, 1e-9)
        detail = (
            f"{done.tokens:,} tokens, {(done.text_bytes - before.text_bytes) / 1e6 / seconds:,.1f} MB/s, "
            f"{(done.tokens - before.tokens) / seconds:,.0f} tokens/s"
        )
        self.update("building", (share - self._behind) / max(1 - self._behind, 1e-9), detail)


def _tell(report: Report, seconds: float, *, json: bool, quiet: bool) -> None:
    from bertworks.data.corpus import Corpus

    corpus, totals = Corpus.open(report.directory), report.totals
    per_token = corpus.num_bytes / corpus.num_tokens
    if json:
        print_json(
            {
                "output": str(report.directory),
                **dataclasses.asdict(totals),
                "shards": len(corpus.manifest["shards"]),
                "disk_bytes": corpus.num_bytes,
                "disk_bytes_per_token": round(per_token, 4),
                "seconds": round(seconds, 3),
                "resumed_tokens": report.resumed.tokens,
                "already_there": report.already_there,
            }
        )
        return
    size = (
        f"{totals.documents:,} documents, {totals.sentences:,} sentences, {totals.tokens:,} tokens "
        f"({per_token:.2f} bytes on disk a token)"
    )
    if report.already_there:
        print_result(f"{report.directory}: already built, nothing to do: {size}")
        return
    rate = (totals.text_bytes - report.resumed.text_bytes) / 1e6 / max(seconds, 1e-9)
    print_result(f"{report.directory}: {size} in {duration(seconds)} ({rate:,.1f} MB/s)")
    for count, what in (
        (totals.duplicates, "left out: the same text was there before"),
        (totals.empty_documents, "left out: nothing in it"),
        (totals.cut_documents, "cut: a document was too long; is a blank line missing, or --document row?"),
    ):
        if count and not quiet:
            print_result(f"{count:,} {what}")


@app.command("info")
def info(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A corpus.")],
    verify: Annotated[bool, typer.Option("--verify", help="Read everything and compare it with its hashes.")] = False,
    samples: Annotated[int, typer.Option(help="How many documents to show the beginning of.", min=0)] = SAMPLES,
    json: JsonOption = False,
) -> None:
    """Show what the corpus in DIR is: counts, size, tokenizer, inputs, and a few documents.

    \b
    Examples:
      bertworks corpus info wiki
      bertworks corpus info wiki --verify --json
    """
    from bertworks.data.corpus import Corpus

    corpus = Corpus.open(directory)
    if verify:
        corpus.verify()
    facts = describe(corpus, samples)
    if verify:
        facts["verified"] = True
    if json:
        print_json(facts)
        return
    shown = {name: value for name, value in facts.items() if name not in ("inputs", "samples", "options")}
    shown |= {"options": {name: value for name, value in facts["options"].items() if value is not None}}
    print_facts(shown)
    print_result("inputs")
    for entry in facts["inputs"]:
        size = "" if entry["size"] is None else f"  {entry['size']:,} bytes  sha256 {entry['sha256'][:16]}…"
        print_result(f"  {entry['name']}{size}")
    for sample in facts["samples"]:
        print_result(f"document {sample['document']:,} ({sample['tokens']:,} tokens): {sample['text']}")


def describe(corpus: Corpus, samples: int) -> dict[str, Any]:
    """The facts of a corpus, and the beginnings of `samples` documents spread over it."""
    manifest, tokenizer = corpus.manifest, corpus.tokenizer()
    if tokenizer.vocab_size != corpus.vocab_size:
        raise UsageError(
            f"{corpus.directory}: its tokenizer has {tokenizer.vocab_size:,} tokens, its manifest says {corpus.vocab_size:,}"
        )
    count = min(samples, corpus.num_documents)
    chosen = [number * corpus.num_documents // count for number in range(count)]
    return {
        "directory": str(corpus.directory),
        "format_version": manifest["version"],
        "documents": corpus.num_documents,
        "sentences": corpus.num_sentences,
        "tokens": corpus.num_tokens,
        "text_bytes": manifest["totals"]["text_bytes"],
        "longest_document": manifest["totals"]["longest_document"],
        "duplicates_left_out": manifest["totals"]["duplicates"],
        "empty_left_out": manifest["totals"]["empty_documents"],
        "documents_cut": manifest["totals"]["cut_documents"],
        "shards": len(manifest["shards"]),
        "disk_bytes": corpus.num_bytes,
        "disk_bytes_per_token": round(corpus.num_bytes / corpus.num_tokens, 4),
        "tokens_per_sentence": round(corpus.num_tokens / corpus.num_sentences, 2),
        "vocabulary": corpus.vocab_size,
        "tokenizer_sha256": corpus.tokenizer_sha256,
        "options": manifest["options"],
        "inputs": manifest["inputs"],
        "samples": [
            {
                "document": index,
                "tokens": corpus.document_length(index),
                "text": " ".join(tokenizer.decode(corpus.document(index)[:SAMPLE_TOKENS].tolist()).split()),
            }
            for index in chosen
        ],
    }
