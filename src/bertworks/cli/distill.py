"""`bertworks distill`: a large model's knowledge into a small one, by showing it texts."""

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


def distill(
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", help="A corpus that was built with the teacher's tokenizer.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory of the run.", metavar="RUN")],
    teacher: Annotated[
        str | None, typer.Option(help="The model to learn from: alias, directory or Hub id.", metavar="MODEL")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="The student's: tiny … large, or LAYERSxWIDTHxHEADS.", show_default="half the teacher's layers"
        ),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="The path of a TOML file.", show_default="DistilBERT's losses", metavar="FILE")
    ] = None,
    budget: BudgetOption = None,
    steps: StepsOption = None,
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
    """Train a smaller student to do what the teacher does on the texts of CORPUS.

    A teacher with a masked-LM head gives DistilBERT's three losses: its
    distribution, the masked tokens, the direction of the hidden states. One
    without a head (an embedding model) gives its hidden states, also to a
    student of another width; the student is then an embedding model too.

    \b
    Examples:
      bertworks distill wiki --teacher my-bert --size 3x256x4 --budget 20m -o student
      bertworks distill wiki-minilm --teacher minilm --size 3x384x12 --steps 2000 -o half-minilm
    """
    begin(
        "distill",
        corpus,
        output,
        recipe=recipe,
        size=size,
        budget=budget,
        steps=steps,
        teacher=teacher,
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
