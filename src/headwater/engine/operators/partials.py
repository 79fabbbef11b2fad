"""The shared operators: how events become partials, and how partials of any kind travel.

A `PartialColumn` holds the partials of one operator for many rows; a row is one slice and key. Whatever the operator, columns
are taken apart, joined and combined by the same few methods, so nothing else in the engine knows one kind from another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, Self

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int32Array, Int64Array
from headwater.base.packing import Bytes, Reader, Writer
from headwater.engine.intake.chunk import Chunk, Values
from headwater.engine.operators.events.ordered import OrderedColumn
from headwater.engine.operators.events.tops import TopColumn
from headwater.engine.operators.extremes import MinMaxColumn
from headwater.engine.operators.numeric import CountColumn, lift_count, lift_numeric
from headwater.engine.operators.objects import ObjectColumn
from headwater.engine.operators.operator import Best, Op, clean_floats
from headwater.engine.operators.products import ProductColumn
from headwater.engine.operators.runs.column import RunColumn
from headwater.engine.operators.sketches import DDSketchColumn, HyperLogLogColumn
from headwater.engine.operators.sums.exact_sum import SumColumn
from headwater.engine.operators.user import UserColumn
from headwater.errors import FormatError, QueryError
from headwater.language.user_code import Operator, is_within, load_path, path_of

__all__ = ["Op", "PartialColumn", "UnknownOperatorError", "lift", "partials_from_bytes", "partials_to_bytes"]

VERSION = 1
#: Kinds that numeric kernels compute, several of one column in a single pass.
NUMERIC_KINDS = frozenset({"count", "valid", "sum", "sumsq", "min", "max", "product"})


#: Values of these kinds are not combined.
MISFIT: Final = object()


class UnknownOperatorError(FormatError):
    """Partials of a user's operator that is not known here and cannot be found by its import path."""


class PartialColumn(Protocol):
    """The partials of one operator, one per row. Columns are values: every method makes a new one."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """Memory held."""
        ...

    def take(self, indices: Int64Array) -> Self:
        """The rows at ``indices``."""
        ...

    @classmethod
    def concat(cls, columns: Sequence[Self]) -> Self:
        """The rows of all columns, one after the other; at least one column, all of the same operator."""
        ...

    def combine_ranges(self, lo: Int64Array, hi: Int64Array) -> Self:
        """Row i = the combination of rows ``lo[i]:hi[i]`` in their order; the operator's identity where that is empty."""
        ...

    def to_bytes(self) -> bytes:
        """The versioned byte form; equal partials have equal bytes."""
        ...

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """The column whose `to_bytes` this is; anything else is a `FormatError`."""
        ...


#: The number under which each class travels; numbers are never used again for another class.
CLASSES: Final[dict[int, Any]] = {
    1: CountColumn,
    2: SumColumn,
    3: MinMaxColumn,
    4: ProductColumn,
    5: ObjectColumn,
    6: RunColumn,
    7: OrderedColumn,
    8: HyperLogLogColumn,
    9: DDSketchColumn,
    10: UserColumn,
    11: TopColumn,
}
NUMBERS: Final = {column_class: number for number, column_class in CLASSES.items()}


def lift(ops: Iterable[Op], chunk: Chunk, rows: Int32Array, row_count: int) -> dict[Op, PartialColumn]:
    """The partials of every operator: event i adds to row ``rows[i]``, or to none if that is -1.

    >>> values = Values(np.array([2.0, 8.0, 4.0]), None, pa.float64())
    >>> places = np.arange(3)
    >>> chunk = Chunk(places, places, np.zeros(3, np.int32), ["s"], {"x": values})
    >>> lifted = lift([Op("max", "x"), Op("run", "x")], chunk, np.array([0, 1, 0], np.int32), 2)
    >>> lifted[Op("max", "x")].values()[0], lifted[Op("run", "x")].counts()
    (array([4., 8.]), array([2, 1]))
    """
    ops = tuple(ops)
    lifted: dict[Op, Any] = {}
    by_column: dict[str | None, list[Op]] = {}
    for op in ops:
        if op.kind in NUMERIC_KINDS:
            by_column.setdefault(op.column, []).append(op)
        else:
            lifted[op] = _LIFTS[op.kind](op, _clean(chunk, *op.columns), rows, row_count)
    # Counting events rides along with the first column that is read anyway, and is shared by columns without nulls.
    counts = by_column.pop(None, [])
    shared = [op for op in ops if op.kind == "valid" and not _is_read(op.column, by_column, chunk)] if counts else []
    for column, column_ops in by_column.items():
        column_ops = [op for op in column_ops if op not in shared]
        if not column_ops:
            continue
        values = chunk.columns[column]  # type: ignore[index]
        if Op("run", column) in lifted and all(op.kind == "valid" for op in column_ops):
            lifted.update(dict.fromkeys(column_ops, CountColumn(lifted[Op("run", column)].counts())))
        elif values.data.dtype == object:
            lifted.update(_lift_objects(column_ops, values, rows, row_count))
        else:
            lifted.update(lift_numeric([*counts, *column_ops], values, rows, row_count))
            counts = []
    if counts:
        complete = (lifted[op] for op in ops if op.kind == "run" and chunk.columns[str(op.column)].valid is None)
        run = next(complete, None)
        counted = lift_count(rows, row_count) if run is None else CountColumn(run.counts())
        lifted.update(dict.fromkeys(counts, counted))
    lifted.update({op: lifted[Op("count")] for op in shared})
    return {op: lifted[op] for op in ops}


