"""The CRF against brute force: every path of a small case is enumerated and scored in plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertworks.errors import UsageError
from bertworks.nn.crf import AllowedTags, LinearChainCRF
from bertworks.nn.packed import Layout

LENGTHS = (3, 0, 5, 1, 3)
K = 4

# IOB2 with the tags O, B-PER, I-PER, I-LOC. There is no B-LOC, so I-LOC is never reached: a tag without any legal path.
IOB = AllowedTags(
    transitions=torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]], dtype=torch.bool),
    starts=torch.tensor([True, True, False, False]),
    ends=torch.tensor([True, True, True, False]),
)


def build(allowed: AllowedTags | None = None, num_tags: int = K, seed: int = 0) -> LinearChainCRF:
    crf = LinearChainCRF(num_tags, allowed=allowed).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in crf.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return crf


def random_emissions(lengths: Sequence[int], num_tags: int = K, seed: int = 1) -> Tensor:
    return torch.randn(sum(lengths), num_tags, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def all_paths(crf: LinearChainCRF, emissions: Tensor, allowed: AllowedTags | None) -> dict[tuple[int, ...], float]:
    """The score of every legal path of one sequence (n, K)."""
    starts, transitions, ends = crf.starts.tolist(), crf.transitions.tolist(), crf.ends.tolist()
    table = emissions.tolist()
    found = {}
    for path in itertools.product(range(crf.num_tags), repeat=len(emissions)):
        if path and allowed is not None:
            legal = bool(allowed.starts[path[0]]) and bool(allowed.ends[path[-1]])
            if not legal or not all(bool(allowed.transitions[a, b]) for a, b in itertools.pairwise(path)):
                continue
        score = sum(table[t][tag] for t, tag in enumerate(path))
        score += sum(transitions[a][b] for a, b in itertools.pairwise(path))
        if path:
            score += starts[path[0]] + ends[path[-1]]
        found[path] = score
    return found


def check_against_brute_force(
    crf: LinearChainCRF, emissions: Tensor, layout: Layout, allowed: AllowedTags | None
) -> None:
    log_z, marginals, decoded = (
        crf.log_partition(emissions, layout),
        crf.marginals(emissions, layout),
        crf.decode(emissions, layout),
    )
    assert log_z.shape == (layout.num_sequences,)
    assert marginals.shape == emissions.shape
    for number, (start, length) in enumerate(zip(layout.starts, layout.lengths, strict=True)):
        paths = all_paths(crf, emissions[start : start + length], allowed)
        total = sum(math.exp(score) for score in paths.values())
        assert log_z[number].item() == pytest.approx(math.log(total), abs=1e-9)
        assert paths[tuple(decoded[number])] == pytest.approx(max(paths.values()), abs=1e-9)
        wanted = torch.zeros(length, crf.num_tags, dtype=torch.float64)
        for path, score in paths.items():
            for t, tag in enumerate(path):
                wanted[t, tag] += math.exp(score) / total
        torch.testing.assert_close(marginals[start : start + length], wanted, atol=1e-9, rtol=0)


@pytest.mark.parametrize("allowed", [None, IOB], ids=["free", "iob"])
def test_equals_brute_force(allowed: AllowedTags | None) -> None:
    check_against_brute_force(build(allowed), random_emissions(LENGTHS), Layout(LENGTHS), allowed)


@settings(max_examples=30, deadline=None)
@given(
    num_tags=st.integers(1, 3),
    lengths=st.lists(st.integers(0, 4), max_size=5),
    seed=st.integers(0, 999),
    scale=st.sampled_from([0.1, 1.0, 20.0]),
)
def test_equals_brute_force_for_any_shape(num_tags: int, lengths: list[int], seed: int, scale: float) -> None:
    crf, layout = build(num_tags=num_tags, seed=seed), Layout(lengths)
    check_against_brute_force(crf, scale * random_emissions(lengths, num_tags, seed + 1), layout, None)


def test_log_likelihood_is_a_probability_over_all_paths() -> None:
    crf, emissions, layout = build(), random_emissions([3]), Layout([3])
    paths = all_paths(crf, emissions, None)
    log_z = math.log(sum(math.exp(score) for score in paths.values()))
    for path, score in paths.items():
        found = crf.log_likelihood(emissions, torch.tensor(path), layout)
        assert found.shape == (1,)
        assert found.item() == pytest.approx(score - log_z, abs=1e-9)


def test_by_hand() -> None:
    """Two tags, two tokens. Emissions (1, 0), (0, 1); a change of tag costs 2.

    score 00 = 1, 01 = 1 - 2 + 1 = 0, 10 = 0 - 2 + 0 = -2, 11 = 1;  Z = e + 1 + e^-2 + e = 6.571899
    """
    crf = LinearChainCRF(2)
    crf.transitions.data = torch.tensor([[0.0, -2.0], [-2.0, 0.0]])
    emissions, layout = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), Layout([2])
    assert crf.log_partition(emissions, layout).item() == pytest.approx(math.log(6.571899), abs=1e-6)
    assert crf.score(emissions, torch.tensor([0, 1]), layout).item() == 0.0
    assert crf.log_likelihood(emissions, torch.tensor([0, 0]), layout).item() == pytest.approx(1 - 1.882803, abs=1e-5)
    # p(y_1 = 0) = (e + 1) / Z
    assert crf.marginals(emissions, layout)[0, 0].item() == pytest.approx((math.e + 1) / 6.571899, abs=1e-6)
    crf.starts.data = torch.tensor([0.0, 0.5])
    assert crf.decode(emissions, layout) == [[1, 1]]


def test_untrained_is_a_softmax_per_token() -> None:
    crf, emissions, layout = LinearChainCRF(K), random_emissions(LENGTHS).float(), Layout(LENGTHS)
    torch.testing.assert_close(crf.marginals(emissions, layout), emissions.softmax(dim=1))
    assert list(itertools.chain(*crf.decode(emissions, layout))) == emissions.argmax(dim=1).tolist()


def test_marginals_are_the_gradient_of_the_partition_function() -> None:
    crf, layout = build(IOB), Layout(LENGTHS)
    emissions = random_emissions(LENGTHS).requires_grad_()
    (gradient,) = torch.autograd.grad(crf.log_partition(emissions, layout).sum(), emissions)
    torch.testing.assert_close(crf.marginals(emissions, layout), gradient, atol=1e-10, rtol=0)


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6), seed=st.integers(0, 999))
def test_a_sequence_does_not_depend_on_its_batch_mates(lengths: list[int], seed: int) -> None:
    crf, layout = build(seed=seed).float(), Layout(lengths)
    emissions = random_emissions(lengths, seed=seed).float()
    tags = torch.randint(K, (layout.total,), generator=torch.Generator().manual_seed(seed))
    together = crf.log_likelihood(emissions, tags, layout)
    marginals, paths = crf.marginals(emissions, layout), crf.decode(emissions, layout)
    for number, (start, length) in enumerate(zip(layout.starts, lengths, strict=True)):
        own, alone = slice(start, start + length), Layout([length])
        likelihood = crf.log_likelihood(emissions[own], tags[own], alone)
        torch.testing.assert_close(together[number : number + 1], likelihood, atol=2e-5, rtol=0)
        torch.testing.assert_close(marginals[own], crf.marginals(emissions[own], alone), atol=1e-6, rtol=0)
        assert paths[number : number + 1] == crf.decode(emissions[own], alone)


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5), seed=st.integers(0, 999), late=st.booleans())
def test_decoded_paths_obey_the_rules(lengths: list[int], seed: int, late: bool) -> None:
    """Given to the constructor or to `decode` only, and against strong emissions that would break them."""
    crf = build(None if late else IOB, seed=seed).float()
    emissions = 100 * random_emissions(lengths, seed=seed).float()
    for path in crf.decode(emissions, Layout(lengths), allowed=IOB if late else None):
        assert not path or (IOB.starts[path[0]] and IOB.ends[path[-1]])
        assert all(IOB.transitions[a, b] for a, b in itertools.pairwise(path))


def test_empty_sequences_are_legal() -> None:
    crf = build()
    for lengths in [(), (0,), (0, 0)]:
        layout, emissions = Layout(lengths), torch.zeros(0, K).double()
        found = crf.log_likelihood(emissions, torch.zeros(0, dtype=torch.long), layout)
        assert found.tolist() == [0.0] * len(lengths)
        assert crf.decode(emissions, layout) == [[] for _ in lengths]
        assert crf.marginals(emissions, layout).shape == (0, K)
    mixed = crf.log_likelihood(random_emissions([0, 2, 0]), torch.tensor([1, 3]), Layout([0, 2, 0]))
    assert mixed[[0, 2]].tolist() == [0.0, 0.0]
    assert mixed[1].item() < 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gradients_are_finite_with_constraints_and_long_sequences(dtype: torch.dtype) -> None:
    crf, lengths = build(IOB).float(), (400, 1, 0, 37)
    emissions = (30 * random_emissions(lengths)).to(dtype).requires_grad_()
    tags = torch.tensor([[0, 1, 2][t % 3] for length in lengths for t in range(length)])
    likelihood = crf.log_likelihood(emissions, tags, Layout(lengths))
    assert likelihood.dtype == torch.float32
    assert torch.isfinite(likelihood).all()
    likelihood.sum().backward()
    for tensor in [emissions, *crf.parameters()]:
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()
    assert crf.transitions.grad is not None
    assert torch.all(crf.transitions.grad[~IOB.transitions] == 0)


def test_half_precision_parameters_decode() -> None:
    crf, emissions = build(IOB), random_emissions(LENGTHS)
    half = build(IOB).half()
    assert half.decode(emissions.half(), Layout(LENGTHS)) == crf.decode(emissions, Layout(LENGTHS))


def test_learns_that_a_tag_alternates() -> None:
    """The emissions say nothing; only transitions can know that tags go 0 1 0 1."""
    crf, layout = LinearChainCRF(2), Layout([6, 5, 4])
    emissions, tags = torch.zeros(15, 2), torch.tensor([t % 2 for length in layout.lengths for t in range(length)])
    optimizer = torch.optim.SGD(crf.parameters(), lr=0.5)
    for _ in range(40):
        optimizer.zero_grad()
        (-crf.log_likelihood(emissions, tags, layout).mean()).backward()
        optimizer.step()
    assert crf.decode(torch.zeros(7, 2), Layout([7])) == [[0, 1, 0, 1, 0, 1, 0]]


def test_only_parameters_are_saved() -> None:
    assert set(build(IOB).state_dict()) == {"transitions", "starts", "ends"}


def test_wrong_inputs_are_explained() -> None:
    crf, layout, emissions = build(IOB), Layout([2, 1]), random_emissions([2, 1])
    with pytest.raises(UsageError, match="num_tags is 0"):
        LinearChainCRF(0)
    with pytest.raises(UsageError, match=r"must be \(3, 4\)"):
        crf.decode(emissions[:2], layout)
    with pytest.raises(UsageError, match=r"must be \(3,\)"):
        crf.score(emissions, torch.zeros(2, dtype=torch.long), layout)
    with pytest.raises(UsageError, match="token 1 has tag -100; tags are 0 to 3"):
        crf.log_likelihood(emissions, torch.tensor([0, -100, 0]), layout)
    with pytest.raises(UsageError, match=r"sequence 1, \[2\], are a forbidden path"):
        crf.log_likelihood(emissions, torch.tensor([1, 2, 2]), layout)
    with pytest.raises(UsageError, match=r"sequence 0, \[0, 2\], are a forbidden path"):
        crf.log_likelihood(emissions, torch.tensor([0, 2, 0]), layout)
    with pytest.raises(UsageError, match=r"allowed.starts is torch.float32"):
        LinearChainCRF(K, allowed=AllowedTags(IOB.transitions, torch.ones(K), IOB.ends))


def test_a_sequence_without_any_legal_path_is_explained() -> None:
    """Tag 0 must start and tag 1 must end: no path of length 1."""
    allowed = AllowedTags(torch.ones(2, 2, dtype=torch.bool), torch.tensor([True, False]), torch.tensor([False, True]))
    crf, emissions, layout = LinearChainCRF(2, allowed=allowed), torch.zeros(3, 2), Layout([2, 1])
    assert crf.decode(emissions[:2], Layout([2])) == [[0, 1]]
    for call in (crf.decode, crf.marginals, crf.log_partition):
        with pytest.raises(UsageError, match="no tag path of length 1 is allowed for sequence 1"):
            call(emissions, layout)
