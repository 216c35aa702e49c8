"""Count the words of a text that may be larger than memory, with any number of processes and the same result.

The texts are cut into batches of a fixed size, whatever the number of workers; each batch is counted alone and the
counts are added up in the order of the batches. Memory therefore grows with the distinct words, not with the text.
`max_words` bounds it: whenever more distinct words are held after a batch, only the `max_words // 2` most frequent
stay (the smaller string first among equals). This happens at the same places for any number of workers, so the result
is the same too. It loses the counts that rare words had so far, at each cut at most the count of the rarest word kept.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from bertworks.errors import DataError, UsageError
from bertworks.text.train.bpe import Progress
from bertworks.text.train.options import TrainerOptions
from bertworks.text.train.pipeline import Pipeline

BATCH_CHARACTERS = 8_000_000
COUNT = "count words"

logger = logging.getLogger(__name__)
_pipeline: Pipeline | None = None  # of this worker process


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
    if workers < 1:
        raise UsageError(f"workers must be at least 1, not {workers}")
    if max_words is not None and max_words < 2:
        raise UsageError(f"max_words must be at least 2, not {max_words}")
    total: Counter[str] = Counter()
    done = cuts = 0
    for characters, counts in _counted(_batches(texts, batch_characters), options, workers):
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


def _batches(texts: Iterable[str], size: int) -> Iterator[tuple[int, list[str]]]:
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


def _counted(
    batches: Iterator[tuple[int, list[str]]], options: TrainerOptions, workers: int
) -> Iterator[tuple[int, dict[str, int]]]:
    """Count every batch; results come in the order of the batches."""
    if workers == 1:
        pipeline = Pipeline(options)
        for characters, batch in batches:
            yield characters, pipeline.count(batch)
        return
    context = multiprocessing.get_context("spawn")  # a forked child of a process with threads may hang
    with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(options,)) as pool:
        waiting: deque[tuple[int, Future[dict[str, int]]]] = deque()
        try:
            for characters, batch in batches:
                waiting.append((characters, pool.submit(_count_in_worker, batch)))
                if len(waiting) > workers:  # one batch waits while the workers are busy; more would only cost memory
                    characters, future = waiting.popleft()
                    yield characters, future.result()
            for characters, future in waiting:
                yield characters, future.result()
        except BrokenProcessPool as error:
            raise DataError(
                "a process that counted words has died, most likely for lack of memory; use fewer workers"
            ) from error


def _start_worker(options: TrainerOptions) -> None:
    global _pipeline
    _pipeline = Pipeline(options)


def _count_in_worker(batch: list[str]) -> dict[str, int]:
    assert _pipeline is not None
    return _pipeline.count(batch)
