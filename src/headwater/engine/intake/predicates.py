"""Conditions over whole columns: which rows of a batch satisfy a `where` or are markers.

SQL's third truth value needs no third array. Two questions call each other instead: where is the condition true, and
where is it false? `~` exchanges them, `&` is true where all are and false where any is, and a null is neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray
from headwater.engine.intake.typed_columns import TypedColumn, typed
from headwater.errors import DataError
from headwater.language.comparisons import FLIPPED, NEGATED, as_text
from headwater.language.expressions import (
    BooleanChain,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Matches,
    Not,
    Range,
    boolean,
    compiled,
)


def mask(expr: Expr, columns: Mapping[str, pa.Array], length: int) -> BoolArray:
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

    def where(self, expr: Expr, truth: bool) -> BoolArray:
        """The rows for which the condition has this truth value."""
        match expr:
            case Compare(op, left, right):
                return self._compared(op if truth else NEGATED[op], left, right)
            case BooleanChain():
                parts = (self.where(operand, truth) for operand in expr.operands())
                return reduce(np.logical_or if truth is expr.decisive else np.logical_and, parts)
            case Not(inner):
                return self.where(inner, not truth)
            case In(column, values):
                return self._column(column).isin(values, truth)
            case Range():
                return self.where(expr.bounds(), truth)
            case IsNull(column):
                valid = self._column(column).is_valid()
                return ~valid if truth else valid
            case Matches(column, pattern):
                pattern_match = compiled(pattern).fullmatch
                return self._column(column).where(lambda value: (pattern_match(as_text(value)) is not None) is truth)
        return self.where(boolean(expr), truth)

    def _compared(self, op: str, left: Any, right: Any) -> BoolArray:
        if not isinstance(left, Column):
            op, left, right = FLIPPED[op], right, left
        column = self._column(left)
        return column.to_column(op, self._column(right)) if isinstance(right, Column) else column.to_literal(op, right)

    def _column(self, column: Column) -> TypedColumn:
        name = column.name
        if name not in self._typed:
            if name not in self._columns:
                raise DataError(f"column {name!r} is missing; the batch has {', '.join(map(repr, self._columns))}")
            self._typed[name] = typed(self._columns[name])
        return self._typed[name]
