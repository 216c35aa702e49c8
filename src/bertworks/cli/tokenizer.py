"""`bertworks tokenizer`: train one, look at what it does to a text, compare several."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import (
    DEFAULT_MODEL,
    EncodingOption,
    FormatOption,
    JsonOption,
    NoHeaderOption,
    QuietOption,
    TextColumnOption,
    WorkersOption,
    check_new_directory,
    tell_odd_files,
    tokenizer_directory,
)
from bertworks.cli.console import Progress, StageProgress, duration, print_json, print_note, print_result, print_table
from bertworks.errors import DataError, OutputError

if TYPE_CHECKING:
    from bertworks.text.compare import Measure
    from bertworks.text.tokenizer import Tokenizer

# Whether a language has letters with accents shows in the beginning of its text.
ACCENTED = re.compile(
    "[" + "".join(letter for letter in map(chr, range(0xC0, 0x530)) if unicodedata.decomposition(letter)) + "]"
)
ACCENTS_SAMPLE = 1_000_000  # characters
TELLING_ACCENTS = 0.01  # a share; English has far fewer, French, Swedish or Czech more

app = typer.Typer(help="Train tokenizers, see how they cut a text, compare them.", no_args_is_help=True)

FilesArgument = Annotated[
    list[str],
    typer.Argument(metavar="FILES…", help="Texts: .txt, .csv, .tsv, .jsonl, .parquet; also .gz and .xz; or -."),
]


@app.command()
def train(
    files: FilesArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write.", metavar="DIR")],
    algorithm: Annotated[
        str, typer.Option("--algorithm", help="wordpiece (by likelihood), bpe, byte-bpe, word or character.")
    ] = "wordpiece",
    vocab_size: Annotated[
        int, typer.Option("--vocab-size", help="How many tokens, special ones included.", min=1, metavar="N")
    ] = 30_000,
    family: Annotated[
        str | None,
        typer.Option(
            "--family",
            help="Special tokens of bert, roberta, gpt2 or elmo. Default: bert; byte-bpe: roberta; word, character: elmo.",
        ),
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option("--lowercase/--keep-case", help="Default: lower-case, except for byte-bpe.")
    ] = None,
    strip_accents: Annotated[
        bool | None,
        typer.Option("--strip-accents/--keep-accents", help="Keep them where å is not a. Default: as --lowercase."),
    ] = None,
    form: Annotated[str, typer.Option("--form", help="Unicode normal form: none, nfc, nfd, nfkc or nfkd.")] = "none",
    clean_text: Annotated[
        bool | None, typer.Option("--clean/--no-clean", help="Remove control characters; one kind of space.")
    ] = None,
    split_cjk: Annotated[
        bool | None, typer.Option("--split-cjk/--join-cjk", help="Each Chinese character is a word.")
    ] = None,
    split_punctuation: Annotated[
        bool, typer.Option("--split-punctuation/--join-punctuation", help="Each punctuation mark is a word.")
    ] = True,
    min_frequency: Annotated[
        int, typer.Option("--min-frequency", help="A pair must occur this often to be merged.", min=1, metavar="N")
    ] = 2,
    limit_alphabet: Annotated[
        int | None,
        typer.Option("--limit-alphabet", help="Keep this many characters, the most frequent.", min=1, metavar="N"),
    ] = None,
    max_words: Annotated[
        int | None,
        typer.Option(
            "--max-words", help="Hold at most this many distinct words in memory; rare ones go.", min=2, metavar="N"
        ),
    ] = None,
    workers: WorkersOption = None,
    text_column: TextColumnOption = None,
    encoding: EncodingOption = "utf-8",
    file_format: FormatOption = None,
    no_header: NoHeaderOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a directory that is not empty.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a tokenizer on FILES and write it to a directory that `tokenizers` and `transformers` open.

    The text is streamed: memory grows with the distinct words, not with the
    files. The result is the same on every machine and for any number of
    workers.

    \b
    Examples:
      bertworks tokenizer train wiki.txt.xz --vocab-size 16000 -o my-wordpiece
      bertworks tokenizer train *.txt --algorithm byte-bpe -o my-byte-bpe
      bertworks tokenizer train romaner.txt --keep-accents -o svensk
    """
    from bertworks.text.train import TrainerOptions, train_tokenizer
    from bertworks.workers import checked_workers

    switches = {
        "family": family,
        "lowercase": lowercase,
        "strip_accents": strip_accents if strip_accents is not None else lowercase,
        "clean_text": clean_text,
        "split_cjk": split_cjk,
    }
    options = TrainerOptions.of(
        algorithm,
        vocab_size=vocab_size,
        form=form.lower(),
        split_punctuation=split_punctuation,
        min_frequency=min_frequency,
        limit_alphabet=limit_alphabet,
        **{name: value for name, value in switches.items() if value is not None},
    )
    check_new_directory(output, overwrite)
    tell_odd_files(files, quiet=quiet)
    started = time.monotonic()
    reading = {
        "text_column": text_column,
        "encoding": encoding,
        "file_format": file_format,
        "header": not no_header,
    }
    with _TrainingProgress(files, reading, quiet=quiet) as progress:
        trained = train_tokenizer(
            progress.texts(),
            options,
            workers=checked_workers(workers),
            max_words=max_words,
            progress=progress.show,
        )
    trained.save(output)
    seconds = time.monotonic() - started
    if options.strip_accents and progress.accented_share > TELLING_ACCENTS:
        print_note(
            f"note: {progress.accented_share:.1%} of the characters have accents, which were removed (å is now a); "
            "--keep-accents keeps them",
            quiet=quiet,
        )
    if json:
        print_json(
            {
                "output": str(output),
                "algorithm": algorithm,
                "vocab_size": trained.vocab_size,
                "texts": progress.num_texts,
                "characters": progress.num_characters,
                "seconds": round(seconds, 3),
            }
        )
        return
    print_result(
        f"{output}: {algorithm} with {trained.vocab_size:,} tokens from {progress.num_characters:,} characters "
        f"in {duration(seconds)}"
    )


