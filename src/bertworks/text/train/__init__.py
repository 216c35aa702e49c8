"""Train tokenizers: BPE, byte-level BPE, WordPiece by likelihood, whole words and characters, on texts larger than memory.

    options = TrainerOptions.of("wordpiece", vocab_size=30_000)
    train_tokenizer(texts, options, workers=2).save("my-tokenizer")

Text → (`pipeline`) words → (`words`) counts → (`symbols`, `pairs`, `bpe`, `wordpiece`, `whole`) pieces → (`build`) tokenizer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from tokenizers.pre_tokenizers import ByteLevel

from bertworks.text.tokenizer import Tokenizer
from bertworks.text.train.bpe import Learnt, Progress, learn_bpe
from bertworks.text.train.build import build_tokenizer
from bertworks.text.train.options import ALGORITHMS, FAMILIES, FORMS, TrainerOptions
from bertworks.text.train.symbols import rare_characters
from bertworks.text.train.whole import learn_whole
from bertworks.text.train.wordpiece import learn_wordpiece
from bertworks.text.train.words import count_words

__all__ = [
    "ALGORITHMS",
    "FAMILIES",
    "FORMS",
    "Learnt",
    "Progress",
    "TrainerOptions",
    "build_tokenizer",
    "count_words",
    "learn",
    "learn_bpe",
    "learn_whole",
    "learn_wordpiece",
    "train_tokenizer",
]

logger = logging.getLogger(__name__)

RARE, WORTH_TELLING = 1e-4, 0.05
"""Characters that make up so little of the text, where they take up more than this share of the vocabulary."""


def train_tokenizer(
    texts: Iterable[str],
    options: TrainerOptions,
    *,
    workers: int = 1,
    max_words: int | None = None,
    progress: Progress | None = None,
) -> Tokenizer:
    """Train a tokenizer on a stream of texts, each of which is read once.

    The result is the same for any number of `workers` (processes that count words). `max_words` bounds how many
    distinct words are held in memory. `progress(stage, done, total)` is called from this process: "count words" with
    characters (total None), then "learn merges" with merges.
    """
    word_counts = count_words(texts, options, workers=workers, max_words=max_words, progress=progress)
    learnt = learn(word_counts, options, progress=progress)
    if len(learnt.vocab) < options.vocab_size and options.algorithm not in ("word", "character"):
        limit = None if options.algorithm == "byte-bpe" else options.limit_alphabet
        was_limited = limit is not None and len(set().union(*word_counts)) > limit
        logger.warning(
            "%s for %d tokens: after %d no pair occurs often enough",
            f"an alphabet of {limit} characters (--limit-alphabet) leaves too little of the text"
            if was_limited
            else "the text is too small",
            options.vocab_size,
            len(learnt.vocab),
        )
    if options.algorithm in ("bpe", "wordpiece") and options.limit_alphabet is None:
        rare, others = rare_characters(word_counts, RARE)
        if rare > WORTH_TELLING * options.vocab_size:
            logger.warning(
                "%s of %s tokens go to %s characters that are together less than %s of the text; --limit-alphabet %d "
                "keeps the others, with room for longer tokens, and makes words with these unknown",
                f"about {2 * rare if options.algorithm == 'wordpiece' else rare:,}",
                f"{options.vocab_size:,}",
                f"{rare:,}",
                f"{RARE:.2%}",
                others,
            )
    return build_tokenizer(learnt, options)


def learn(word_counts: Mapping[str, int], options: TrainerOptions, *, progress: Progress | None = None) -> Learnt:
    """Learn pieces from counted words with the algorithm of the options."""
    if options.algorithm == "wordpiece":
        return learn_wordpiece(
            word_counts,
            vocab_size=options.vocab_size,
            special_tokens=options.special_tokens,
            limit_alphabet=options.limit_alphabet,
            min_frequency=options.min_frequency,
            min_pair_count=options.min_pair_count,
            max_token_length=options.max_token_length,
            progress=progress,
        )
    if options.algorithm in ("word", "character"):
        return learn_whole(
            word_counts,
            vocab_size=options.vocab_size,
            special_tokens=options.special_tokens,
            min_frequency=options.min_frequency,
        )
    byte_level = options.algorithm == "byte-bpe"
    return learn_bpe(
        word_counts,
        vocab_size=options.vocab_size,
        special_tokens=options.special_tokens,
        initial_alphabet=ByteLevel.alphabet() if byte_level else (),
        limit_alphabet=None if byte_level else options.limit_alphabet,
        min_frequency=options.min_frequency,
        max_token_length=options.max_token_length,
        progress=progress,
    )
