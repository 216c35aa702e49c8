"""All parts of a run, made from its recipe: sequences, model, objective, and the objective it is judged by.

Whatever does not fit together is found here, before anything is trained: a corpus and a model with different
vocabularies, sequences longer than there are positions, a family without the head that an objective needs.

    start       the models                                          new, or gone on with
    maskers     what hides tokens
    parts       models and objective, for each kind of objective
    here        the sequences of the corpus, and all of it together
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bertworks.data.corpus import Corpus
from bertworks.data.pretraining import Lexicon, SentencePairs, SequenceSource, SinglePieces, split_documents
from bertworks.errors import DataError, UsageError
from bertworks.models.config import TransformerConfig
from bertworks.models.model import Model
from bertworks.objectives.masked_lm import MaskedLM
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.maskers import EVALUATION_SEED, Maskers
from bertworks.train.parts import Parts, make_parts
from bertworks.train.recipes import DataSection, Recipe

TOKENIZER_KINDS = {"wordpiece": "WordPiece", "byte-bpe": "BPE"}


@dataclass(kw_only=True)
class Assembly(Parts):
    """A whole run, ready to start."""

    tokenizer: Tokenizer
    short: SequenceSource
    long: SequenceSource | None
    held_out: SequenceSource | None
    training_documents: NDArray[Any]
    held_out_documents: NDArray[Any]
    held_out_tokens: int
    lexicon: Lexicon | None = None
    """Entities and phrases that are masked as wholes."""
    notes: list[str] = field(default_factory=list)

    @property
    def model(self) -> Model:
        return self.models[""]

    def describe(self) -> str:
        """`modernbert 4x256x4`"""
        return self.model.config.describe()


def assemble(recipe: Recipe, corpus: Corpus, lexicon_file: Path | None = None) -> Assembly:
    """Make the parts of a run. New weights come from torch's random numbers: seed them before.

    `lexicon_file` is what the run has kept of its entities and phrases, where it is continued.
    """
    run = recipe.run
    assert run is not None
    tokenizer = corpus.tokenizer()
    notes: list[str] = []
    pairs = recipe.objective.pairs
    # The second text of a pair may come from another document, also where it is judged.
    training, held_out = split_documents(corpus, recipe.data.held_out_tokens, at_least=2 if pairs == "nsp" else 1)
    expected = recipe.data.tokenizer
    if expected is not None and tokenizer.kind != TOKENIZER_KINDS[expected]:
        notes.append(f"this recipe was made for {expected}; the corpus's tokenizer is of the kind {tokenizer.kind}")

    maskers = Maskers(recipe, corpus, tokenizer, training, lexicon_file)
    parts = make_parts(recipe, tokenizer, maskers, notes)
    _check_lengths(recipe.data, parts.models[""])
    model = parts.models[""].config
    for name in ("gradient_checkpointing", "sharded"):
        if getattr(recipe.train, name) and not isinstance(model.body, TransformerConfig):
            raise UsageError(f"train.{name} is for Transformers, and the model is {model.describe()}; leave it out")

    def source(length: int) -> SequenceSource:
        return _source(recipe, corpus, tokenizer, length, training, run.seed, recipe.data.short_prob)

    data = recipe.data
    judged: SequenceSource | None = None
    try:
        if len(held_out):
            judged = _source(recipe, corpus, tokenizer, data.sequence_length, held_out, EVALUATION_SEED, 0.0)
    except DataError:
        if pairs == "none":
            raise
        notes.append(
            f"the held-out text is too little for pairs: only the masked tokens are evaluated, without {pairs}"
        )
        parts.evaluation = MaskedLM(maskers.evaluation())
        judged = SinglePieces(corpus, tokenizer, data.sequence_length, held_out, EVALUATION_SEED)
    return Assembly(
        **vars(parts),
        tokenizer=tokenizer,
        short=source(data.sequence_length),
        long=None if data.long_sequence_length is None else source(data.long_sequence_length),
        held_out=judged,
        training_documents=training,
        held_out_documents=held_out,
        held_out_tokens=int(corpus.document_lengths()[held_out].sum()),
        lexicon=maskers.lexicon,
        notes=notes,
    )


def _source(
    recipe: Recipe,
    corpus: Corpus,
    tokenizer: Tokenizer,
    length: int,
    documents: NDArray[Any],
    seed: int,
    short: float,
) -> SequenceSource:
    pairs = recipe.objective.pairs
    if pairs == "none":
        return SinglePieces(
            corpus,
            tokenizer,
            length,
            documents,
            seed,
            short_prob=short,
            whole_sentences=recipe.data.whole_sentences,
        )
    copies = recipe.objective.masking.copies
    return SentencePairs(corpus, tokenizer, length, pairs, documents, seed, short_prob=short, copies=copies)


def _check_lengths(data: DataSection, model: Model) -> None:
    if data.longest > model.num_positions:
        name = "long_sequence_length" if data.long_sequence_length else "sequence_length"
        raise UsageError(
            f"data.{name} is {data.longest}, but the model has only {model.num_positions} positions; shorten the "
            "sequences, or give a new model more with --set model.max_position_embeddings=N"
        )
