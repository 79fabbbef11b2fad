"""Partials of numbers: counts, exact sums, smallest and largest values, products; and how events become partials.

`lift_numeric` runs all operators of one column over the events in as few passes as it can: count, sum, min and max share
a single one. Columns of partials are values: combining them makes new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.base.arrays import BoolArray, Int32Array, Int64Array, RowArrays, UInt64Array, frozen
from headwater.base.packing import Bytes, Reader, Writer, order_bits
from headwater.engine.intake.chunk import Values
from headwater.engine.operators.extremes import MinMaxColumn
from headwater.engine.operators.operator import Op
from headwater.engine.operators.products import ProductColumn, lift_product
from headwater.engine.operators.ranges import sum_ranges, survey
from headwater.engine.operators.sums.blocks import Accumulators, count_rows, scratch_for
from headwater.engine.operators.sums.exact_sum import NAN, NEGATIVE, POSITIVE, SumColumn, layout, rebased
from headwater.engine.operators.sums.floats import NEEDS_NOTHING, NEEDS_SPECIALS, NO_HIGH, NO_LOW, add_float_events
from headwater.engine.operators.sums.integers import add_integer_events
from headwater.errors import FormatError

VERSION = 1
NO_MASK = frozen(np.empty(0, np.bool_), np.bool_)
#: Exponents above all integers and above all their squares.
INTEGER_HIGH, SQUARE_HIGH = 64, 127
NAN_KEY = np.int64(0x7FF8 << 48)


@dataclass(frozen=True, slots=True, eq=False)
class CountColumn(RowArrays):
    """How many events each row has.

    >>> CountColumn(np.array([2, 3, 5])).combine_ranges(np.array([0, 1]), np.array([3, 1])).counts
    array([10,  0])
    """

    counts: Int64Array

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> Self:
        """Row i is the sum of the rows ``lo[i]:hi[i]``."""
        seen = survey(lo, hi)
        return self.take(lo) if seen.all_single else type(self)(sum_ranges(self.counts, lo, hi, seen))

    def to_bytes(self) -> bytes:
        """The byte form: equal counts give equal bytes."""
        return Writer(VERSION).ints(self.counts).finish()

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """The column whose `to_bytes` this is; anything else is a `FormatError`."""
        with Reader(data, "counts", VERSION) as reader:
            counts = reader.ints()
        if (counts < 0).any():
            raise FormatError("a count below zero")
        return cls(counts)


NumericColumn: TypeAlias = CountColumn | SumColumn | MinMaxColumn | ProductColumn


def lift_count(rows: Int32Array, row_count: int) -> CountColumn:
    """How many events each row has; row -1 is no row.

    >>> lift_count(np.array([1, -1, 1], np.int32), 2).counts
    array([0, 2])
    """
    return _counted(rows, None, row_count)


def lift_numeric(ops: Iterable[Op], values: Values | None, rows: Int32Array, row_count: int) -> dict[Op, NumericColumn]:
    """The partials of all ``ops``, which read one column of int64 or float64, or none (kind count).

    Event i adds to row ``rows[i]``, or to none if that is -1. Kinds: count valid sum sumsq min max product; a product with
    parameter "float" is that of the values as floats.

    >>> import pyarrow as pa
    >>> values = Values(np.array([0.5, 4.0, 0.25]), None, pa.float64())
    >>> lifted = lift_numeric([Op("sum", "x"), Op("max", "x")], values, np.array([0, 1, 0], np.int32), 2)
    >>> lifted[Op("sum", "x")].to_float64(), lifted[Op("max", "x")].values()[0]
    (array([0.75, 4.  ]), array([0.5, 4. ]))
    """
    ops = tuple(ops)
    kinds = {op.kind for op in ops}
    result: dict[Op, NumericColumn] = {}
    if values is not None and kinds & {"sum", "sumsq", "min", "max"}:
        lifted = _lift_floats if values.data.dtype.kind == "f" else _lift_integers
        columns: dict[str, NumericColumn] = lifted(kinds, values, rows, row_count)
    else:
        columns = {}
        if values is not None and "valid" in kinds:
            columns["valid"] = _counted(rows, values.valid, row_count)
    if "count" in kinds:
        no_nulls = values is not None and values.valid is None
        columns["count"] = columns["valid"] if no_nulls and "valid" in columns else lift_count(rows, row_count)
    for op in ops:
        if op.kind == "product" and values is not None:
            result[op] = lift_product(values.data, values.valid, rows, row_count, as_float=op.parameter == "float")
        else:
            result[op] = columns[op.kind]
    return result


def _counted(rows: Int32Array, valid: BoolArray | None, row_count: int) -> CountColumn:
    counts = np.zeros(row_count, np.int64)
    count_rows(frozen(rows, np.int32), NO_MASK if valid is None else frozen(valid, np.bool_), counts)
    return CountColumn(counts)


def _target(kinds: set[str], row_count: int, square_width: int, nothing: NDArray[Any]) -> Accumulators:
    """Accumulators for what ``kinds`` ask for, and empty arrays for the rest; ``nothing`` are the ends of no values."""
    sums = row_count if "sum" in kinds else 0
    squares = row_count if "sumsq" in kinds else 0
    ends = row_count if kinds & {"min", "max"} else 0
    return Accumulators(
        counts=np.zeros(row_count, np.int64),
        limbs=np.zeros((sums, 2), np.uint64),
        squares=np.zeros((squares, square_width), np.uint64),
        specials=np.zeros((0, 3), np.int64),
        ends=np.tile(nothing, ends),
    )


def _ends(
    kinds: set[str], mins: Int64Array, maxs: Int64Array, present: BoolArray, is_float: bool
) -> dict[str, NumericColumn]:
    sides = (("min", mins, False), ("max", maxs, True))
    return {kind: MinMaxColumn.of(keys, largest, is_float, present) for kind, keys, largest in sides if kind in kinds}


def _float_keys(target: Accumulators) -> tuple[Int64Array, Int64Array]:
    """The ends as integers in the order of the floats; NaN is larger than all, and -0.0 is 0.0."""
    keys = order_bits(target.ends + 0.0)
    mins, maxs = keys[0::2], keys[1::2]
    if len(target.specials) and len(keys):
        nan_count = target.specials[:, NAN]
        mins[nan_count == target.counts] = NAN_KEY
        maxs[nan_count > 0] = NAN_KEY
    return mins, maxs


def _lift_integers(kinds: set[str], values: Values, rows: Int32Array, row_count: int) -> dict[str, NumericColumn]:
    target = _target(kinds, row_count, 3, np.array([2**63 - 1, -(2**63)]))
    valid = NO_MASK if values.valid is None else frozen(values.valid, np.bool_)
    add_integer_events(
        frozen(values.data, np.int64), frozen(rows, np.int32), valid, scratch_for(len(rows), row_count), target
    )
    return {
        "valid": CountColumn(target.counts),
        "sum": SumColumn(target.limbs, 0, 0, INTEGER_HIGH),
        "sumsq": SumColumn(target.squares, 0, 0, SQUARE_HIGH),
        **_ends(kinds, target.ends[0::2], target.ends[1::2], target.counts > 0, is_float=False),
    }


def _lift_floats(kinds: set[str], values: Values, rows: Int32Array, row_count: int) -> dict[str, NumericColumn]:
    target = _target(kinds, row_count, 2, np.array([np.inf, -np.inf]))
    data, rows = frozen(values.data, np.float64), frozen(rows, np.int32)
    valid = NO_MASK if values.valid is None else frozen(values.valid, np.bool_)
    scratch = scratch_for(len(rows), row_count)
    low, high = NO_LOW, NO_HIGH
    unit = squares_unit = start = 0
    if values.spread is not None:
        low, high = values.spread
        limbs, unit = _wider(target.limbs, unit, low, high, empty=True)
        squares, squares_unit = _wider(target.squares, squares_unit, 2 * low, 2 * high, empty=True)
        target = target._replace(limbs=limbs, squares=squares)
    while True:
        start, need, block_low, block_high = add_float_events(
            data.view(np.int64), data, rows, valid, start, unit, squares_unit, scratch, target
        )
        low, high = min(low, int(block_low)), max(high, int(block_high))
        if need == NEEDS_NOTHING:
            break
        if need == NEEDS_SPECIALS:
            target = target._replace(specials=np.zeros((row_count, 3), np.int64))
        else:
            limbs, unit = _wider(target.limbs, unit, low, high, empty=start == 0)
            squares, squares_unit = _wider(target.squares, squares_unit, 2 * low, 2 * high, empty=start == 0)
            target = target._replace(limbs=limbs, squares=squares)
    if high < low:
        low = high = 0
    specials, squared = _special_counts(target)
    return {
        "valid": CountColumn(target.counts),
        "sum": SumColumn(target.limbs, unit, low, high, specials),
        "sumsq": SumColumn(target.squares, squares_unit, 2 * low, 2 * high, squared),
        **_ends(kinds, *_float_keys(target), target.counts > 0, is_float=True),
    }


def _wider(limbs: UInt64Array, old_unit: int, low: int, high: int, empty: bool) -> tuple[UInt64Array, int]:
    """The same sums with room for values between ``2**low`` and ``2**high``."""
    unit, width = layout(low, high)
    if empty:  # nothing to move yet
        return (limbs if limbs.shape[1] == width else np.zeros((len(limbs), width), np.uint64)), unit
    return rebased(limbs, old_unit, unit, width), unit


def _special_counts(target: Accumulators) -> tuple[Int64Array | None, Int64Array | None]:
    """Special values among the events, and among their squares: there every infinity is positive."""
    if len(target.specials) == 0:
        return None, None
    squared = np.zeros_like(target.specials)
    squared[:, NAN] = target.specials[:, NAN]
    squared[:, POSITIVE] = target.specials[:, POSITIVE] + target.specials[:, NEGATIVE]
    return target.specials, squared
