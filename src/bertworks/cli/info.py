"""`bertworks info`: what a model is, without loading its weights into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import JsonOption
from bertworks.cli.console import print_json, print_note, print_result

if TYPE_CHECKING:
    from pathlib import Path


def info(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="An alias, a model directory or a Hub id.")],
    json: JsonOption = False,
) -> None:
    """Show what MODEL is: family, sizes, heads, window, vocabulary, files; and how it was trained.

    \b
    Examples:
      bertworks info minilm
      bertworks info ./my-model --json
    """
    from bertworks import hub
    from bertworks.hub.files import unfinished_run

    directory = hub.resolve(model)
    told = None if (directory / "config.json").exists() else unfinished_run(directory)
    facts = describe(directory) if told is None else {"directory": str(directory), "state": told, "problem": None}
    problem = facts.pop("problem")
    facts |= _made(directory)
    if json:
        print_json({**facts, "problem": problem})
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        print_result(f"{name.replace('_', ' '):<{width}}  {_shown(value)}")
    if problem:
        print_note(f"warning: {problem}")


def _made(directory: Path) -> dict[str, Any]:
    """Where the model comes from, if it was trained here; a `config.toml` of something else is left alone."""
    from bertworks.errors import ConfigError
    from bertworks.finetune import describe as finetuned
    from bertworks.train import describe as pretrained
    from bertworks.train.directory import command_of

    try:
        return (finetuned if command_of(directory) == "finetune" else pretrained).how_made(directory)
    except ConfigError:
        return {}


def describe(directory: Path) -> dict[str, Any]:
    """The facts of a model directory; reads names and shapes of the weights, not the weights."""
    from bertworks import hub
    from bertworks.hub.sentence import read_settings
    from bertworks.text.tokenizer import Tokenizer

    settings = read_settings(directory)
    folder = directory / settings.folder if settings is not None else directory
    report = hub.load_report(folder)
    config = report.config
    tokenizer = Tokenizer.from_directory(folder)
    body = getattr(config, "body", None) or config.encoder  # type: ignore[attr-defined]
    positions = [kind for kind in (body.positions.absolute, body.positions.relative) if kind != "none"]
    facts: dict[str, Any] = {
        "directory": str(directory),
        "family": report.model_type,
        "parameters": report.num_parameters,
        "layers": body.num_hidden_layers,
        "hidden_size": body.layer.hidden_size,
        "attention_heads": body.layer.num_attention_heads,
        "intermediate_size": body.layer.intermediate_size,
        "positions": positions,
        "max_positions": body.positions.max_position_embeddings,
        "heads": [head.task for head in getattr(config, "heads", ())],
        "labels": list(getattr(config, "labels", ())),
        "vocabulary": tokenizer.vocab_size,
        "tokenizer_fast_path": tokenizer.fast_path,
        "precision": list(report.dtypes),
        "files": [path.name for path in report.files],
        "unexpected_tensors": list(report.unexpected),
        "problem": report.problem,
    }
    if settings is not None:
        facts["embeddings"] = {
            "pooling": settings.pooling,
            "normalize": settings.normalize,
            "window": settings.max_seq_length,
        }
    return facts


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)
