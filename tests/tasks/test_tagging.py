"""Every word is read once, tagged once, and found again in the text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval import metrics as seqeval

from bertworks.data.labelled.examples import Place, TaggedExample
from bertworks.errors import ConfigError, DataError, UsageError
from bertworks.tasks import for_examples, from_settings
from bertworks.tasks.base import Chosen
from bertworks.tasks.run import evaluate_model, predict_examples
from bertworks.tasks.tagging import Tagging
from bertworks.tasks.tags import to_bio
from bertworks.tasks.words import tagged_from_text
from bertworks.text.tokenizer import Tokenizer
from tests.tasks.span_models import attached, learn, make_tokenizer, random_outputs
from tests.text.tiny import KINDS, TEXTS

BERT = make_tokenizer("bert")
LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
TASK = Tagging(labels=LABELS, scheme="bio", overlap=5)
ODD = (
    " ".join(TEXTS)
    + "  In\u00a0Zürich\tlebt\nJürgen\u3000Müller , 王小明住在北京市。 👨‍👩‍👧 e\u0301te\u0301 \u200b\u200b Ａｂｃ ﬁn İstanbul …"
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sentence(words: str, tags: str | None = None, line: int | None = 7) -> TaggedExample:
    return TaggedExample(
        words=tuple(words.split()), tags=None if tags is None else tuple(tags.split()), place=Place("a.conll", line)
    )


# -- reading the examples ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["bio", "iob1", "iobes", "io"])
def test_the_labels_are_the_same_in_every_scheme(scheme: str) -> None:
    tags = {
        "bio": ["B-PER I-PER O B-LOC", "O O"],
        "iob1": ["I-PER I-PER O I-LOC", "O O"],
        "iobes": ["B-PER E-PER O S-LOC", "O O"],
        "io": ["PER PER 0 LOC", "0 0"],
    }[scheme]
    examples = [sentence("a b c d", tags[0]), sentence("e f", tags[1])]
    task = for_examples("tag", examples)
    assert isinstance(task, Tagging)
    assert (task.labels, task.scheme, task.metric) == (LABELS, scheme, "f1")
    units = task.encode(examples, BERT, window=20, training=True)
    assert [LABELS[target] for target in units.arrays["targets"]] == ["B-PER", "I-PER", "O", "B-LOC", "O", "O"]
    assert from_settings(json.loads(json.dumps(task.settings()))) == task


def test_the_truth_is_spelled_as_predictions_are() -> None:
    example = sentence("a b c d", "I-PER I-PER O I-LOC")
    task = for_examples("tag", [example])
    assert isinstance(task, Tagging)
    assert task.truth(example) == ("B-PER", "I-PER", "O", "B-LOC")
    assert task.truth(sentence("a")) is None
    plain = sentence("a b", "DT NN")
    assert cast(Tagging, for_examples("tag", [plain])).truth(plain) == ("DT", "NN")


def test_plain_tags() -> None:
    task = for_examples("tag", [sentence("the mill runs", "DT NN VB")])
    assert (task.labels, task.metric) == (("DT", "NN", "VB"), "accuracy")


def test_bad_examples_say_where() -> None:
    with pytest.raises(DataError, match=r"a.conll:9: the word 'b' has the tag 'PER', but tags in the scheme 'bio'"):
        for_examples("tag", [*[sentence("a b", "B-PER O")] * 9, sentence("a b", "O PER", line=9)])
    with pytest.raises(DataError, match=r"a.conll:7: the word 'c' has the tag 'B-ORG', which no training .*B-LOC"):
        TASK.check([sentence("a", "O"), sentence("b c", "O B-ORG")])
    with pytest.raises(DataError, match=r"a.conll:12: the word 'c' has the tag 'B-ORG'"):  # the word's own line
        TASK.check([replace(sentence("b c", "O B-ORG"), lines=(10, 12))])
    mixed = [sentence("a b c d e", "B-PER X-LOC b-loc LOC O"), sentence("a b", "O O")]
    with pytest.raises(
        DataError, match=r"'X-LOC', which is a label alone, where others are as 'B-PER'; .*task.scheme=io"
    ):
        for_examples("tag", mixed)
    assert for_examples("tag", mixed, scheme="io").labels[1:3] == ("B-B-PER", "I-B-PER")
    with pytest.raises(DataError, match=r"a.conll:7: the words have no tags"):
        TASK.encode([sentence("a")], BERT, window=20, training=True)
    with pytest.raises(DataError, match=r"a.conll:7: there are 2 words but 1 tags"):
        TASK.check([sentence("a b", "O")])
    with pytest.raises(DataError, match=r"a.conll:7: the word 'a' has the tag 'PER', but tags in the scheme 'bio'"):
        TASK.check([sentence("a", "PER")])
    with pytest.raises(ConfigError, match="not a single tagged word"):
        for_examples("tag", [])
    with pytest.raises(UsageError, match="leaves room for 0"):
        TASK.encode([sentence("a b")], BERT, window=2, training=False)


# -- units -------------------------------------------------------------------------------------------------------------


def read_ids(units_ids: np.ndarray, starts: np.ndarray, bounds: np.ndarray, places: np.ndarray) -> list[int]:
    """The ids of the tokens at which words are read, in order."""
    found = []
    for unit in range(len(bounds) - 1):
        found += units_ids[starts[unit] + places[bounds[unit] : bounds[unit + 1]]].tolist()
    return found


WORDS = st.lists(
    st.sampled_from(["river", "the", "walking", "\u200b", "", "älv", "河边", "😀", "miller's", "xyzzy"]), max_size=25
)


@given(st.lists(WORDS, min_size=1, max_size=4), st.integers(6, 30), st.sampled_from(["bert", "roberta", "unigram"]))
@settings(deadline=None, max_examples=60)
def test_each_word_is_read_once_in_order(texts: list[list[str]], window: int, kind: str) -> None:
    tokenizer = make_tokenizer(kind)
    examples = [TaggedExample(words=tuple(words), place=Place("x")) for words in texts]
    units = TASK.encode(examples, tokenizer, window=window, training=False)
    assert (np.diff(units.starts) <= window).all()
    expected = []
    for words in texts:
        encoding = tokenizer.encode_words(words, special=False)
        expected += [encoding.ids[np.flatnonzero(encoding.words == number)[0]] for number in range(len(words))]
    arrays = units.arrays
    assert read_ids(units.ids, units.starts, arrays["bounds"], arrays["places"]) == expected
    predictions = TASK.decode(examples, units, random_outputs(TASK, units, 5), {})
    assert [prediction.words for prediction in predictions] == [tuple(words) for words in texts]
    assert all(len(p.tags) == len(p.words) == len(p.probabilities) for p in predictions)


def test_a_forward_model_reads_the_last_token_of_a_word() -> None:
    model, tokenizer = attached(TASK, make_tokenizer("gpt2"), causal=True)
    units = TASK.encode([sentence("walking unseenword river")], tokenizer, window=41, training=False)
    encoding = tokenizer.encode_words(["walking", "unseenword", "river"])
    last = [np.flatnonzero(encoding.words == number)[-1] for number in range(3)]
    assert units.arrays["places"].tolist() == last
    assert predict_examples(TASK, model, [sentence("a b c")], tokenizer=tokenizer, window=41, decision={})


def test_what_shares_a_batch_changes_nothing() -> None:
    model, tokenizer = attached(TASK, BERT)
    examples = [sentence("the river runs past the old mill"), sentence("geese"), sentence("", None), sentence("a b c")]
    units = TASK.encode(examples, tokenizer, window=12, training=False)
    with torch.inference_mode():
        together = TASK.outputs(model, TASK.prepare(Chosen(units, np.arange(len(units))), 1.0))
        for number, output in enumerate(together):
            (alone,) = TASK.outputs(model, TASK.prepare(Chosen(units, np.array([number])), 1.0))
            np.testing.assert_allclose(alone, output, atol=1e-5)


def test_batches_without_words_or_without_sequences_have_no_loss() -> None:
    model, tokenizer = attached(TASK, BERT)
    units = TASK.encode([sentence("", ""), sentence("a b", "O O")], tokenizer, window=12, training=True)
    for numbers in ([], [0]):
        batch = TASK.prepare(Chosen(units, np.array(numbers, np.int64)), 0.0)
        loss = TASK.losses(model, batch)["tag"]
        loss.sum.backward()
        assert (float(loss.sum.detach()), loss.count, batch.counts["tag"]) == (0.0, 0, 0)


# -- spans in the text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_spans_are_exact_parts_of_odd_texts(kind: str) -> None:
    tokenizer = make_tokenizer(kind)
    example = tagged_from_text(ODD, Place("odd"))
    units = TASK.encode([example], tokenizer, window=20, training=False)
    outputs = random_outputs(TASK, units, 5)
    (prediction,) = TASK.decode([example], units, outputs, {})
    assert len(prediction.spans) > 30
    for span in prediction.spans:
        assert ODD[span.start : span.end] == span.text
        assert span.text == span.text.strip() != ""
        assert span.start == example.offsets[span.first_word][0]
        assert prediction.tags[span.first_word].endswith(span.label)
        assert 0.0 < span.probability <= 1.0


def test_words_without_a_text_are_joined_by_spaces() -> None:
    example = sentence("Old Anna saw Rome")
    units = TASK.encode([example], BERT, window=20, training=False)
    logits = np.full((4, 5), -9.0, np.float32)
    logits[range(4), [3, 4, 0, 1]] = 9.0
    (prediction,) = TASK.decode([example], units, [logits], {})
    assert [(span.label, span.start, span.end, span.text) for span in prediction.spans] == [
        ("PER", 0, 8, "Old Anna"),
        ("LOC", 13, 17, "Rome"),
    ]
    assert json.loads(json.dumps(prediction.as_json()))["tags"] == ["B-PER", "I-PER", "O", "B-LOC"]


def test_a_document_of_5000_words_is_tagged_whole() -> None:
    text = " ".join(TEXTS * 100)
    example = tagged_from_text(text, Place("long"))
    assert len(example.words) >= 5000
    model, tokenizer = attached(TASK, BERT)
    (prediction,) = predict_examples(TASK, model, [example], tokenizer=tokenizer, window=41, decision={})
    assert len(prediction.tags) == len(example.words)
    assert all(text[span.start : span.end] == span.text for span in prediction.spans)


def test_a_window_matters_only_at_its_edges() -> None:
    """A short text gives the same in one window whatever the window; a long one has one unit per window."""
    model, tokenizer = attached(TASK, BERT)
    example = sentence("the river runs past")
    wide, narrow = (
        predict_examples(TASK, model, [example], tokenizer=tokenizer, window=window, decision={})[0]
        for window in (41, 10)
    )
    assert wide.tags == narrow.tags
    assert len(TASK.encode([sentence("a " * 30)], tokenizer, window=12, training=False)) > 2


@pytest.mark.parametrize("crf", [False, True])
def test_a_span_may_cross_the_edges_of_windows(crf: bool) -> None:
    task = Tagging(labels=("O", "B-X", "I-X"), scheme="bio", crf=crf)
    model, tokenizer = attached(task, BERT)
    example = sentence("the river mill market " * 20)
    with torch.no_grad():
        model.head("tag").output.weight.zero_()
        model.head("tag").output.bias.copy_(torch.tensor([0.0, 4.0, 10.0]))
    assert len(task.encode([example], tokenizer, window=40, training=False)) > 2
    (found,) = predict_examples(task, model, [example], tokenizer=tokenizer, window=40, decision={})
    assert [(span.first_word, span.stop_word) for span in found.spans] == [(0, 80)]
    assert found.tags[0] == ("B-X" if crf else "I-X")  # the text's own beginning is no edge


# -- figures -----------------------------------------------------------------------------------------------------------


def test_figures_equal_seqeval() -> None:
    random = np.random.default_rng(0)
    examples = [
        TaggedExample(words=("w",) * 9, tags=tuple(random.choice(LABELS, 9).tolist()), place=Place("x"))
        for _ in range(40)
    ]
    units = TASK.encode(examples, BERT, window=30, training=False)
    predictions = TASK.decode(examples, units, random_outputs(TASK, units, 5), {})
    figures = TASK.measure(examples, predictions)
    truth = [list(to_bio(example.tags or (), "bio")) for example in examples]
    guess = [list(prediction.tags) for prediction in predictions]
    for name in ("f1", "precision", "recall", "accuracy"):
        function = getattr(seqeval, f"{name}_score")
        assert figures[name] == pytest.approx(function(truth, guess)), name


def test_a_tag_that_training_did_not_have_counts_as_missed() -> None:
    example = sentence("a b", "B-ORG O")
    units = TASK.encode([example], BERT, window=30, training=False)
    predictions = TASK.decode([example], units, [np.eye(5, dtype=np.float32)[[0, 0]]], {})
    assert TASK.measure([example], predictions) == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 0.5}


def test_the_temperature_changes_probabilities_only() -> None:
    examples = [sentence("a b c d e f", "O B-LOC O B-PER I-PER O")] * 5
    units = TASK.encode(examples, BERT, window=30, training=False)
    outputs = random_outputs(TASK, units, 5)
    decision = TASK.decide(examples, units, outputs)
    assert decision["temperature"] > 2.0  # random opinions are not to be trusted
    before, after = TASK.decode(examples, units, outputs, {}), TASK.decode(examples, units, outputs, decision)
    assert [p.tags for p in before] == [p.tags for p in after]
    assert np.mean([p.probabilities for p in after]) < np.mean([p.probabilities for p in before]) - 0.2


# -- learning ----------------------------------------------------------------------------------------------------------


def made_up(count: int, seed: int) -> list[TaggedExample]:
    """`mill` is a place, with the words `the old` before it if they are there; `geese` are persons unless they walked."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        words: list[str] = []
        tags: list[str] = []
        for _ in range(random.integers(2, 6)):
            kind = random.integers(4)
            if kind == 0:
                words += ["the", "old", "mill"]
                tags += ["B-LOC", "I-LOC", "I-LOC"]
            elif kind == 1:
                walked = bool(random.integers(2))
                words += ["geese", "walked" if walked else "runs"]
                tags += ["O" if walked else "B-PER", "O"]
            else:
                word = str(random.choice(["river", "market", "Seventeen", "expect"]))
                words.append(word)
                tags.append("O")
        found.append(TaggedExample(words=tuple(words), tags=tuple(tags), place=Place("made up", number)))
    return found


