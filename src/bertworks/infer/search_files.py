"""The names of the files of a search index; `search` says what is in them."""

MANIFEST = "search.json"
VECTORS = "vectors.npy"
TEXTS = "texts.arrow"
GRAPH = "graph.usearch"
EMBEDDED = "embedded.parquet"
"""Texts and vectors of an unfinished build."""
VERSION = 1
