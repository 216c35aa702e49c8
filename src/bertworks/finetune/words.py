"""New models over words: `finetune tag --model bilstm`, `bigru` or `birnn` (`bertworks.models.words`), and `classify` where
word vectors or another setting of [words] are given.

The vocabulary is made from the sentences that have labels; a word that occurs once is unknown, so that unknown words are
learned about. The sources of word vectors are opened, and scaled to one size by what they say of some training
sentences. Text without labels, for cross-view training, is cut into sentences and words.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase, Strip
from tokenizers.normalizers import Sequence as Normalizers

from bertworks import hub
from bertworks.data.labelled.examples import Example, Place, TaggedExample, TextExample
from bertworks.data.readers import TextReader
from bertworks.data.sentences import sentence_spans
from bertworks.errors import ConfigError, DataError, UsageError
from bertworks.finetune.config import FinetuneConfig, RunSection, WordsSection
from bertworks.hub.checkpoint import OWN
from bertworks.infer.word_sources import StaticSource, is_contextual, named_source, open_inputs
from bertworks.models.config import ModelConfig
from bertworks.models.model import Model
from bertworks.models.word_config import VectorConfig, WordEmbeddingConfig, WordStackConfig
from bertworks.tasks.word_classification import words_of
from bertworks.tasks.word_inputs import WordInputs
from bertworks.tasks.word_vectors import WordSource
from bertworks.tasks.words import tagged_from_text
from bertworks.text.tokenizer import Tokenizer, clean

CELLS: dict[str, Literal["rnn", "lstm", "gru"]] = {"birnn": "rnn", "bilstm": "lstm", "bigru": "gru"}
"""What `--model` may be for a new model over words, and its recurrent cell."""
TASKS = ("tag", "classify")
UNKNOWN = "[UNK]"
VECTORS = "vectors"
"""The folder of a run's directory that keeps word vectors while it is trained."""
SCALED_SENTENCES = 200
SIZE = 0.5
"""The root mean square that every source's vectors are scaled to: about what GloVe's are."""
MAX_WORDS = 100
"""Longer sentences of unlabelled text are mostly tables and lists; they are left out."""

Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class WordModel:
    """A new model and what goes with it."""

    loaded: hub.Loaded
    inputs: WordInputs
    unlabelled: Sequence[TaggedExample]
    described: tuple[str, ...]
    """Sentences for the user."""

    @property
    def sha256(self) -> tuple[str, ...]:
        """Of each source of word vectors, and of the text without labels."""
        words = repr([example.words for example in self.unlabelled]).encode("utf-8", "surrogatepass")
        text = [hashlib.sha256(words).hexdigest()] if self.unlabelled else []
        return (*(named.sha256 for named in self.inputs.named), *text)

    def options(self, section: WordsSection, task: str) -> dict[str, Any]:
        """What `bertworks.tasks.for_examples` gets beside the task's own settings."""
        return {"inputs": self.inputs} | ({"views": section.views} if task == "tag" and self.unlabelled else {})


def check_words(config: FinetuneConfig, run: RunSection) -> bool:
    """Whether the run makes a new model over words; an error where the settings contradict each other."""
    said = config.words != WordsSection()
    if run.model not in CELLS or Path(run.model).is_dir():
        if said:
            raise ConfigError(
                "the settings of [words] (word vectors, unlabelled text …) are for new models over words: --model "
                f"{', '.join(CELLS)}; this one is {run.model}"
            )
        return False
    if run.task != "tag" and not said:
        return False  # a new model over subwords (`bertworks.finetune.fresh`)
    if run.task not in TASKS:
        raise UsageError(f"the settings of [words] are for {' and '.join(TASKS)}, not for {run.task}")
    if config.words.unlabelled and run.task != "tag":
        raise ConfigError(f"words.unlabelled (cross-view training) is for tag, not for {run.task}")
    return True


