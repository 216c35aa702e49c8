from __future__ import annotations

import pytest

from bertworks.errors import TokenizerError, UsageError
from bertworks.text.specials import find_specials

VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "<s>": 2, "</s>": 3, "[MASK]": 4, "<blank>": 5}


def test_names_come_from_the_first_source_that_has_them() -> None:
    config = {"pad_token": "<blank>", "cls_token": None, "mask_token": {"content": "[MASK]", "lstrip": True}}
    found = find_specials(VOCABULARY.get, config, {"pad_token": "[PAD]", "cls_token": "</s>"})
    assert (found.pad, found.cls, found.mask, found.unk) == ("<blank>", "</s>", "[MASK]", "[UNK]")
    assert found.id_of("pad") == 5
    assert found.id_of("mask") == 4


def test_well_known_spellings() -> None:
    found = find_specials(VOCABULARY.get)
    assert found.tokens() == {
        "unk": "[UNK]", "cls": "<s>", "sep": "</s>", "pad": "[PAD]", "mask": "[MASK]", "bos": "<s>", "eos": "</s>",
    }  # fmt: skip


def test_a_token_outside_the_vocabulary_is_absent() -> None:
    found = find_specials({"a": 0}.get, {"mask_token": "[MASK]"})
    assert found.mask is None
    assert found.id_of("mask") is None
    with pytest.raises(TokenizerError, match="no mask token"):
        found.require("mask")


def test_an_unknown_name_is_explained() -> None:
    with pytest.raises(UsageError, match="did you mean 'mask'"):
        find_specials(VOCABULARY.get).id_of("mast")
