"""`bertworks pretrain`: a corpus to a model, by a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bertworks.cli.common import DEFAULT_DEVICE, DeviceOption, JsonOption, QuietOption, ThreadsOption
from bertworks.cli.pretraining import begin
from bertworks.cli.training import (
    BudgetOption,
    OptionalSeed,
    OverwriteOption,
    ResumeOption,
    SettingsOption,
    StepsOption,
    TrackOption,
)


def pretrain(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A directory made by bertworks corpus build.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory of the run.", metavar="RUN")],
    recipe: Annotated[
        str | None,
        typer.Option(
            help="bert, roberta, albert, electra, ernie, gpt, modern, rnn, lstm, gru, elmo, charlm, or the path of a TOML.",
            show_default="modern",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="tiny, mini, small, medium, base, large, or LAYERSxWIDTHxHEADS such as 6x384x12 (rnn, lstm, gru: 2x512).",
            show_default="the recipe's",
        ),
    ] = None,
    budget: BudgetOption = None,
    steps: StepsOption = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="Go on with a model that is there: alias, directory or Hub id.", metavar="MODEL"),
    ] = None,
    settings: SettingsOption = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
    track: TrackOption = None,
    seed: OptionalSeed = None,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Pretrain a model on CORPUS, and write it as a Hugging Face directory.

    A few steps are measured first; then it says how fast it will be, what
    the time covers and when it will be done. Stopped with Ctrl-C it saves;
    --resume continues from there, and the result is the same to the last
    bit. On several devices: torchrun --nproc-per-node 2 -m
    bertworks pretrain …

    \b
    Examples:
      bertworks pretrain wiki --recipe modern --size mini --budget 30m -o run
      bertworks pretrain wiki --recipe bert --size tiny --steps 1000 --set train.batch_tokens=4096 -o run
      bertworks pretrain wiki -o run --resume
      bertworks pretrain my-texts --from bert-base-uncased --budget 2h -o adapted
    """
    begin(
        "pretrain",
        corpus,
        output,
        recipe=recipe,
        size=size,
        budget=budget,
        steps=steps,
        start=start,
        settings=settings,
        resume=resume,
        overwrite=overwrite,
        track=track,
        seed=seed,
        device=device,
        threads=threads,
        json=json,
        quiet=quiet,
    )