def _is_read(column: str | None, by_column: Mapping[str | None, list[Op]], chunk: Chunk) -> bool:
    """Whether a column's values are needed for more than knowing that there are no nulls among them."""
    return chunk.columns[column].valid is not None or any(op.kind != "valid" for op in by_column[column])  # type: ignore[index]


def _clean(chunk: Chunk, *columns: str) -> Chunk:
    """The chunk with one zero and one NaN in these columns. Numeric kernels see to that themselves."""
    for column in columns:
        values = chunk.columns[column]
        if values.data.dtype.kind == "f":
            cleaned = clean_floats(values.data)
            if cleaned is not values.data:
                chunk.columns[column] = Values(cleaned, values.valid, values.type)
    return chunk


def _lift_objects(ops: Sequence[Op], values: Values, rows: Int32Array, row_count: int) -> dict[Op, Any]:
    """Decimals, texts, bytes. Products of decimals are products of doubles, as in Spark."""
    lifted: dict[Op, Any] = {}
    for op in ops:
        if op.kind == "valid":
            lifted.update(lift_numeric([op], values, rows, row_count))
        elif op.kind == "product":
            known = values.data if values.valid is None else np.where(values.valid, values.data, 1)
            floats = Values(known.astype(np.float64), values.valid, pa.float64())
            lifted.update(lift_numeric([op], floats, rows, row_count))
        else:
            lifted[op] = ObjectColumn.lift(op.kind, values, rows, row_count)
    return lifted


_LIFTS: Final[dict[str, Callable[[Any, Chunk, Int32Array, int], Any]]] = {
    "run": lambda op, chunk, *rows: RunColumn.lift(chunk.columns[op.column], *rows),
    "ordered": lambda op, chunk, *rows: OrderedColumn.lift("all", op.column, chunk, *rows),
    "first": lambda op, chunk, *rows: OrderedColumn.lift("first", op.column, chunk, *rows),
    "last": lambda op, chunk, *rows: OrderedColumn.lift("last", op.column, chunk, *rows),
    "top": lambda op, chunk, *rows: TopColumn.lift(op.column, op.parameter, chunk, *rows),
    "hll": lambda op, chunk, *rows: HyperLogLogColumn.lift(op.parameter, chunk.columns[op.column], *rows),
    "ddsketch": lambda op, chunk, *rows: DDSketchColumn.lift(op.parameter, chunk.columns[op.column], *rows),
    "user": lambda op, chunk, *rows: UserColumn.lift(op.parameter, op.column, chunk, *rows),
}


def partials_to_bytes(partials: Mapping[Op, PartialColumn]) -> bytes:
    """All columns of a set of rows in one versioned byte form; the order of the mapping does not matter.

    >>> partials = {Op("count"): CountColumn(np.array([1, 2]))}
    >>> partials_from_bytes(partials_to_bytes(partials))[Op("count")].counts
    array([1, 2])
    """
    writer = Writer(VERSION).number(len(partials))
    named = {_name(op): column for op, column in partials.items()}
    if len(named) < len(partials):
        raise FormatError("two different operators have the same name and no import path to tell them apart")
    for name, column in sorted(named.items()):
        writer.blob(name.encode()).number(NUMBERS[type(column)]).blob(column.to_bytes())
    return writer.finish()


