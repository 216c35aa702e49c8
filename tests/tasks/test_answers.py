"""Answers are exact parts of their context, the best there are, from every window."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.data.labelled.examples import Answer, Place, QuestionExample
from bertworks.errors import ConfigError, DataError
from bertworks.tasks import for_examples, from_settings
from bertworks.tasks.answers import Answering
from bertworks.tasks.base import Chosen, Units
from bertworks.tasks.run import evaluate_model, outputs_of, predict_examples
from bertworks.text.tokenizer import Tokenizer
from tests.tasks.span_models import attached, learn, make_tokenizer, random_outputs
from tests.text.tiny import KINDS, TEXTS

BERT = make_tokenizer("bert")
TASK = Answering(max_answer_tokens=4, overlap=5)
NO_ANSWERS = Answering(max_answer_tokens=4, overlap=5, unanswerable=True)
ODD = (
    "  In\u00a0Zürich\tlebt\nJürgen\u3000Müller , 王小明住在北京市。 👨‍👩‍👧 e\u0301te\u0301 \u200b\u200b Ａｂｃ ﬁn İstanbul …  "
    + "  ".join(TEXTS)
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def question(context: str, answer: str | None = None, asked: str = "what runs?", number: int = 1) -> QuestionExample:
    answers = None if answer is None else (Answer(answer, context.index(answer)),) if answer else ()
    return QuestionExample(
        id=f"q{number}", question=asked, context=context, answers=answers, place=Place("s.json", number)
    )


RIVER = "The river runs past the old mill, and the miller's daughter runs past the river."


# -- reading the examples ----------------------------------------------------------------------------------------------


def test_which_version_of_squad_it_is() -> None:
    assert for_examples("qa", [question(RIVER, "river")]) == Answering()
    task = for_examples("qa", [question(RIVER, "river"), question(RIVER, "")], overlap=7)
    assert task == Answering(unanswerable=True, overlap=7)
    assert from_settings(json.loads(json.dumps(task.settings()))) == task
    with pytest.raises(ConfigError, match="max_answer_tokens is 0"):
        Answering(max_answer_tokens=0)


def test_bad_examples_say_where() -> None:
    wrong = QuestionExample(id="x", question="?", context=RIVER, answers=(Answer("mill", 4),), place=Place("s.json", 3))
    with pytest.raises(
        DataError, match=r"s.json:3: question 'x': the answer 'mill' is not at character 4 .*'rive' stands"
    ):
        TASK.check([wrong])
    beyond = QuestionExample(id="x", question="?", context="ab", answers=(Answer("c", 9),), place=Place("s.json", 4))
    with pytest.raises(DataError, match=r"s.json:4: .*nothing there"):
        TASK.encode([beyond], BERT, window=20, training=True)
    with pytest.raises(DataError, match=r"s.json:1: question 'q1' has no list of answers"):
        TASK.check([question(RIVER)])


# -- units -------------------------------------------------------------------------------------------------------------


def rows_of(task: Answering, units: Units) -> list[list[int]]:
    """Per unit, the ids of the tokens that are read."""
    batch = task.prepare(Chosen(units, np.arange(len(units))), 0.0)
    assert batch.rows is not None
    ids = batch.rows.take(batch.packed.input_ids)
    return [part.tolist() for part in ids.split(batch.rows.layout.lengths)]


def offsets_of(units: Units, unit: int) -> np.ndarray:
    """The characters of one unit's context tokens."""
    counts = np.diff(units.arrays["context"])[:, 0]
    return np.split(units.arrays["offsets"], np.cumsum(counts))[unit]


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_targets_are_the_answer_or_the_class_token(kind: str) -> None:
    example = question(RIVER, "the old mill")
    _, tokenizer = attached(TASK, make_tokenizer(kind), causal=kind == "gpt2", positions=60)
    units = TASK.encode([example], tokenizer, window=20, training=True)
    found = 0
    for unit, read in enumerate(rows_of(TASK, units)):
        start, end = units.arrays["targets"][unit]
        if read[start] == tokenizer.cls_id:
            assert start == end == (len(read) - 1 if kind == "gpt2" else 0)
        else:
            found += 1
            assert tokenizer.decode(read[start : end + 1]).strip() == "the old mill"
    assert 1 <= found < len(units)


