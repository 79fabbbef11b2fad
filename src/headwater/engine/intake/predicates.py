"""Conditions over whole columns: which rows of a batch satisfy a `where` or are markers.

SQL's third truth value needs no third array. Two questions call each other instead: where is the condition true, and
where is it false? `~` exchanges them, `&` is true where all are and false where any is, and a null is neither.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from headwater.base.arrays import BoolArray
from headwater.errors import DataError
from headwater.language import comparisons
from headwater.language import expressions as ex
from headwater.language.comparisons import COMPARISONS, FLIPPED, NEGATED, as_text, compare, is_nan, kind_of
from headwater.language.schemas import type_kind

_ARROW_COMPARISONS: Final = dict(
    zip(COMPARISONS, (pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal), strict=True)
)
_TICKS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class TypedColumn:
    """Any column: the slow and general way, value by value, each different value once."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        self.kind = type_kind(array.type)
        self.valid: BoolArray | None = _from_arrow(array.is_valid()) if array.null_count else None

    def is_valid(self) -> BoolArray:
        """The rows that hold a value."""
        return np.ones(len(self.array), bool) if self.valid is None else self.valid.copy()

    def where(self, test: Callable[[Any], bool]) -> BoolArray:
        """The values that pass a test of plain Python, asked once per different value."""
        if self.kind == "null" or len(self.array) == 0:
            return np.zeros(len(self.array), bool)
        encoded = self.array.dictionary_encode()
        passed = np.array([test(value) for value in encoded.dictionary.to_pylist()] or [False], dtype=bool)
        return self._known(passed[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)])

    def to_literal(self, op: str, literal: Any) -> BoolArray:
        """The values that compare like this with a literal."""
        if kind_of(literal) != self.kind:
            return np.zeros(len(self.array), bool)
        return self._known(self._to_literal(op, literal))

    def to_column(self, op: str, other: TypedColumn) -> BoolArray:
        """The rows whose values compare like this with another column's."""
        if other.kind != self.kind:
            return np.zeros(len(self.array), bool)
        return other._known(self._known(self.plain()._to_column(op, other.plain())))

    def isin(self, literals: Sequence[Any], truth: bool) -> BoolArray:
        """The values that equal one of the literals, which are all of one kind, or those that equal none."""
        if kind_of(literals[0]) != self.kind:
            return np.zeros(len(self.array), bool)
        found = self._isin(literals)
        return self._known(found if truth else ~found)

    def plain(self) -> TypedColumn:
        """The column with one stored value per row."""
        return self

    def _known(self, rows: BoolArray) -> BoolArray:
        return rows if self.valid is None else rows & self.valid

    def _to_literal(self, op: str, literal: Any) -> BoolArray:
        return self.where(lambda value: compare(op, value, literal) is True)

    def _to_column(self, op: str, other: TypedColumn) -> BoolArray:
        pairs = zip(self.array.to_pylist(), other.array.to_pylist(), strict=True)
        return np.fromiter((compare(op, *pair) is True for pair in pairs), bool, len(self.array))

    def _isin(self, literals: Sequence[Any]) -> BoolArray:
        return self.where(lambda value: any(compare("==", value, literal) for literal in literals))


class EncodedColumn(TypedColumn):
    """A dictionary-encoded column: its few different values answer, the rows repeat their answer."""

    def __init__(self, array: pa.Array) -> None:
        super().__init__(array)
        self.different = typed(array.dictionary)
        self.indices: npt.NDArray[np.integer[Any]] = _filled(array.indices)

    def plain(self) -> TypedColumn:
        """The column with one stored value per row."""
        return typed(self.array.dictionary_decode())

    def where(self, test: Callable[[Any], bool]) -> BoolArray:
        """The values that pass a test of plain Python, asked once per different value."""
        return self._known(self._repeated(self.different.where(test)))

    def _to_literal(self, op: str, literal: Any) -> BoolArray:
        return self._repeated(self.different.to_literal(op, literal))

    def _isin(self, literals: Sequence[Any]) -> BoolArray:
        return self._repeated(self.different.isin(literals, True))

    def _repeated(self, answers: BoolArray) -> BoolArray:
        rows: BoolArray = answers[self.indices]
        return rows


class IntColumn(TypedColumn):
    """Integers and bools, as int64 or uint64."""

    def __init__(self, array: pa.Array) -> None:
        super().__init__(array)
        self.data: npt.NDArray[Any] = _filled(array.cast(pa.uint64() if pt.is_uint64(array.type) else pa.int64()))

    def _to_literal(self, op: str, literal: Any) -> BoolArray:
        return compare_integers(op, self.data, literal)

    def _to_column(self, op: str, other: TypedColumn) -> BoolArray:
        match other:
            case IntColumn():
                return _holds(op, self.data, other.data)
            case FloatColumn():
                return _holds(op, _signs(self.data, other.data), 0)
        return super()._to_column(op, other)

    def _isin(self, literals: Sequence[Any]) -> BoolArray:
        limits = np.iinfo(self.data.dtype)
        inside = (literal for literal in literals if limits.min <= literal <= limits.max)
        whole = [int(literal) for literal in inside if int(literal) == literal]
        return np.isin(self.data, np.array(whole, dtype=self.data.dtype))


