"""The named special tokens of a tokenizer: unknown, class, separator, padding, mask, begin and end.

A tokenizer's own file knows *that* a token is special, not what it is *for*. The names stand in
`tokenizer_config.json` or `special_tokens_map.json`, as a string or as an object with a `content`; where both are
silent, the spellings that every published family uses are looked up in the vocabulary. A name whose token is not in
the vocabulary is absent: no model has a row for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from bertworks.errors import TokenizerError, UsageError, did_you_mean

WELL_KNOWN: dict[str, tuple[str, ...]] = {
    "unk": ("[UNK]", "<unk>", "<|endoftext|>"),
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "pad": ("[PAD]", "<pad>"),
    "mask": ("[MASK]", "<mask>"),
    "bos": ("<s>", "<|endoftext|>"),
    "eos": ("</s>", "<|endoftext|>"),
}


@dataclass(frozen=True, kw_only=True)
class Specials:
    """Each named special token as it is spelled in the vocabulary, or None."""

    unk: str | None = None
    cls: str | None = None
    sep: str | None = None
    pad: str | None = None
    mask: str | None = None
    bos: str | None = None
    eos: str | None = None
    ids: Mapping[str, int] = field(default_factory=dict, repr=False)
    """The id of each name that is present."""

    def id_of(self, name: str) -> int | None:
        """The id of the special token called `name` (`mask`, `pad`, …), or None where the tokenizer has none."""
        if name not in WELL_KNOWN:
            raise UsageError(
                f"unknown special token name {name!r}{did_you_mean(name, WELL_KNOWN)}; allowed: {', '.join(WELL_KNOWN)}"
            )
        return self.ids.get(name)

    def require(self, name: str) -> int:
        """The id of the special token called `name`; an error where the tokenizer has none."""
        token = self.id_of(name)
        if token is None:
            present = ", ".join(f"{key} {getattr(self, key)!r}" for key in self.ids) or "none at all"
            raise TokenizerError(
                f"this tokenizer has no {name} token (it has: {present}); "
                f'name one of its tokens as "{name}_token" in tokenizer_config.json, or use another model'
            )
        return token

    def tokens(self) -> dict[str, str]:
        """The names that are present, with their tokens."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name in self.ids}


def spelling(entry: Any) -> str | None:
    """The token that a configuration entry means: a string, an object with `content`, or nothing."""
    if isinstance(entry, Mapping):
        entry = entry.get("content")
    return entry if isinstance(entry, str) and entry else None


def find_specials(vocabulary: Any, *sources: Mapping[str, Any], unk: str | None = None) -> Specials:
    """Name the special tokens.

    vocabulary: `vocabulary(token)` gives the token's id or None
    sources:    contents of tokenizer_config.json and special_tokens_map.json, the first that names a token wins
    unk:        the unknown token that the model itself names, if any
    """
    found: dict[str, str] = {}
    for name, known in WELL_KNOWN.items():
        named = [token for source in sources if (token := spelling(source.get(f"{name}_token"))) is not None]
        own = [unk] if name == "unk" and unk else []
        for token in (*named, *own, *known):
            if vocabulary(token) is not None:
                found[name] = token
                break
    return Specials(**found, ids={name: vocabulary(token) for name, token in found.items()})
