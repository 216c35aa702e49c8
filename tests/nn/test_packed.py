"""Packed batches: boundaries, spans, rows and reductions."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.nn.packed import Layout, Packed, max_per_sequence, mean_per_sequence, spans

lengths_lists = st.lists(st.integers(0, 6), min_size=1, max_size=8)


def test_worked_example():
    layout = Layout([4, 3, 3])
    assert layout.starts == (0, 4, 7)
    assert layout.total == 10
    assert layout.positions().tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2]
    assert layout.sequence_ids().tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [(s.count, s.query_start, s.query_length) for s in spans(layout, layout)] == [(1, 0, 4), (2, 4, 3)]
    assert layout.first().index.tolist() == [0, 4, 7]
    assert layout.last().index.tolist() == [3, 6, 9]


def test_rows_are_counted_per_sequence():
    rows = Layout([4, 3, 3]).rows(torch.tensor([1, 2, 8]))
    assert rows.layout.lengths == (2, 0, 1)


@given(lengths_lists)
def test_spans_cover_every_query_once(lengths):
    layout = Layout(lengths)
    covered = [
        token
        for span in spans(layout, layout)
        for token in range(span.query_start, span.query_start + span.count * span.query_length)
    ]
    assert covered == list(range(layout.total))


@given(lengths_lists)
def test_reductions_equal_a_loop(lengths):
    layout = Layout(lengths)
    flat = torch.randn(layout.total, 3)
    for sequence, (start, length) in enumerate(zip(layout.starts, layout.lengths, strict=True)):
        own = flat[start : start + length]
        mean = own.mean(0) if length else torch.zeros(3)
        largest = own.amax(0) if length else torch.zeros(3)
        torch.testing.assert_close(mean_per_sequence(flat, layout)[sequence], mean)
        torch.testing.assert_close(max_per_sequence(flat, layout)[sequence], largest)


def test_packing_keeps_order():
    batch = Packed.from_sequences([[5, 6], np.array([7])], [[0, 1], [1]])
    assert batch.input_ids.tolist() == [5, 6, 7]
    assert batch.segments is not None
    assert batch.segments.tolist() == [0, 1, 1]
    assert Packed.from_sequences([]).input_ids.tolist() == []
