"""Translating texts: what comes in goes out, in order, whatever shares a batch; and where the decoder looked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bertworks.errors import ModelError, UsageError
from bertworks.infer.decode import Beam, Greedy, Sample, Strategy
from bertworks.infer.translate import Translator
from bertworks.infer.translate_parts import cut
from bertworks.nn.packed import Packed
from tests.translate.small import MAX_LENGTH, make_rnn, make_text, make_tokenizer, make_transformer

TEXT = make_text(60)
TOKENIZER = make_tokenizer()
MODELS = {
    "transformer": make_transformer,
    "bahdanau": lambda tokenizer: make_rnn(tokenizer, attention="bahdanau"),
    "luong": lambda tokenizer: make_rnn(tokenizer, attention="luong", cell="lstm"),
}
STRATEGIES = [Greedy(), Beam(width=4), Beam(width=3, coverage_penalty=0.2), Sample(top_k=5, seed=3)]


def translator(kind: str) -> Translator:
    return Translator(MODELS[kind](TOKENIZER), TOKENIZER)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: type(each).__name__)
def test_a_text_does_not_depend_on_its_batch(kind: str, strategy: Strategy) -> None:
    subject = translator(kind)
    texts = list(TEXT.sources[:12])
    together = subject.translate(texts, strategy)
    for number in (0, 5, 11):
        alone = subject.translate([texts[number]], strategy, first=number)[0]
        assert alone.text == together[number].text
        assert alone.score == pytest.approx(together[number].score, abs=1e-4)


@pytest.mark.parametrize("kind", MODELS)
def test_greedy_is_the_most_probable_token_each_time(kind: str) -> None:
    subject = translator(kind)
    model, target = subject.model, subject.model.config.target
    source = TOKENIZER.encode(TEXT.sources[4]).ids.astype(np.int64)
    written = [target.start]
    with torch.no_grad():
        memory = model.encode(Packed.from_sequences([source]))
        for _ in range(2 * len(source) + 10):
            hidden = model.decode(Packed.from_sequences([written]), memory).last  # type: ignore[arg-type]
            logits = model.project(hidden[-1:])[0]
            logits[list(target.forbidden)] = -torch.inf
            written.append(int(logits.argmax()))
            if written[-1] in target.end:
                break
    assert subject.translate([TEXT.sources[4]], Greedy())[0].text == TOKENIZER.decode(written).strip()


def test_texts_that_cannot_be_aligned_in_one_piece_are_told() -> None:
    for positions in ("learned", "sinusoidal"):
        subject = Translator(make_transformer(TOKENIZER, positions=positions), TOKENIZER)
        assert subject.fits(TEXT.sources[0], TEXT.targets[0])
        for source, target in ((" ".join(["dog"] * 60), "Hund"), ("dog", " ".join(["Hund"] * 60))):
            with pytest.raises(UsageError, match="longer than the model reads or writes at once"):
                subject.align(source, target)


def test_a_recurrent_model_reads_as_much_as_it_was_trained_on() -> None:
    tokenizer = make_tokenizer()
    tokenizer.config["model_max_length"] = 700
    assert Translator(make_rnn(tokenizer), tokenizer).window == 700
    assert MAX_LENGTH <= Translator(make_transformer(tokenizer), tokenizer).window < 100


def test_empty_texts_stay_empty_and_long_ones_come_in_parts() -> None:
    subject = translator("transformer")
    sentence = "The dog sees the cat."
    long = " ".join([sentence] * 6)
    found = subject.translate(["", "  ", sentence, long, "dog " * 60])
    assert [each.num_parts for each in found][:3] == [0, 0, 1]
    assert found[0].text == found[1].text == ""
    assert found[3].num_parts > 1
    assert found[4].num_parts > 1
    assert subject.translate([]) == []
    parts, words = parts_of([long, "dog " * 60])
    assert " ".join(parts) == long
    assert all(part.endswith(".") for part in parts)  # whole sentences
    assert set(" ".join(words).split()) == {"dog"}


def parts_of(texts: list[str], room: int = MAX_LENGTH - 2) -> list[list[str]]:
    found = [
        [text[part.start : part.end] for part in parts]
        for text, parts in zip(texts, cut(texts, TOKENIZER, room), strict=True)
    ]
    assert all(len(TOKENIZER.encode(part, special=False)) <= room for parts in found for part in parts)
    return found


def test_what_has_no_spaces_is_cut_between_tokens() -> None:
    """A long address, and a language without spaces: no part is too long, and nothing is lost."""
    address = "https://example.org/" + "thedogseesthecat/" * 20
    chinese = "狗看见猫" * 60
    for text in (address, chinese, f"The dog sees {address} today.", "狗看见猫。" * 60):
        (parts,) = parts_of([text])
        assert len(parts) > 1
        assert "".join("".join(parts).split()) == "".join(text.split())
    (pieces,) = cut([f"dog {address}"], TOKENIZER, MAX_LENGTH - 2)
    assert not pieces[0].inside
    assert all(piece.inside for piece in pieces[1:] if piece.start > len("dog "))
    subject = Translator(make_transformer(TOKENIZER, positions="learned"), TOKENIZER)
    found = subject.translate([address, chinese], Greedy())
    assert all(each.num_parts > 1 for each in found)
    alone = [subject.translate([part], Greedy())[0].text for part in parts_of([address])[0]]
    assert found[0].text == "".join(alone)  # no spaces inside of a word


def test_a_text_without_tokens_stays_empty() -> None:
    assert TOKENIZER.ids(["\x00\x01"])[1][0] == 0
    found = translator("transformer").translate(["\x00\x01", "The dog sees the cat."])
    assert (found[0].text, found[0].num_parts, found[0].finished) == ("", 0, True)
    assert found[1].num_parts == 1


def test_drawn_translations_depend_on_no_neighbour() -> None:
    subject, drawing = translator("transformer"), Sample(temperature=1.5, seed=3)
    sentence = "The dog sees the cat."
    plain = subject.translate([sentence] * 4, drawing)
    assert len({each.text for each in plain}) > 1
    mixed = subject.translate(["", " ".join([sentence] * 6), sentence, sentence], drawing)
    assert [each.text for each in mixed[2:]] == [each.text for each in plain[2:]]
    long = " ".join([sentence] * 6)
    assert subject.translate([long], drawing, first=1)[0].text == mixed[1].text


def test_unknown_characters_do_no_harm() -> None:
    assert len(translator("bahdanau").translate(["狗 🐶 ☃ \ud800", "The dog sees the cat."])) == 2


def test_a_beam_wider_than_the_vocabulary_is_refused() -> None:
    with pytest.raises(UsageError, match="wider than the vocabulary"):
        translator("bahdanau").translate(["The dog."], Beam(width=1000))


@pytest.mark.parametrize("kind", MODELS)
def test_alignment(kind: str) -> None:
    subject = translator(kind)
    found = subject.align("Today the girl often sings.", "Heute singt das Mädchen oft.")
    assert found.source == ("<s>", "Today", "the", "girl", "often", "sings", ".", "</s>")
    assert found.target == ("Heute", "singt", "das", "Mädchen", "oft", ".", "</s>")
    layers, heads = (2, 3) if kind == "transformer" else (1, 1)
    assert found.weights.shape == (layers, heads, 7, 8)
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(found.picture, found.weights[0].mean(axis=0))


def test_other_models_are_refused() -> None:
    with pytest.raises(ModelError, match="does not translate"):
        Translator(torch.nn.Linear(2, 2), TOKENIZER)
