"""Compiled inner loops of the merge learners, over the arrays of `arrays`: the tournament, the pair table, one merge.

One merge costs the words that hold the pair and the pairs beside it, and nothing else: no rescan of the corpus.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bertworks.compiled import compile_loop
from bertworks.text.train.arrays import (
    DEAD,
    FREE_SLOTS,
    LIKELIHOOD,
    MAX_LENGTH,
    MIN_COUNT,
    NONE,
    POOL_USED,
    THRESHOLD,
    WAITING,
    Pairs,
    Scratch,
    Symbols,
    Words,
)


def compiled(function: Any) -> Any:
    """Plain IEEE arithmetic, so that results are equal on every machine."""
    # "numpy": while a pair loses its last occurrences, one list of neighbours after the other, its symbols may be at
    # 0 already; it then scores infinity for a moment, which the next loss or its removal corrects.
    return compile_loop(function, error_model="numpy")


# --- the tournament ---------------------------------------------------------------------------------------------------


@compiled
def better(pairs: Pairs, one: int, other: int) -> bool:
    """Whether slot `one` beats slot `other`: the written tie rule."""
    if pairs.scores[one] != pairs.scores[other]:
        return pairs.scores[one] > pairs.scores[other]
    if pairs.counts[one] != pairs.counts[other]:
        return pairs.counts[one] > pairs.counts[other]
    if pairs.left[one] != pairs.left[other]:
        return pairs.left[one] < pairs.left[other]
    return pairs.right[one] < pairs.right[other]


@compiled
def play(pairs: Pairs, node: int) -> int:
    """The slot that wins an inner node."""
    slots = pairs.winners.size
    one, other = 2 * node, 2 * node + 1
    first = one - slots if one >= slots else pairs.winners[one]
    second = other - slots if other >= slots else pairs.winners[other]
    return second if better(pairs, second, first) else first


@compiled
def replay(pairs: Pairs, slot: int) -> None:
    """Bring the tournament up to date after the score of one slot changed."""
    node = (pairs.winners.size + slot) >> 1
    while node >= 1:
        before = pairs.winners[node]
        after = play(pairs, node)
        pairs.winners[node] = after
        if before == after and after != slot:
            return  # the nodes above saw this winner already, and its score is not the one that changed
        node >>= 1


@compiled
def play_all(pairs: Pairs) -> None:
    """Fill the whole tournament."""
    for node in range(pairs.winners.size - 1, 0, -1):
        pairs.winners[node] = play(pairs, node)


# --- finding, adding and removing pairs -------------------------------------------------------------------------------


@compiled
def home(pairs: Pairs, left: int, right: int) -> int:
    """Where the hash table starts to look for a pair."""
    mixed = ((np.int64(left) << 32) ^ np.int64(right)) * np.int64(-7046029254386353131)  # 2^64 / golden ratio, odd
    return int((mixed >> 32) & (pairs.table.size - 1))


@compiled
def find(pairs: Pairs, left: int, right: int) -> int:
    """The slot of a live pair, or NONE."""
    place = home(pairs, left, right)
    while pairs.table[place] != NONE:
        slot = pairs.table[place]
        if pairs.left[slot] == left and pairs.right[slot] == right:
            return slot
        place = (place + 1) & (pairs.table.size - 1)
    return NONE


@compiled
def enter(pairs: Pairs, slot: int) -> None:
    """Put a slot into the hash table; its pair is not there yet."""
    place = home(pairs, pairs.left[slot], pairs.right[slot])
    while pairs.table[place] != NONE:
        place = (place + 1) & (pairs.table.size - 1)
    pairs.table[place] = slot


@compiled
def leave(pairs: Pairs, slot: int) -> None:
    """Take a slot out of the hash table, closing the gap that it leaves in its run."""
    mask = pairs.table.size - 1
    gap = home(pairs, pairs.left[slot], pairs.right[slot])
    while pairs.table[gap] != slot:
        gap = (gap + 1) & mask
    place = (gap + 1) & mask
    while pairs.table[place] != NONE:
        other = pairs.table[place]
        wanted = home(pairs, pairs.left[other], pairs.right[other])
        if (place - wanted) & mask >= (place - gap) & mask:  # it may move back: the gap is not before its home
            pairs.table[gap] = other
            gap = place
        place = (place + 1) & mask
    pairs.table[gap] = NONE


@compiled
def link(pairs: Pairs, symbols: Symbols, slot: int) -> None:
    """Put a slot at the head of the lists of its two symbols."""
    left, right = pairs.left[slot], pairs.right[slot]
    after = symbols.first_as_left[left]
    pairs.next_same_left[slot] = after
    pairs.back_same_left[slot] = NONE
    if after != NONE:
        pairs.back_same_left[after] = slot
    symbols.first_as_left[left] = slot
    after = symbols.first_as_right[right]
    pairs.next_same_right[slot] = after
    pairs.back_same_right[slot] = NONE
    if after != NONE:
        pairs.back_same_right[after] = slot
    symbols.first_as_right[right] = slot


@compiled
def unlink(pairs: Pairs, symbols: Symbols, slot: int) -> None:
    """Take a slot out of the lists of its two symbols."""
    before, after = pairs.back_same_left[slot], pairs.next_same_left[slot]
    if after != NONE:
        pairs.back_same_left[after] = before
    if before != NONE:
        pairs.next_same_left[before] = after
    else:
        symbols.first_as_left[pairs.left[slot]] = after
    before, after = pairs.back_same_right[slot], pairs.next_same_right[slot]
    if after != NONE:
        pairs.back_same_right[after] = before
    if before != NONE:
        pairs.next_same_right[before] = after
    else:
        symbols.first_as_right[pairs.right[slot]] = after


@compiled
def rate(pairs: Pairs, symbols: Symbols, slot: int) -> None:
    """Give a live pair the score that its counts demand, and bring lists and tournament up to date."""
    likelihood = pairs.numbers[LIKELIHOOD] == 1
    score = float(pairs.counts[slot])
    if pairs.counts[slot] < pairs.numbers[THRESHOLD]:
        score = WAITING
    elif likelihood:
        score /= float(symbols.counts[pairs.left[slot]]) * float(symbols.counts[pairs.right[slot]])
    if likelihood and score > WAITING and pairs.scores[slot] <= WAITING:
        link(pairs, symbols, slot)
    if likelihood and score == WAITING and pairs.scores[slot] > WAITING:
        unlink(pairs, symbols, slot)
    pairs.scores[slot] = score
    replay(pairs, slot)


@compiled
def remove(pairs: Pairs, symbols: Symbols, slot: int) -> None:
    """Free a slot."""
    leave(pairs, slot)
    if pairs.numbers[LIKELIHOOD] == 1 and pairs.scores[slot] > WAITING:
        unlink(pairs, symbols, slot)
    pairs.scores[slot] = DEAD
    pairs.counts[slot] = 0
    pairs.pool_size[slot] = 0
    pairs.free[pairs.numbers[FREE_SLOTS]] = slot
    pairs.numbers[FREE_SLOTS] += 1
    replay(pairs, slot)


@compiled
def rebuild(pairs: Pairs, symbols: Symbols, used: int) -> None:
    """Hash table, lists and tournament for the pairs in the first `used` slots; the other arrays are filled already."""
    pairs.table[:] = NONE
    pairs.scores[:] = DEAD
    symbols.first_as_left[:] = NONE
    symbols.first_as_right[:] = NONE
    for slot in range(used, pairs.left.size):
        pairs.free[slot - used] = slot
    pairs.numbers[FREE_SLOTS] = pairs.left.size - used
    play_all(pairs)  # all slots are equal now, but every node must name one of its own
    for slot in range(used):
        enter(pairs, slot)
        rate(pairs, symbols, slot)


@compiled
def lower_threshold(pairs: Pairs, symbols: Symbols, threshold: int) -> None:
    """Let the pairs in that waited below the old threshold."""
    pairs.numbers[THRESHOLD] = threshold
    for slot in range(pairs.left.size):
        if pairs.scores[slot] == WAITING and pairs.counts[slot] >= threshold:
            rate(pairs, symbols, slot)


# --- one merge --------------------------------------------------------------------------------------------------------


@compiled
def rewrite_words(words: Words, pairs: Pairs, scratch: Scratch, slot: int, new: int) -> tuple[int, int, int, int, int]:
    """Replace the pair by `new` in every word that holds it, left to right; sum up what its neighbours gain and lose.

    Returns (occurrences merged, left events, right events, left neighbours, right neighbours).
    """
    left, right = pairs.left[slot], pairs.right[slot]
    merged = 0
    left_events = right_events = left_neighbours = right_neighbours = 0
    for entry in range(pairs.pool_start[slot], pairs.pool_start[slot] + pairs.pool_size[slot]):
        word = pairs.pool[entry]
        start, count = words.starts[word], words.counts[word]
        end = start + words.lengths[word]
        read = write = start
        just_merged = False  # the last symbol written came from this merge
        while read < end:
            if words.symbols[read] != left or read + 1 >= end or words.symbols[read + 1] != right:
                words.symbols[write] = words.symbols[read]
                just_merged = False
                read += 1
                write += 1
                continue
            merged += count
            if write > start:
                neighbour = words.symbols[write - 1]
                if just_merged:  # (new, left) was noted a moment ago and is now (new, new)
                    scratch.gained_right[left] -= count
                else:
                    scratch.lost_left[neighbour] += count
                scratch.gained_left[neighbour] += count
                if scratch.places_left[neighbour] == 0:
                    scratch.touched_left[left_neighbours] = neighbour
                    left_neighbours += 1
                scratch.places_left[neighbour] += 1
                scratch.left_events[left_events, 0] = neighbour
                scratch.left_events[left_events, 1] = word
                left_events += 1
            if read + 2 < end:
                neighbour = words.symbols[read + 2]
                scratch.lost_right[neighbour] += count
                scratch.gained_right[neighbour] += count
                if scratch.places_right[neighbour] == 0:
                    scratch.touched_right[right_neighbours] = neighbour
                    right_neighbours += 1
                scratch.places_right[neighbour] += 1
                scratch.right_events[right_events, 0] = neighbour
                scratch.right_events[right_events, 1] = word
                right_events += 1
            words.symbols[write] = new
            just_merged = True
            read += 2
            write += 1
        words.lengths[word] = write - start
    return merged, left_events, right_events, left_neighbours, right_neighbours


@compiled
def lower_count(pairs: Pairs, symbols: Symbols, left: int, right: int, lost: int) -> None:
    """Take occurrences from a pair, if it is live."""
    slot = find(pairs, left, right)
    if slot == NONE:
        return
    pairs.counts[slot] -= lost
    if pairs.counts[slot] < pairs.numbers[MIN_COUNT]:
        remove(pairs, symbols, slot)
    else:
        rate(pairs, symbols, slot)


@compiled
def lower_counts(
    pairs: Pairs, symbols: Symbols, scratch: Scratch, left: int, right: int, left_neighbours: int, right_neighbours: int
) -> None:
    """Apply what the old pairs around a merge of (left, right) lost."""
    for i in range(left_neighbours):
        neighbour = scratch.touched_left[i]
        if scratch.lost_left[neighbour] > 0:
            lower_count(pairs, symbols, neighbour, left, scratch.lost_left[neighbour])
            scratch.lost_left[neighbour] = 0
    for i in range(right_neighbours):
        neighbour = scratch.touched_right[i]
        if scratch.lost_right[neighbour] > 0:
            lower_count(pairs, symbols, right, neighbour, scratch.lost_right[neighbour])
            scratch.lost_right[neighbour] = 0


@compiled
def add_side(
    pairs: Pairs, symbols: Symbols, scratch: Scratch, new: int, neighbours: int, events: int, on_left: bool
) -> None:
    """Give slots to the new pairs on one side of `new`, with their words, and clear that side of the scratch."""
    gained = scratch.gained_left if on_left else scratch.gained_right
    places = scratch.places_left if on_left else scratch.places_right
    touched = scratch.touched_left if on_left else scratch.touched_right
    event = scratch.left_events if on_left else scratch.right_events
    max_length = pairs.numbers[MAX_LENGTH] - symbols.lengths[new]
    for i in range(neighbours):
        neighbour = touched[i]
        slot = NONE
        if gained[neighbour] >= pairs.numbers[MIN_COUNT] and symbols.lengths[neighbour] <= max_length:
            pairs.numbers[FREE_SLOTS] -= 1
            slot = pairs.free[pairs.numbers[FREE_SLOTS]]
            pairs.left[slot] = neighbour if on_left else new
            pairs.right[slot] = new if on_left else neighbour
            pairs.counts[slot] = gained[neighbour]
            pairs.pool_start[slot] = pairs.numbers[POOL_USED]
            pairs.numbers[POOL_USED] += places[neighbour]
            enter(pairs, slot)
            rate(pairs, symbols, slot)
        scratch.slot_of[neighbour] = slot
        gained[neighbour] = 0
        places[neighbour] = 0
    for i in range(events):
        slot = scratch.slot_of[event[i, 0]]
        if slot != NONE:
            pairs.pool[pairs.pool_start[slot] + pairs.pool_size[slot]] = event[i, 1]
            pairs.pool_size[slot] += 1


@compiled
def rate_neighbours(pairs: Pairs, symbols: Symbols, symbol: int) -> None:
    """New scores for every pair that holds `symbol`, whose count changed."""
    slot = symbols.first_as_left[symbol]
    while slot != NONE:
        rate(pairs, symbols, slot)
        slot = pairs.next_same_left[slot]
    slot = symbols.first_as_right[symbol]
    while slot != NONE:
        rate(pairs, symbols, slot)
        slot = pairs.next_same_right[slot]


@compiled
def pack_pool(pairs: Pairs, target: np.ndarray) -> int:
    """Copy the word lists of the live pairs into `target`, one after the other; returns how much of it is used."""
    used = 0
    for slot in range(pairs.left.size):
        size = pairs.pool_size[slot]
        start = pairs.pool_start[slot]
        target[used : used + size] = pairs.pool[start : start + size]
        pairs.pool_start[slot] = used
        used += size
    return used
