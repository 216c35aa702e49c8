"""How a directory of `sentence-transformers` (Reimers and Gurevych 2019) turns hidden states into one vector per text.

    modules.json                   the parts in order: Transformer, Pooling, perhaps Normalize
    1_Pooling/config.json          which pooling: booleans up to version 4, one word from version 5 on
    sentence_bert_config.json      max_seq_length; from version 5 on it is the tokenizer's model_max_length

What is written here is the old spelling, which every version reads. Left out, with an error: other parts (Dense,
LSTM, …) and poolings other than mean, cls and max; they would give other vectors. Prompts and lower-casing outside of
the tokenizer are not applied either, which is logged where a directory asks for them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from bertworks.errors import CheckpointError
from bertworks.hub.files import read_json, read_object, write_json, writing

logger = logging.getLogger(__name__)

Pooling = Literal["mean", "cls", "max"]

POOLINGS: dict[str, str] = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
}
"""Our poolings and their old spelling as booleans."""

OTHER_POOLINGS: dict[str, str] = {
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}

MODULES = "modules.json"
PROMPTS = "config_sentence_transformers.json"
SANE_LENGTH = 1_000_000
"""A tokenizer without a limit says so with a number far beyond this."""


@dataclass(frozen=True, kw_only=True)
class SentenceSettings:
    """What an embedding model was made for."""

    pooling: Pooling = "mean"
    normalize: bool = False
    """Whether vectors are scaled to length 1."""
    max_seq_length: int | None = None
    """The longest sequence it was made for, special tokens included."""
    folder: str = ""
    """Where the transformer lies within the directory; old ones have it in a folder of its own."""


def read_settings(directory: str | Path) -> SentenceSettings | None:
    """The settings of an embedding model; None where the directory is not one."""
    path = Path(directory)
    if not (path / MODULES).exists():
        return None
    folders = _folders(path)
    if "Pooling" not in folders:  # a classifier, say
        return None
    body = path / folders["Transformer"]
    asked = _sentence_config(body)
    limit = asked.get("max_seq_length")
    if limit is None:
        limit = tokenizer_limit(body)
    elif type(limit) is not int or limit < 1:
        raise CheckpointError(
            f"{body} has the max_seq_length {limit!r} in its sentence configuration; it must be a number above 0"
        )
    _note_what_is_left_out(path, asked)
    return SentenceSettings(
        pooling=_pooling(path / folders["Pooling"] / "config.json"),
        normalize="Normalize" in folders,
        max_seq_length=limit,
        folder=folders["Transformer"],
    )


def write_settings(directory: str | Path, settings: SentenceSettings, hidden_size: int) -> None:
    """Make a model directory one that `sentence-transformers` opens; the transformer is in the directory itself."""
    path = Path(directory)
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * settings.normalize
    folders = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [
        {"idx": index, "name": str(index), "path": folders[kind], "type": f"sentence_transformers.models.{kind}"}
        for index, kind in enumerate(kinds)
    ]
    flags = {key: mode == settings.pooling for mode, key in (POOLINGS | OTHER_POOLINGS).items()}
    write_json(path / "1_Pooling" / "config.json", {"word_embedding_dimension": hidden_size, **flags})
    write_json(path / "sentence_bert_config.json", {"max_seq_length": settings.max_seq_length, "do_lower_case": False})
    write_json(path / MODULES, modules)


def remove_settings(directory: str | Path) -> None:
    """Make a directory one that is no embedding model (any more)."""
    path = Path(directory)
    files = (path / MODULES, path / PROMPTS, *path.glob("sentence_*_config.json"))
    with writing(path):
        for file in files:
            file.unlink(missing_ok=True)


def tokenizer_limit(directory: Path) -> int | None:
    """`model_max_length` of a tokenizer, where it says something."""
    path = directory / "tokenizer_config.json"
    limit = read_object(path).get("model_max_length") if path.exists() else None
    return int(limit) if isinstance(limit, int | float) and 0 < limit < SANE_LENGTH else None


def _folders(directory: Path) -> dict[str, str]:
    """Part -> its folder, for the parts we know."""
    path = directory / MODULES
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(module, dict) and "type" in module for module in modules):
        raise CheckpointError(f"{path} must be a list of modules, each with a type and a path")
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    known = (["Transformer", "Pooling", "Normalize"], ["Transformer", "Pooling"], ["Transformer"])
    if kinds not in known:
        raise CheckpointError(
            f"{path} asks for {', '.join(kinds) or 'nothing'}; "
            "supported here: Transformer, then Pooling, then perhaps Normalize"
        )
    folders = {kind: str(module.get("path") or "") for kind, module in zip(kinds, modules, strict=True)}
    normalize = directory / folders.get("Normalize", "") / "config.json"
    if "Normalize" in folders and normalize.exists():
        what = read_object(normalize).get("module_input_name", "sentence_embedding")
        if what != "sentence_embedding":
            raise CheckpointError(f"{normalize} normalises {what!r}; supported here: sentence_embedding")
    return folders


def _pooling(path: Path) -> Pooling:
    config = read_object(path)
    every = POOLINGS | OTHER_POOLINGS
    mode: Any = config.get("pooling_mode")
    if mode is None:
        # In their order the first token comes first, but only one may be set here; none at all means the mean.
        mode = [mode for mode, key in every.items() if config.get(key)] or "mean"
    modes = [mode] if isinstance(mode, str) else list(mode)
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise CheckpointError(
            f"{path} asks for the pooling {' + '.join(map(str, modes))}; supported here: {', '.join(POOLINGS)}"
        )
    return cast(Pooling, modes[0])


def _sentence_config(body: Path) -> dict[str, Any]:
    """`sentence_bert_config.json`, or the name that early versions gave it for another family."""
    files = [body / "sentence_bert_config.json", *sorted(body.glob("sentence_*_config.json"))]
    return next((read_object(file) for file in files if file.exists()), {})


def _note_what_is_left_out(directory: Path, asked: dict[str, Any]) -> None:
    if asked.get("do_lower_case"):
        logger.warning("%s asks for lower-casing before the tokenizer; only the tokenizer's own is applied", directory)
    path = directory / PROMPTS
    config = read_object(path) if path.exists() else {}
    prompt = (config.get("prompts") or {}).get(config.get("default_prompt_name"))
    if prompt:
        logger.warning(
            "%s puts the prompt %r before each text by default; write it yourself where you want it", directory, prompt
        )
