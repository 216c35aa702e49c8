"""Attention as data: the library's weights, packed for a picture, of every kind of model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from bertworks.errors import ModelError, UsageError
from bertworks.infer.loaded import LoadedModel
from bertworks.infer.translator import LoadedTranslator
from bertworks.studio.attend_page import LARGEST, attend_page, bundle
from bertworks.studio.attention_data import FINE, attention_picture, decode_weights, encode_weights
from tests.studio.conftest import ANIMAL


@given(st_numpy.arrays(np.float32, (2, 3, 4, 5), elements=st.floats(0, 1, width=32)), st.sampled_from([63, 255, FINE]))
def test_weights_come_back(weights: np.ndarray, levels: int) -> None:
    packed = decode_weights(encode_weights(weights, levels), levels, weights.shape)
    # Half a step of the root, as a step of the weight.
    assert np.all(np.abs(packed - weights) <= np.sqrt(weights) / levels + 0.3 / levels**2 + 1e-6)


def test_self_attention_is_the_library_s(minilm: LoadedModel) -> None:
    picture = attention_picture(minilm, ANIMAL)
    np.testing.assert_array_equal(picture.weights, minilm.attend(ANIMAL).weights)
    assert picture.kind == "self"
    assert picture.rows[:4] == ["[CLS]", "the", "animal", "didn"]
    answer = picture.as_json("minilm")
    assert (answer["layers"], answer["heads"], len(answer["rows"])) == (6, 12, 15)
    weights = decode_weights(answer["weights"], answer["levels"], picture.weights.shape)
    np.testing.assert_allclose(weights, picture.weights, atol=2e-5)


def test_a_pair_has_segments(minilm: LoadedModel) -> None:
    picture = attention_picture(minilm, "A cat sat.", "A dog slept.")
    assert picture.rows == ["[CLS]", "a", "cat", "sat", ".", "[SEP]", "a", "dog", "slept", ".", "[SEP]"]
    assert picture.row_segments == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert attention_picture(minilm, "A cat sat.", "  ").pair is None


def test_a_causal_model_looks_back(gpt: LoadedModel) -> None:
    picture = attention_picture(gpt, "The river is wide")
    assert picture.kind == "causal"
    assert "".join(picture.rows).replace("Ġ", "") == "Theriveriswide"  # texts, not bytes
    assert np.all(np.triu(picture.weights, 1) == 0)


def test_a_translator_aligns(translator: LoadedTranslator) -> None:
    source, target = "Today the girl often sings.", "Heute singt das Mädchen oft."
    picture = attention_picture(translator, source, target)
    assert (picture.kind, len(picture.rows), len(picture.columns)) == ("alignment", 7, 8)
    np.testing.assert_array_equal(picture.weights, translator.align(source, target).weights)
    own = attention_picture(translator, source)
    assert own.pair == translator.translate([source])[0].text


def test_what_cannot_be_drawn_says_why(minilm: LoadedModel, translator: LoadedTranslator) -> None:
    with pytest.raises(UsageError, match="the text is empty"):
        attention_picture(minilm, " \n")
    with pytest.raises(UsageError, match="100,000 characters"):
        attention_picture(minilm, "x" * 100_000)
    with pytest.raises(UsageError, match="602 tokens, this model takes 512"):
        attention_picture(minilm, "a " * 600)
    with pytest.raises(UsageError, match="tokens, this model reads 24 at once"):
        attention_picture(translator, "dog " * 60)


def test_a_recurrent_model_has_no_attention(weights_elmo: Path) -> None:
    import bertworks

    with pytest.raises(ModelError, match="no attention to look at"):
        attention_picture(bertworks.load(weights_elmo), "A text")


def test_the_bundle_is_one_plain_script() -> None:
    script = bundle("attend.js")
    assert not re.search(r"^\s*(import|export)\b", script, flags=re.MULTILINE)
    assert script.count("const module_lib_dom_js = ") == 1
    assert script.index("const module_lib_dom_js = ") < script.index("const module_attention_panel_js = ")


def test_a_page_escapes_its_text(minilm: LoadedModel) -> None:
    page = attend_page(attention_picture(minilm, "</script><script>alert(1)</script>"), "minilm")
    assert "<script>alert" not in page
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert data is not None
    assert json.loads(data[1])["text"] == "</script><script>alert(1)</script>"
    assert not re.search(r'(src|href)="', page)


def test_a_large_picture_takes_fewer_levels(minilm: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = attention_picture(minilm, ANIMAL)
    assert LARGEST < 15_000_000
    monkeypatch.setattr("bertworks.studio.attend_page.LARGEST", 1000)
    assert '"levels": 31' in attend_page(picture, "minilm")
