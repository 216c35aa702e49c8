"""The parts of a translation run, made from its settings: pairs, tokenizer, model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from bertworks.data.pairs import PairSource, frame_ids
from bertworks.data.parallel import ParallelText, read_parallel, split_pairs
from bertworks.errors import UsageError
from bertworks.infer.translate import longest_target
from bertworks.models.config import EmbeddingConfig, LayerConfig, PositionConfig, TransformerConfig
from bertworks.models.rnn_seq2seq import RnnEncoderDecoder, RnnSeq2SeqConfig
from bertworks.models.seq2seq import EncoderDecoder, EncoderDecoderConfig, TargetIds
from bertworks.nn.attention import MultiHeadAttention
from bertworks.nn.blocks import FeedForward
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.train import TrainerOptions, train_tokenizer
from bertworks.translate.config import DataSection, ModelSection, Positions, RunSection

FIRST_SHARE = 0.2
"""Of what a block's parts would add to the residual stream with the initialisation of the other matrices: measured on Multi30k,
where 300 steps came to a perplexity of 56 on the development pairs instead of 114."""

MARIAN = "marian"
OWN = "bertworks"

# Where each kind of position acts; Marian has all sines before all cosines.
POSITIONS: dict[Positions, dict[str, object]] = {
    "sinusoidal": {"absolute": "sinusoidal", "halves": True},
    "learned": {"absolute": "learned"},
    "relative": {"absolute": "none", "relative": "buckets"},
    "rotary": {"absolute": "none", "relative": "rotary"},
}


@dataclass(frozen=True, kw_only=True)
class RunData:
    """The pairs of a run."""

    train: ParallelText
    dev: ParallelText
    test: ParallelText | None
    understood: tuple[str, ...]
    """What was read, in sentences."""

    @property
    def sha256(self) -> str:
        parts = [self.train.sha256, self.dev.sha256, "" if self.test is None else self.test.sha256]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def read_data(run: RunSection, section: DataSection) -> RunData:
    """Read all files; without development pairs, some of the training pairs are kept for that."""

    def read(paths: Sequence[str]) -> ParallelText:
        columns = (section.columns[0], section.columns[1]) if section.columns and len(paths) == 1 else None
        return read_parallel(paths, columns=columns, encoding=section.encoding)

    parts = [paths for paths in (run.train, run.dev, run.test) if paths]
    if section.columns and all(len(paths) > 1 for paths in parts):
        raise UsageError(
            "--columns are those of one file with both languages; here each language has a file of its own"
        )
    whole = read(run.train)
    train, dev = (whole, read(run.dev)) if run.dev else split_pairs(whole, section.dev_fraction, run.seed)
    test = read(run.test) if run.test else None
    understood = [
        _told("training", train, len(train)),
        _told("development", dev, len(dev)) if run.dev else f"development: {len(dev):,} pairs of the training file",
        *([_told("test", test, len(test))] if test is not None else []),
    ]
    return RunData(train=train, dev=dev, test=test, understood=tuple(understood))


def _told(what: str, text: ParallelText, count: int) -> str:
    names = " and ".join(Path(name).name for name in text.name.split(" and "))
    said = f"{what}: {count:,} pairs from {names}" + (f", {text.layout}" if text.layout else "")
    if text.empty:
        lines = "a line" if text.empty == 1 else f"{text.empty:,} lines"
        said += f"; {lines} with an empty side left out (the first is line {text.first_empty:,})"
    return said


def new_tokenizer(train: ParallelText, section: DataSection) -> Tokenizer:
    """One vocabulary for both languages, learnt from both together (Sennrich et al. 2016, "joint BPE")."""
    options = TrainerOptions.of(
        section.algorithm,
        vocab_size=section.vocab_size,
        family="roberta",
        lowercase=section.lowercase,
        **({"strip_accents": False, "split_cjk": False} if section.algorithm == "bpe" else {"add_prefix_space": True}),
    )

    def both() -> Iterator[str]:
        yield from train.sources
        yield from train.targets

    tokenizer = train_tokenizer(both(), options)
    tokenizer.config["model_max_length"] = section.max_length
    return tokenizer


def new_model(section: ModelSection, tokenizer: Tokenizer, *, max_length: int) -> nn.Module:
    """A model with new weights from torch's random numbers."""
    start, end = frame_ids(tokenizer)
    pad = tokenizer.pad_id or 0
    forbidden = tuple(sorted({start, pad, *([] if tokenizer.mask_id is None else [tokenizer.mask_id])} - {end}))
    target = TargetIds(start=start, end=(end,), forbidden=forbidden)
    if section.kind == "rnn":
        return RnnEncoderDecoder(
            RnnSeq2SeqConfig(
                vocab_size=tokenizer.vocab_size,
                embedding_size=section.embedding_size,
                hidden_size=section.hidden_size,
                num_encoder_layers=section.num_layers,
                num_decoder_layers=section.num_layers,
                cell=section.cell,
                attention=section.attention,
                dropout_prob=section.dropout,
                target=target,
            )
        )
    model = EncoderDecoder(transformer_config(section, tokenizer.vocab_size, target, pad, max_length))
    start_near_identity(model)
    return model