class FloatColumn(TypedColumn):
    """Floats, as float64; NaN is the largest value."""

    def __init__(self, array: pa.Array) -> None:
        super().__init__(array)
        self.data: npt.NDArray[np.float64] = _filled(array.cast(pa.float64()))

    def _to_literal(self, op: str, literal: Any) -> BoolArray:
        if is_nan(literal):
            return _holds(op, np.isnan(self.data).astype(np.int8), 1)
        bound = comparisons.bound_below(op, literal, comparisons.float_below(literal))
        if isinstance(bound, bool):
            return np.full(len(self.data), bound)
        holds = _holds(bound[0], self.data, bound[1])
        return holds | np.isnan(self.data) if bound[0] in (">", ">=") else holds

    def _to_column(self, op: str, other: TypedColumn) -> BoolArray:
        match other:
            case IntColumn():
                return _holds(op, 0, _signs(other.data, self.data))
            case FloatColumn():
                nan, other_nan = np.isnan(self.data), np.isnan(other.data)
                by_nan = _holds(op, nan.astype(np.int8), other_nan.astype(np.int8))
                return np.where(nan | other_nan, by_nan, _holds(op, self.data, other.data))
        return super()._to_column(op, other)

    def _isin(self, literals: Sequence[Any]) -> BoolArray:
        exact = [float(literal) for literal in literals if comparisons.float_below(literal) == literal]
        found = np.isin(self.data, np.array(exact, dtype=np.float64))
        return found | np.isnan(self.data) if any(is_nan(literal) for literal in literals) else found


class TextColumn(TypedColumn):
    """Text and bytes, compared by Arrow byte by byte."""

    def _to_literal(self, op: str, literal: Any) -> BoolArray:
        return _from_arrow(_ARROW_COMPARISONS[op](self.array, pa.scalar(literal, self.array.type)))

    def _to_column(self, op: str, other: TypedColumn) -> BoolArray:
        return _from_arrow(_ARROW_COMPARISONS[op](self.array, other.array))

    def _isin(self, literals: Sequence[Any]) -> BoolArray:
        return _from_arrow(pc.is_in(self.array, value_set=pa.array(literals, self.array.type)))