@given(
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3).map("  ".join),
    st.integers(0, 200),
    st.integers(1, 30),
    st.integers(14, 60),
)
@settings(deadline=None, max_examples=60)
def test_every_context_token_begins_an_answer_in_one_window(text: str, start: int, length: int, window: int) -> None:
    answer = text[start : start + length]
    answers = (Answer(answer, start),) if answer else None
    examples = [QuestionExample(id="q", question="who?", context=text, answers=answers, place=Place("x"))]
    units = TASK.encode(examples, BERT, window=window, training=bool(answer))
    assert (np.diff(units.starts) <= window).all()
    whole = BERT.encode(text, special=False)
    arrays = units.arrays
    kept: list[int] = []
    for unit in range(len(units)):
        low, high = arrays["kept"][unit] + units.starts[unit]
        kept += units.ids[low:high].tolist()
        first, stop = arrays["context"][unit]
        assert first <= arrays["kept"][unit][0] <= arrays["kept"][unit][1] <= stop
        target = arrays["targets"][unit] if answer else np.zeros(2, np.int64)
        if target[0] > 0:  # the tokens that touch the answer, and no others
            offsets = offsets_of(units, unit)
            touched = (offsets[:, 1] > start) & (offsets[:, 0] < start + len(answer))
            assert np.flatnonzero(touched)[[0, -1]].tolist() == (target - 1).tolist()
    assert kept == whole.ids.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_question_is_no_error(kind: str) -> None:
    _, tokenizer = attached(NO_ANSWERS, make_tokenizer(kind), causal="gpt" in kind)
    for context in (RIVER, ""):
        example = question(context, asked="")
        units = NO_ANSWERS.encode([example], tokenizer, window=20, training=False)
        assert NO_ANSWERS.decode([example], units, random_outputs(NO_ANSWERS, units, 2), {})


def test_a_long_question_loses_its_end_and_leaves_room_for_the_context() -> None:
    long = question(RIVER, "river", asked="what runs past the mill " * 40)
    units = TASK.encode([long], BERT, window=30, training=True)
    assert (np.diff(units.starts) <= 30).all()
    assert (units.arrays["targets"] > 0).any()


def test_batches_without_sequences_or_context_have_a_loss() -> None:
    model, tokenizer = attached(NO_ANSWERS, BERT)
    units = NO_ANSWERS.encode([question("", ""), question(RIVER, "river")], tokenizer, window=41, training=True)
    empty = NO_ANSWERS.losses(model, NO_ANSWERS.prepare(Chosen(units, np.zeros(0, np.int64)), 0.0))["span"]
    assert (float(empty.sum.detach()), empty.count) == (0.0, 0)
    alone = NO_ANSWERS.losses(model, NO_ANSWERS.prepare(Chosen(units, np.array([0])), 0.0))["span"]
    assert float(alone.sum.detach()) == pytest.approx(0.0, abs=1e-6)  # nothing but the class token is possible
    alone.sum.backward()


def test_the_loss_by_hand() -> None:
    model, tokenizer = attached(TASK, BERT)
    examples = [question(RIVER, "the old mill"), question("geese walked", "geese")]
    units = TASK.encode(examples, tokenizer, window=41, training=True)
    batch = TASK.prepare(Chosen(units, np.arange(len(units))), 0.0)
    expected = 0.0
    for unit, output in enumerate(outputs_of(TASK, model, units)):
        for side in (0, 1):
            logits = output[:, side].astype(np.float64)
            expected += np.log(np.exp(logits).sum()) - logits[units.arrays["targets"][unit, side]]
    loss = TASK.losses(model, batch)["span"]
    assert float(loss.sum.detach()) == pytest.approx(expected / 2, rel=1e-5)
    assert loss.count == len(units)


# -- the best answer ---------------------------------------------------------------------------------------------------


