from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.infer.batching import batches, cut_pieces, over_batches, pack_pieces

lengths_lists = st.lists(st.integers(0, 30), min_size=0, max_size=12)


@given(lengths_lists, st.one_of(st.none(), st.integers(1, 9)))
def test_pieces_cover_every_text_in_order(lengths, room):
    ids = np.arange(sum(lengths), dtype=np.int32)
    pieces = cut_pieces(ids, np.array(lengths, dtype=np.int64), room)
    assert pieces.counts.tolist() == [1 if room is None else max(1, -(-length // room)) for length in lengths]
    for text, length in enumerate(lengths):
        own = [
            ids[start : start + size].tolist()
            for owner, start, size in zip(pieces.owner, pieces.start, pieces.length, strict=True)
            if owner == text
        ]
        assert list(chain.from_iterable(own)) == ids[sum(lengths[:text]) :][:length].tolist()
        sizes = [len(piece) for piece in own]
        assert max(sizes) - min(sizes) <= 1
        assert room is None or max(sizes) <= room


@given(lengths_lists, st.integers(1, 40))
def test_batches_hold_everything_once_within_the_budget(lengths, budget):
    sizes = np.array(lengths, dtype=np.int64)
    found = list(batches(sizes, budget))
    assert sorted(np.concatenate(found).tolist() if found else []) == list(range(len(lengths)))
    assert all(len(batch) == 1 or sizes[batch].sum() <= budget for batch in found)


def test_packing_by_hand():
    pieces = cut_pieces(np.array([10, 11, 12, 13], dtype=np.int32), np.array([3, 0, 1]), None)
    batch = pack_pieces(pieces, np.array([2, 0, 1]), np.array([101]), np.array([102, 103]))
    assert batch.input_ids.tolist() == [101, 13, 102, 103, 101, 10, 11, 12, 102, 103, 101, 102, 103]
    assert batch.layout.lengths == (4, 6, 3)


def test_batches_side_by_side_do_everything_once_and_leave_the_threads_alone():
    threads = torch.get_num_threads()
    done = np.zeros(50, dtype=int)

    def work(chosen: np.ndarray) -> None:
        assert torch.is_inference_mode_enabled()
        done[chosen] += 1

    lengths = np.arange(1, 51)
    counts = list(over_batches(work, lengths, budget=60, device=torch.device("cpu")))
    assert counts[-1] == 50
    assert counts == sorted(counts)
    assert (done == 1).all()
    assert torch.get_num_threads() == threads

    def fail(chosen: np.ndarray) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        list(over_batches(fail, lengths, budget=60, device=torch.device("cpu")))
    assert torch.get_num_threads() == threads
