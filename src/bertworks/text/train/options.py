"""What a user chooses when training a tokenizer, the defaults of each algorithm, the special tokens of each family."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from bertworks.errors import TokenizerError, UsageError, choice, did_you_mean

ALGORITHMS = ("wordpiece", "bpe", "byte-bpe", "word", "character")
FORMS = ("none", "nfc", "nfd", "nfkc", "nfkd")
NUM_BYTES = 256  # all of them are in the alphabet of byte-bpe

# Role (as in `special_tokens_map.json`) to token; ids follow the order in which the tokens are first named.
FAMILIES: dict[str, dict[str, str]] = {
    "bert": {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    },
    "roberta": {
        "cls_token": "<s>",
        "pad_token": "<pad>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "bos_token": "<s>",
        "eos_token": "</s>",
    },
    "elmo": {
        "bos_token": "<S>",
        "eos_token": "</S>",
        "unk_token": "<UNK>",
        "cls_token": "<S>",
        "sep_token": "</S>",
    },
    "gpt2": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
}

# Uncased BERT's cleaning for the two that work on characters; bytes are taken as they come, as GPT-2 and RoBERTa do.
DEFAULTS: dict[str, dict[str, Any]] = {
    "wordpiece": {"family": "bert", "lowercase": True, "strip_accents": True, "clean_text": True, "split_cjk": True},
    "bpe": {"family": "bert", "lowercase": True, "strip_accents": True, "clean_text": True, "split_cjk": True},
    "byte-bpe": {"family": "roberta"},
    # Words are spelt and characters are read as they are written.
    "word": {"family": "elmo", "clean_text": True},
    "character": {"family": "elmo"},
}


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """Everything that decides the result, given the text; `TrainerOptions.of` fills in the algorithm's defaults."""

    algorithm: str
    vocab_size: int = 30_000
    family: str = "bert"  # special tokens and the template around a sequence, see FAMILIES
    form: str = "none"  # Unicode normal form, applied first
    lowercase: bool = False
    strip_accents: bool = False  # å becomes a: not for languages in which these are letters of their own
    clean_text: bool = False  # control characters out, every kind of white space becomes a space
    split_cjk: bool = False  # each Chinese character is a word
    split_punctuation: bool = True  # each punctuation mark is a word; byte-bpe and character ignore this
    add_prefix_space: bool = False  # byte-bpe: treat the first word of a text like any other
    min_frequency: int = 2  # a pair must occur this often to be merged, a word or a character to be a token
    min_pair_count: int | None = None  # WordPiece: a fixed threshold instead of the falling one, see `wordpiece`
    limit_alphabet: int | None = None  # keep this many characters, the most frequent; byte-bpe keeps all 256
    max_token_length: int | None = None  # in characters (bytes in byte-bpe), without markers

    @classmethod
    def of(cls, algorithm: str, **changes: Any) -> TrainerOptions:
        """The algorithm's defaults with changes; an unknown name is an error."""
        choice(algorithm, ALGORITHMS, "algorithm")
        names = [field.name for field in fields(cls) if field.name != "algorithm"]
        for name in changes:
            if name not in names:
                raise UsageError(
                    f"unknown trainer option {name!r}{did_you_mean(name, names)}; allowed: {', '.join(names)}"
                )
        return cls(algorithm=algorithm, **{**DEFAULTS[algorithm], **changes})

    def __post_init__(self) -> None:
        choice(self.algorithm, ALGORITHMS, "algorithm")
        choice(self.family, FAMILIES, "family of special tokens")
        choice(self.form, FORMS, "Unicode normal form")
        if self.algorithm != "byte-bpe" and self.family == "gpt2":
            raise UsageError(
                "the family 'gpt2' has no token for unknown characters, so it needs the algorithm byte-bpe; "
                "choose 'bert' or 'roberta' instead"
            )
        for name in ("vocab_size", "min_frequency", "min_pair_count", "limit_alphabet", "max_token_length"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UsageError(f"{name} must be a whole number of at least 1, not {value!r}")
        if self.algorithm == "byte-bpe" and self.vocab_size < (needed := len(self.special_tokens) + NUM_BYTES):
            raise TokenizerError(
                f"a vocabulary of {self.vocab_size:,} is too small for byte-bpe: {len(self.special_tokens)} special "
                f"tokens and {NUM_BYTES} bytes need {needed}; ask for more with --vocab-size"
            )

    @property
    def roles(self) -> dict[str, str]:
        """Role to special token."""
        return FAMILIES[self.family]

    @property
    def special_tokens(self) -> list[str]:
        """In the order of their ids, from 0."""
        return list(dict.fromkeys(self.roles.values()))