def test_a_tiny_model_learns_to_tag() -> None:
    training, held_out = made_up(200, 1), made_up(60, 2)
    task = for_examples("tag", training)
    model, tokenizer = attached(task, BERT)
    before = evaluate_model(task, model, held_out, tokenizer=tokenizer, window=41).figures["f1"]
    learn(model, task, task.encode(training, tokenizer, window=41, training=True), steps=70)
    result = evaluate_model(task, model, held_out, tokenizer=tokenizer, window=41)
    assert before < 0.5
    assert result.figures["f1"] > 0.9
    assert set(result.decision) == {"temperature"}


# -- real data ---------------------------------------------------------------------------------------------------------


def read_conll(path: Path) -> list[TaggedExample]:
    blocks = [block.splitlines() for block in path.read_text(encoding="utf-8").split("\n\n") if block.strip()]
    rows = [[line.split() for line in block] for block in blocks if not block[0].startswith("-DOCSTART-")]
    return [
        TaggedExample(
            words=tuple(row[0] for row in block), tags=tuple(row[-1] for row in block), place=Place(str(path))
        )
        for block in rows
    ]


def test_conll(shared_data: Path, minilm_directory: Path) -> None:
    examples = read_conll(shared_data / "conll2003" / "dev.conll")
    task = for_examples("tag", examples)
    assert task.scheme == "iob1"
    assert len(task.labels) == 9
    units = task.encode(examples, Tokenizer.from_directory(minilm_directory), window=64, training=True)
    perfect = [np.eye(9, dtype=np.float32)[units.arrays["targets"]]]
    outputs = np.split(perfect[0], units.arrays["bounds"][1:-1])
    predictions = task.decode(examples, units, outputs, {})
    assert task.measure(examples, predictions)["f1"] == 1.0
    truth = [list(example.tags or ()) for example in examples]
    assert seqeval.f1_score(truth, [list(prediction.tags) for prediction in predictions]) == 1.0
    for example, prediction in zip(examples, predictions, strict=True):
        text = " ".join(example.words)
        assert all(text[span.start : span.end] == span.text for span in prediction.spans)


def test_swedish_tags_are_labels_alone(shared_data: Path) -> None:
    lines = (shared_data / "swedish-ner" / "train_corpus.txt").read_text(encoding="utf-8").split("\n\n")[:500]
    examples = [
        TaggedExample(
            words=tuple(line.split("\t")[0] for line in block.splitlines()),
            tags=tuple(line.split("\t")[1] for line in block.splitlines()),
            place=Place("train"),
        )
        for block in lines
        if block.strip()
    ]
    task = for_examples("tag", examples)
    assert task.scheme == "io"
    assert {label[2:] for label in task.labels[1:]} == {"PER", "ORG", "LOC", "MISC"}
