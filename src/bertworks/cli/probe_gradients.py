"""`bertworks probe gradients`: how far the gradient reaches back in recurrent language models, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bertworks.cli.common import JsonOption, QuietOption, SeedOption, ThreadsOption, prepare
from bertworks.cli.console import print_json, print_note, print_result
from bertworks.errors import UsageError

if TYPE_CHECKING:
    from bertworks.train.reach import Floats

DISTANCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
HELD_OUT_TOKENS = 65_536  # as recipes hold them out


def gradients(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="The corpus whose held-out texts are read.")],
    models: Annotated[list[str], typer.Argument(metavar="MODEL…", help="Recurrent language models on its vocabulary.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A page with the curves.", metavar="PAGE.html")
    ] = None,
    steps: Annotated[int, typer.Option(help="How many tokens to look back.", min=3, metavar="N")] = 64,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="New models of the same shapes, beside the trained ones.")
    ] = False,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """The vanishing gradient: how much a token's loss says about earlier states.

    For each distance the norm of d loss / d state, relative to that of one
    token back. In a simple RNN it fades within a few tokens; gates keep it.
    Needs models of the recipes rnn, lstm and gru.

    \b
    Example:
      bertworks probe gradients wiki my-rnn my-lstm my-gru -o gradients.html
    """
    if output is not None and output.suffix != ".html":
        raise UsageError(f"-o is {output}; give a name that ends in .html")
    prepare(seed=seed, threads=threads)
    from bertworks import hub
    from bertworks.atomic import write_text
    from bertworks.data.corpus import Corpus
    from bertworks.data.pretraining import split_documents
    from bertworks.errors import DataError, OutputError
    from bertworks.page import document, section, soft, table
    from bertworks.train import reach
    from bertworks.train.start import check_same_vocabulary

    opened = Corpus.open(corpus)
    tokenizer = opened.tokenizer()
    _, held_out = split_documents(opened, HELD_OUT_TOKENS, at_least=1)
    texts = reach.texts_of((opened.document(int(index)) for index in held_out), steps)
    if not len(texts):
        raise DataError(f"has no held-out text of {reach.SHORTEST} tokens", path=corpus)
    found: dict[str, Floats] = {}
    for name in models:
        loaded = hub.load(name)
        check_same_vocabulary(tokenizer, loaded.tokenizer, name)
        found[_unused(name, found)] = reach.gradient_reach(loaded.model, texts)
        if untrained:
            found[_unused(f"{name}, untrained", found)] = reach.gradient_reach(
                reach.untrained(loaded.model, seed), texts
            )
    shown = [distance for distance in DISTANCES if distance < texts.shape[1] - 1]
    rows = [[name, *(f"{norms[distance - 1]:.2g}" for distance in shown)] for name, norms in found.items()]
    header = ["tokens back", *map(str, shown)]
    if output is not None:
        page = document(
            "How far the gradient reaches back",
            "<h1>How far the gradient reaches back</h1>",
            section("By distance", reach.figure(found), table(rows, header=header, numbers=True), soft(reach.MEANING)),
        )
        try:
            write_text(output, page)
        except OSError as error:
            raise OutputError(f"cannot write {output}: {error.strerror or error}") from error
    if json:
        print_json({"texts": len(texts), "norms": {name: norms.tolist() for name, norms in found.items()}})
        return
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        print_result("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print_note(f"mean over {len(texts):,} held-out pieces of {texts.shape[1]} tokens", quiet=quiet)
    if output is not None:
        print_note(f"page: {output}", quiet=quiet)


def _unused(name: str, found: dict[str, Floats]) -> str:
    """The same model may be given twice."""
    return name if name not in found else f"{name} ({sum(other.startswith(name) for other in found) + 1})"