def every_answer(
    task: Answering, units: Units, outputs: list[np.ndarray]
) -> tuple[dict[tuple[int, int], float], float]:
    """All answers of one question with their scores, and that of none, run by run: each in the first window that shows it
    whole, from the one on that keeps its first token."""
    likely = [output - np.log(np.exp(output.astype(np.float64)).sum(axis=0)) for output in outputs]
    keepers: list[int] = []  # by token of the whole context: a window
    shown: list[range] = []  # by window: tokens of the whole context
    for unit in range(len(outputs)):
        (first, stop), (low, high) = units.arrays["context"][unit], units.arrays["kept"][unit]
        begin = len(keepers) - int(low - first)
        shown.append(range(begin, begin + int(stop - first)))
        keepers += [unit] * int(high - low)
    found: dict[tuple[int, int], float] = {}
    for start, keeper in enumerate(keepers):
        for end in range(start, start + task.max_answer_tokens):
            whole = [unit for unit in range(keeper, len(outputs)) if start in shown[unit] and end in shown[unit]]
            if not whole:
                continue
            unit, offsets = whole[0], offsets_of(units, whole[0])
            one, other = start - shown[unit].start, end - shown[unit].start
            if any(offsets[token][0] == offsets[token][1] for token in (one, other)):
                continue
            span = int(offsets[one][0]), int(offsets[other][1])
            score = float(likely[unit][1 + one, 0] + likely[unit][1 + other, 1])
            if span[0] < span[1]:
                found[span] = max(score, found.get(span, -np.inf))
    return found, min(float(each[0].sum()) for each in likely)


@given(st.sampled_from([*TEXTS, RIVER, ODD]), st.integers(14, 50), st.integers(0, 10**6), st.sampled_from(list(KINDS)))
@settings(deadline=None, max_examples=60)
def test_no_answer_is_better_than_the_one_given(text: str, window: int, seed: int, kind: str) -> None:
    tokenizer = make_tokenizer(kind)
    example = question(text, asked="who?")
    units = NO_ANSWERS.encode([example], tokenizer, window=window, training=False)
    outputs = random_outputs(NO_ANSWERS, units, 2, seed)
    (prediction,) = NO_ANSWERS.decode([example], units, outputs, {"no_answer_threshold": 2.0})
    answers, null = every_answer(NO_ANSWERS, units, outputs)
    ranked = sorted(answers.items(), key=lambda item: -item[1])
    got = [(candidate.start, candidate.end) for candidate in prediction.candidates]
    assert [answers[span] for span in got] == pytest.approx([score for _, score in ranked[: len(got)]])
    assert len(got) == min(NO_ANSWERS.num_candidates, len(ranked)) or len(ranked) - len(got) < 3
    for candidate in prediction.candidates:
        assert text[candidate.start : candidate.end] == candidate.text
    if not ranked or null - ranked[0][1] > 2.0:
        assert (prediction.text, prediction.start, prediction.end) == ("", 0, 0)
    else:
        assert (prediction.start, prediction.end) == got[0]
        assert text[prediction.start : prediction.end] == prediction.text != ""
    chances = [prediction.no_answer_probability, *(candidate.probability for candidate in prediction.candidates)]
    assert 0.0 <= sum(chances) <= 1.0 + 1e-9
    assert all(a >= b for a, b in itertools.pairwise(chances[1:]))


def fixed(units: Units, start: int, end: int, null: float = 0.0) -> list[np.ndarray]:
    """One window's logits that point at context tokens `start` and `end`."""
    first, stop = units.arrays["context"][0]
    output = np.zeros((1 + stop - first, 2), np.float32)
    output[0] = null
    output[1 + start, 0] = output[1 + end, 1] = 9.0
    return [output]


def test_an_answer_neither_ends_before_it_begins_nor_grows_too_long() -> None:
    example = question("the river runs past the old mill", asked="what?")
    units = TASK.encode([example], BERT, window=41, training=False)
    (prediction,) = TASK.decode([example], units, fixed(units, 1, 2), {})
    assert prediction.text.startswith("river")
    assert prediction.probability > 0.99
    for start, end in ((5, 1), (0, 6)):
        (prediction,) = TASK.decode([example], units, fixed(units, start, end), {})
        assert prediction.probability < 0.6
        assert len(BERT.encode(prediction.text, special=False)) <= TASK.max_answer_tokens


