"""From learnt pieces to a tokenizer, whose files `tokenizers`, `transformers` and Bertworks read alike.

It carries the normaliser and the pre-tokenizer that the words were counted with, the template of its family around a
sequence or a pair, and the decoder that undoes the markers.
"""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, decoders, models, processors
from tokenizers import Tokenizer as Backend

from bertworks.text.tokenizer import Tokenizer
from bertworks.text.train.bpe import Learnt
from bertworks.text.train.options import TrainerOptions
from bertworks.text.train.pipeline import METASPACE, build_normalizer, build_pre_tokenizer
from bertworks.text.train.wordpiece import CONTINUING_PREFIX, MAX_WORD_LENGTH

# How a sequence and a pair are framed; `:1` is the second segment. GPT-2 adds nothing.
TEMPLATES: dict[str, tuple[str, str]] = {
    "bert": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
    "roberta": ("<s> $A </s>", "<s> $A </s> </s> $B </s>"),
    "elmo": ("<S> $A </S>", "<S> $A </S> <S> $B </S>"),
}


def build_tokenizer(learnt: Learnt, options: TrainerOptions) -> Tokenizer:
    """The tokenizer that spells words with the learnt pieces."""
    inputs = (
        ["input_ids", "token_type_ids", "attention_mask"]
        if options.family == "bert"
        else ["input_ids", "attention_mask"]
    )
    config = {**options.roles, "model_input_names": inputs, "clean_up_tokenization_spaces": False}
    return Tokenizer(build_backend(learnt, options), config=config)


def build_backend(learnt: Learnt, options: TrainerOptions) -> Backend:
    """The same as an object of the library `tokenizers`."""
    unknown = options.roles["unk_token"]
    if options.algorithm == "wordpiece":
        model: Any = models.WordPiece(
            learnt.vocab,
            unk_token=unknown,
            continuing_subword_prefix=CONTINUING_PREFIX,
            max_input_chars_per_word=MAX_WORD_LENGTH,
        )
    elif options.algorithm == "word":
        model = models.WordLevel(learnt.vocab, unk_token=unknown)
    elif options.algorithm in ("bpe", "character"):  # characters are pieces of which none were merged
        model = models.BPE(learnt.vocab, learnt.merges, unk_token=unknown)
    else:
        model = models.BPE(learnt.vocab, learnt.merges)  # every byte is known
    backend = Backend(model)
    normalizer = build_normalizer(options)
    if normalizer is not None:
        backend.normalizer = normalizer
    if options.algorithm != "character":  # to which spaces are tokens, too
        backend.pre_tokenizer = build_pre_tokenizer(options)
    post_processor = _post_processor(learnt, options)
    if post_processor is not None:
        backend.post_processor = post_processor
    backend.decoder = {
        "wordpiece": lambda: decoders.WordPiece(prefix=CONTINUING_PREFIX),
        "bpe": lambda: decoders.Metaspace(replacement=METASPACE, prepend_scheme="always"),
        "byte-bpe": decoders.ByteLevel,
        "word": lambda: decoders.WordPiece(cleanup=True),  # spaces between words, none before a comma
        "character": decoders.Fuse,
    }[options.algorithm]()
    mask = options.roles.get("mask_token")
    # RoBERTa's words carry the space before them, so its mask takes that space in.
    takes_space = options.algorithm == "byte-bpe"
    backend.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False, lstrip=takes_space and token == mask)
            for token in options.special_tokens
        ]
    )
    return backend


def _post_processor(learnt: Learnt, options: TrainerOptions) -> Any:
    byte_level = options.algorithm == "byte-bpe"
    if options.family == "gpt2":
        return processors.ByteLevel(trim_offsets=False)
    roles = options.roles
    sep, cls = ((roles[role], learnt.vocab[roles[role]]) for role in ("sep_token", "cls_token"))
    if options.family == "roberta" and byte_level:
        return processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=options.add_prefix_space)
    single, pair = TEMPLATES[options.family]
    template = processors.TemplateProcessing(single=single, pair=pair, special_tokens=[cls, sep])
    return processors.Sequence([processors.ByteLevel(trim_offsets=True), template]) if byte_level else template
