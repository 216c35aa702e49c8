"""`bertworks info`: what a model is, without loading its weights into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import JsonOption
from bertworks.cli.console import print_facts, print_json, print_note

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
    print_facts(facts)
    if problem:
        print_note(f"warning: {problem}")


def _made(directory: Path) -> dict[str, Any]:
    """Where the model comes from, if it was trained here; a `config.toml` of something else is left alone."""
    from bertworks.errors import ConfigError
    from bertworks.finetune import describe as finetuned
    from bertworks.train import describe as pretrained
    from bertworks.train.directory import command_of
    from bertworks.translate import describe as translated

    others = {"finetune": finetuned.how_made, "translate": translated.how_made}
    try:
        return others.get(command_of(directory) or "", pretrained.how_made)(directory)
    except ConfigError:
        return {}


def describe(directory: Path) -> dict[str, Any]:
    """The facts of a model directory; reads names and shapes of the weights, not the weights."""
    from bertworks import hub
    from bertworks.hub.elmo import find_elmo
    from bertworks.hub.sentence import read_settings
    from bertworks.text.tokenizer import Tokenizer

    if (published := find_elmo(directory)) is not None:
        loaded = hub.load(directory)
        return {
            "directory": str(directory),
            "family": "elmo, as published",
            "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
            **_stack(loaded.model.config),
            "files": [path.name for path in published],
            "problem": None,
        }
    settings = read_settings(directory)
    folder = directory / settings.folder if settings is not None else directory
    report = hub.load_report(folder)
    config = report.config
    tokenizer = Tokenizer.from_directory(folder)
    facts: dict[str, Any] = {
        "directory": str(directory),
        "family": report.model_type,
        "parameters": report.num_parameters,
        **_stack(config),
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


def _stack(config: Any) -> dict[str, Any]:
    """The shape of a model's stack; of an encoder-decoder, of its encoder."""
    from bertworks.models.config import RecurrentConfig
    from bertworks.models.elmo_config import BiLMConfig
    from bertworks.models.rnn_seq2seq import RnnSeq2SeqConfig
    from bertworks.models.word_config import WordStackConfig

    if isinstance(config, RnnSeq2SeqConfig):
        return {
            "layers": config.num_encoder_layers,
            "cell": config.cell,
            "hidden_size": config.hidden_size,
            "embedding_size": config.embedding_size,
            "attention": config.attention,
        }
    body = getattr(config, "body", None) or config.encoder
    if isinstance(body, BiLMConfig):
        return {
            "model": body.describe(),
            "layers": body.num_hidden_layers,
            "cell": "lstm",
            "cell_size": body.cell_size,
            "hidden_size": body.output_size,
            "reads": "characters" if body.spelling is None else "words, by their characters",
            "predicts": body.vocab_size or "nothing",
            "window": body.max_length,
        }
    if isinstance(body, WordStackConfig):
        return {
            "model": config.describe(),
            "layers": body.num_hidden_layers,
            "cell": body.cell,
            "directions": 2,
            "hidden_size": body.output_size,
            "word_vectors": [f"{vectors.num_layers} x {vectors.width}" for vectors in body.vectors],
        }
    if isinstance(body, RecurrentConfig):
        return {
            "layers": body.num_hidden_layers,
            "cell": body.cell,
            "directions": 2 if body.bidirectional else 1,
            "hidden_size": body.output_size,
            "embedding_size": body.embedding_size,
            "window": body.max_length,
        }
    positions = [kind for kind in (body.positions.absolute, body.positions.relative) if kind != "none"]
    return {
        "layers": body.num_hidden_layers,
        "hidden_size": body.layer.hidden_size,
        "attention_heads": body.layer.num_attention_heads,
        "intermediate_size": body.layer.intermediate_size,
        "positions": positions,
        "max_positions": body.positions.max_position_embeddings,
    }
