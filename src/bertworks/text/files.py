"""Reading a tokenizer from a model directory, in whichever of the published forms it lies there.

`tokenizer.json` holds everything. Older models have only a vocabulary: `vocab.txt` is WordPiece (BERT and its
relatives; MPNet spells its special tokens differently), `vocab.json` + `merges.txt` is byte-pair encoding, either
byte-level (GPT-2, RoBERTa) or OpenAI GPT's, which marks word ends with `</w>` and splits words as BERT does.
`tokenizer_config.json` adds switches and the names of special tokens.

A translation model of Marian's has `source.spm`, `target.spm` and `vocab.json` (`sentencepiece`).

Left out: other sentencepiece models without a `tokenizer.json`, and vocabularies that need a morphological analyser (BERT
Japanese).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bertworks.errors import TokenizerError
from bertworks.text.sentencepiece import marian_tokenizer
from bertworks.text.specials import Specials, find_specials, spelling

Json = dict[str, Any]

SENTENCEPIECE_FILES = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
HOW_TO_CONVERT = (
    "write one where `transformers` and `sentencepiece` are installed: "
    "AutoTokenizer.from_pretrained(directory).save_pretrained(directory)"
)

# What vocab.json + merges.txt mean, by the class or the model type that the directory names.
BYTE_PAIR_CLASSES = {
    "OpenAIGPTTokenizer": "openai-gpt",
    "GPT2Tokenizer": "gpt2",
    "RobertaTokenizer": "roberta",
    "LongformerTokenizer": "roberta",
    "BartTokenizer": "roberta",
}
BYTE_PAIR_MODEL_TYPES = {
    "openai-gpt": "openai-gpt",
    "gpt2": "gpt2",
    "roberta": "roberta",
    "longformer": "roberta",
    "bart": "roberta",
}
# vocab.txt under these names is not plain WordPiece.
NOT_WORDPIECE = ("BertJapaneseTokenizer", "BertweetTokenizer", "PhobertTokenizer")


@dataclass(frozen=True)
class Source:
    """A tokenizer as read: the engine, and the two files that name its special tokens ({} where absent)."""

    backend: Tokenizer
    config: Json = field(default_factory=dict)
    special_tokens_map: Json = field(default_factory=dict)


def read_source(directory: str | Path, side: str = "source") -> Source:
    """Read the tokenizer of a model directory; `side` matters where source and target of a translation have their own."""
    folder = Path(directory)
    if not folder.is_dir():
        raise TokenizerError(f"{folder}: no such directory; give a model directory that holds a tokenizer.json")
    config = read_json(folder / "tokenizer_config.json")
    special_tokens_map = read_json(folder / "special_tokens_map.json")
    has = {
        name: (folder / name).is_file()
        for name in ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "bpe.codes")
    }
    if has["tokenizer.json"]:
        backend = _from_tokenizer_json(folder / "tokenizer.json", config)
        return Source(backend, config, special_tokens_map)
    if has_sides(folder):
        return Source(marian_tokenizer(folder, side), config, special_tokens_map)
    class_name, model_type = _declared(folder, config)
    if has["vocab.txt"]:
        if class_name in NOT_WORDPIECE or has["bpe.codes"]:
            raise TokenizerError(
                f"{folder}: this vocab.txt is not WordPiece ({class_name or 'there is a bpe.codes beside it'}) "
                f"and cannot be read without a tokenizer.json; {HOW_TO_CONVERT}"
            )
        backend = _wordpiece(folder / "vocab.txt", config, special_tokens_map)
    elif has["vocab.json"] and has["merges.txt"]:
        backend = _byte_pairs(folder, class_name, model_type, config, special_tokens_map)
    else:
        raise TokenizerError(_nothing_found(folder, has))
    _add_extra_tokens(backend, folder, config)
    return Source(backend, config, special_tokens_map)


def has_sides(directory: str | Path) -> bool:
    """Whether source and target have tokenizers of their own."""
    folder = Path(directory)
    return (folder / "source.spm").is_file() and not (folder / "tokenizer.json").is_file()


def read_json(path: Path) -> Json:
    """The object in a JSON file, {} where there is no such file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise TokenizerError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content