def partials_from_bytes(data: Bytes, known: Iterable[Op] = (), modules: Collection[str] | None = None) -> dict[Op, Any]:
    """The columns of which these are the bytes.

    Users' operators are looked for among the ``known`` ones first, then by import path: in these ``modules``, or (None) in any,
    which is for bytes that this process has written itself.
    """
    reader = Reader(data, "partials", VERSION)
    named = {_name(op): op for op in known if op.kind == "user"}
    partials: dict[Op, Any] = {}
    for _ in range(reader.count()):
        name = reader.blob().decode()
        op = named.get(name) or _op_of(name, modules)
        number, column = reader.number(), reader.view()
        if number not in CLASSES or op in partials:
            raise FormatError(f"partials of class {number}, which this release does not know, or {op} twice")
        column_class = CLASSES[number]
        if (column_class is UserColumn) != isinstance(op.parameter, Operator):
            raise FormatError(f"partials of class {number} are none of {name}")
        partials[op] = column_class.from_bytes(column, *([op.parameter] if column_class is UserColumn else []))
    reader.finish()
    return partials


def traits(column: PartialColumn) -> tuple[object, ...]:
    """What columns have in common whose rows can be combined: their class, and whatever decides what a row is.

    The kind of values comes last, None if there is none: then they fit any. Of several columns it is a tuple of their kinds.

    >>> traits(MinMaxColumn.of(np.array([5]), largest=True, is_float=False))[1:]
    (True, False, None)
    """
    what: tuple[object, ...] = ()
    values: object = None
    match column:
        case MinMaxColumn():
            what = (column.largest, column.is_float)
        case ProductColumn():
            what = (column.is_float,)
        case HyperLogLogColumn() | DDSketchColumn():
            what = (column.parameter,)
        case ObjectColumn():
            what, values = (column.kind,), _kind_of(column.partials)
        case UserColumn():
            what = (column.kind,)
        case OrderedColumn():
            what, values = (column.keep,), _kind_of(column.values)
        case TopColumn():
            what, values = (column.best,), tuple(_kind_of(each.data) for each in column.columns)
        case RunColumn():
            kinds = {_kind_of(part.values) for part in column.parts} - {None}
            values = next(iter(kinds), None) if len(kinds) < 2 else tuple(sorted(map(str, kinds)))
    return (type(column), *what, values)


def _kind_of(values: Sequence[Any] | np.ndarray[Any, Any]) -> object:
    """The kind of an array, the type of objects; several types are a kind of their own, which fits nothing."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values.dtype.kind if len(values) else None
    types = {type(value) for value in values if value is not None}
    return next(iter(types), None) if len(types) < 2 else tuple(sorted(map(str, types)))


def joined_kinds(one: object, other: object) -> object:
    """The kind of values of both, which fit one another; else `MISFIT`.

    >>> joined_kinds("i", None), joined_kinds(("i", None), (None, str)), joined_kinds("i", "f") is MISFIT
    ('i', ('i', <class 'str'>), True)
    """
    if one is None or other is None or one == other:
        return other if one is None else one
    if not (isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other)):
        return MISFIT
    joined = tuple(map(joined_kinds, one, other))
    return MISFIT if MISFIT in joined else joined


@lru_cache(1024)
def _name(op: Op) -> str:
    """An operator as text; a user's own by its name and import path."""
    parameter: object = op.parameter
    if isinstance(parameter, Operator):
        parameter = {"operator": parameter.name, "path": path_of(parameter)}
    return json.dumps([op.kind, op.column, parameter])


def _op_of(name: str, modules: Collection[str] | None) -> Op:
    try:
        kind, column, parameter = json.loads(name)
        path = parameter["path"] if isinstance(parameter, dict) else None
        if path is not None:
            if modules is not None and not is_within(path, modules):
                raise QueryError(f"no module of {path!r} may be loaded here")
            parameter = load_path(path)
    except QueryError as error:
        raise UnknownOperatorError(f"the user's operator {name!r} cannot be found: {error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"no operator: {name!r} ({error})") from error
    if isinstance(parameter, list):
        parameter = _best_of(name, parameter)
    if isinstance(parameter, dict):
        label = parameter.get("operator")
        raise UnknownOperatorError(f"the user's operator {label!r} has no import path; give it as known")
    is_plain = (
        isinstance(kind, str)
        and isinstance(column, str | None)
        and isinstance(parameter, Operator | Best | str | int | float | None)
    )
    of_kinds = {"user": Operator, "top": Best}
    if not is_plain or any((kind == own) != isinstance(parameter, type_) for own, type_ in of_kinds.items()):
        raise FormatError(f"no operator: {name!r}")
    return Op(kind, column, parameter)


def _best_of(name: str, parameter: list[Any]) -> Best:
    """The parameter of ``top``, which is written as a list."""
    if len(parameter) == 4 and isinstance(parameter[3], list) and all(isinstance(each, str) for each in parameter[3]):
        k, ties, largest, kept = parameter
        if type(k) is int and isinstance(ties, bool) and isinstance(largest, bool):
            return Best(k, ties, largest, tuple(kept))
    raise FormatError(f"no operator: {name!r}")
