"""A stack over words: what a word is (its own row of a table, its letters, vectors from elsewhere), then recurrent layers
in both directions. The taggers from before BERT are values of one configuration:

    Lample et al. 2016, Ma & Hovy 2016    table + letters + static vectors (GloVe)   -> BiLSTM
    ELMo (Peters et al. 2018)             … + a learned mixture of a language model's layers
    TagLM (Peters et al. 2017)            … -> BiLSTM ++ a language model's vectors -> BiLSTM
    the BERT paper's feature-based way    … + a mixture of BERT's layers             -> BiLSTM

The vectors from elsewhere are frozen: they are part of the batch, computed once per data set, and scaled as a whole to
about the size of the rest. A word that is not in the table has the unknown word's row; its letters still tell it apart.

The first block reads the words from the left and from the right without either direction seeing the other's: its output's
two halves are one-sided views (`one_sided`), which cross-view training needs (`bertworks.tasks.word_tagging`).

Legend: T words in the packed batch, S spellings, C letters, L layers of a source, F width of the input, P width of one
direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bertworks.errors import ModelError
from bertworks.models.transformer import Hidden
from bertworks.models.word_config import VectorConfig, WordEmbeddingConfig, WordStackConfig
from bertworks.nn.characters import CharacterEncoder
from bertworks.nn.dropout import Dropout
from bertworks.nn.mix import LayerMix
from bertworks.nn.packed import Layout, Packed, Rows, shifted
from bertworks.nn.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class PackedWords(Packed):
    """A batch of words: their numbers in the table, their spellings, and the vectors of each source."""

    letters: (
        Tensor  # (C,) int64: the letters (bytes, and marks at both ends) of the batch's spellings, each of them once
    )
    letters_layout: Layout  # S sequences
    spellings: Tensor  # (T,) int64: which spelling each word has
    vectors: tuple[Tensor, ...] = ()  # per source (T, L, width), in half precision

    def to(self, device: torch.device | str) -> PackedWords:
        return PackedWords(
            input_ids=self.input_ids.to(device),
            layout=self.layout,
            letters=self.letters.to(device),
            letters_layout=self.letters_layout,
            spellings=self.spellings.to(device),
            vectors=tuple(vectors.to(device) for vectors in self.vectors),
        )


class WordEmbeddings(nn.Module):
    """The words' own vectors: (T, size + features)."""

    def __init__(self, config: WordEmbeddingConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.size)
        nn.init.normal_(self.tokens.weight, std=config.size**-0.5)  # vectors of about length 1
        self.characters: CharacterEncoder | None = None
        if config.characters != "none":
            self.characters = CharacterEncoder(
                config.characters,
                num_characters=config.num_characters,
                size=config.character_size,
                num_features=config.character_features,
            )

    def forward(self, batch: PackedWords) -> Tensor:
        own = self.tokens(batch.input_ids)
        if self.characters is None:
            return own
        spelled = self.characters(batch.letters, batch.letters_layout)  # (S, features)
        return torch.cat([own, spelled.index_select(0, batch.spellings)], dim=1)


class JoinedVectors(nn.Module):
    """One source's vectors: mixed where there are several layers, and scaled."""

    def __init__(self, config: VectorConfig) -> None:
        super().__init__()
        self.scale = config.scale
        self.mix = LayerMix(config.num_layers) if config.num_layers > 1 else None

    def forward(self, vectors: Tensor, like: Tensor) -> Tensor:
        """(T, L, width) -> (T, width), in the precision of `like`"""
        layers = vectors.to(like.dtype).transpose(0, 1)  # (L, T, width)
        return (layers[0] if self.mix is None else self.mix(layers)) * self.scale


class WordStack(nn.Module):
    """The embeddings, the sources, and the recurrent layers, one `Recurrent` each so that something can join between."""

    def __init__(self, config: WordStackConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = WordEmbeddings(config.embeddings)
        self.sources = nn.ModuleList(JoinedVectors(vectors) for vectors in config.vectors)
        self.dropout = Dropout(config.hidden_dropout_prob)
        width = config.embeddings.width + sum(vectors.width for vectors in config.vectors if not vectors.between)
        between = sum(vectors.width for vectors in config.vectors if vectors.between)
        self.blocks = nn.ModuleList()
        for number in range(config.num_hidden_layers):
            block = Recurrent(input_size=width, hidden_size=config.direction_size, cell=config.cell, bidirectional=True)
            self.blocks.append(block)
            width = block.output_size + (between if number == 0 else 0)

    def forward(self, batch: Packed, *, layers: Sequence[int] | None = None, rows: Rows | None = None) -> Hidden:
        """The wanted `layers` (default: the last), at `rows` only where they are given; 0 is the first block's input."""
        if not isinstance(batch, PackedWords):
            raise ModelError("this model reads words with their letters and vectors, not tokens: it can only predict")
        wanted = set(layers) if layers is not None else {self.config.num_hidden_layers}
        x = self.embeddings(batch)
        given = zip(self.sources, self.config.vectors, batch.vectors, strict=True)
        joined = [(config.between, source(vectors, x)) for source, config, vectors in given]
        x = torch.cat([x, *(vectors for between, vectors in joined if not between)], dim=1)  # (T, F)
        hidden = Hidden({})
        if 0 in wanted:
            hidden.layers[0] = x if rows is None else rows.take(x)
        for number, block in enumerate(self.blocks, 1):
            output, _ = block(self.dropout(x), batch.layout)  # (T, 2 P)
            if number in wanted:
                hidden.layers[number] = output if rows is None else rows.take(output)
            if number == max(wanted):
                break
            late = [vectors for between, vectors in joined if between and number == 1]
            x = torch.cat([output, *late], dim=1) if late else output
        return hidden

    def final(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(T, 2 P) -> (B, 2 P): what each direction ends with, the forward half at the last word, the other at the first."""
        size = self.config.direction_size
        last = layout.last().to(hidden.device).take(hidden)
        first = layout.first().to(hidden.device).take(hidden)
        return torch.cat([last[:, :size], first[:, size:]], dim=1)


def one_sided(first: Tensor, layout: Layout) -> dict[str, Tensor]:
    """Four views of the first block's output (T, 2 P), each of the same shape with zeros for what it must not see
    (Clark et al. 2018, section 3.3):

        forward     the words up to this one          future    the words before this one
        backward    this word and those after it      past      the words after this one
    """
    size = first.shape[1] // 2
    left, right = first.clone(), first.clone()
    left[:, size:] = 0.0
    right[:, :size] = 0.0
    return {
        "forward": left,
        "backward": right,
        "future": shifted(left, layout, 1),
        "past": shifted(right, layout, -1),
    }