def _declared(folder: Path, config: Json) -> tuple[str | None, str | None]:
    """The tokenizer class (without the suffix Fast) and the model type that the directory names."""
    model_config = read_json(folder / "config.json")
    class_name = config.get("tokenizer_class") or model_config.get("tokenizer_class")
    model_type = model_config.get("model_type")
    return (
        class_name.removesuffix("Fast") if isinstance(class_name, str) else None,
        model_type if isinstance(model_type, str) else None,
    )


def _nothing_found(folder: Path, has: dict[str, bool]) -> str:
    sentencepiece = [name for name in SENTENCEPIECE_FILES if (folder / name).is_file()]
    if sentencepiece:
        return f"{folder}: there is only {sentencepiece[0]}; a tokenizer.json is needed; {HOW_TO_CONVERT}"
    if has["vocab.json"] or has["merges.txt"]:
        missing = "merges.txt" if has["vocab.json"] else "vocab.json"
        return f"{folder}: {missing} is missing; byte-pair encoding needs both vocab.json and merges.txt"
    return f"{folder}: found no tokenizer; expected tokenizer.json, vocab.txt, or vocab.json with merges.txt"


def _from_tokenizer_json(path: Path, config: Json) -> Tokenizer:
    try:
        backend = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for anything wrong in the file
        raise TokenizerError(f"{path}: not a usable tokenizer file ({error})") from error
    # A file may carry the truncation and padding of some earlier use; here nothing is cut or padded unasked.
    backend.no_truncation()
    backend.no_padding()
    # Where tokenizer_config.json contradicts the file, `transformers` follows the former, so a trained model did too.
    normalizer = backend.normalizer
    if isinstance(normalizer, normalizers.BertNormalizer):
        for key, attribute in (
            ("do_lower_case", "lowercase"),
            ("strip_accents", "strip_accents"),
            ("tokenize_chinese_chars", "handle_chinese_chars"),
        ):
            value = _switch(path.parent, config, key, getattr(normalizer, attribute))
            if value != getattr(normalizer, attribute):
                setattr(normalizer, attribute, value)
        backend.normalizer = normalizer
    splitter = backend.pre_tokenizer
    if isinstance(splitter, pre_tokenizers.ByteLevel):
        prefix_space = _switch(path.parent, config, "add_prefix_space", splitter.add_prefix_space)
        if prefix_space != splitter.add_prefix_space:
            splitter.add_prefix_space = prefix_space
            backend.pre_tokenizer = splitter
    return backend


def _switch(folder: Path, config: Json, key: str, default: Any) -> Any:
    """A switch of tokenizer_config.json, or the default where it is not set; only strip_accents may be null."""
    value = config.get(key, default)
    if value is None and key != "strip_accents":
        return default
    if value is not None and not isinstance(value, bool):
        raise TokenizerError(f"{folder / 'tokenizer_config.json'}: {key} is {value!r}; it must be true or false")
    return value


def _wordpiece(path: Path, config: Json, special_tokens_map: Json) -> Tokenizer:
    try:
        # Line breaks only at newlines: a vocabulary holds characters that str.splitlines would break at.
        with path.open(encoding="utf-8") as lines:
            vocabulary = {line.rstrip("\n"): number for number, line in enumerate(lines)}
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{path}: cannot be read ({error})") from error
    specials = find_specials(vocabulary.get, config, special_tokens_map)
    missing = [name for name in ("unk", "cls", "sep") if specials.id_of(name) is None]
    if missing or specials.unk is None:
        raise TokenizerError(
            f"{path}: has no {' or '.join(missing)} token; a WordPiece vocabulary needs [UNK], [CLS] and [SEP] "
            "(or other names for them in tokenizer_config.json)"
        )
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token=specials.unk))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=_switch(path.parent, config, "tokenize_chinese_chars", True),
        strip_accents=_switch(path.parent, config, "strip_accents", None),
        lowercase=_switch(path.parent, config, "do_lower_case", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    like_roberta = specials.cls == "<s>"  # MPNet: RoBERTa's special tokens around BERT's words
    _add_specials(backend, specials, mask_takes_space=like_roberta, sources=(config, special_tokens_map))
    backend.post_processor = _roberta_template(specials) if like_roberta else _bert_template(specials)
    return backend


def _bert_template(specials: Specials) -> Any:
    cls, sep = specials.cls, specials.sep
    return processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, specials.require("cls")), (sep, specials.require("sep"))],
    )


