"""What hides tokens in training, and what hides them where a model is judged, which is the same for every run.

Entities and phrases that are masked as wholes (ERNIE) come from the user's file, or are mined from the training documents;
a run keeps them, so that it goes on with the same ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bertworks.data.corpus import Corpus
from bertworks.data.pretraining import Lexicon, Masker, MaskingConfig
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.recipes import Recipe

EVALUATION_MASKING = MaskingConfig(rate=0.15, unit="token", mask_share=0.8, random_share=0.1, copies=1)
EVALUATION_SEED = 0
"""Held-out text is cut and masked alike whatever the run's own seed is."""
MINED = "mined"
LEXICON_FILE = "lexicon.txt"
"""Where a run keeps its entities and phrases."""


class Maskers:
    """Maskers for training and for evaluation; made where an objective needs them, since not every tokenizer has a
    mask."""

    def __init__(
        self, recipe: Recipe, corpus: Corpus, tokenizer: Tokenizer, documents: NDArray[Any], lexicon_file: Path | None
    ) -> None:
        assert recipe.run is not None
        self.objective, self.seed = recipe.objective, recipe.run.seed
        self.corpus, self.tokenizer, self.documents = corpus, tokenizer, documents
        self.lexicon_file = lexicon_file
        self.lexicon: Lexicon | None = None

    def training(self) -> Masker:
        masking = self.objective.masking
        lexicon = self._lexicon() if masking.unit == "lexicon" else None
        return Masker(masking, self.tokenizer, lexicon, seed=self.seed)

    def evaluation(self) -> Masker:
        return Masker(EVALUATION_MASKING, self.tokenizer, seed=EVALUATION_SEED)

    def _lexicon(self) -> Lexicon:
        self.lexicon = self._found_lexicon()
        return self.lexicon

    def _found_lexicon(self) -> Lexicon:
        """The one that the run has kept; else read from a file, or mined."""
        if self.lexicon_file is not None and self.lexicon_file.exists():
            return Lexicon.load(self.lexicon_file)
        name = self.objective.lexicon
        assert name is not None
        if name == MINED:
            return Lexicon.mine(self.corpus, self.documents, tokenizer=self.tokenizer)
        return Lexicon.from_file(name, self.tokenizer)
