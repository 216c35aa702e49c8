"""Tiny corpora and hand-made sequences for the tests of pretraining data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from bertworks.data.corpus import Corpus, CorpusOptions, LocalEngine, build_corpus
from bertworks.data.pretraining import Sequences
from bertworks.text.tokenizer import Tokenizer
from tests.data.corpus_helpers import write_documents

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word_tokenizer(words: Sequence[str]) -> Backend:
    """BERT's WordPiece with exactly these pieces after the special tokens."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *words])}
    backend = Backend(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens(SPECIAL)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return backend


def corpus_of(directory: Path, documents: list[str], backend: Backend, *, shard_tokens: int = 2**23) -> Corpus:
    """A corpus of these documents."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer").mkdir()
    backend.save(str(directory / "tokenizer" / "tokenizer.json"))
    file = write_documents(directory / "text.txt", documents)
    options = CorpusOptions(shard_tokens=shard_tokens, language="en")
    build_corpus([file], directory / "tokenizer", directory / "corpus", options, engine=LocalEngine(1))
    return Corpus.open(directory / "corpus")


def rows_of(sequences: Sequence[Sequence[int]], index: Sequence[int] | None = None, epoch: int = 0) -> Sequences:
    """Sequences of text between [CLS] (2) and [SEP] (3)."""
    framed = [[2, *sequence, 3] for sequence in sequences]
    ids = np.array([token for sequence in framed for token in sequence], np.int64)
    lengths = np.array([len(sequence) for sequence in framed], np.int64)
    numbers = np.arange(len(framed)) if index is None else np.array(index, np.int64)
    return Sequences(ids, lengths, numbers, epoch, (ids == 2) | (ids == 3))


def letters_tokenizer() -> Tokenizer:
    """Words w0 to w39, each of which may be continued by ##a, ##b or ##c."""
    return Tokenizer(word_tokenizer([f"w{number}" for number in range(40)] + ["##a", "##b", "##c"]))
