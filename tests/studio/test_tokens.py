"""Tokens with ids and offsets as the tokenizers give them, and steps that end where the tokenizer does."""

from __future__ import annotations

import pytest

from bertworks.errors import UsageError
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.translator import LoadedTranslator
from bertworks.studio.merges import Tables, bpe_steps, read_tables, wordpiece_steps
from bertworks.studio.tokens import MAX_SHOWN, steps_answer, tokens_answer
from bertworks.text.tokenizer import Tokenizer
from tests.studio.conftest import ANIMAL
from tests.text import tiny

TEXTS = ["The river is wider than", "naïve Zoë's cafés", "Unbelievable 3.14 tokens!", "a  b", "東京 tower"]
BPE = Tables("BPE", frozenset(), {("l", "o"): 0, ("lo", "w"): 1, ("e", "r"): 2, ("low", "er"): 3})
WORDPIECE = Tables(
    "WordPiece", frozenset(["un", "##aff", "##able", "##a", "u"]), prefix="##", unknown="[UNK]", longest_word=20
)


def test_bpe_by_hand() -> None:
    steps = bpe_steps(BPE, "lower")
    assert [step.pieces for step in steps] == [
        ["l", "o", "w", "e", "r"],
        ["lo", "w", "e", "r"],
        ["low", "e", "r"],
        ["low", "er"],
        ["lower"],
    ]
    assert [step.new for step in steps] == [None, 0, 0, 1, 0]
    assert steps[1].note == "l + o → lo: merge 1 of 4"


def test_wordpiece_by_hand() -> None:
    steps = wordpiece_steps(WORDPIECE, "unaffable")
    assert [(step.pieces, step.rest) for step in steps] == [
        ([], "unaffable"),
        (["un"], "affable"),
        (["un", "##aff"], "able"),
        (["un", "##aff", "##able"], ""),
    ]
    assert steps[1].note == "un is the longest known beginning; 7 longer ones are not in the vocabulary"
    assert wordpiece_steps(WORDPIECE, "unb")[-1].pieces == ["[UNK]"]
    assert wordpiece_steps(WORDPIECE, "u" * 21)[-1].pieces == ["[UNK]"]


def test_tokens_are_the_tokenizer_s(minilm: LoadedModel, gpt: LoadedModel) -> None:
    answer = tokens_answer({"minilm": minilm.tokenizer, "gpt": gpt.tokenizer}, ANIMAL)
    first, second = answer["tokenizers"]
    encoding = minilm.tokenizer.encode(ANIMAL)
    assert [token["id"] for token in first["tokens"]] == encoding.ids.tolist()
    assert [[token["start"], token["end"]] for token in first["tokens"]] == encoding.offsets.tolist()
    assert (first["count"], first["kind"], second["kind"]) == (15, "WordPiece", "BPE")
    assert first["tokens"][0]["special"]
    assert first["tokens"][2]["word"] == [4, 10]


def test_a_long_text_is_counted_whole(minilm: LoadedModel) -> None:
    (answer,) = tokens_answer({"minilm": minilm.tokenizer}, "a " * 50_000)["tokenizers"]
    assert answer["count"] == 50_002
    assert len(answer["tokens"]) == MAX_SHOWN
    with pytest.raises(UsageError, match="100,001 characters"):
        tokens_answer({"minilm": minilm.tokenizer}, "a" * 100_001)
    with pytest.raises(UsageError, match="is empty"):
        tokens_answer({}, " ")


@pytest.mark.parametrize("name", ["bert", "gpt2", "roberta", "openai_gpt"])
@pytest.mark.parametrize("text", TEXTS)
def test_steps_end_in_the_tokenizer_s_pieces(name: str, text: str) -> None:
    tokenizer = Tokenizer(getattr(tiny, name)())
    tables = read_tables(tokenizer)
    (answer,) = tokens_answer({name: tokenizer}, text)["tokenizers"]
    words = {tuple(token["word"]) for token in answer["tokens"] if token["start"] < token["end"]}
    played = 0
    for start, end in words:
        found = steps_answer(tokenizer, lambda: tables, text, start, end)
        played += bool(found["steps"])
        if found["steps"]:
            pieces = [t["token"] for t in answer["tokens"] if t["word"] == [start, end]]
            assert found["steps"][-1]["pieces"] == pieces
    assert played >= len(words) / 2


def test_words_of_every_kind(minilm: LoadedModel, translator: LoadedTranslator) -> None:
    tables = read_tables(minilm.tokenizer)
    found = steps_answer(minilm.tokenizer, lambda: tables, "Tokenization rocks", 0, 12)
    assert found["steps"][-1]["pieces"] == ["token", "##ization"]
    unigram = Tokenizer(tiny.unigram())
    assert "all pieces at once" in steps_answer(unigram, lambda: read_tables(unigram), "The river", 0, 3)["note"]
    special = steps_answer(minilm.tokenizer, lambda: tables, "a [MASK] b", 2, 8)
    assert special["steps"] == []
    assert "added token" in special["note"]
    with pytest.raises(UsageError, match="does not lie in the text"):
        steps_answer(minilm.tokenizer, lambda: tables, "abc", 2, 9)
    source = translator.translation.source
    text = "the girl sings"
    (answer,) = tokens_answer({"t": source}, text)["tokenizers"]
    start, end = answer["tokens"][-2]["word"]
    assert text[start:end] == "sings"
    assert steps_answer(source, lambda: read_tables(source), text, start, end)["steps"]
