"""`bertworks generate`: what a language model writes after a prompt, or a translation model out of a source."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    TextColumnOption,
    ThreadsOption,
    prepare,
)
from bertworks.cli.console import print_json, print_note, print_result
from bertworks.errors import DataError, UsageError

if TYPE_CHECKING:
    from bertworks.infer.decode import Strategy
    from bertworks.infer.generate import Generation, Writer

CHUNK_CHARACTERS = 65_536
"""Prompts of a file that are read before the first is answered: enough to sort them into even batches."""


def generate(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="What to continue or to translate; - reads lines.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", help="One prompt per row: .txt, .csv, .tsv, .jsonl, .parquet; or -.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A language model or a translation model: a directory or a Hub id.")
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The most probable token at every step; this is the default.")
    ] = False,
    beam: Annotated[int | None, typer.Option("--beam", help="Beam search of this width.", min=1, metavar="N")] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Draw from the K most probable tokens.", min=1, metavar="K")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Draw from the likeliest tokens that share this probability.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="Draw; below 1 more surely, above 1 more freely.")
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            help="The most tokens to write.",
            min=1,
            metavar="N",
            show_default="100; of a translation twice its source",
        ),
    ] = None,
    num: Annotated[int, typer.Option("--num", help="How many texts for each prompt.", min=1, metavar="N")] = 1,
    length_penalty: Annotated[
        float, typer.Option("--length-penalty", help="Beam search: above 1 favours longer texts, below 1 shorter.")
    ] = 1.0,
    coverage_penalty: Annotated[
        float, typer.Option("--coverage-penalty", help="Beam search: the price of leaving words of a source out.")
    ] = 0.0,
    text_column: TextColumnOption = None,
    encoding: EncodingOption = "utf-8",
    file_format: FormatOption = None,
    no_header: NoHeaderOption = False,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Continue PROMPT with a language model, or translate it with a translation model.

    The text appears as it is written. Prompts of a file are answered in
    batches, one line each, in their order.

    \b
    Examples:
      bertworks generate "Once upon a time" --model MODEL
      bertworks generate "Once upon a time" --model MODEL --top-p 0.9 --num 3
      bertworks generate "A dog runs." --model TRANSLATOR --beam 4
      bertworks generate --file prompts.txt --model MODEL --json
    """
    if (prompt is None) == (file is None):
        raise UsageError("give either a PROMPT or --file FILE")
    if model is None:
        raise UsageError(
            "give a model that writes with --model: one made by `bertworks pretrain --recipe gpt` or `bertworks translate "
            "train`, a GPT-2, a Marian model …"
        )
    if prompt is not None and prompt != "-" and _is_file(prompt):
        print_note(
            f"note: {prompt} is continued as it is written here; the texts in it are prompts with --file {prompt}",
            quiet=quiet,
        )
    drawing = {"--beam": beam, "--top-k": top_k, "--top-p": top_p, "--temperature": temperature}
    for name, value in drawing.items():
        if greedy and value is not None:
            raise UsageError(f"--greedy and {name} do not go together")
    prepare(seed=seed, threads=threads)
    from bertworks import load
    from bertworks.data.readers import TextReader
    from bertworks.infer.generate import choose_strategy

    strategy = choose_strategy(
        beam=beam,
        top_k=top_k,
        top_p=top_p,
        temperature=temperature,
        num=num,
        seed=seed,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
    )
    if prompt is not None and prompt != "-":
        _one(load(model, device=device).writer, prompt, strategy, max_tokens, json)
        return
    with TextReader(
        file or "-", text_column=text_column, encoding=encoding, file_format=file_format, header=not no_header
    ) as reader:
        chunks = reader.chunks(characters=CHUNK_CHARACTERS)
        first = next(chunks, None)  # before the model is loaded, so that a bad file is told at once
        if first is None:
            raise DataError("holds no prompts", path=reader.name)
        writer = load(model, device=device).writer
        _many(writer, _chain(first, chunks), strategy, max_tokens, json)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name
        return False


def _one(writer: Writer, prompt: str, strategy: Strategy, max_tokens: int | None, json: bool) -> None:
    single = getattr(strategy, "num", 1) == 1
    if json or not single:
        (found,) = writer.write([prompt], strategy, max_tokens=max_tokens)
        if json:
            print_json(_row(prompt, found))
        else:
            for number, best in enumerate(found):
                print_result(("\n" if number else "") + (prompt if writer.continues else "") + best.text)
        return
    begun = False

    def tell(piece: str) -> None:
        nonlocal begun
        sys.stdout.write((prompt if writer.continues and not begun else "") + piece)
        sys.stdout.flush()
        begun = True

    writer.write([prompt], strategy, max_tokens=max_tokens, on_text=tell)
    print_result("" if begun or not writer.continues else prompt)


def _many(writer: Writer, chunks: Iterator[list[str]], strategy: Strategy, max_tokens: int | None, json: bool) -> None:
    done = 0
    for prompts in chunks:
        for prompt, found in zip(
            prompts, writer.write(prompts, strategy, max_tokens=max_tokens, first=done), strict=True
        ):
            if json:
                print_json(_row(prompt, found))
                continue
            for best in found:  # one line each, so that lines can be counted
                print_result(" ".join(((prompt if writer.continues else "") + best.text).splitlines()))
        done += len(prompts)


def _chain(first: list[str], rest: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rest


def _row(prompt: str, found: list[Generation]) -> dict[str, object]:
    return {"prompt": prompt, "texts": [asdict(best) for best in found]}
