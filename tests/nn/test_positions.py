"""Positions: each kind against its formula, written out."""

import math

import torch

from bertworks.nn.positions import (
    RelativeBuckets,
    RelativeKeys,
    SinusoidalPositions,
    rotary_angles,
    rotate,
    sinusoids,
)


def test_sinusoids_by_the_formula():
    table = sinusoids(11, 6)
    for place in range(11):
        for column in range(6):
            angle = place / 10000 ** (2 * (column // 2) / 6)
            wanted = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert abs(float(table[place, column]) - wanted) < 1e-6


def test_sinusoidal_table_grows_and_is_not_stored():
    positions = SinusoidalPositions(num_positions=4, size=6)
    assert positions.state_dict() == {}
    torch.testing.assert_close(positions(torch.tensor([9])), sinusoids(10, 6)[9:])


def test_buckets_by_hand():
    """8 buckets both ways: 4 a side, of which 2 are exact and 2 grow logarithmically up to 16."""
    buckets = RelativeBuckets(num_buckets=8, max_distance=16, num_heads=3, bidirectional=True)
    distance = torch.tensor([-20, -6, -5, -2, -1, 0, 1, 2, 5, 6, 20])
    assert buckets.bucket(distance).tolist() == [3, 3, 2, 2, 1, 0, 5, 6, 6, 7, 7]
    one_way = RelativeBuckets(num_buckets=4, max_distance=16, num_heads=3, bidirectional=False)
    assert one_way.bucket(distance).tolist() == [3, 3, 2, 2, 1, 0, 0, 0, 0, 0, 0]


def test_relative_keys_by_a_loop():
    torch.manual_seed(0)
    keys = RelativeKeys(max_positions=4, head_size=5, with_keys=True)
    torch.nn.init.normal_(keys.weight)
    q, k = torch.randn(2, 3, 6, 5), torch.randn(2, 3, 7, 5)  # n = 2, N = 3, Lq = 6, Lk = 7, D = 5
    distance = torch.arange(7)[None] - torch.arange(6)[:, None]
    scores = keys(q, k, distance[None])
    for i in range(6):
        for j in range(7):
            vector = keys.weight[max(-3, min(3, i - j)) + 3]
            torch.testing.assert_close(scores[:, :, i, j], q[:, :, i] @ vector + k[:, :, j] @ vector)


def test_rotary_scores_depend_on_distance_only():
    torch.manual_seed(0)
    query, key = torch.randn(8), torch.randn(8)

    def score(query_place: int, key_place: int) -> float:
        angles = rotary_angles(torch.tensor([query_place, key_place]), head_size=8, theta=100.0)
        turned = rotate(torch.stack([query, key])[:, None], angles)[:, 0]
        return float(turned[0] @ turned[1])

    assert abs(score(3, 7) - score(10, 14)) < 1e-4
    assert abs(score(3, 7) - score(3, 8)) > 1e-3
    assert abs(score(5, 5) - float(query @ key)) < 1e-4


def test_rotation_by_hand():
    """D = 2, place 1, theta 1: a quarter-free turn by one radian."""
    turned = rotate(torch.tensor([[[1.0, 0.0]]]), rotary_angles(torch.tensor([1]), head_size=2, theta=1.0))
    torch.testing.assert_close(turned, torch.tensor([[[math.cos(1.0), math.sin(1.0)]]]))
