"""The whole way on real text: corpus, sequences, batches, masks, lexicons."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from bertworks.data.corpus import Corpus, LocalEngine, build_corpus
from bertworks.data.pretraining import (
    Batches,
    Lexicon,
    Masker,
    MaskingConfig,
    MiningOptions,
    SentencePairs,
    SinglePieces,
    share,
    split_documents,
)
from tests.data.pretraining.helpers import corpus_of, word_tokenizer


def beginning(shared_data: Path, name: str, characters: int) -> str:
    with lzma.open(shared_data / "corpus" / f"{name}.txt.xz", "rt", encoding="utf-8") as lines:
        return lines.read(characters)


@pytest.fixture(scope="module")
def english(shared_data: Path, minilm_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("english")
    (folder / "text.txt").write_text(beginning(shared_data, "wiki-en-00", 600_000), encoding="utf-8")
    build_corpus([folder / "text.txt"], minilm_directory, folder / "corpus", engine=LocalEngine(1))
    return Corpus.open(folder / "corpus")


def test_an_epoch_of_english(english: Corpus) -> None:
    tokenizer = english.tokenizer()
    training, held_out = split_documents(english, 5000)
    assert 0 < english.document_lengths()[held_out].sum() <= 5000
    pieces = SinglePieces(english, tokenizer, 128, training)
    batches = Batches(pieces, 4096, seed=1)
    masker = Masker(MaskingConfig(unit="word"), tokenizer, seed=1)
    seen, masked_tokens, text_tokens = [], 0, 0
    for step in range(batches.num_batches):
        epoch, numbers = batches.at(step)
        for rank in range(2):
            for part in share(pieces.lengths, numbers, rank=rank, world=2, micro_tokens=1024):
                rows = pieces.take(part, epoch)
                assert rows.lengths.max() <= 128
                masked = masker.apply(rows)
                masked_tokens += len(masked.places)
                text_tokens += int((~rows.special).sum())
                seen += part.tolist()
    assert sorted(seen) == list(range(len(pieces)))
    assert text_tokens == pytest.approx(english.document_lengths()[training].sum(), rel=0.01)
    assert masked_tokens / text_tokens == pytest.approx(0.15, abs=0.005)


@pytest.mark.parametrize("kind", ["nsp", "sop"])
def test_pairs_of_english(english: Corpus, kind: str) -> None:
    pairs = SentencePairs(english, english.tokenizer(), 128, kind, short_prob=0.1)
    rows = pairs.take(np.arange(len(pairs)), 0)
    assert rows.lengths.max() <= 128
    assert 0.4 < rows.labels[kind].mean() < 0.6
    # The length must not tell a random pair: the longer of two is the random one about as often as not.
    if kind == "nsp":
        true, random = (rows.lengths[rows.labels["nsp"] == label] for label in (0, 1))
        assert 0.42 < (true[:, None] < random).mean() + (true[:, None] == random).mean() / 2 < 0.58


def test_chinese_entities(shared_data: Path, tmp_path: Path) -> None:
    """A title that is in the text is masked as a whole; phrases are found without titles, too."""
    text = beginning(shared_data, "wiki-zh-00", 300_000)
    characters = sorted({character for character in text if not character.isspace()})
    corpus = corpus_of(tmp_path, text.split("\n\n"), word_tokenizer(characters))
    tokenizer = corpus.tokenizer()
    titles = shared_data / "corpus" / "titles-zh.txt.xz"
    lexicon = Lexicon.from_file(titles, tokenizer)
    assert len(lexicon) > 50_000
    pieces = SinglePieces(corpus, tokenizer, 128)
    rows = pieces.take(np.arange(200), 0)
    unit = lexicon.match(rows.ids, rows.lengths)
    sizes = np.bincount(unit)
    inside = sizes[unit] > 1
    assert 0.1 < inside.mean() < 0.7
    masked = Masker(MaskingConfig(unit="lexicon"), tokenizer, lexicon).apply(rows)
    hits = np.bincount(unit[masked.places], minlength=len(sizes))
    assert ((hits == 0) | (hits == sizes)).all()
    mined = Lexicon.mine(corpus, options=MiningOptions(min_count=10))
    assert len(mined) > 300
    known = set(lexicon.entries)
    assert np.mean([entry in known for entry in mined.entries]) > 0.1  # characters by chance would give next to none
