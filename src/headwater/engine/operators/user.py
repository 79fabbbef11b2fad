"""Users' own operators: their ``lift`` once per row, their ``combine`` on the partials, in Python.

Operators that are not commutative never get here: their aggregates are lowered from the ordered values of the whole window
(see `aggregates`), because rows may be combined in another order than the events came in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int32Array, Int64Array
from headwater.base.packing import Bytes, Reader, Writer
from headwater.engine.intake.chunk import Chunk
from headwater.engine.operators.events.ordered import OrderedColumn
from headwater.engine.operators.objects import ListColumn, fold_ranges
from headwater.engine.operators.ragged import group_indices, valid_rows
from headwater.errors import FormatError
from headwater.language.user_code import Operator, load_path, path_of

VERSION = 1


class UserColumn(ListColumn):
    """One partial of a user's operator, which is its kind, per row.

    >>> total = Operator("total", lambda values: float(values.sum()), lambda a, b: a + b, 0.0)
    >>> UserColumn(total, [1.0, 2.0, 4.0]).combine_ranges(np.array([0, 1]), np.array([3, 1])).partials
    [7.0, 0.0]
    """

    __slots__ = ()

    @classmethod
    def lift(cls, operator: Operator, column: str, chunk: Chunk, rows: Int32Array, row_count: int) -> UserColumn:
        """One call per row that has values, with these in event order."""
        values = chunk.columns[column]
        indices, starts = group_indices(valid_rows(rows, values.valid), row_count, chunk.in_order())
        data = as_users_see_it(values.data[indices], values.type)
        return cls(operator, list(lifted(operator, data, starts)))

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> UserColumn:
        """Row i = the combination of rows ``lo[i]`` to ``hi[i]``, from left to right."""
        return UserColumn(self.kind, fold_ranges(self.partials, lo, hi, self.kind.combine, self.kind.empty))

    def problem(self) -> str | None:
        """Why partials that came from elsewhere are none of the operator, None if it can combine each with nothing."""
        try:
            for partial in self.partials:
                self.kind.combine(partial, self.kind.empty())
        except Exception as error:  # whatever a user's code does
            return f"the user's operator {self.kind.name!r} cannot combine a partial: {error}"
        return None

    def to_bytes(self) -> bytes:
        """The operator's import path, if it has one, and each partial in the operator's own byte form."""
        encoded = [self.kind.to_bytes(partial) for partial in self.partials]
        return Writer(VERSION).blob((path_of(self.kind) or "").encode()).objects(encoded).finish()

    @classmethod
    def from_bytes(cls, data: Bytes, operator: Operator | None = None) -> UserColumn:
        """The column of which these are the bytes; the operator is found by its path unless it is given."""
        with Reader(data, "partials of a user's operator", VERSION) as reader:
            path, encoded = reader.blob().decode(), reader.objects()
        if operator is None:
            if not path:
                raise FormatError("partials of a user's operator that has no import path; give the operator")
            operator = load_path(path)
        if not isinstance(operator, Operator):
            raise FormatError(f"{path} is no Operator")
        if not all(isinstance(partial, bytes) for partial in encoded):
            raise FormatError("partials of a user's operator are damaged")
        try:
            return cls(operator, [operator.from_bytes(partial) for partial in encoded])  # type: ignore[arg-type]
        except Exception as error:  # whatever a user's code does with bytes that are not its own
            raise FormatError(f"partials of the user's operator {operator.name!r} are damaged: {error}") from error


def lifted(operator: Operator, data: np.ndarray[Any, Any], starts: Int64Array) -> Iterator[Any]:
    """The partial of each row: lift of its values, or the operator's identity where it has none."""
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist()):
        yield operator.lift(data[begin:end]) if begin < end else operator.empty()


def lifted_in_order(operator: Operator, column: OrderedColumn, type_: pa.DataType | None) -> list[Any]:
    """The partials of an operator that is not commutative, straight from the ordered values of each row."""
    return list(lifted(operator, as_users_see_it(column.values, type_), column.starts))


def as_users_see_it(data: np.ndarray[Any, Any], type_: pa.DataType | None) -> np.ndarray[Any, Any]:
    """Bools are bools again; the engine keeps them as 0 and 1."""
    return data.astype(np.bool_) if type_ is not None and pa.types.is_boolean(type_) else data
