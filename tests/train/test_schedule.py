"""Learning rates by hand."""

import math

import pytest

from bertworks.errors import ConfigError
from bertworks.train.config import ScheduleConfig
from bertworks.train.schedule import scale_at, warmup_steps


def values(total: int, **options) -> list[float]:
    return [scale_at(ScheduleConfig(**options), step, total) for step in range(total)]


def test_linear():
    assert values(6, name="linear", warmup=2.0) == pytest.approx([1 / 2, 1, 1, 3 / 4, 2 / 4, 1 / 4])
    assert values(4, name="linear", warmup=0.0, final=0.2) == pytest.approx([1, 0.8, 0.6, 0.4])


def test_cosine():
    half = (1 + math.cos(math.pi / 4)) / 2, 0.5, (1 - math.cos(math.pi / 4)) / 2
    assert values(5, name="cosine", warmup=1.0) == pytest.approx([1, 1, *half])


def test_constant():
    assert values(4, name="constant", warmup=3.0) == pytest.approx([1 / 3, 2 / 3, 1, 1])


def test_trapezoid_falls_as_one_minus_a_square_root():
    got = values(10, name="trapezoid", warmup=0.2, decay=0.4)
    assert got == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 0.5, 1 - math.sqrt(0.5), 1 - math.sqrt(0.75)])
    assert values(4, name="trapezoid", warmup=0.0, decay=0.0) == [1, 1, 1, 1]


def test_noam_is_the_papers_formula_scaled_to_a_peak_of_one():
    warmup, width = 4, 512

    def paper(step: int) -> float:  # counts from 1
        return width**-0.5 * min(step**-0.5, step * warmup**-1.5)

    peak = paper(warmup)
    expected = [paper(step) / peak for step in range(1, 13)]
    assert values(12, name="noam", warmup=4.0) == pytest.approx(expected)


def test_warmup_is_a_share_or_a_number():
    assert warmup_steps(ScheduleConfig(warmup=0.25), 40) == 10
    assert warmup_steps(ScheduleConfig(warmup=25.0), 40) == 25
    assert all(value > 0 for value in values(100, name="linear", warmup=200.0))


@pytest.mark.parametrize("options", [{"warmup": -0.1}, {"decay": 1.5}, {"final": -1.0}])
def test_senseless_values_are_refused(options):
    with pytest.raises(ConfigError, match="allowed"):
        ScheduleConfig(**options)