@pytest.mark.parametrize("window", [24, 41, 64])
def test_an_answer_that_any_window_shows_whole_is_found(window: int) -> None:
    words = ("the river mill market geese old walked to " * 12).split()
    task, context = Answering(), " ".join(words)
    starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
    length = 9
    examples = [
        replace(
            question(context, asked="what?", number=n), answers=(Answer(" ".join(words[n : n + length]), starts[n]),)
        )
        for n in range(len(words) - length)
    ]
    units = task.encode(examples, BERT, window=window, training=True)
    targets, outputs = units.arrays["targets"], []
    for (first, stop), target in zip(units.arrays["context"], targets, strict=True):
        outputs.append(np.full((1 + stop - first, 2), -20, np.float32))
        outputs[-1][target, (0, 1)] = 20
    whole = set(units.owners[targets[:, 0] > 0].tolist())
    assert len(whole) > len(examples) / 2
    for number, prediction in enumerate(task.decode(examples, units, outputs, {})):
        if number in whole:
            answer = examples[number].answers[0]
            assert (prediction.start, prediction.text) == (answer.start, answer.text)


def test_extreme_logits() -> None:
    example = question("the river runs past", asked="what?")
    for task in (TASK, NO_ANSWERS):
        units = task.encode([example], BERT, window=41, training=False)
        outputs = fixed(units, 1, 1, null=3000.0)  # every answer has a chance of nought
        (prediction,) = task.decode([example], units, outputs, {"no_answer_threshold": 1e5})
        assert prediction.text.startswith("r")
        assert 0.0 <= prediction.probability <= 1.0


def test_no_answer_is_given_only_where_it_is_allowed() -> None:
    example = question("the river runs", asked="what?")
    units = TASK.encode([example], BERT, window=41, training=False)
    outputs = fixed(units, 1, 1, null=20.0)
    assert TASK.decode([example], units, outputs, {})[0].text != ""
    (none,) = NO_ANSWERS.decode([example], units, outputs, {})
    assert (none.text, none.probability == none.no_answer_probability) == ("", True)
    assert none.no_answer_probability > 0.99
    assert NO_ANSWERS.decode([example], units, outputs, {"no_answer_threshold": 99.0})[0].text != ""


def test_the_threshold_is_chosen_for_the_best_f1() -> None:
    """Of four questions, those without an answer have a lead of 3 and 5, the others of 1 and 2."""
    examples = [question("the river runs", answer, number=n) for n, answer in enumerate(["the", "the", "", ""])]
    units = NO_ANSWERS.encode(examples, BERT, window=41, training=False)
    outputs = []
    for lead in (1.0, 2.0, 3.0, 5.0):
        output = np.full((len(random_outputs(NO_ANSWERS, units, 2)[0]), 2), -20.0, np.float32)
        output[1] = 0.0
        output[0] = lead / 2
        outputs.append(output)
    decision = NO_ANSWERS.decide(examples, units, outputs)
    assert decision["no_answer_threshold"] == pytest.approx(2.5, abs=0.01)
    predictions = NO_ANSWERS.decode(examples, units, outputs, decision)
    assert [prediction.text == "" for prediction in predictions] == [False, False, True, True]
    assert NO_ANSWERS.measure(examples, predictions)["no_answer_accuracy"] == 1.0
    assert TASK.decide(examples, units, outputs) == {}


def test_an_empty_context_has_no_answer() -> None:
    for task in (TASK, NO_ANSWERS):
        example = question("", asked="what?")
        units = task.encode([example], BERT, window=30, training=False)
        (prediction,) = task.decode([example], units, random_outputs(task, units, 2), {})
        assert (prediction.text, prediction.candidates) == ("", ())
        json.dumps(prediction.as_json(), allow_nan=False)


