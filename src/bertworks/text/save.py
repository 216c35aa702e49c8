"""Writing a tokenizer as models are published, such that `transformers` reads the same ids out of it.

`tokenizer.json` holds everything; yet `transformers` rebuilds the classes it knows from the vocabulary and the
switches in `tokenizer_config.json`, so these must say the same. A pipeline that no such class can rebuild is saved as
`PreTrainedTokenizerFast`, which takes `tokenizer.json` as it is.

Everything is written beside the final names first, so that a full disk leaves what was there before untouched.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from bertworks.atomic import replacing
from bertworks.errors import OutputError
from bertworks.text.specials import Specials
from bertworks.text.template import Template

UNLIMITED = 10**30  # how published files spell "no longest input"
PLAIN_CLASS = "PreTrainedTokenizerFast"
VOCABULARY_FILES = ("vocab.txt", "vocab.json", "merges.txt")
GENERIC_CLASSES = (PLAIN_CLASS, "TokenizersBackend", "PreTrainedTokenizer")


def write_directory(
    directory: Path,
    backend: Backend,
    *,
    specials: Specials,
    template: Template,
    config: Mapping[str, Any],
    model_max_length: int | None,
) -> None:
    """Write tokenizer.json, tokenizer_config.json, special_tokens_map.json, and vocabulary files where usual.

    Vocabulary files of an earlier tokenizer that this one does not have are removed: they would contradict it.
    """
    spec = json.loads(backend.to_str())
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".tokenizer-") as folder:
            made = Path(folder)
            with _explained():
                backend.save(str(made / "tokenizer.json"))
                if spec["model"]["type"] in ("WordPiece", "BPE"):
                    backend.model.save(folder)  # vocab.txt, or vocab.json and merges.txt
            _write(made / "tokenizer_config.json", _config(spec, specials, template, config, model_max_length))
            _write(made / "special_tokens_map.json", _special_tokens_map(spec, specials))
            written = sorted(made.iterdir())
            for file in written:
                with replacing(directory / file.name) as temporary:
                    file.rename(temporary)
        for name in {*VOCABULARY_FILES} - {file.name for file in written}:
            (directory / name).unlink(missing_ok=True)
    except OSError as error:
        if is_new:
            with contextlib.suppress(OSError):
                directory.rmdir()  # refused where something is in it
        denied = f"no permission in {directory.parent if is_new else directory}"
        reason = denied if isinstance(error, PermissionError) else error.strerror or error
        raise OutputError(f"cannot write {directory}: {reason}") from error


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """The library raises a bare Exception where it cannot write."""
    try:
        yield
    except Exception as error:
        raise OSError(str(error)) from error


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _config(
    spec: dict[str, Any],
    specials: Specials,
    template: Template,
    config: Mapping[str, Any],
    model_max_length: int | None,
) -> dict[str, Any]:
    """The source's own entries, with those that decide the ids set to what this tokenizer does."""
    written = dict(config)
    declared = str(config.get("tokenizer_class") or "").removesuffix("Fast")
    written["tokenizer_class"] = (
        config["tokenizer_class"]
        if declared and declared not in GENERIC_CLASSES
        else tokenizer_class(spec, specials, template)
    )
    written["model_max_length"] = model_max_length or UNLIMITED
    written |= {f"{name}_token": token for name, token in specials.tokens().items()}
    written["added_tokens_decoder"] = {
        str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in spec["added_tokens"]
    }
    normalizer, splitter = spec["normalizer"] or {}, spec["pre_tokenizer"] or {}
    if normalizer.get("type") == "BertNormalizer":
        written["do_lower_case"] = normalizer["lowercase"]
        written["strip_accents"] = normalizer["strip_accents"]
        written["tokenize_chinese_chars"] = normalizer["handle_chinese_chars"]
    if splitter.get("type") == "ByteLevel":
        written["add_prefix_space"] = splitter["add_prefix_space"]
    return written


def _special_tokens_map(spec: dict[str, Any], specials: Specials) -> dict[str, Any]:
    flags = {token["content"]: token for token in spec["added_tokens"]}
    keys = ("content", "lstrip", "normalized", "rstrip", "single_word")
    return {
        f"{name}_token": {key: flags[token][key] for key in keys} if token in flags else token
        for name, token in specials.tokens().items()
    }


def tokenizer_class(spec: dict[str, Any], specials: Specials, template: Template) -> str:
    """The `transformers` class that rebuilds exactly this pipeline, or the plain one that reads the file as it is."""
    normalizer, splitter, model = spec["normalizer"] or {}, spec["pre_tokenizer"] or {}, spec["model"]
    kinds = (normalizer.get("type"), splitter.get("type"), model["type"])
    num_special = (template.num_special(), template.num_special(pair=True))
    bert_words = kinds[:2] == ("BertNormalizer", "BertPreTokenizer") and normalizer["clean_text"]
    if bert_words and kinds[2] == "WordPiece" and _usual_wordpiece(model):
        if specials.cls == "[CLS]" and num_special == (2, 3):
            return "BertTokenizer"
        if specials.cls == "<s>" and num_special == (2, 4):
            return "MPNetTokenizer"
    if bert_words and kinds[2] == "BPE" and model["end_of_word_suffix"] == "</w>" and normalizer["lowercase"]:
        usual = normalizer["handle_chinese_chars"] and normalizer["strip_accents"] is None
        return "OpenAIGPTTokenizer" if usual and num_special == (0, 0) else PLAIN_CLASS
    if kinds == (None, "ByteLevel", "BPE") and splitter.get("use_regex", True) and _usual_pairs(model):
        if specials.cls == "<s>" and specials.sep == "</s>" and num_special == (2, 4):
            return "RobertaTokenizer"
        if num_special == (0, 0) and specials.eos == "<|endoftext|>":
            return "GPT2Tokenizer"
    return PLAIN_CLASS


def _usual_wordpiece(model: dict[str, Any]) -> bool:
    return bool(model["continuing_subword_prefix"] == "##" and model["max_input_chars_per_word"] == 100)


def _usual_pairs(model: dict[str, Any]) -> bool:
    unusual = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback")
    return not any(model.get(key) for key in unusual) and not model.get("ignore_merges")
