"""`load(…).generate(…)`: texts in, texts out, for language models and translators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers

import bertworks
from bertworks import hub
from bertworks.errors import ModelError, UsageError
from bertworks.hub.families import FAMILIES
from bertworks.infer.decode import Beam, Greedy, Sample
from bertworks.infer.generate import Generation, choose_strategy
from bertworks.infer.translator import LoadedTranslator
from bertworks.models.config import EmbeddingConfig, LayerConfig, ModelConfig, PositionConfig, TransformerConfig
from bertworks.models.model import Model
from bertworks.text.tokenizer import Tokenizer
from tests.infer.seq2seq_reference import make_translator
from tests.text import tiny
from tests.text.spm import write_sides
from tests.text.test_sentencepiece import ENGLISH, GERMAN

PROMPTS = ["The river", "Seventeen geese walked to the", "", "河边有一座旧"]


def write_language_model(directory: Path, *, head: bool = True) -> Path:
    """A tiny random GPT-2 with a byte-level tokenizer."""
    torch.manual_seed(0)
    tokenizer = Tokenizer(tiny.gpt2())
    body = TransformerConfig(
        embeddings=EmbeddingConfig(vocab_size=tokenizer.vocab_size, norm=False),
        positions=PositionConfig(max_position_embeddings=37),
        layer=LayerConfig(
            hidden_size=24,
            num_attention_heads=3,
            intermediate_size=40,
            pre_norm=True,
            norm_eps=1e-5,
            hidden_act="gelu_new",
        ),
        num_hidden_layers=2,
        causal=True,
        final_norm=True,
        initializer_range=0.4,
    )
    config = ModelConfig(family="gpt2", body=body)
    if head:
        config = ModelConfig(family="gpt2", body=body, heads=(FAMILIES["gpt2"].head(config, "lm"),))
    hub.save(Model(config).eval(), tokenizer, directory)
    return directory


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_language_model(tmp_path_factory.mktemp("gpt") / "model")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("marian") / "model"
    vocabulary = write_sides(directory, ENGLISH, GERMAN)
    size = len(vocabulary)
    reference = make_translator(
        "marian", ending=1.0, vocab_size=size, pad_token_id=size - 1, decoder_start_token_id=size - 1
    )
    reference.save_pretrained(directory)
    return directory


def same(some: list[Generation], others: list[Generation]) -> None:
    """The same texts; the last digits of a score depend on the shape of the matrix products."""
    assert [best.tokens for best in some] == [best.tokens for best in others]
    assert [best.text for best in some] == [best.text for best in others]
    assert [best.score for best in some] == pytest.approx([best.score for best in others], rel=1e-5)


def test_continuations(language_model: Path) -> None:
    loaded = bertworks.load(language_model)
    found = loaded.generate(PROMPTS, max_tokens=9)
    reference = transformers.GPT2LMHeadModel.from_pretrained(language_model).eval()
    for prompt, (best,) in zip(PROMPTS, found, strict=True):
        ids = loaded.writer.encode([prompt])[0]
        rows = torch.from_numpy(ids)[None]
        expected = reference.generate(rows, attention_mask=torch.ones_like(rows), max_new_tokens=9, do_sample=False)
        new = expected[0, len(ids) :].tolist()
        assert loaded.tokenizer.tokens(new[: len(best.tokens)]) == list(best.tokens)
        assert best.text == loaded.tokenizer.decode(new)
        same(loaded.generate(prompt, max_tokens=9), [best])


def test_strategies(language_model: Path) -> None:
    loaded = bertworks.load(language_model)
    beams = loaded.generate("The mill", beam=4, num=3, max_tokens=6)
    assert [best.score for best in beams] == sorted((best.score for best in beams), reverse=True)
    assert beams[0].score >= loaded.generate("The mill", max_tokens=6)[0].log_probability / 6
    drawn = loaded.generate(["The mill", "The mill"], top_p=0.9, temperature=1.5, num=2, seed=3, max_tokens=6)
    texts = [best.text for some in drawn for best in some]
    assert len(set(texts)) == 4  # by place and copy
    again = loaded.generate(["The mill"], top_p=0.9, temperature=1.5, seed=3, max_tokens=6)
    assert again[0][0].text == texts[0]


def test_text_comes_in_pieces(language_model: Path) -> None:
    loaded = bertworks.load(language_model)
    for options in ({}, {"top_k": 200, "seed": 5}, {"beam": 3}):
        pieces: list[str] = []
        (best,) = loaded.generate("Walking", max_tokens=20, on_text=pieces.append, **options)
        assert "".join(pieces) == best.text
    with pytest.raises(UsageError, match="one text at a time"):
        loaded.generate(["a", "b"], on_text=pieces.append)


def test_translations(translator: Path, tmp_path: Path) -> None:
    loaded = bertworks.load(translator)
    assert isinstance(loaded, LoadedTranslator)
    reference = transformers.MarianMTModel.from_pretrained(translator).eval()
    found = loaded.generate(ENGLISH[:3], beam=3, max_tokens=12)
    for text, (best,) in zip(ENGLISH, found, strict=False):
        source = torch.tensor([loaded.translation.source.encode(text).ids.tolist()])
        ids = reference.generate(source, num_beams=3, max_new_tokens=12)[0, 1:].tolist()
        assert best.text == loaded.translation.target.decode([token for token in ids if token != 0])
    same(loaded.generate(ENGLISH[0], beam=3, max_tokens=12), found[0])
    covered = loaded.generate(ENGLISH[0], beam=3, coverage_penalty=0.5, max_tokens=12)[0]
    assert covered.score < covered.log_probability / (len(covered.tokens) + covered.finished)
    with pytest.raises(ModelError, match="this model reads one text and writes another"):
        loaded.embed("a")
    loaded.save(tmp_path / "copy")
    assert bertworks.load(tmp_path / "copy").generate(ENGLISH[:3], beam=3, max_tokens=12) == found
    assert (tmp_path / "copy" / "target.spm").exists()


def test_a_translator_generates_what_it_translates(translator: Path) -> None:
    loaded = bertworks.load(translator)
    assert isinstance(loaded, LoadedTranslator)
    long = " ".join(ENGLISH[:3] * 40)
    texts = ["", ENGLISH[0], long, "\n"]
    assert [found[0] for found in loaded.generate(texts, beam=2)] == loaded.translate(texts, Beam(width=2))
    drawn = loaded.generate(texts, top_k=5, num=2, max_tokens=4)
    assert [[each.num_parts for each in found] for found in drawn] == [
        [0, 0],
        [1, 1],
        [drawn[2][0].num_parts] * 2,
        [0, 0],
    ]
    assert drawn[2][0].num_parts > 1
    for text in texts:
        pieces: list[str] = []
        (best,) = loaded.generate(text, max_tokens=6, on_text=pieces.append)
        assert "".join(pieces) == best.text
    with pytest.raises(UsageError, match="max_new_tokens is 0"):
        loaded.generate(ENGLISH[0], max_tokens=0)


def test_a_loaded_translator_is_laid_out_for_steps(translator: Path) -> None:
    loaded = bertworks.load(translator)
    assert isinstance(loaded, LoadedTranslator)
    loaded.translate(ENGLISH[:1], Greedy())
    laid = [
        not each.weight.is_contiguous() for each in loaded.module.decoder.modules() if isinstance(each, torch.nn.Linear)
    ]  # type: ignore[union-attr]
    assert any(laid)


def test_options_that_contradict() -> None:
    assert choose_strategy() == Greedy()
    assert choose_strategy(beam=3, num=2, length_penalty=0.5) == Beam(width=3, num=2, length_penalty=0.5)
    assert choose_strategy(top_k=3, seed=1) == Sample(top_k=3, seed=1)
    for options, message in (
        ({"beam": 2, "top_k": 3}, "beam and top_k do not go together"),
        ({"num": 2}, "only one most probable text"),
        ({"length_penalty": 0.5}, "length_penalty is for beam search"),
        ({"temperature": 0.0}, "it must be above 0"),
        ({"beam": 0}, "width is 0"),
    ):
        with pytest.raises(UsageError, match=message):
            choose_strategy(**options)


def test_what_cannot_write_says_so(language_model: Path, minilm_directory: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no language-model head \(its heads: none\)"):
        bertworks.load(write_language_model(tmp_path / "bare", head=False)).generate("a")
    with pytest.raises(ModelError, match="no language-model head"):
        bertworks.load(minilm_directory).generate("a")
    loaded = bertworks.load(language_model)
    long = "geese " * 40
    with pytest.raises(UsageError, match="tokens and this model 37 positions, which leaves none"):
        loaded.generate(long)
    with pytest.raises(UsageError, match=r"^text 2: the prompt has"):
        loaded.generate(["short", long])
    with pytest.raises(UsageError, match="wider than the vocabulary"):
        loaded.generate("a", beam=100_000)
    with pytest.raises(UsageError, match="max_new_tokens is 0"):
        loaded.generate("a", max_tokens=0)
    assert len(loaded.generate("The", max_tokens=500)[0].tokens) <= 37
    # One prompt has room for a few tokens only, its neighbours for many: it leaves when its places are used up.
    many = ["The geese " * 5, *["Walking"] * 20]
    found = loaded.generate(many, max_tokens=30)
    same(found[0], loaded.generate(many[0], max_tokens=30))
    same(found[1], loaded.generate(many[1], max_tokens=30))


def test_end_of_text_is_read_from_the_configuration(language_model: Path, tmp_path: Path) -> None:
    loaded = bertworks.load(language_model)
    first = loaded.generate("The river", max_tokens=5)[0].tokens[1]
    number = loaded.tokenizer.id(first)
    for name in language_model.iterdir():
        (tmp_path / name.name).write_bytes(name.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"eos_token_id": number}))
    (best,) = bertworks.load(tmp_path).generate("The river", max_tokens=5)
    assert best.finished
    assert first not in best.tokens