class TickColumn(TypedColumn):
    """Timestamps and dates, as integers of their own unit."""

    def __init__(self, array: pa.Array) -> None:
        super().__init__(array)
        days = pt.is_date(array.type)
        ticks = array.cast(pa.date32(), safe=False).view(pa.int32()) if days else array.view(pa.int64())
        self.data: npt.NDArray[np.int64] = _filled(ticks)
        self.per_second = 1 if days else _TICKS_PER_SECOND[array.type.unit]

    def _ticks(self, literal: Any) -> Fraction | int:
        if self.kind == "date":
            return int(literal.toordinal()) - _EPOCH.toordinal()
        since = (literal.replace(tzinfo=datetime.UTC) if literal.tzinfo is None else literal) - _EPOCH
        return Fraction(since // datetime.timedelta(microseconds=1) * self.per_second, 10**6)

    def _to_literal(self, op: str, literal: Any) -> BoolArray:
        return compare_integers(op, self.data, self._ticks(literal))

    def _to_column(self, op: str, other: TypedColumn) -> BoolArray:
        assert isinstance(other, TickColumn), "columns of one kind of time are stored in one way"
        if self.per_second > other.per_second:
            return _holds(op, 0, _tick_signs(other, self))
        return _holds(op, _tick_signs(self, other), 0)

    def _isin(self, literals: Sequence[Any]) -> BoolArray:
        ticks = [self._ticks(literal) for literal in literals]
        return np.isin(self.data, np.array([int(tick) for tick in ticks if tick == int(tick)], dtype=np.int64))


def typed(array: pa.Array) -> TypedColumn:
    """The column of this array in the form that compares fastest."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pt.is_dictionary(array.type):
        # A null inside the dictionary, or no entry for the nulls to point at, is rare and not worth a path of its own.
        if len(array.dictionary) and not array.dictionary.null_count:
            return EncodedColumn(array)
        array = array.dictionary_decode()
    kind = type_kind(array.type)
    if kind in ("text", "bytes"):
        # One type for all spellings of text: Arrow has no comparison of, say, a string with a string view.
        return TextColumn(array.cast(pa.large_string() if kind == "text" else pa.large_binary()))
    if kind in ("timestamp", "date"):
        return TickColumn(array)
    if pt.is_floating(array.type):
        return FloatColumn(array)
    return IntColumn(array) if pt.is_integer(array.type) or pt.is_boolean(array.type) else TypedColumn(array)


def compare_integers(op: str, data: npt.NDArray[Any], literal: Any) -> BoolArray:
    """Integers against any number, exactly.

    >>> compare_integers("<", np.array([2, 3]), 2.5), compare_integers("==", np.array([2, 3]), 2.5)
    (array([ True, False]), array([False, False]))
    """
    # NaN is above every integer; so is anything beyond 64 bits, whose exact floor might have millions of digits.
    if is_nan(literal) or not -(2**64) < literal < 2**64:
        return np.full(len(data), COMPARISONS[op](0, 1 if is_nan(literal) or literal > 0 else -1))
    bound = comparisons.bound_below(op, literal, math.floor(literal))
    return np.full(len(data), bound) if isinstance(bound, bool) else _holds(bound[0], data, bound[1])


def _signs(integers: npt.NDArray[Any], floats: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    """The sign of integer minus float, exactly; NaN is above every integer."""
    rounded = integers.astype(np.float64)
    signs = (rounded > floats).astype(np.int8) - (rounded < floats) - np.isnan(floats)
    # Rounding keeps the order, so only where both seem equal can the integer have been rounded to the float.
    tied = np.flatnonzero(rounded == floats)
    top = 2.0 ** (64 if integers.dtype == np.uint64 else 63)
    over = floats[tied] == top
    exact = np.where(over, 0.0, floats[tied]).astype(integers.dtype)
    signs[tied] = np.where(over, -1, (integers[tied] > exact).astype(np.int8) - (integers[tied] < exact))
    return signs


def _tick_signs(coarse: TickColumn, fine: TickColumn) -> npt.NDArray[np.int8]:
    """The sign of coarse minus fine, without scaling up: seconds as nanoseconds would not fit."""
    whole, rest = np.divmod(fine.data, fine.per_second // coarse.per_second)
    signs = (coarse.data > whole).astype(np.int8) - (coarse.data < whole)
    return np.where((signs == 0) & (rest > 0), -1, signs).astype(np.int8)


def _filled(array: pa.Array) -> npt.NDArray[Any]:
    filled = array if array.null_count == 0 else array.fill_null(0)
    data: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return data


def _from_arrow(rows: pa.Array) -> BoolArray:
    holds: BoolArray = rows.fill_null(False).to_numpy(zero_copy_only=False)
    return holds


def _holds(op: str, left: Any, right: Any) -> BoolArray:
    holds: BoolArray = COMPARISONS[op](left, right)
    return holds


def mask(expr: ex.Expr, columns: Mapping[str, pa.Array], length: int) -> BoolArray:
    """The rows for which the condition is True; neither False nor null counts.

    >>> from headwater.language.expressions import col
    >>> columns = {"load": pa.array([1.5, None, float("nan"), -2.0])}
    >>> mask(col("load") > 0, columns, 4), mask(~(col("load") > 0), columns, 4)
    (array([ True, False,  True, False]), array([False, False, False,  True]))
    """
    rows = _Batch(columns).where(expr, True)
    assert len(rows) == length, "the columns of a batch are as long as the batch"
    return rows


class _Batch:
    """The columns of one batch; each is decoded at most once, however often a condition names it."""

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        self._columns = columns
        self._typed: dict[str, TypedColumn] = {}

    def where(self, expr: ex.Expr, truth: bool) -> BoolArray:
        """The rows for which the condition has this truth value."""
        match expr:
            case ex.Compare(op, left, right):
                return self._compared(op if truth else NEGATED[op], left, right)
            case ex.BooleanChain():
                parts = (self.where(operand, truth) for operand in expr.operands())
                return reduce(np.logical_or if truth is expr.decisive else np.logical_and, parts)
            case ex.Not(inner):
                return self.where(inner, not truth)
            case ex.In(column, values):
                return self._column(column).isin(values, truth)
            case ex.Range():
                return self.where(expr.bounds(), truth)
            case ex.IsNull(column):
                valid = self._column(column).is_valid()
                return ~valid if truth else valid
            case ex.Matches(column, pattern):
                pattern_match = ex.compiled(pattern).fullmatch
                return self._column(column).where(lambda value: (pattern_match(as_text(value)) is not None) is truth)
        return self.where(ex.boolean(expr), truth)

    def _compared(self, op: str, left: Any, right: Any) -> BoolArray:
        if not isinstance(left, ex.Column):
            op, left, right = FLIPPED[op], right, left
        column = self._column(left)
        return (
            column.to_column(op, self._column(right)) if isinstance(right, ex.Column) else column.to_literal(op, right)
        )

    def _column(self, column: ex.Column) -> TypedColumn:
        name = column.name
        if name not in self._typed:
            if name not in self._columns:
                raise DataError(f"column {name!r} is missing; the batch has {', '.join(map(repr, self._columns))}")
            self._typed[name] = typed(self._columns[name])
        return self._typed[name]
