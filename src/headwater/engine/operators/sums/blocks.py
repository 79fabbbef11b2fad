"""Events on their way into rows: where they go, and what must be known about a block of them first.

Events are taken a block at a time, small enough that a quick look at the block leaves it in the cache for the kernel that
does the work. What the look finds out (which rows, how large, how small, any to leave out) lets that kernel run without a
check per event.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.arrays import BoolArray, Float64Array, Int32Array, Int64Array, UInt64Array, frozen
from headwater.base.jit import njit

#: Events per block. Partial sums of a block must fit into 64 bits, so kernels rely on this size.
BLOCK_BITS = 13
BLOCK = 1 << BLOCK_BITS
#: A block's rows get accumulators of their own if there are at least this many events for each row they span.
EVENTS_PER_ROW = 8
#: Rows with fewer events than this see new smallest and largest values too often to bet on there being none.
EVENTS_PER_RECORD = 64
#: Accumulators of a row of a block: sum, second sum, count and one unused: a power of two makes their place a shift.
CELLS = 4

MAGNITUDE = np.int64(2**63 - 1)
INFINITY_BITS = np.int64(0x7FF << 52)


class Accumulators(NamedTuple):
    """The accumulators of one call, one row each; those that no operator asked for are empty.

    ``ends`` holds the smallest value of row i at ``2 * i`` and the largest behind it, in the type of the column.
    """

    counts: Int64Array
    limbs: UInt64Array
    squares: UInt64Array
    specials: Int64Array
    ends: NDArray[Any]


class Scratch(NamedTuple):
    """Room for one block: the events kept of it, and accumulators for the rows it spans.

    ``bits``, ``values`` and ``rows`` show the kept events read-only: kernels take their events read-only, so that one
    compiled form serves Arrow's buffers and this copy.
    """

    kept_bits: Int64Array
    kept_rows: Int32Array
    bits: Int64Array
    values: Float64Array
    rows: Int32Array
    sums: Int64Array


def scratch_for(event_count: int, row_count: int) -> Scratch:
    """Room for the blocks of a call with this many events and rows."""
    size = min(event_count, BLOCK)
    span = min(row_count, size // EVENTS_PER_ROW) + 1
    kept_bits, kept_rows = np.empty(size, np.int64), np.empty(size, np.int32)
    bits = frozen(kept_bits, np.int64)
    rows = frozen(kept_rows, np.int32)
    return Scratch(kept_bits, kept_rows, bits, bits.view(np.float64), rows, np.empty(CELLS * span, np.int64))


@njit
def row_span(rows: Int32Array) -> tuple[np.int64, np.int64]:
    """The smallest and the largest row."""
    first, last = np.int32(2**31 - 1), np.int32(-1)
    for i in range(len(rows)):
        first = min(first, rows[i])
        last = max(last, rows[i])
    return np.int64(first), np.int64(last)


@njit
def magnitude_span(bits: Int64Array) -> tuple[np.int64, np.int64]:
    """The bits of the largest magnitude and of the smallest that is not zero, of floats given by their bits."""
    largest, smallest = np.int64(0), MAGNITUDE
    for i in range(len(bits)):
        magnitude = bits[i] & MAGNITUDE
        largest = max(largest, magnitude)
        smallest = min(smallest, magnitude if magnitude != 0 else MAGNITUDE)
    return largest, smallest


@njit
def finite_magnitude_span(bits: Int64Array) -> tuple[np.int64, np.int64]:
    """`magnitude_span` without infinities and NaN."""
    largest, smallest = np.int64(0), MAGNITUDE
    for i in range(len(bits)):
        magnitude = bits[i] & MAGNITUDE
        if magnitude != 0 and magnitude < INFINITY_BITS:
            largest = max(largest, magnitude)
            smallest = min(smallest, magnitude)
    return largest, smallest


@njit
def used_bits(values: Int64Array) -> np.int64:
    """A number with every bit set that the magnitude of some integer needs."""
    used = np.int64(0)
    for i in range(len(values)):
        used |= values[i] ^ (values[i] >> 63)
    return used


@njit
def keep(
    bits: Int64Array, rows: Int32Array, valid: BoolArray, kept_bits: Int64Array, kept_rows: Int32Array
) -> np.int64:
    """Copy the events that have a row and a value (``valid`` is empty if all have one) and return how many they are."""
    count = np.uint64(0)
    if len(valid) == 0:
        for i in range(len(rows)):
            # Always written, not always kept: no branch to mispredict.
            kept_bits[count] = bits[i]
            kept_rows[count] = rows[i]
            count += np.uint64(rows[i] >= 0)
    else:
        for i in range(len(rows)):
            kept_bits[count] = bits[i]
            kept_rows[count] = rows[i]
            count += np.uint64((rows[i] >= 0) & valid[i])
    return np.int64(count)


@njit
def count_rows(rows: Int32Array, valid: BoolArray, counts: Int64Array) -> None:
    """Count the events of each row that have a value (``valid`` is empty if all have one)."""
    if len(valid) == 0 and row_span(rows)[0] >= 0:
        for i in range(len(rows)):
            counts[np.uint64(rows[i])] += 1
    else:
        for i in range(len(rows)):
            if rows[i] >= 0 and (len(valid) == 0 or valid[i]):
                counts[np.uint64(rows[i])] += 1


@njit
def add_counts(rows: Int32Array, counts: Int64Array) -> None:
    """Count the events of each row; all of them have one."""
    for i in range(len(rows)):
        counts[np.uint64(rows[i])] += 1


@njit
def add_ends(values: NDArray[Any], rows: Int32Array, ends: NDArray[Any]) -> None:
    """Let each value be the smallest or largest of its row."""
    for i in range(len(values)):
        add_end(values[i], np.uint64(rows[i]), ends)


@njit
def add_end_blindly(value: np.int64 | np.float64, row: np.uint64, ends: NDArray[Any]) -> None:
    """`add_end` for rows of few events, where every other value is a new record: always stored, no branch to mispredict."""
    at = row + row
    smallest, largest = ends[at], ends[at + np.uint64(1)]
    ends[at] = value if value < smallest else smallest
    ends[at + np.uint64(1)] = value if value > largest else largest


@njit
def add_end(value: np.int64 | np.float64, row: np.uint64, ends: NDArray[Any]) -> None:
    """Let one value be the smallest or largest of its row."""
    at = row + row
    # Branches, not min and max: a new record is rare, so they are predicted well and nothing is stored.
    if value < ends[at]:
        ends[at] = value
    if value > ends[at + np.uint64(1)]:
        ends[at + np.uint64(1)] = value
