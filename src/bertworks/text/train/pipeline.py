"""How raw text becomes words: the tokenizer's normaliser and pre-tokenizer, and a quick way to run them over a corpus.

Calling `tokenizers` from Python for every word of a large text would be slow. But all pipelines offered here work
*chunk by chunk*: cut a text wherever a space, tab or line end follows something that is not white space, run the
pipeline on each chunk alone, and the words are those of the whole text. (Normal forms never reach across a space, the
other steps look at single characters, and GPT-2's pattern looks past its match only within a run of white space,
which is never cut.) Chunks repeat a hundredfold, so each distinct one is counted first and split once. Printable
ASCII chunks are split by a regular expression of ours, all others by `tokenizers` itself; tests hold both against the
plain way.

The exception is byte-level BPE with a normaliser that deletes characters, which can join two runs of white space;
there each text is normalised whole before it is cut.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tokenizers import normalizers, pre_tokenizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from bertworks.text.tokenizer import clean
from bertworks.text.train.options import TrainerOptions
from bertworks.text.word_rules import word_rules

METASPACE = "▁"  # marks the start of a word in (character) BPE
BYTE_SPACE = "Ġ"  # how byte-level BPE spells a space

_CUT = re.compile(r"(?<=\S)(?=[ \t\n\r])")
_WORD_OR_MARK = re.compile(f"[0-9A-Za-z{METASPACE}]+|[^0-9A-Za-z{METASPACE} ]")
_NOT_SPACE = re.compile("[^ ]+")
_GPT2_ASCII = re.compile("'(?:[sdmt]|ll|ve|re)|Ġ?[A-Za-z]+|Ġ?[0-9]+|Ġ?[^ĠA-Za-z0-9]+|Ġ+(?![^Ġ])|Ġ+")


def build_normalizer(options: TrainerOptions) -> Normalizer | None:
    """The normal form first, then BERT's cleaning as far as it is asked for."""
    forms = {"nfc": normalizers.NFC, "nfd": normalizers.NFD, "nfkc": normalizers.NFKC, "nfkd": normalizers.NFKD}
    steps: list[Normalizer] = [forms[options.form]()] if options.form != "none" else []
    if options.lowercase or options.strip_accents or options.clean_text or options.split_cjk:
        steps.append(
            normalizers.BertNormalizer(
                clean_text=options.clean_text,
                handle_chinese_chars=options.split_cjk,
                strip_accents=options.strip_accents,
                lowercase=options.lowercase,
            )
        )
    if not steps:
        return None
    return steps[0] if len(steps) == 1 else normalizers.Sequence(steps)


def build_pre_tokenizer(options: TrainerOptions) -> PreTokenizer:
    """WordPiece: words without their spaces; BPE: words that start with `▁`; byte-level BPE: GPT-2's pattern; whole words:
    as people separate them."""
    if options.algorithm == "byte-bpe":
        return pre_tokenizers.ByteLevel(add_prefix_space=options.add_prefix_space, use_regex=True)
    if options.algorithm == "bpe":
        steps = [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement=METASPACE, prepend_scheme="always"),
        ]
        return pre_tokenizers.Sequence(
            [*steps, pre_tokenizers.Punctuation("isolated")] if options.split_punctuation else steps
        )
    if options.algorithm == "word" and options.split_punctuation:
        return word_rules()
    return pre_tokenizers.BertPreTokenizer() if options.split_punctuation else pre_tokenizers.WhitespaceSplit()


class Pipeline:
    """Counts the words of texts exactly as the tokenizer's own normaliser and pre-tokenizer would find them."""

    def __init__(self, options: TrainerOptions) -> None:
        self.normalizer = build_normalizer(options)
        self.pre_tokenizer = build_pre_tokenizer(options)
        self._byte_level = options.algorithm == "byte-bpe"
        self._characters = options.algorithm == "character"
        self._mark = METASPACE if options.algorithm == "bpe" else ""
        self._lowercase = options.lowercase
        # The space is put before a text, not before each of its chunks.
        self._prefix_space = self._byte_level and options.add_prefix_space
        self._of_chunk = build_pre_tokenizer(replace(options, add_prefix_space=False))
        self._normalize_whole = self._byte_level and self.normalizer is not None
        self._quick = options.algorithm != "word"  # has an expression of ours for ASCII
        self._ascii = _GPT2_ASCII if self._byte_level else _WORD_OR_MARK if options.split_punctuation else _NOT_SPACE

    def words(self, text: str) -> list[str]:
        """The words of one text, the plain way."""
        if self.normalizer is not None:
            text = self.normalizer.normalize_str(text)
        return [word for word, _ in self.pre_tokenizer.pre_tokenize_str(text)]

    def count(self, texts: Iterable[str]) -> dict[str, int]:
        """How often each word (each character, where these are the tokens) occurs in the texts."""
        if self._characters:
            return self._count_characters(texts)
        after_space: Counter[str] = Counter()  # chunks that have one space before them, kept without it
        as_is: Counter[str] = Counter()
        for text in texts:
            if not text:
                continue
            if self._normalize_whole and self.normalizer is not None:
                text = self.normalizer.normalize_str(clean(text))
            if self._prefix_space and not text.startswith(" "):
                text = " " + text
            parts = text.split()
            if " ".join(parts) == text and parts:  # single spaces only: the usual case, and the quick one
                after_space.update(parts)
                after_space[parts[0]] -= 1
                as_is[parts[0]] += 1
            else:
                as_is.update(_CUT.split(text))
        words: dict[str, int] = {}
        for chunk, count in after_space.items():
            if count:
                for word in self._split(" " + chunk if self._byte_level else chunk):
                    words[word] = words.get(word, 0) + count
        for chunk, count in as_is.items():
            for word in self._split(chunk):
                words[word] = words.get(word, 0) + count
        return words

    def _count_characters(self, texts: Iterable[str]) -> dict[str, int]:
        characters: Counter[str] = Counter()
        for text in texts:
            text = clean(text)
            characters.update(text if self.normalizer is None else self.normalizer.normalize_str(text))
        return dict(characters)

    def _split(self, chunk: str) -> list[str]:
        """The words of one chunk."""
        if self._quick and chunk.isascii() and chunk.isprintable():
            if self._byte_level:
                return self._ascii.findall(chunk.replace(" ", BYTE_SPACE))
            if self._lowercase:
                chunk = chunk.lower()
            if not self._mark:
                return self._ascii.findall(chunk)
            return [word for part in chunk.split(" ") if part for word in self._ascii.findall(self._mark + part)]
        chunk = clean(chunk)
        if self.normalizer is not None and not self._normalize_whole:
            chunk = self.normalizer.normalize_str(chunk)
        return [word for word, _ in self._of_chunk.pre_tokenize_str(chunk)]