@app.command()
def encode(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to cut.")],
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", "-t", help="A directory with a tokenizer, an alias or a Hub id.")
    ] = DEFAULT_MODEL,
    pair: Annotated[str | None, typer.Option("--pair", help="A second text.")] = None,
    json: JsonOption = False,
) -> None:
    """Show the tokens of TEXT: their ids, and the characters of the text that each stands for.

    \b
    Examples:
      bertworks tokenizer encode "Zoë's crème brûlée" --tokenizer my-wordpiece
      bertworks tokenizer encode "Who?" --pair "The boy hit the ball." --json
    """
    opened = _open(tokenizer)
    encoding = opened.encode(text, pair)
    texts = (text, pair or "")
    rows = [
        {
            "token": token,
            "id": int(number),
            "start": int(start),
            "end": int(end),
            "text": texts[sequence][start:end] if sequence >= 0 else "",
            "word": int(word) if word >= 0 else None,
            "segment": int(segment),
        }
        for token, number, (start, end), sequence, word, segment in zip(
            opened.tokens(encoding.ids),
            encoding.ids,
            encoding.offsets,
            encoding.sequences,
            encoding.words,
            encoding.segments,
            strict=True,
        )
    ]
    if json:
        print_json(rows)
        return
    print_table(
        ["token", "id", "characters", "in the text"],
        [
            [str(row["token"]), str(row["id"]), f"{row['start']}–{row['end']}" if row["text"] else "", str(row["text"])]
            for row in rows
        ],
    )


@app.command()
def compare(
    directories: Annotated[
        list[str], typer.Argument(metavar="DIRS…", help="Tokenizers: directories, aliases or Hub ids.")
    ],
    text: Annotated[str, typer.Option("--text", help="The text to measure on.", metavar="FILE")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write a page with the plot.", metavar="PAGE.html")
    ] = None,
    text_column: TextColumnOption = None,
    encoding: EncodingOption = "utf-8",
    file_format: FormatOption = None,
    no_header: NoHeaderOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare tokenizers on a text: tokens per word, bytes of text per token, unknown tokens, longest splits.

    \b
    Examples:
      bertworks tokenizer compare minilm my-wordpiece --text held-out.txt
      bertworks tokenizer compare a b c --text held-out.txt.xz -o compare.html
    """
    from bertworks.data.readers import TextReader
    from bertworks.text.compare import compare as measure

    if output is not None and not output.parent.is_dir():  # told before the measuring, which may take a while
        raise OutputError(f"cannot write {output}: there is no directory {output.parent}; make it first")
    opened = [(name, _open(name)) for name in directories]

    def chunks(reader: TextReader, progress: Progress) -> Iterator[Sequence[str]]:
        for chunk in reader.chunks():
            progress.begin_chunk(len(chunk), reader.bytes_read)
            yield chunk
            progress.end_chunk()

    with (
        TextReader(
            text, text_column=text_column, encoding=encoding, file_format=file_format, header=not no_header
        ) as reader,
        Progress("comparing", reader.total_bytes, quiet=quiet) as progress,
    ):
        measures = measure(opened, chunks(reader, progress))
    if measures[0].words == 0:
        raise DataError("holds no words to compare on", path=text)
    if output is not None:
        from bertworks.atomic import write_text
        from bertworks.cli.compare_page import page

        try:
            write_text(output, page(measures, text))
        except OSError as error:
            denied = f"no permission in {output.parent}" if isinstance(error, PermissionError) else None
            raise OutputError(f"cannot write {output}: {denied or error.strerror or error}") from error
        print_note(f"wrote {output}", quiet=quiet)
    if json:
        print_json([_facts(found) for found in measures])
        return
    _print_comparison(measures)


def _facts(found: Measure) -> dict[str, Any]:
    return {
        "tokenizer": found.name,
        "kind": found.kind,
        "vocab_size": found.vocab_size,
        "words": found.words,
        "tokens": found.tokens,
        "fertility": found.fertility,
        "text_bytes_per_token": found.bytes_per_token,
        "unknown_share": found.unknown_share,
        "whole_word_share": found.whole_share,
        "longest_splits": [{"word": split.word, "pieces": list(split.pieces)} for split in found.longest],
    }


def _print_comparison(measures: Sequence[Measure]) -> None:
    print_table(
        ["tokenizer", "kind", "vocabulary", "tokens/word", "text bytes/token", "unknown", "whole words"],
        [
            [
                found.name,
                found.kind,
                f"{found.vocab_size:,}",
                f"{found.fertility:.3f}",
                f"{found.bytes_per_token:.2f}",
                f"{found.unknown_share:.2%}",
                f"{found.whole_share:.1%}",
            ]
            for found in measures
        ],
    )
    for found in measures:
        print_result(f"\nlongest splits of {found.name}")
        print_table(
            ["tokens", "word", "cut into"],
            [
                [
                    str(len(split.pieces)),
                    split.word[:40],
                    " ".join(split.pieces[:12]) + (" …" if len(split.pieces) > 12 else ""),
                ]
                for split in found.longest
            ],
        )


def _open(name: str) -> Tokenizer:
    from bertworks.text.tokenizer import Tokenizer

    return Tokenizer.from_directory(tokenizer_directory(name))


class _TrainingProgress:
    """Reads the files one after the other and tells how far the reading, then the learning, has come."""

    def __init__(self, files: Sequence[str], reading: Mapping[str, Any], *, quiet: bool) -> None:
        self.files = files
        self._reading = reading  # how: the options of `TextReader`
        self.num_texts = 0
        self.num_characters = 0
        self.accented_share = 0.0  # of the first `ACCENTS_SAMPLE` characters or so
        self._stages = StageProgress(quiet=quiet)
        self._share = 0.0

    def __enter__(self) -> _TrainingProgress:
        self._stages.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._stages.__exit__(*error)

    def texts(self) -> Iterator[str]:
        """Every text of every file."""
        from bertworks.data.readers import TextFiles

        has_text, num_accented = False, 0
        files = TextFiles(self.files, **self._reading)
        for text in files.texts():
            has_text = has_text or bool(text.strip())
            self.num_texts += 1
            is_sampled = self.num_characters < ACCENTS_SAMPLE
            self.num_characters += len(text)
            if is_sampled:
                num_accented += 0 if text.isascii() else len(ACCENTED.findall(text))
                self.accented_share = num_accented / max(self.num_characters, 1)
            self._share = files.share
            yield text
        if not has_text:
            raise DataError(f"there is no text in {', '.join(self.files)}; a tokenizer learns from text")

    def show(self, stage: str, done: int, total: int | None) -> None:
        """Called by the trainer."""
        share = done / total if total else self._share
        self._stages.update(stage, share, f"{done:,}" + (f" of {total:,}" if total else " characters"))
