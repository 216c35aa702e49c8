"""From a corpus to what an objective trains on: sequences, batches, masks. Numpy only; nothing here imports torch.

draw.py      random numbers as functions of (seed, epoch, sequence, position)
flat.py      many runs of tokens read at once          words.py     where words begin, told from ids
pieces.py    documents → single sequences              trie.py      longest match over ids
pairs.py     documents → sentence pairs                phrases.py   cohesive phrases mined from a corpus
batches.py   step → sequences; ranks, micro-batches    lexicon.py   entities and phrases as units
sequences.py what an objective gets                    masking.py   what is masked, and with what

Every step is a pure function of its numbers, so a run can go on anywhere and be spread over any number of processes.
"""

from __future__ import annotations

from bertworks.data.pretraining.batches import Batches, share, split_documents
from bertworks.data.pretraining.draw import Stream, integers, uniform
from bertworks.data.pretraining.lexicon import Lexicon
from bertworks.data.pretraining.masking import Masked, Masker, MaskingConfig
from bertworks.data.pretraining.pairs import SentencePairs
from bertworks.data.pretraining.phrases import MiningOptions
from bertworks.data.pretraining.pieces import SinglePieces
from bertworks.data.pretraining.sequences import Sequences, SequenceSource

__all__ = [
    "Batches",
    "Lexicon",
    "Masked",
    "Masker",
    "MaskingConfig",
    "MiningOptions",
    "SentencePairs",
    "SequenceSource",
    "Sequences",
    "SinglePieces",
    "Stream",
    "integers",
    "share",
    "split_documents",
    "uniform",
]
