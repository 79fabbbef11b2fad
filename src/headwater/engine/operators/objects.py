"""Partials of values that are Python objects: exact sums of decimals, the smallest and largest of decimals and texts.

Decimals are added up as whole numbers of their last digit, which Python adds without limit. One step per event in Python is
slow next to the numeric kernels and fast enough for what such columns hold.
"""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from headwater.base.arrays import Int32Array, Int64Array
from headwater.base.packing import Bytes, Reader, Writer
from headwater.engine.intake.chunk import Values
from headwater.errors import FormatError


def fold_ranges(
    partials: Sequence[Any],
    lo: Int64Array,
    hi: Int64Array,
    combine: Callable[[Any, Any], Any],
    empty: Callable[[], Any],
) -> list[Any]:
    """Combine ``partials[lo[i]:hi[i]]`` from left to right for each i; nothing at all is ``empty()``.

    >>> import numpy as np
    >>> fold_ranges(["a", "b", "c"], np.array([0, 1, 2]), np.array([3, 3, 2]), lambda a, b: a + b, str)
    ['abc', 'bc', '']
    """
    ranges = list(zip(lo.tolist(), hi.tolist()))
    distinct = dict.fromkeys(ranges)
    calls = sum(max(end - begin - 1, 0) for begin, end in distinct)
    fold = _directly if calls <= len(partials) * max(len(partials), 1).bit_length() else _by_table
    folded = fold(partials, list(distinct), combine)
    by_range = dict(zip(distinct, folded))
    return [by_range[key] if key[0] < key[1] else empty() for key in ranges]


def _directly(partials: Sequence[Any], ranges: list[tuple[int, int]], combine: Callable[[Any, Any], Any]) -> list[Any]:
    return [functools.reduce(combine, partials[begin:end]) if begin < end else None for begin, end in ranges]


def _by_table(partials: Sequence[Any], ranges: list[tuple[int, int]], combine: Callable[[Any, Any], Any]) -> list[Any]:
    """One call per range, from a table of partials combined towards the middle of blocks of 2, 4, 8 ... rows.

    The first and last row of a range lie in the two halves of exactly one block; the range is what lies before its middle
    plus what lies behind it.
    """
    levels: dict[int, list[Any]] = {}
    folded = []
    for begin, end in ranges:
        if end - begin <= 1:
            folded.append(partials[begin] if begin < end else None)
            continue
        level = (begin ^ (end - 1)).bit_length() - 1
        if level not in levels:
            levels[level] = _towards_middles(partials, 1 << level, combine)
        folded.append(combine(levels[level][begin], levels[level][end - 1]))
    return folded


def _towards_middles(partials: Sequence[Any], half: int, combine: Callable[[Any, Any], Any]) -> list[Any]:
    """Entry i: all from i up to its block's middle, or from the middle up to and with i."""
    table = list(partials)
    for middle in range(half, len(partials), 2 * half):
        for i in range(middle - 2, middle - half - 1, -1):
            table[i] = combine(partials[i], table[i + 1])
        for i in range(middle + 1, min(middle + half, len(partials))):
            table[i] = combine(table[i - 1], partials[i])
    return table


VERSION = 1
#: Wide enough for every decimal Arrow knows; Python's default of 28 digits would round.
EXACT = decimal.Context(prec=400)

#: How two partials of each kind become one.
COMBINE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sum": lambda a, b: a + b,
    "sumsq": lambda a, b: a + b,
    "min": min,
    "max": max,
}
KINDS = tuple(COMBINE)


@dataclass(slots=True, eq=False)
class ListColumn:
    """Partials that are Python objects, one per row; ``kind`` says how they are combined."""

    kind: Any
    partials: list[Any]

    def __len__(self) -> int:
        return len(self.partials)

    @property
    def nbytes(self) -> int:
        """Memory held, roughly: a pointer and a small object per row."""
        return 64 * len(self.partials)

    def take(self, indices: Int64Array) -> Self:
        """These rows."""
        return type(self)(self.kind, [self.partials[i] for i in indices.tolist()])

    @classmethod
    def concat(cls, columns: Sequence[Self]) -> Self:
        """The rows of all columns, one after the other."""
        return cls(columns[0].kind, [partial for column in columns for partial in column.partials])


class ObjectColumn(ListColumn):
    """One partial per row; None where there was no value.

    >>> import numpy as np
    >>> prices = ObjectColumn("sum", [150, None, 25])
    >>> prices.combine_ranges(np.array([0, 1]), np.array([3, 2])).partials
    [175, None]
    """

    __slots__ = ()

    @classmethod
    def lift(cls, kind: str, values: Values, rows: Int32Array, row_count: int) -> ObjectColumn:
        """Sums hold whole numbers of the decimals' last digit (of its square, for squares); min and max the values themselves."""
        partials: list[Any] = [None] * row_count
        scale = getattr(values.type, "scale", 0)
        valid = None if values.valid is None else values.valid.tolist()
        combine = COMBINE[kind]
        for i, (row, value) in enumerate(zip(rows.tolist(), values.data.tolist())):
            if row < 0 or value is None or (valid is not None and not valid[i]):
                continue
            if kind in ("sum", "sumsq"):
                value = unscaled(value, scale)
                value = value * value if kind == "sumsq" else value
            partials[row] = value if partials[row] is None else combine(partials[row], value)
        return cls(kind, partials)

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> ObjectColumn:
        """Row i = the combination of rows ``lo[i]`` to ``hi[i]``."""
        return ObjectColumn(self.kind, fold_ranges(self.partials, lo, hi, self._combined, lambda: None))

    def _combined(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return COMBINE[self.kind](a, b)

    def to_bytes(self) -> bytes:
        """The kind and one value per row."""
        return Writer(VERSION).number(KINDS.index(self.kind)).objects(self.partials).finish()

    @classmethod
    def from_bytes(cls, data: Bytes) -> ObjectColumn:
        """The column of which these are the bytes."""
        with Reader(data, "partials of objects", VERSION) as reader:
            kind, partials = reader.number(), reader.objects()
        if kind >= len(KINDS):
            raise FormatError(f"partials have no kind {kind}")
        return cls(KINDS[kind], partials)


def unscaled(value: decimal.Decimal, scale: int) -> int:
    """A decimal as a whole number of its last digit.

    >>> unscaled(decimal.Decimal("1.50"), 2)
    150
    """
    return int(EXACT.scaleb(value, scale))


def scaled(number: int, scale: int) -> decimal.Decimal:
    """The decimal of which this is the `unscaled` number.

    >>> scaled(-150, 2)
    Decimal('-1.50')
    """
    return EXACT.scaleb(EXACT.create_decimal(number), -scale)
