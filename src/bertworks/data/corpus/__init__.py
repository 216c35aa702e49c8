"""Pretraining text as token ids on disk: built once, from text larger than memory, and mapped into memory to train.

documents.py   files → documents            layout.py      what a shard is, byte by byte
encode.py      documents → ids, sentences   reader.py      `Corpus`: documents, sentences and spans by number
writer.py      ids → shards                 build.py       all of it together
"""

from __future__ import annotations

from bertworks.data.corpus.build import LocalEngine, Report, build_corpus
from bertworks.data.corpus.options import CorpusOptions
from bertworks.data.corpus.reader import Corpus

__all__ = ["Corpus", "CorpusOptions", "LocalEngine", "Report", "build_corpus"]