def make_model(
    config: FinetuneConfig, run: RunSection, train: Sequence[Example], output: Path, device: str
) -> WordModel:
    """A model for the training examples; its weights are drawn when it is trained."""
    section = config.words
    sentences = [_words(example) for example in train]
    names = [*((name, False) for name in section.vectors), *((name, True) for name in section.between)]
    named = tuple(named_source(name, last=between) for name, between in names)
    inputs = open_inputs(WordInputs(named=named), device=device, cache=output / VECTORS)
    if section.unlabelled and any(is_contextual(source) for source in inputs.sources):
        there = next(source.name for source in inputs.sources if is_contextual(source))
        raise ConfigError(
            f"cross-view training (words.unlabelled) needs words that do not know their neighbours, or no view would be "
            f"partial; the vectors of {there} do: leave out one of the two"
        )
    unlabelled = list(itertools.islice(read_unlabelled(section.unlabelled), section.unlabelled_sentences))
    tokenizer = make_vocabulary(sentences, section.min_count)
    body = WordStackConfig(
        embeddings=WordEmbeddingConfig(
            vocab_size=tokenizer.vocab_size,
            size=section.word_size,
            characters=section.characters,
            character_features=section.character_features,
        ),
        vectors=tuple(
            VectorConfig(
                width=source.width,
                num_layers=1 if between else source.num_layers,
                between=between,
                scale=scale_of(source, sentences, last=between),
            )
            for source, (_, between) in zip(inputs.sources, names, strict=True)
        ),
        cell=CELLS[run.model],
        direction_size=section.hidden_size,
        num_hidden_layers=section.num_layers,
        hidden_dropout_prob=section.dropout,
    )
    model = Model(ModelConfig(family=OWN, body=body))
    described = [
        (
            f"{tokenizer.vocab_size - 1:,} words have a row of their own in the learned table, those that occur at least "
            f"{section.min_count} times"
        )
    ]
    for source, (_, between) in zip(inputs.sources, names, strict=True):
        layers = (
            "its last layer" if between else f"{source.num_layers} layers, mixed" if source.num_layers > 1 else "static"
        )
        place = "between the recurrent layers" if between else "beside the words"
        known = f"; {source.coverage(sentences):.1%} of the words have one" if isinstance(source, StaticSource) else ""
        described.append(
            f"vectors of {source.name} ({source.width} wide, {layers}) {place}; computed once, and kept{known}"
        )
    if unlabelled:
        described.append(f"{len(unlabelled):,} sentences without labels for cross-view training")
    loaded = hub.Loaded(model=model, tokenizer=tokenizer, directory=output, settings=None, window=body.max_length)
    return WordModel(loaded=loaded, inputs=inputs, unlabelled=unlabelled, described=tuple(described))


def make_vocabulary(sentences: Sentences, min_count: int) -> Tokenizer:
    """Words in small letters that occur at least `min_count` times, the most frequent first."""
    normalizer = Normalizers([Strip(), Lowercase()])
    counts = Counter(word for sentence in sentences for word in sentence)
    normal: Counter[str] = Counter()
    for word, count in counts.items():
        normal[normalizer.normalize_str(clean(word))] += count
    kept = sorted(
        (word for word, count in normal.items() if word and count >= min_count), key=lambda word: (-normal[word], word)
    )
    vocabulary = {word: number for number, word in enumerate([UNKNOWN, *(word for word in kept if word != UNKNOWN)])}
    backend = Backend(WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.normalizer = normalizer
    return Tokenizer(backend, config={"unk_token": UNKNOWN})


def scale_of(source: WordSource, sentences: Sentences, *, last: bool = False) -> float:
    """What a source's vectors, of the last layer alone where `last`, are multiplied by, so that all sources' have one size."""
    found = [array[-1:] if last else array for array in source.vectors(sentences[:SCALED_SENTENCES]) if array.size]
    total = sum(float(np.square(array, dtype=np.float64).sum()) for array in found)
    count = sum(array.size for array in found)
    return float(SIZE / max(np.sqrt(total / max(count, 1)), 1e-6))


def read_unlabelled(paths: Sequence[str]) -> Iterator[TaggedExample]:
    """The sentences of text files, cut into words."""
    for path in paths:
        some = False
        with TextReader(path) as reader:
            for number, text in enumerate(reader.texts(), 1):
                for start, end in sentence_spans(text):
                    example = tagged_from_text(text[start:end], Place(path, number))
                    if 1 < len(example.words) <= MAX_WORDS:
                        some = True
                        yield example
        if not some:
            raise DataError("has no sentences to learn from", path=path)


def _words(example: Example) -> Sequence[str]:
    if isinstance(example, TaggedExample):
        return example.words
    assert isinstance(example, TextExample)
    return words_of(example)
