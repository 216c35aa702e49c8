"""The searches, worked by hand and against all possibilities; parity with `transformers` is in test_decode_parity."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import ModelError, UsageError
from bertworks.infer.decode import Beam, Greedy, Hypothesis, Sample, decode, largest
from bertworks.infer.decode_sample import pick
from bertworks.models.seq2seq import TargetIds
from tests.infer.toy_decoder import LookingDecoder, ToyDecoder

# After 0: 1 is likelier than 2, but after 1 nothing is likely, and after 2 the end (3) is nearly sure.
GARDEN_PATH = [
    [0.0, 0.6, 0.4, 0.0],
    [0.25, 0.2, 0.2, 0.35],
    [0.05, 0.0, 0.05, 0.9],
    [0.25, 0.25, 0.25, 0.25],
]
END = TargetIds(end=(3,))


def run(decoder: ToyDecoder, inputs: list[list[int]], strategy: object, most: int = 4, **options: object):
    ids = options.pop("ids", END)
    rows = [np.array(row) for row in inputs]
    return decode(decoder, rows, strategy, max_new_tokens=most, ids=ids, **options)  # type: ignore[arg-type]


def test_greedy_takes_the_garden_path_and_a_beam_does_not() -> None:
    (greedy,) = run(ToyDecoder(GARDEN_PATH), [[0]], Greedy())[0]
    assert greedy.tokens.tolist()[0] == 1
    best, second = run(ToyDecoder(GARDEN_PATH), [[0]], Beam(width=2, num=2, length_penalty=0.0))[0]
    assert best.tokens.tolist() == [2]
    assert best.finished
    assert best.log_probability == pytest.approx(math.log(0.4 * 0.9))
    assert second.tokens.tolist() == [1]
    assert second.log_probability == pytest.approx(math.log(0.6 * 0.35))


def test_length_penalty_by_hand() -> None:
    # 0 2 end: log(0.36) / 2; each further 2 costs log(0.05) and makes the divisor larger.
    (best,) = run(ToyDecoder(GARDEN_PATH), [[0]], Beam(width=2, length_penalty=1.0))[0]
    assert best.score == pytest.approx(math.log(0.36) / 2)


def exhaustive(table: list[list[float]], first: int, most: int, alpha: float) -> list[Hypothesis]:
    """All sequences that end, or reach the longest length, scored."""
    logs = np.log(np.array(table))
    found = []
    for length in range(1, most + 1):
        for row in itertools.product(range(len(table)), repeat=length):
            ends = row[-1] == 3
            if 3 in row[:-1] or (not ends and length < most):
                continue
            log = sum(logs[before, after] for before, after in zip((first, *row), row, strict=False))
            found.append(Hypothesis(np.array(row[: length - ends]), log, log / length**alpha, ends))
    return sorted(found, key=lambda best: -best.score)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_a_beam_as_wide_as_everything_finds_the_best(alpha: float) -> None:
    generator = np.random.default_rng(7)
    for _ in range(4):
        table = generator.dirichlet([0.7] * 4, size=4).tolist()
        # Four beams of four tokens lose nothing in two steps.
        ((best,),) = run(ToyDecoder(table), [[1]], Beam(width=4, length_penalty=alpha), most=2)
        first = exhaustive(table, 1, 2, alpha)[0]
        assert best.score == pytest.approx(first.score, abs=1e-5)
        assert (best.tokens.tolist(), best.finished) == (first.tokens.tolist(), first.finished)


def test_coverage_prefers_what_looks_at_every_word() -> None:
    # Both 1 and 2 may end at once; repeating 1 leaves word 2 unseen, 1 then 2 sees both.
    table = [
        [0.0, 0.5, 0.5, 0.0],
        [0.0, 0.5, 0.4, 0.1],
        [0.0, 0.1, 0.1, 0.8],
        [0.25, 0.25, 0.25, 0.25],
    ]
    source = [[0, 0, 0]]
    plain = run(LookingDecoder(table), source, Beam(width=3, length_penalty=0.0))[0][0]
    covering = run(LookingDecoder(table), source, Beam(width=3, length_penalty=0.0, coverage_penalty=5.0))[0][0]
    assert plain.tokens.tolist() == [2]
    assert sorted(covering.tokens.tolist()) == [1, 2]
    # All three words were looked at once (word 0 before the first token): nothing is taken off.
    assert covering.score == pytest.approx(covering.log_probability)
    with pytest.raises(ModelError, match="needs attention to a source"):
        run(ToyDecoder(table), source, Beam(width=2, coverage_penalty=1.0))


def test_ended_rows_leave_the_batch() -> None:
    table = [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]]
    decoder = ToyDecoder(table)
    found = run(decoder, [[0], [1], [2], [0]], Greedy(), most=9)
    assert [best.tokens.tolist() for (best,) in found] == [[1, 2], [2], [], [1, 2]]
    assert decoder.state is not None
    assert decoder.state.rows_seen == [4, 3, 2]
    decoder = ToyDecoder(table)
    found = run(decoder, [[0], [1], [2], [0]], Beam(width=1), most=9)
    assert [best.tokens.tolist() for (best,) in found] == [[1, 2], [2], [], [1, 2]]
    assert decoder.state is not None
    assert decoder.state.rows_seen == [4, 3, 2]


@pytest.mark.parametrize("strategy", [Greedy(), Beam(width=2), Sample(seed=3)])
def test_every_input_has_its_own_limit(strategy: object) -> None:
    table = [[0.5, 0.5, 0.0, 0.0]] * 4
    found = run(ToyDecoder(table, room=6), [[0], [0, 1, 0], [1, 1, 1, 1, 1]], strategy, most=4)
    assert [len(best.tokens) for best, *_ in found] == [4, 3, 1]
    assert not any(best.finished for best, *_ in found)
    lengths = decode(
        ToyDecoder(table),
        [np.array([0]), np.array([1])],
        strategy,  # type: ignore[arg-type]
        max_new_tokens=[2, 3],
        ids=END,
    )
    assert [len(best.tokens) for best, *_ in lengths] == [2, 3]


@pytest.mark.parametrize("strategy", [Greedy(), Beam(width=2), Sample(seed=3)])
def test_settled_and_forbidden_tokens(strategy: object) -> None:
    table = [[0.1, 0.6, 0.2, 0.1]] * 4
    ids = TargetIds(end=(3,), first=0, last=2, forbidden=(1, 3))
    ((best, *_),) = run(ToyDecoder(table), [[0]], strategy, most=5, ids=ids)
    tokens = best.tokens.tolist()
    assert tokens[0] == 0
    assert tokens[-1] == 2
    assert len(tokens) == 5
    assert 1 not in tokens
    middle = sum(math.log(table[0][token]) for token in tokens[1:-1])
    assert best.log_probability == pytest.approx(middle)  # as the model gives them; what is settled is sure


def test_samples_depend_on_seed_and_place_alone() -> None:
    table = np.random.default_rng(0).dirichlet([1.0] * 50, size=50).tolist()
    ids = TargetIds(end=(49,))
    inputs = [np.array([number]) for number in range(12)]

    def sample(numbers: list[int], num: int = 1, seed: int = 4) -> list[list[list[int]]]:
        found = decode(
            ToyDecoder(table),
            [inputs[number] for number in numbers],
            Sample(seed=seed, num=num, top_k=20, temperature=1.3),
            max_new_tokens=9,
            ids=ids,
            numbers=np.array(numbers),
        )
        return [[best.tokens.tolist() for best in some] for some in found]

    together = sample(list(range(12)))
    assert sample([7]) == [together[7]]
    assert sample([3, 11, 0]) == [together[3], together[11], together[0]]
    assert [some[0] for some in sample(list(range(12)), num=3)] == [some[0] for some in together]
    assert len({tuple(row) for row in sample([5], num=6)[0]}) > 3
    assert sample(list(range(12)), seed=5) != together


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1]).log().repeat(20000, 1)
    draws = torch.linspace(0, 1, 20001, dtype=torch.float64)[:-1]

    def shares(**options: object) -> list[float]:
        return (torch.bincount(pick(logits, draws, Sample(**options)), minlength=4) / 20000).tolist()  # type: ignore[arg-type]

    assert shares() == pytest.approx([0.5, 0.25, 0.15, 0.1], abs=1e-3)
    assert shares(top_k=2) == pytest.approx([2 / 3, 1 / 3, 0, 0], abs=1e-3)
    assert shares(top_p=0.7) == pytest.approx([2 / 3, 1 / 3, 0, 0], abs=1e-3)
    assert shares(top_p=0.8) == pytest.approx([0.5 / 0.9, 0.25 / 0.9, 0.15 / 0.9, 0], abs=1e-3)
    assert shares(top_p=0.1) == [1, 0, 0, 0]
    squares = [0.25, 0.0625, 0.0225, 0.01]
    assert shares(temperature=0.5) == pytest.approx([share / sum(squares) for share in squares], abs=1e-3)
    assert shares(top_k=3, top_p=0.6) == pytest.approx([2 / 3, 1 / 3, 0, 0], abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 4), size=st.integers(1, 2000), k=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_largest_is_topk(rows: int, size: int, k: int, seed: int) -> None:
    logits = torch.randn(rows, size, generator=torch.Generator().manual_seed(seed))
    k = min(k, size)
    values, places = largest(logits, k)
    assert torch.equal(values, logits.topk(k).values)
    assert torch.equal(logits.gather(1, places), values)


def test_what_watches_sees_every_token_in_time() -> None:
    table = [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]]
    seen: list[tuple[list[int], list[int]]] = []
    run(
        ToyDecoder(table),
        [[0], [2]],
        Greedy(),
        watch=lambda rows, tokens: seen.append((rows.tolist(), tokens.tolist())),
    )
    assert seen == [([0, 1], [1, 3]), ([0], [2]), ([0], [3])]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (lambda: run(ToyDecoder(GARDEN_PATH), [[0]], Beam(width=5)), "wider than the vocabulary, which has 4 tokens"),
        (lambda: run(ToyDecoder(GARDEN_PATH), [[0]], Greedy(), most=0), "max_new_tokens is 0"),
        (lambda: Beam(width=0), "width is 0"),
        (lambda: Beam(width=2, num=3), "num is 3 with a beam of width 2"),
        (lambda: Beam(coverage_penalty=-1.0), "coverage_penalty is -1.0"),
        (lambda: Sample(temperature=0.0), "temperature is 0.0; it must be above 0"),
        (lambda: Sample(top_k=0), "top_k is 0"),
        (lambda: Sample(top_p=1.5), "top_p is 1.5"),
        (lambda: Sample(num=0), "num is 0"),
    ],
)
def test_errors(strategy, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        strategy()


def test_nothing_in_nothing_out() -> None:
    assert run(ToyDecoder(GARDEN_PATH), [], Beam(width=2)) == []
