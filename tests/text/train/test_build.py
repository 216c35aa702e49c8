"""The finished tokenizer: the same in `tokenizers` and `transformers`, deterministic on disk, with the family's
frame.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend

from bertworks.errors import DataError, TokenizerError, UsageError
from bertworks.text import Tokenizer
from bertworks.text.train import TrainerOptions, train_tokenizer
from bertworks.text.train.symbols import rare_characters

TEXTS = [
    "The trainer counts words, and then it learns which pieces the words are made of.",
    "Pieces that meet often are merged; pieces that seldom do without each other are merged too!",
    "Ein Ångström ist klein, der Flügel größer; 训练 文本 中文。",
    "Don't stop: the words' counts fall, the scores rise, and the tournament is played again.",
]
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("wordpiece", {}),
    ("wordpiece", {"family": "roberta", "lowercase": False, "strip_accents": False, "form": "nfc"}),
    ("bpe", {}),
    ("bpe", {"split_punctuation": False, "strip_accents": False}),
    ("byte-bpe", {}),
    ("byte-bpe", {"family": "gpt2"}),
    ("byte-bpe", {"family": "bert", "add_prefix_space": True, "form": "nfkc"}),
]


@pytest.mark.parametrize(("algorithm", "changes"), KINDS)
def test_saved_files_load_everywhere(algorithm: str, changes: dict[str, Any], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    options = TrainerOptions.of(algorithm, vocab_size=400, min_frequency=1, **changes)
    tokenizer = train_tokenizer(TEXTS, options)
    tokenizer.save(tmp_path)
    vocabulary = {"vocab.txt"} if algorithm == "wordpiece" else {"vocab.json", "merges.txt"}
    files = {path.name for path in tmp_path.iterdir()}
    assert files == vocabulary | {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}
    backend = Backend.from_file(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.from_directory(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    mask = options.roles.get("mask_token", "")
    for text in [*TEXTS, "", " two  spaces\n", "unseen Ж sign", f"a {mask} b"]:
        ids = tokenizer.encode(text).ids.tolist()
        assert backend.encode(text).ids == ids
        assert ours.encode(text).ids.tolist() == ids
        assert theirs(text)["input_ids"] == ids
    pair = backend.encode(TEXTS[0], TEXTS[1])
    assert theirs(TEXTS[0], TEXTS[1])["input_ids"] == pair.ids == ours.encode(TEXTS[0], TEXTS[1]).ids.tolist()
    assert theirs(TEXTS[0], TEXTS[1]).get("token_type_ids", pair.type_ids) == pair.type_ids
    assert {role: getattr(theirs, role) for role in options.roles} == options.roles
    assert [tokenizer.id(token) for token in options.special_tokens] == list(range(len(options.special_tokens)))


@pytest.mark.parametrize(
    ("algorithm", "family", "tokens"),
    [
        ("wordpiece", "bert", ["[CLS]", "a", "[SEP]", "b", "[SEP]"]),
        ("bpe", "bert", ["[CLS]", "▁a", "[SEP]", "▁b", "[SEP]"]),
        ("wordpiece", "roberta", ["<s>", "a", "</s>", "</s>", "b", "</s>"]),
        ("byte-bpe", "roberta", ["<s>", "a", "</s>", "</s>", "b", "</s>"]),
        ("byte-bpe", "gpt2", ["a", "b"]),
    ],
)
def test_template(algorithm: str, family: str, tokens: list[str]) -> None:
    tokenizer = train_tokenizer(["a b a b"], TrainerOptions.of(algorithm, vocab_size=300, family=family))
    encoding = tokenizer.backend.encode("a", "b")
    assert encoding.tokens == tokens
    if family == "bert":
        assert encoding.type_ids == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("algorithm", ["bpe", "byte-bpe"])
def test_decoding_restores_the_text(algorithm: str) -> None:
    options = TrainerOptions.of(algorithm, vocab_size=400, lowercase=False, strip_accents=False, split_cjk=False)
    tokenizer = train_tokenizer(TEXTS, options)
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_wordpiece_decodes_to_lower_case_words() -> None:
    tokenizer = train_tokenizer(TEXTS, TrainerOptions.of("wordpiece", vocab_size=300))
    assert tokenizer.decode(tokenizer.encode("The trainer counts words").ids) == "the trainer counts words"


@pytest.mark.parametrize("algorithm", ["wordpiece", "bpe", "byte-bpe"])
def test_files_are_byte_identical_for_any_number_of_workers(algorithm: str, tmp_path: Path) -> None:
    options = TrainerOptions.of(algorithm, vocab_size=350, min_frequency=1)
    contents = []
    for name, workers in (("one", 1), ("again", 1), ("two", 2)):
        train_tokenizer(iter(TEXTS), options, workers=workers).save(tmp_path / name)
        contents.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert contents[0] == contents[1] == contents[2]


def test_bad_input() -> None:
    options = TrainerOptions.of("wordpiece", vocab_size=20)
    with pytest.raises(DataError, match="no words"):
        train_tokenizer([], options)
    with pytest.raises(DataError, match="no words"):
        train_tokenizer(["", " \n "], options)
    with pytest.raises(TokenizerError, match="20 is too small"):
        train_tokenizer(TEXTS, options)
    with pytest.raises(TokenizerError, match=r"256 bytes need 261; ask for more with --vocab-size$"):
        TrainerOptions.of("byte-bpe", vocab_size=260)


def test_a_vocabulary_that_is_not_filled_is_told(caplog: pytest.LogCaptureFixture) -> None:
    train_tokenizer(TEXTS, TrainerOptions.of("wordpiece", vocab_size=5000))
    train_tokenizer(TEXTS, TrainerOptions.of("wordpiece", vocab_size=5000, limit_alphabet=5))
    whole, limited = caplog.messages
    assert whole.startswith("the text is too small for 5000 tokens: after ")
    assert limited.startswith("an alphabet of 5 characters (--limit-alphabet) leaves too little of the text for 5000")


@pytest.mark.parametrize(
    ("algorithm", "changes", "message"),
    [
        ("wordpeice", {}, "did you mean 'wordpiece'"),
        ("bpe", {"vocabulary": 3}, "unknown trainer option 'vocabulary'"),
        ("bpe", {"form": "nfx"}, "Unicode normal form"),
        ("bpe", {"family": "gpt2"}, "needs the algorithm byte-bpe"),
        ("bpe", {"vocab_size": 0}, "vocab_size must be a whole number"),
        ("wordpiece", {"min_pair_count": -1}, "min_pair_count must be"),
    ],
)
def test_bad_options(algorithm: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TrainerOptions.of(algorithm, **changes)


def test_a_vocabulary_full_of_rare_characters_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Each of 300 Chinese characters once, beside much English: they would take 600 of 1,000 tokens."""
    odd = "".join(chr(0x4E00 + number) for number in range(300))
    texts = [*(f"the {word} is here" for word in ("cat", "dog", "house", "river") for _ in range(60_000)), odd]
    for algorithm, tokens, others in (("wordpiece", 600, 13), ("bpe", 300, 14)):
        caplog.clear()
        train_tokenizer(texts, TrainerOptions.of(algorithm, vocab_size=1000, split_cjk=False))
        told = next(message for message in caplog.messages if "characters" in message)
        assert f"{tokens} of 1,000 tokens" in told
        assert f"--limit-alphabet {others} keeps the others" in told
    caplog.clear()
    train_tokenizer(texts, TrainerOptions.of("wordpiece", vocab_size=1000, split_cjk=False, limit_alphabet=13))
    assert not [message for message in caplog.messages if "keeps the others" in message]


def test_rare_characters_by_hand() -> None:
    assert rare_characters({"aab": 10, "xy": 1}, 0.05) == (1, 3)  # x is 1 of 32, x and y are 2 of 32
    assert rare_characters({"aab": 10, "xy": 1}, 0.07) == (2, 2)
