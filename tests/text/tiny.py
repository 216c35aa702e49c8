"""Tiny tokenizers of every kind, made on the spot from a few sentences of our own.

The peer's trainers number marked characters and equal pieces in the order of a hash table, which is another in every
process. What they find is put in order here, so that a tiny model learns the same in each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The river runs past the old mill, and the miller's daughter runs past the river.",
    "It's not what you'd expect: we're told they'll never return, aren't we?",
    "Seventeen geese (17!) walked 3.5 miles to the market; nobody stopped them.",
    "Där går en älv förbi kvarnen, sade flickan och skrattade åt gässen.",
    "河边有一座旧磨坊，磨坊主的女儿每天都去河边。",
    "Walking, walked, walker; running, runner; milling, miller, mills.",
] * 3

TEXTS = [
    *SENTENCES[:6],
    "",
    " ",
    "  two  spaces \t tab \n newline ",
    "ÉCLAIR naïve e\u0301 Ångström İ ß",
    "emoji 😀 family 👨‍👩‍👧 flag 🇸🇪",
    "zero\u200bwidth \x00 control \u00ad",
    "unseen script: ᚠᚢᚦ \U0001f9ff",
    "a" * 120 + " b",
    "don't you're I'll 'quoted' it's",
]


def characters(tokenizer: Tokenizer) -> list[str]:
    """Those of the sentences, as the tokenizer's normalizer leaves them."""
    return sorted(set(tokenizer.normalizer.normalize_str("".join(SENTENCES))) - {" "})


def trained(tokenizer: Tokenizer, trainer: trainers.Trainer) -> dict[str, Any]:
    """The model that a trainer makes of the sentences, as JSON has it; the tokenizer itself is left as it is."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.train_from_iterator(SENTENCES, trainer)
    return json.loads(copy.to_str())["model"]


def bert(*, lowercase: bool = True) -> Tokenizer:
    """BERT's WordPiece."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    marked = [f"##{character}" for character in characters(tokenizer)]
    trainer = trainers.WordPieceTrainer(vocab_size=260, special_tokens=special + marked, show_progress=False)
    vocabulary = trained(tokenizer, trainer)["vocab"]
    tokenizer.model = models.WordPiece(vocabulary, unk_token="[UNK]")
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def byte_level(special: list[str], *, add_prefix_space: bool = False) -> Tokenizer:
    """Byte-level pairs without a template, as GPT-2 has them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def gpt2() -> Tokenizer:
    return byte_level(["<|endoftext|>"])


def roberta(*, add_prefix_space: bool = False) -> Tokenizer:
    """Byte-level pairs with RoBERTa's template and its mask, which takes the space before it."""
    tokenizer = byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], add_prefix_space=add_prefix_space)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, add_prefix_space)
    return tokenizer


def openai_gpt() -> Tokenizer:
    """OpenAI GPT's pairs, which mark the end of a word."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    marked = [f"{character}</w>" for character in characters(tokenizer)]
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<unk>", *marked], end_of_word_suffix="</w>", show_progress=False
    )
    found = trained(tokenizer, trainer)
    merges = [tuple(pair) for pair in found["merges"]]
    tokenizer.model = models.BPE(found["vocab"], merges, unk_token="<unk>", end_of_word_suffix="</w>")
    tokenizer.add_special_tokens(["<unk>"])
    return tokenizer


def unigram() -> Tokenizer:
    """A metaspace tokenizer as XLM-RoBERTa and ALBERT have them."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=160, special_tokens=special, unk_token="<unk>", show_progress=False)
    pieces = [(piece, score) for piece, score in trained(tokenizer, trainer)["vocab"]]
    ordered = pieces[: len(special)] + sorted(pieces[len(special) :])
    tokenizer.model = models.Unigram(ordered, unk_id=special.index("<unk>"))
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


KINDS = {"bert": bert, "gpt2": gpt2, "roberta": roberta, "openai-gpt": openai_gpt, "unigram": unigram}


def write_vocabulary(tokenizer: Tokenizer, directory: Path, **config: object) -> Path:
    """Only the vocabulary files of a tokenizer, with a tokenizer_config.json where entries are given."""
    directory.mkdir(exist_ok=True)
    tokenizer.model.save(str(directory))
    if config:
        (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory
