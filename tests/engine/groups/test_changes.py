"""Which windows are emitted again: those that changed, told by comparing and never by a hash."""

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.engine.groups.replay.members import Sayings
from headwater.engine.intake.chunk import Chunk
from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.operator import Op

MIX = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1


def mixed(offset: int) -> int:
    """A hash of an event's place of birth, of which a window's sum over all members once said whether it had changed."""
    word = (offset + 1) * MIX & WORD
    return (word ^ (word >> 29)) * MIX & WORD


def unmixed(word: int) -> int:
    """The offset of which this is the hash."""
    back = pow(MIX, -1, 1 << 64)
    word = word * back & WORD
    word ^= (word >> 29) ^ (word >> 58)
    return (word * back & WORD) - 1


def pair_that_adds_nothing(first: int) -> tuple[int, int]:
    """Two offsets from ``first`` on whose hashes add up to 0."""
    pairs = ((offset, unmixed(-mixed(offset) & WORD)) for offset in range(first, first + 100))
    return next((low, high) for low, high in pairs if low < high < 2**63 - 1)


def test_late_events_whose_hashes_cancel_out_still_change_their_window():
    low, high = pair_that_adds_nothing(3)
    assert (mixed(low) + mixed(high)) & WORD == 0
    engine = hw.Engine([hw.query("q", hw.punctuated(hw.col("mark")), n=hw.count(), lateness=100)])
    engine.push({"time": [0, 5, 10], "mark": [True, False, True]})
    engine.advance(11)
    assert [(row["n"], row["revision"]) for row in engine.results()] == [(2, 0)]
    engine.push({"time": [6, 7], "mark": [False, False]}, offset=np.array([low, high]))
    engine.advance(12)
    assert [(row["n"], row["revision"]) for row in engine.results()] == [(4, 1)]


def test_equal_rows_have_equal_numbers_for_as_long_as_a_window_says_so():
    query = hw.query("q", hw.tumbling(5), distinct="id", n=hw.count())
    sayings = Sayings()

    def numbers(*counts: int) -> list[int]:
        column = np.array(counts)
        return sayings.numbers(query, {Op("count"): CountColumn(column)}, column, Chunk(column, 0, 0, [""])).tolist()

    first = numbers(2, 3, 2)
    assert first[0] == first[2] != first[1]
    sayings.keep(np.array(first[1:2]))
    again = Sayings()
    again.restore(sayings.state())
    sayings = again
    later = numbers(3, 2, 4)
    assert later[0] == first[1]
    assert len({*later, first[0]}) == 4, "a number that was forgotten is not given again"


def test_a_late_copy_with_another_value_changes_its_window():
    engine = hw.Engine([hw.query("q", hw.tumbling(10), distinct="id", lateness=100, first=hw.first("v"))])
    engine.push(pa.table({"time": [5], "id": [1], "v": [1.0]}))
    engine.advance(10)
    engine.push(pa.table({"time": [4, 3], "id": [1, 1], "v": [1.0, 2.0]}))
    engine.advance(11)
    assert [(row["first"], row["revision"]) for row in engine.results()] == [(1.0, 0), (2.0, 1)]
