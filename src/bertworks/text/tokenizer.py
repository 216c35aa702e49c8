"""The tokenizer of a model: texts to ids, with offsets and words; ids to texts; loading and saving.

The engine is Hugging Face's `tokenizers`, whose file format is the one models are published in. On top of it: special
tokens by name, the template as a value, pre-split words for every kind of tokenizer, windows, and a flat path for ids
only (`fast.py`). No text is cut or padded here: packed batches need no padding, and `cut` shortens only where a
caller asks for it.

Unpaired surrogates, which no tokenizer accepts, are read as U+FFFD, one for one, so that offsets hold.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend

from bertworks.errors import TokenizerError, UsageError
from bertworks.text.encoding import Encoding, Ints, make, trim_span
from bertworks.text.fast import FastIds, is_panic, open_fast, slow_ids, unsafe
from bertworks.text.files import read_source
from bertworks.text.save import write_directory
from bertworks.text.specials import Specials, find_specials
from bertworks.text.template import Template, probe_template
from bertworks.text.windows import Piece, split, split_pair

log = logging.getLogger(__name__)

SURROGATE = re.compile("[\ud800-\udfff]")
# Opening the fast path takes about as long as tokenizing this many characters without it.
WORTH_OPENING = 200_000


class Tokenizer:
    """A tokenizer; open one with `Tokenizer.from_directory`."""

    def __init__(
        self,
        backend: Backend,
        *,
        config: Mapping[str, Any] | None = None,
        special_tokens_map: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap a `tokenizers.Tokenizer`.

        config, special_tokens_map: the contents of tokenizer_config.json and special_tokens_map.json, if there are any
        """
        backend.no_truncation()
        backend.no_padding()
        self.backend = backend
        self.config = dict(config or {})
        self.specials: Specials = find_specials(
            backend.token_to_id, self.config, special_tokens_map or {}, unk=_model_unk(backend)
        )
        self.template: Template = probe_template(backend)
        self.vocab_size = _vocab_size(backend)
        self._fast: FastIds | None = None
        self._fast_path: str | None = None  # None until the fast path was looked for

    @classmethod
    def from_directory(cls, directory: str | Path, side: str = "source") -> Tokenizer:
        """Read the tokenizer of a model directory: tokenizer.json, vocab.txt, or vocab.json with merges.txt or .spm files.

        side: `source` or `target`, for a translation model whose two languages have tokenizers of their own
        """
        source = read_source(directory, side)
        return cls(source.backend, config=source.config, special_tokens_map=source.special_tokens_map)

    def __repr__(self) -> str:
        return f"Tokenizer({type(self.backend.model).__name__}, {self.vocab_size} tokens, {self.specials})"

    def __getstate__(self) -> dict[str, Any]:
        # The fast path cannot be pickled; it is opened again where the copy needs it.
        return {**self.__dict__, "_fast": None, "_fast_path": None}

    # --- names -------------------------------------------------------------------------------------------------------

    @property
    def unk_id(self) -> int | None:
        """The id of the unknown token, None if there is none."""
        return self.specials.id_of("unk")

    @property
    def cls_id(self) -> int | None:
        """The id of the class token, None if there is none."""
        return self.specials.id_of("cls")

    @property
    def sep_id(self) -> int | None:
        """The id of the separator token, None if there is none."""
        return self.specials.id_of("sep")

    @property
    def pad_id(self) -> int | None:
        """The id of the padding token, None if there is none."""
        return self.specials.id_of("pad")

    @property
    def mask_id(self) -> int | None:
        """The id of the mask token, None if there is none."""
        return self.specials.id_of("mask")

    @property
    def bos_id(self) -> int | None:
        """The id of the begin token, None if there is none."""
        return self.specials.id_of("bos")

    @property
    def eos_id(self) -> int | None:
        """The id of the end token, None if there is none."""
        return self.specials.id_of("eos")

    @property
    def model_max_length(self) -> int | None:
        """The longest input that the model's authors name, if they name one (published files say 10³⁰ for "none")."""
        length = self.config.get("model_max_length")
        return int(length) if isinstance(length, (int, float)) and 0 < length < 10**9 else None

    @property
    def kind(self) -> str:
        """The algorithm: WordPiece, BPE, Unigram or WordLevel."""
        return type(self.backend.model).__name__

    def num_special(self, pair: bool = False) -> int:
        """How many special tokens are added to one text, or to a pair."""
        return self.template.num_special(pair)

    def id(self, token: str) -> int | None:
        """The id of a token, None if it is not in the vocabulary."""
        number: int | None = self.backend.token_to_id(token)
        return number

    def token(self, number: int) -> str:
        """The token with this id, as the vocabulary spells it."""
        text = self.backend.id_to_token(int(number)) if 0 <= number < self.vocab_size else None
        if text is None:
            raise self._no_such_id(number)
        return str(text)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens with these ids."""
        return [self.token(int(number)) for number in ids]

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text that the ids stand for. Bytes that form no character become U+FFFD."""
        numbers = [int(number) for number in ids]
        for number in numbers:
            if not 0 <= number < self.vocab_size:
                raise self._no_such_id(number)
        return str(self.backend.decode(numbers, skip_special_tokens=skip_special))

    def _no_such_id(self, number: int) -> UsageError:
        return UsageError(f"there is no token with id {number}; this vocabulary has ids 0 to {self.vocab_size - 1}")

    # --- ids only ----------------------------------------------------------------------------------------------------

    def ids(self, texts: Sequence[str], special: bool = False) -> tuple[Ints, NDArray[np.int64]]:
        """All ids of many texts, one text after the other, and the number of ids of each.

        The quick way for corpora and embeddings: no object per text. Returns int32 (total,) and int64 (len(texts),).
        """
        _check_texts(texts)
        num_characters = sum(map(len, texts))
        if self._fast_path is None and num_characters >= WORTH_OPENING:
            self._open_fast()
        ids, lengths = self._bare_ids(texts)
        return self.template.wrap_flat(ids, lengths) if special else (ids, lengths)

    @property
    def fast_path(self) -> str:
        """What makes ids when there are many: "tokie", or "tokenizers" and in brackets the reason why not."""
        if self._fast_path is None:
            self._open_fast()
        return str(self._fast_path)

    def _open_fast(self) -> None:
        self._fast, self._fast_path = open_fast(self.backend)
        log.debug("ids are made by %s", self._fast_path)

    def _bare_ids(self, texts: Sequence[str]) -> tuple[Ints, NDArray[np.int64]]:
        if self._fast is None:
            return slow_ids(self.backend, [clean(text) for text in texts])
        slow = unsafe(texts)
        quick = texts
        if slow:
            unlike = set(slow)
            quick = [text for position, text in enumerate(texts) if position not in unlike]
        try:
            quick_ids, quick_lengths = self._fast.encode(quick)
        except BaseException as error:
            if not is_panic(error):
                raise
            log.warning("tokie failed on a batch of texts (%s); the slower tokenizers library goes on", error)
            self._fast, self._fast_path = None, f"tokenizers (tokie failed: {error})"
            return self._bare_ids(texts)
        if not slow:
            return quick_ids, quick_lengths
        rest_ids, rest_lengths = slow_ids(self.backend, [clean(texts[position]) for position in slow])
        is_slow = np.zeros(len(texts), np.bool_)
        is_slow[slow] = True
        lengths = np.empty(len(texts), np.int64)
        lengths[is_slow], lengths[~is_slow] = rest_lengths, quick_lengths
        of_slow = np.repeat(is_slow, lengths)
        ids = np.empty(len(of_slow), np.int32)
        ids[of_slow], ids[~of_slow] = rest_ids, quick_ids
        return ids, lengths

    # --- with offsets ------------------------------------------------------------------------------------------------

    def encode(self, text: str, pair: str | None = None, *, special: bool = True) -> Encoding:
        """One text, or a pair, with offsets and words; with special tokens unless `special` is False."""
        return self.encode_batch([text], None if pair is None else [pair], special=special)[0]

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, special: bool = True
    ) -> list[Encoding]:
        """Many texts, or as many pairs."""
        _check_texts(texts)
        if pairs is None:
            return [self._wrap(bare, special=special) for bare in self._bare(texts)]
        _check_texts(pairs)
        _check_equal(len(texts), len(pairs))
        firsts, seconds = self._bare(texts), self._bare(pairs)
        return [self._wrap(a, b, special=special) for a, b in zip(firsts, seconds, strict=True)]

    def _bare(self, texts: Sequence[str]) -> list[Encoding]:
        """Encodings without special tokens."""
        cleaned = [clean(text) for text in texts]
        rows = self.backend.encode_batch(cleaned, add_special_tokens=False)
        return [
            make(
                row.ids,
                [trim_span(text, start, end) for start, end in row.offsets],
                [-1 if word is None else word for word in row.word_ids],
            )
            for row, text in zip(rows, cleaned, strict=True)
        ]

    def _wrap(self, first: Encoding, second: Encoding | None = None, *, special: bool) -> Encoding:
        if second is None and not special and self.template.single.segments == (0,):
            return first  # nothing stands around it, and it is in segment 0 already
        template = self.template if special else self._bare_template
        return template.wrap_encoding(first, second)

    @cached_property
    def _bare_template(self) -> Template:
        """The template without its special tokens, but with its segments."""
        return self.template.without_special()

    # --- pre-split words ---------------------------------------------------------------------------------------------

    def encode_words(
        self, words: Sequence[str], pair_words: Sequence[str] | None = None, *, special: bool = True
    ) -> Encoding:
        """A text given as words. Every word has at least one token; offsets are relative to the word's own text."""
        return self.encode_words_batch([words], None if pair_words is None else [pair_words], special=special)[0]

    def encode_words_batch(
        self,
        texts: Sequence[Sequence[str]],
        pairs: Sequence[Sequence[str]] | None = None,
        *,
        special: bool = True,
    ) -> list[Encoding]:
        """Many texts, each given as words."""
        if pairs is None:
            return [self._wrap(bare, special=special) for bare in self._bare_words(texts)]
        _check_equal(len(texts), len(pairs))
        firsts, seconds = self._bare_words(texts), self._bare_words(pairs)
        return [self._wrap(a, b, special=special) for a, b in zip(firsts, seconds, strict=True)]

    def _bare_words(self, texts: Sequence[Sequence[str]]) -> list[Encoding]:
        for words in texts:
            _check_texts(words)
        cleaned = [[clean(word) for word in words] for words in texts]
        prefix = " " if self._space_before_words else ""
        # A word that has its own leading space gets no second one.
        marked = [[word if word.startswith(" ") else prefix + word for word in words] for words in cleaned]
        rows = self.backend.encode_batch(marked, is_pretokenized=True, add_special_tokens=False)
        encodings = []
        for row, words, given in zip(rows, marked, cleaned, strict=True):
            added = [len(word) - len(original) for word, original in zip(words, given, strict=True)]  # 0 or 1 space
            word_ids = [int(word) for word in row.word_ids if word is not None]
            spans = []
            for word, (start, end) in zip(word_ids, row.offsets, strict=True):
                start, end = trim_span(words[word], start, end)
                spans.append((max(start - added[word], 0), max(end - added[word], 0)))
            encodings.append(self._fill_lost_words(make(row.ids, spans, word_ids), given))
        return encodings

    def _fill_lost_words(self, encoding: Encoding, words: Sequence[str]) -> Encoding:
        """Give the unknown token to each word that the tokenizer erased (a zero-width space, an empty string)."""
        lost = [int(word) for word in np.flatnonzero(np.bincount(encoding.words, minlength=len(words)) == 0)]
        if not lost:
            return encoding
        if self.unk_id is None:
            raise TokenizerError(
                f"word {lost[0]} ({words[lost[0]]!r}) has no token, and this tokenizer has no unknown token "
                "to stand for it; remove the word from the input"
            )
        places = np.searchsorted(encoding.words, lost)
        spans = np.array([(0, len(words[word])) for word in lost], np.int32)  # (number of lost words, 2)
        return Encoding(
            ids=np.insert(encoding.ids, places, self.unk_id),
            segments=np.insert(encoding.segments, places, 0),
            offsets=np.insert(encoding.offsets, places, spans, axis=0),
            words=np.insert(encoding.words, places, lost),
            sequences=np.insert(encoding.sequences, places, 0),
        )

    @cached_property
    def _space_before_words(self) -> bool:
        """Whether a word within a text is tokenized with the space before it; asked of the tokenizer itself."""
        for word in ("word", "the", "a", "1"):
            running = self.backend.encode(f"{word} {word}", add_special_tokens=False)
            second = [number for number, (_, end) in zip(running.ids, running.offsets, strict=True) if end > len(word)]
            alone, spaced = (
                self.backend.encode([text], is_pretokenized=True, add_special_tokens=False).ids
                for text in (word, " " + word)
            )
            if alone != spaced:
                return bool(second == spaced)
        return False

    # --- long texts --------------------------------------------------------------------------------------------------

    def windows(self, text: str, size: int, overlap: int = 0) -> list[Piece]:
        """A text in windows of at most `size` tokens, special tokens included; see `bertworks.text.windows`."""
        return split(self.encode(text, special=False), self.template, size, overlap)

    def pair_windows(self, first: str, second: str, size: int, overlap: int = 0) -> list[Piece]:
        """Windows over the second text, each with the whole first text (a question and a long context)."""
        one, two = self.encode_batch([first, second], special=False)
        return split_pair(one, two, self.template, size, overlap)

    # --- files -------------------------------------------------------------------------------------------------------

    def save(self, directory: str | Path, *, model_max_length: int | None = None) -> None:
        """Write the tokenizer's files into a directory, in the form in which models are published."""
        write_directory(
            Path(directory),
            self.backend,
            specials=self.specials,
            template=self.template,
            config=self.config,
            model_max_length=model_max_length or self.model_max_length,
        )


def clean(text: str) -> str:
    """The text with each unpaired surrogate replaced by U+FFFD."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def _check_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise UsageError("expected a list of texts, got a single text; put it into a list")
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"expected texts, but item {position} is {text!r} ({type(text).__name__})")


def _check_equal(first: int, second: int) -> None:
    if first != second:
        raise UsageError(f"pairs need as many second texts as first ones, got {first} and {second}")


def _model_unk(backend: Backend) -> str | None:
    unk = getattr(backend.model, "unk_token", None)
    return unk if isinstance(unk, str) else None


def _vocab_size(backend: Backend) -> int:
    """One more than the highest id; counting would not do, since a vocabulary with a doubled line has a gap."""
    count = int(backend.get_vocab_size())
    if count == 0 or (backend.id_to_token(count - 1) is not None and backend.id_to_token(count) is None):
        return count
    return 1 + max(chain(backend.get_vocab().values(), [count - 1]))
