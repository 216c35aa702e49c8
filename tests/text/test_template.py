from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer, models, processors

from bertworks.errors import TokenizerError
from bertworks.text.template import Layout, Special, Template, probe_template
from tests.text import tiny


def test_bert() -> None:
    template = probe_template(tiny.bert())
    assert template == Template(
        single=Layout(prefix=Special((2,), (0,)), suffix=Special((3,), (0,)), segments=(0,)),
        pair=Layout(
            prefix=Special((2,), (0,)), middle=Special((3,), (0,)), suffix=Special((3,), (1,)), segments=(0, 1)
        ),
    )
    assert template.num_special() == 2
    assert template.num_special(pair=True) == 3
    ids, segments = template.wrap_pair([7, 8], [9])
    assert ids.tolist() == [2, 7, 8, 3, 9, 3]
    assert segments.tolist() == [0, 0, 0, 0, 1, 1]


def test_roberta() -> None:
    template = probe_template(tiny.roberta())
    ids, segments = template.wrap_pair([7, 8], [9])
    assert ids.tolist() == [0, 7, 8, 2, 2, 9, 2]
    assert segments.tolist() == [0] * 7
    assert template.middle.tolist() == [2, 2]


def test_gpt2_has_none() -> None:
    template = probe_template(tiny.gpt2())
    assert template == Template()
    assert template.wrap([7, 8]).ids.tolist() == [7, 8]
    assert template.wrap([]).ids.dtype == np.int32


def test_a_text_first_and_special_tokens_last() -> None:
    backend = tiny.bert()
    backend.post_processor = processors.TemplateProcessing(
        single="$A [SEP] [CLS]:2", pair="$A [SEP] $B:1 [SEP]:1 [CLS]:2", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    ids, segments = probe_template(backend).wrap([7])
    assert ids.tolist() == [7, 3, 2]
    assert segments.tolist() == [0, 0, 2]


def test_texts_out_of_order_are_refused() -> None:
    backend = tiny.bert()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", pair="[CLS] $B $A", special_tokens=[("[CLS]", 2)]
    )
    with pytest.raises(TokenizerError, match="in the order"):
        probe_template(backend)


def test_a_vocabulary_without_letters_is_probed_with_its_own_tokens() -> None:
    backend = Tokenizer(models.BPE({"☃": 0, "[CLS]": 1}, []))  # drops what it does not know
    backend.add_special_tokens(["[CLS]"])
    backend.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    assert probe_template(backend).prefix.tolist() == [1]


def test_many_texts_at_once() -> None:
    template = probe_template(tiny.bert())
    ids, lengths = template.wrap_flat(np.array([7, 8, 9], np.int32), np.array([2, 0, 1]))
    assert ids.tolist() == [2, 7, 8, 3, 2, 3, 2, 9, 3]
    assert lengths.tolist() == [4, 2, 3]
    ids, lengths = template.wrap_flat(np.array([], np.int32), np.array([], np.int64))
    assert len(ids) == len(lengths) == 0


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_equal_to_the_engine(kind: str) -> None:
    backend = tiny.KINDS[kind]()
    template = probe_template(backend)
    for first, second in zip(tiny.TEXTS, reversed(tiny.TEXTS), strict=True):
        a, b = (backend.encode(text, add_special_tokens=False).ids for text in (first, second))
        single, pair = backend.encode(first), backend.encode(first, second)
        assert template.wrap(a).ids.tolist() == single.ids
        assert template.wrap(a).segments.tolist() == single.type_ids
        assert template.wrap_pair(a, b).ids.tolist() == pair.ids
        assert template.wrap_pair(a, b).segments.tolist() == pair.type_ids