def start_near_identity(model: EncoderDecoder) -> None:
    """Let attention and feed-forward networks add little at first, so that gradients reach the token vectors.

    With norms after each part, what lies below is weakened by every one of them, and the decoder is long no more than a
    language model before it looks at the source (Liu et al. 2020, arXiv 2004.08249).
    """
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.out.weight.data.mul_(FIRST_SHARE)
        elif isinstance(part, FeedForward):
            part.down.weight.data.mul_(FIRST_SHARE)


def transformer_config(
    section: ModelSection, vocab_size: int, target: TargetIds, pad: int, max_length: int
) -> EncoderDecoderConfig:
    """Vaswani et al. 2017, figure 1, with the positions that are asked for."""

    places = 1 + longest_target(max_length)  # the start token takes one

    def stack(*, decoder: bool) -> TransformerConfig:
        return TransformerConfig(
            embeddings=EmbeddingConfig(vocab_size=vocab_size, norm=False, scale=True),
            positions=PositionConfig(max_position_embeddings=places, **POSITIONS[section.positions]),  # type: ignore[arg-type]
            layer=LayerConfig(
                hidden_size=section.hidden_size,
                num_attention_heads=section.num_attention_heads,
                intermediate_size=section.intermediate_size,
                hidden_act="relu",
                pre_norm=section.pre_norm,
                norm_eps=1e-5,
                hidden_dropout_prob=section.dropout,
                attention_dropout_prob=section.attention_dropout,
            ),
            num_hidden_layers=section.num_layers,
            causal=decoder,
            cross_attention=decoder,
            final_norm=section.pre_norm,
            # Token vectors that are scaled by the root of the width begin at length 1 a number, and so do the logits.
            initializer_range=section.hidden_size**-0.5,
        )

    is_marian = section.positions == "sinusoidal" and not section.pre_norm
    return EncoderDecoderConfig(
        family=MARIAN if is_marian else OWN,
        encoder=stack(decoder=False),
        decoder=stack(decoder=True),
        shared_embeddings=True,
        output_bias=True,
        target=target,
        pad_token_id=pad,
    )


def describe(section: ModelSection) -> str:
    """`Transformer, 3 + 3 layers of width 256, sinusoidal positions`"""
    layers = f"{section.num_layers} + {section.num_layers} layer{'s' if section.num_layers > 1 else ''}"
    if section.kind == "rnn":
        attention = section.attention.capitalize()
        return f"{section.cell.upper()} with {attention}'s attention, {layers} of width {section.hidden_size}"
    return f"Transformer, {layers} of width {section.hidden_size}, {section.positions} positions"


def pair_sources(data: RunData, tokenizer: Tokenizer, section: DataSection) -> tuple[PairSource, PairSource]:
    """The pairs to train on and to judge by, as ids."""
    return (
        PairSource(data.train, tokenizer, max_length=section.max_length),
        PairSource(data.dev, tokenizer, max_length=section.max_length),
    )
