"""The demo's first step: the messages fine-tuned, as `bertworks finetune classify` does it, and the result asked.

The run is an ordinary one, with all its files; only its settings are chosen for a minute rather than for the last percent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bertworks.cli.common import model_option

NEW_MESSAGES = (
    "My parcel has been travelling for three weeks.",
    "After the update the screen stays black.",
    "You are the friendliest shop in town!",
)
DEV_FRACTION = 0.25
EPOCHS, LEARNING_RATE = 5.0, 2e-4


@dataclass(frozen=True)
class Answer:
    """A message that nobody has labelled, and what the model says."""

    text: str
    label: str
    probability: float


@dataclass(frozen=True)
class FineTuned:
    """The fine-tuned model, beside two simpler ones on the same examples."""

    directory: str
    report: str
    """The page with everything."""
    command: str
    """What does the same by hand."""
    num_train: int
    num_dev: int
    accuracy: float
    tfidf_accuracy: float
    majority_accuracy: float
    seconds: float
    answers: list[Answer]

    @property
    def rows(self) -> list[tuple[str, float]]:
        """(what, accuracy)"""
        return [
            ("fine-tuned", self.accuracy),
            ("word counts (TF-IDF)", self.tfidf_accuracy),
            ("always the most frequent label", self.majority_accuracy),
        ]


def fine_tune(
    model: str, file: Path, output: Path, *, device: str, seed: int, progress: Callable[[int, int], None]
) -> FineTuned:
    """Fine-tune `model` on the labelled `file` into the directory `output`; a run that is there is made anew.

    `progress` is told the steps done and their number.
    """
    import bertworks
    from bertworks.data.labelled.options import ReadOptions
    from bertworks.finetune.events import Begun, Finished, Stepped
    from bertworks.finetune.run import FinetuneOptions, finetune
    from bertworks.train.directory import REPORT, read_result

    options = FinetuneOptions(
        task="classify",
        train=file,
        dev_fraction=DEV_FRACTION,
        output=output,
        model=model,
        read=ReadOptions(text_column="text", label_column="label"),
        settings=(f"train.optimizer.learning_rate={LEARNING_RATE}",),
        epochs=EPOCHS,
        seed=seed,
        overwrite=True,
        device=device,
        track=(),
    )
    finished: Finished | None = None
    for event in finetune(options):
        if isinstance(event, Begun):
            progress(event.first_step, event.steps)
        elif isinstance(event, Stepped):
            progress(event.report.step, event.report.total_steps)
        elif isinstance(event, Finished):
            finished = event
    assert finished is not None
    result = read_result(output)
    predictions = bertworks.load(output, device=device).predict(list(NEW_MESSAGES))
    how = f"--dev-fraction {DEV_FRACTION} --epochs {EPOCHS:g} --learning-rate {LEARNING_RATE:g}"
    return FineTuned(
        directory=str(output),
        report=str(output / REPORT),
        command=f"bertworks finetune classify --train {file}{model_option(model)} {how} -o {output.name}",
        num_train=result["examples"]["train"],
        num_dev=result["examples"]["dev"],
        accuracy=finished.figures["accuracy"],
        tfidf_accuracy=finished.baseline["tfidf"]["accuracy"],
        majority_accuracy=finished.baseline["majority"]["accuracy"],
        seconds=finished.seconds,
        answers=[
            Answer(text, str(prediction.label), prediction.probability)
            for text, prediction in zip(NEW_MESSAGES, predictions, strict=True)
        ],
    )
