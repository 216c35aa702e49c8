"""Count the words of a text that may be larger than memory, with any number of processes and the same result.

The texts are cut into batches of a fixed size, whatever the number of workers; each batch is counted alone and the
counts are added up in the order of the batches. Memory therefore grows with the distinct words, not with the text.
`max_words` bounds it: whenever more distinct words are held after a batch, only the `max_words // 2` most frequent
stay (the smaller string first among equals). This happens at the same places for any number of workers, so the result
is the same too. It loses the counts that rare words had so far, at each cut at most the count of the rarest word kept.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from bertworks.errors import UsageError
from bertworks.text.train.bpe import Progress
from bertworks.text.train.options import TrainerOptions
from bertworks.text.train.pipeline import Pipeline
from bertworks.workers import checked_workers, map_in_order

BATCH_CHARACTERS = 8_000_000
COUNT = "count words"

Batch = tuple[int, list[str]]  # the number of characters, and the texts

logger = logging.getLogger(__name__)


def count_words(
    texts: Iterable[str],
    options: TrainerOptions,
    *,
    workers: int = 1,
    max_words: int | None = None,
    progress: Progress | None = None,
    batch_characters: int = BATCH_CHARACTERS,
) -> dict[str, int]:
    """How often each word occurs, by the options' normaliser and pre-tokenizer; `progress` is told of characters."""
    workers = checked_workers(workers)
    if max_words is not None and max_words < 2:
        raise UsageError(f"max_words must be at least 2, not {max_words}")
    total: Counter[str] = Counter()
    done = cuts = 0
    counted = map_in_order(partial(_batch_counter, options), _batches(texts, batch_characters), workers)
    for characters, counts in counted:
        total.update(counts)
        if max_words is not None and len(total) > max_words:
            total = _pruned(total, max_words // 2)
            cuts += 1
        done += characters
        if progress is not None:
            progress(COUNT, done, None)
    if cuts:
        logger.warning(
            "rare words were dropped %d times to hold no more than %d; their counts are too low", cuts, max_words
        )
    return dict(total)


def _pruned(counts: Counter[str], keep: int) -> Counter[str]:
    """The `keep` most frequent words."""
    kept = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:keep]
    logger.info(
        "word table pruned from %d to %d words; the rarest kept one occurs %d times", len(counts), keep, kept[-1][1]
    )
    return Counter(dict(kept))


def _batches(texts: Iterable[str], size: int) -> Iterator[Batch]:
    """Lists of texts with at least `size` characters (but for the last one), each with its number of characters."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if characters >= size:
            yield characters, batch
            batch, characters = [], 0
    if batch:
        yield characters, batch


def _batch_counter(options: TrainerOptions) -> Callable[[Batch], tuple[int, dict[str, int]]]:
    pipeline = Pipeline(options)
    return lambda batch: (batch[0], pipeline.count(batch[1]))