def test_a_document_of_5000_words_is_read_whole() -> None:
    text = " ".join(TEXTS * 100)
    assert len(text.split()) > 5000
    example = question(text + " The needle is here.", asked="what?")
    model, tokenizer = attached(TASK, BERT)
    (prediction,) = predict_examples(TASK, model, [example], tokenizer=tokenizer, window=41, decision={})
    assert example.context[prediction.start : prediction.end] == prediction.text
    units = TASK.encode([example], tokenizer, window=41, training=False)
    outputs = random_outputs(TASK, units, 2)
    first, _ = units.arrays["context"][-1]
    low, high = units.arrays["kept"][-1]
    outputs[-1][1 + (low + high) // 2 - first] = 50.0  # a token of the last window is surely the answer
    (prediction,) = TASK.decode([example], units, outputs, {})
    assert prediction.start > len(text) - 40
    assert example.context[prediction.start : prediction.end] == prediction.text


# -- figures and learning ----------------------------------------------------------------------------------------------


def test_figures_follow_the_version() -> None:
    answered, unanswerable = question(RIVER, "The"), question(RIVER, "")

    def figures(task: Answering, examples: list[QuestionExample], texts: list[str]) -> dict[str, float]:
        units = task.encode(examples, BERT, window=41, training=False)
        blank = task.decode(examples, units, random_outputs(task, units, 2), {})
        said: list[Any] = [type(p)(p.id, text, 0, 0, 1.0, 0.0, ()) for p, text in zip(blank, texts, strict=True)]
        return task.measure(examples, said)

    assert figures(TASK, [answered], ["a"]) == {"exact_match": 1.0, "f1": 0.0}
    assert figures(NO_ANSWERS, [answered], ["a"])["f1"] == 1.0
    assert figures(TASK, [answered, unanswerable], ["the", ""])["f1"] == 1.0


def made_up(count: int, seed: int) -> list[QuestionExample]:
    """`where` is answered by a place, `who` by a person, and by nothing where the context has none."""
    random = np.random.default_rng(seed)
    kinds = {"where": ["the market", "mill", "the old river"], "who": ["geese", "daughter", "the walker"]}
    found = []
    for number in range(count):
        asked, other = random.permutation(["where", "who"]).tolist()
        parts = [str(word) for word in random.choice(["runs", "stopped", "never", "past"], random.integers(1, 4))]
        answer = str(random.choice(kinds[asked])) if random.random() < 0.7 else ""
        for part in (answer, str(random.choice(kinds[other]))):
            if part:
                parts.insert(random.integers(len(parts) + 1), part)
        context = " ".join(parts)
        answers = (Answer(answer, f" {context} ".index(f" {answer} ")),) if answer else ()
        found.append(
            QuestionExample(
                id=str(number), question=asked, context=context, answers=answers, place=Place("made up", number)
            )
        )
    return found


def test_a_tiny_model_learns_to_answer_and_not_to() -> None:
    training, held_out = made_up(300, 1), made_up(100, 2)
    task = for_examples("qa", training)
    model, tokenizer = attached(task, BERT)
    learn(model, task, task.encode(training, tokenizer, window=41, training=True), steps=120)
    result = evaluate_model(task, model, held_out, tokenizer=tokenizer, window=41)
    assert result.figures["f1"] > 0.95
    assert result.figures["no_answer_accuracy"] > 0.9
    assert result.figures["has_answer_exact_match"] > 0.9


# -- real data ---------------------------------------------------------------------------------------------------------


def read_squad(path: Path) -> list[QuestionExample]:
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    return [
        QuestionExample(
            id=entry["id"],
            question=entry["question"],
            context=paragraph["context"],
            answers=tuple(Answer(answer["text"], answer["answer_start"]) for answer in entry["answers"]),
            group=article["title"],
            place=Place(str(path)),
        )
        for article in articles
        for paragraph in article["paragraphs"]
        for entry in paragraph["qas"]
    ]


@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("file", ["dev-v1.1-24articles.json", "dev-v2.0-17articles.json"])
def test_squad(shared_data: Path, minilm_directory: Path, file: str, every: int) -> None:
    """A model that knows the answer gives it, as far as tokens can say it; one that guesses gives parts of the context."""
    examples = read_squad(shared_data / "squad" / file)[::every]
    task = for_examples("qa", examples, overlap=32)
    tokenizer = Tokenizer.from_directory(minilm_directory)
    units = task.encode(examples, tokenizer, window=128, training=True)
    outputs = random_outputs(task, units, 2)
    for prediction, example in zip(task.decode(examples, units, outputs, {}), examples, strict=True):
        for one in (prediction, *prediction.candidates):
            assert example.context[one.start : one.end] == one.text
    for output, target in zip(outputs, units.arrays["targets"], strict=True):
        output[target, [0, 1]] += 40.0
    figures = task.measure(examples, task.decode(examples, units, outputs, {}))
    assert figures["exact_match"] > 0.97  # a few answers begin or end inside a token, or are longer than allowed
    assert figures["f1"] > 0.985
    assert ("no_answer_accuracy" in figures) == ("v2" in file)