def _roberta_template(specials: Specials, *, add_prefix_space: bool = False) -> Any:
    return processors.RobertaProcessing(
        (str(specials.sep), specials.require("sep")),
        (str(specials.cls), specials.require("cls")),
        True,  # trim the offsets
        add_prefix_space,
    )


def _byte_pairs(
    folder: Path, class_name: str | None, model_type: str | None, config: Json, special_tokens_map: Json
) -> Tokenizer:
    try:
        vocabulary, merges = models.BPE.read_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    except Exception as error:  # the library raises bare Exception for anything wrong in the files
        raise TokenizerError(f"{folder}: vocab.json and merges.txt cannot be read together ({error})") from error
    specials = find_specials(vocabulary.get, config, special_tokens_map)
    kind = BYTE_PAIR_CLASSES.get(class_name or "") or BYTE_PAIR_MODEL_TYPES.get(model_type or "")
    if kind is None:
        kind = _guess_byte_pairs(vocabulary, specials)
    if kind == "openai-gpt":
        backend = Tokenizer(models.BPE(vocabulary, merges, unk_token=specials.unk, end_of_word_suffix="</w>"))
        backend.normalizer = normalizers.BertNormalizer(lowercase=True)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.BPEDecoder(suffix="</w>")
    else:
        prefix_space = bool(_switch(folder, config, "add_prefix_space", False))
        backend = Tokenizer(models.BPE(vocabulary, merges))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
        backend.decoder = decoders.ByteLevel()
    _add_specials(backend, specials, mask_takes_space=kind == "roberta", sources=(config, special_tokens_map))
    if kind == "roberta":
        backend.post_processor = _roberta_template(specials, add_prefix_space=prefix_space)
    return backend


def _guess_byte_pairs(vocabulary: dict[str, int], specials: Specials) -> str:
    """Where the directory names no class: the vocabulary itself tells."""
    if sum(token.endswith("</w>") for token in vocabulary) > len(vocabulary) // 10:
        return "openai-gpt"
    return "roberta" if specials.cls == "<s>" and specials.sep == "</s>" else "gpt2"


def _add_specials(backend: Tokenizer, specials: Specials, *, mask_takes_space: bool, sources: tuple[Json, ...]) -> None:
    """Keep the named tokens whole when they stand in a text. RoBERTa's and MPNet's mask takes the space before it."""
    for name, token in specials.tokens().items():
        flags = {"lstrip": name == "mask" and mask_takes_space}
        for source in reversed(sources):
            entry = source.get(f"{name}_token")
            if isinstance(entry, dict) and spelling(entry) == token:
                flags = {key: bool(entry.get(key, False)) for key in ("lstrip", "rstrip", "single_word", "normalized")}
        backend.add_special_tokens([AddedToken(token, **{"normalized": False, **flags})])


def _add_extra_tokens(backend: Tokenizer, folder: Path, config: Json) -> None:
    """Tokens added after the vocabulary was made, named in the configuration or in `added_tokens.json`."""
    extra: dict[int, AddedToken] = {}
    flags = ("lstrip", "rstrip", "single_word", "normalized", "special")
    try:
        for content, number in read_json(folder / "added_tokens.json").items():
            extra[int(number)] = AddedToken(content)
        for number, entry in (config.get("added_tokens_decoder") or {}).items():
            extra[int(number)] = AddedToken(entry["content"], **{key: entry.get(key, False) for key in flags})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TokenizerError(
            f"{folder}: the list of added tokens is damaged ({type(error).__name__}: {error}); "
            "each needs an id and a content"
        ) from error
    for number, token in sorted(extra.items()):
        add: Callable[[list[AddedToken]], int] = backend.add_special_tokens if token.special else backend.add_tokens
        add([token])
        given = backend.token_to_id(token.content)
        if given != number:
            raise TokenizerError(
                f"{folder}: the added token {token.content!r} should have id {number}, but the vocabulary gives it "
                f"{given}; the vocabulary and the list of added tokens do not belong together"
            )
