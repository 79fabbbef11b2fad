"""From closed windows to result columns: combine, lower, and lay out as one Arrow table.

Queries that ask for the same aggregate under the same name are lowered together, so the cost follows the rows, not the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int32Array, Int64Array
from headwater.base.arrow import plain_type
from headwater.engine.intake.keys import KeyTable, is_node_key
from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.operator import COUNT, Op
from headwater.engine.operators.partials import PartialColumn
from headwater.engine.operators.ragged import group_indices
from headwater.engine.results.aggregates import lower_many, operators_of, overflows, result_type, type_read
from headwater.engine.windows.assembler import Closed, Twins
from headwater.engine.windows.registered import Registered
from headwater.errors import QueryError
from headwater.language.aggregations import FUNCTIONS, Aggregation
from headwater.language.windows import CountWindow

REPLACES = pa.list_(pa.struct([("window_start", pa.int64()), ("window_end", pa.int64()), ("revision", pa.int64())]))


@dataclass
class Layout:
    """The columns of a result table: keys and aggregates are the union over all queries."""

    keys: dict[str, pa.DataType]
    aggregates: dict[str, pa.DataType]
    has_times: bool
    has_node: bool

    @classmethod
    def of(cls, entries: Sequence[Registered], types: Mapping[str, pa.DataType]) -> Layout:
        layout = cls({}, {}, False, False)
        for entry in entries:
            for name in entry.query.keys:
                layout.keys.setdefault(name, plain_type(types.get(name, pa.null())))
        for entry in entries:
            query = entry.query
            for alias, aggregation in query.aggregates:
                layout._add(query.name, alias, result_type(aggregation, type_read(aggregation, types)))
            layout.has_times |= isinstance(query.window, CountWindow)
            layout.has_node |= query.scope == "node"
        return layout

    @cached_property
    def columns(self) -> dict[str, pa.DataType]:
        """All columns in their order."""
        columns = {"query": pa.int32(), "window_start": pa.int64(), "window_end": pa.int64()}
        columns |= self.keys | self.aggregates
        columns |= {"event_count": pa.int64(), "revision": pa.int64(), "replaces": REPLACES}
        if self.has_node:
            columns["node"] = pa.string()
        if self.has_times:
            columns |= {"first_time": pa.int64(), "last_time": pa.int64()}
        return columns

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema(list(self.columns.items()))

    def _add(self, query: str, alias: str, type_: pa.DataType) -> None:
        have = self.aggregates.setdefault(alias, type_)
        if have != type_ or alias in self.keys:
            other = self.keys.get(alias, have)
            raise QueryError(
                f"query {query!r}: aggregate {alias!r} gives {type_}, but the column {alias!r} of another query is {other}; "
                "give one of them another name"
            )


@dataclass(slots=True)
class AliasPlan:
    """Which aggregation each query of a group gives under one name: ``of_query[number]`` indexes ``choices``, -1 for none."""

    choices: list[Aggregation] = field(default_factory=list)
    of_query: Int32Array = field(default_factory=lambda: np.empty(0, np.int32))


class OutputPlan:
    """What a group's queries give under which name, worked out once: a query may have a thousand aggregates."""

    def __init__(self, entries: Sequence[Registered], types: Mapping[str, pa.DataType]) -> None:
        self.types = {name: plain_type(type_) for name, type_ in types.items()}
        plans = alias_plans(entries)
        numbers = np.array([entry.number for entry in entries], np.int64)
        total = {a for a, plan in plans.items() if len(plan.choices) == 1 and (plan.of_query[numbers] == 0).all()}
        #: Names under which every query gives the same: they are lowered together, for all rows.
        self.total = {alias: plans[alias].choices[0] for alias in plans if alias in total}
        self.partial = {alias: plan for alias, plan in plans.items() if alias not in total}
        self.all = plans
        self._ops: dict[tuple[int, ...], list[Op]] = {}

    def ops(self, aggregations: Sequence[Aggregation]) -> list[Op]:
        """The operators that these aggregations need."""
        name = tuple(map(id, aggregations))
        if name not in self._ops:
            needed = (op for one in aggregations for op in operators_of(one, type_read(one, self.types)))
            self._ops[name] = list(dict.fromkeys(needed))
        return self._ops[name]


def alias_plans(entries: Sequence[Registered]) -> dict[str, AliasPlan]:
    """Which aggregation each query gives under each name."""
    size = 1 + max((entry.number for entry in entries), default=-1)
    plans: dict[str, AliasPlan] = {}
    index: dict[tuple[str, int], tuple[AliasPlan, int]] = {}
    for entry in entries:
        for alias, aggregation in entry.query.aggregates:
            # Equal aggregations mostly are one object; where they are not, lowering them apart is only slower.
            found = index.get((alias, id(aggregation)))
            if found is None:
                plan = plans.setdefault(alias, AliasPlan(of_query=np.full(size, -1, np.int32)))
                found = index[alias, id(aggregation)] = plan, len(plan.choices)
                plan.choices.append(aggregation)
            found[0].of_query[entry.number] = found[1]
    return plans


def fitted(table: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """A table of rows in the types that their columns have by now; what came before a column had values holds none.

    >>> fitted(pa.table({"top": pa.nulls(1, pa.float64())}), {"top": pa.string()})["top"].type
    DataType(string)
    """
    for place, column in enumerate(table.schema):
        wanted = types.get(column.name)
        if wanted is not None and wanted != column.type and column.name != "query":
            table = table.set_column(place, column.name, _fitted_column(table.column(place), wanted))
    return table


def _fitted_column(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), wanted)])
    if pa.types.is_list(wanted):
        lists = column.combine_chunks()
        lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
        items = _fitted_column(pa.chunked_array([lists.flatten()]), wanted.value_type).combine_chunks()
        offsets = np.append(0, np.cumsum(np.asarray(lists.value_lengths().fill_null(0)))).astype(np.int32)
        return pa.chunked_array([pa.ListArray.from_arrays(pa.array(offsets), items, type=wanted)])
    if pa.types.is_struct(wanted) and pa.types.is_struct(column.type):
        children = zip(pa.Table.from_struct_array(column).columns, wanted)
        fields = [_fitted_column(child, field.type).combine_chunks() for child, field in children]
        return pa.chunked_array([pa.StructArray.from_arrays(fields, fields=list(wanted))])
    return column.cast(wanted, safe=False)


#: Bits of the 64 bytes to which Arrow pads: a buffer that is longer by less is written whole.
_SPARE = 512


class _Constant:
    """An array of one repeated value, made once and shared by all results: most rows replace nothing.

    At least `_SPARE` rows follow those that are asked for: then Arrow always cuts them off, and equal results have equal bytes.
    """

    def __init__(self, make: Callable[[int], pa.Array]) -> None:
        self._make = make
        self._array = make(2 * _SPARE)

    def first(self, size: int) -> pa.Array:
        if len(self._array) < size + _SPARE:
            self._array = self._make(2 * (size + _SPARE))
        return self._array[:size]


_ZEROS = _Constant(lambda size: pa.array(np.zeros(size, np.int64)))
_NULLS = _Constant(lambda size: pa.nulls(size, REPLACES))


class _Combined:
    """The partials of a piece's windows, combined once per operator and choice of rows."""

    def __init__(self, piece: Closed) -> None:
        self._piece = piece
        self._whole: dict[Op, PartialColumn] = {}
        self._leaders: dict[Op, PartialColumn] = {}
        self.twins = piece.twins
        self.overflow_count = 0

    def of(self, ops: Sequence[Op], rows: Int64Array | None) -> dict[Op, PartialColumn]:
        """The partials of some rows; those of all rows (None) are kept."""
        return self._made({} if rows is not None else self._whole, ops, rows)

    def of_leaders(self, ops: Sequence[Op], twins: Twins) -> dict[Op, PartialColumn]:
        """The partials of the leaders: one row for all that are made of the same partials."""
        return self._made(self._leaders, ops, twins.leaders)

    def _made(
        self, made: dict[Op, PartialColumn], ops: Sequence[Op], rows: Int64Array | None
    ) -> dict[Op, PartialColumn]:
        piece = self._piece
        lo, hi = (piece.lo, piece.hi) if rows is None else (piece.lo[rows], piece.hi[rows])
        for op in ops:
            if op not in made:
                made[op] = piece.partials[op].combine_ranges(lo, hi)
        return {op: made[op] for op in ops}

    def counts(self) -> Int64Array:
        """How many events each row has."""
        twins = self.twins
        column = (self.of([COUNT], None) if twins is None else self.of_leaders([COUNT], twins))[COUNT]
        assert isinstance(column, CountColumn)
        return column.counts if twins is None else column.counts[twins.of_row]


def piece_columns(piece: Closed, plan: OutputPlan, keys: KeyTable, layout: Layout) -> tuple[dict[str, pa.Array], int]:
    """The columns of one piece, in the layout's names, and how many sums were beyond their type.

    ``query`` holds numbers of registration still.
    """
    size = len(piece)
    combined = _Combined(piece)
    columns: dict[str, pa.Array] = {
        "query": pa.array(piece.query),
        "window_start": pa.array(piece.start),
        "window_end": pa.array(piece.end),
    }
    key_ids = pa.array(piece.key)
    for name, values in zip(keys.names, keys.columns(), strict=True):
        columns["node" if is_node_key(name) else name] = values.take(key_ids)
    if piece.gone is None:
        columns.update(zip(plan.total, _lowered_for_all(list(plan.total.values()), combined, plan), strict=True))
    for alias, choices in (plan.partial if piece.gone is None else plan.all).items():
        columns[alias] = _alias_column(piece, choices, combined, layout.aggregates[alias], plan)
    columns["event_count"] = pa.array(combined.counts())
    columns["revision"] = _ZEROS.first(size) if piece.revision is None else pa.array(piece.revision)
    columns["replaces"] = _replaces(piece, size)
    if piece.first_time is not None:
        # A window that is gone has no first and no last event.
        none = pa.nulls(size - len(piece.first_time), pa.int64())
        columns["first_time"] = pa.concat_arrays([pa.array(piece.first_time), none])
        columns["last_time"] = pa.concat_arrays([pa.array(piece.last_time), none])
    return columns, combined.overflow_count


def _alias_column(
    piece: Closed, choices: AliasPlan, combined: _Combined, type_: pa.DataType, plan: OutputPlan
) -> pa.Array:
    size = len(piece)
    chosen = choices.of_query[piece.query]
    if piece.gone is not None:
        chosen[piece.gone :] = -1
    shared = _lowered_once(choices.choices, combined, plan)
    if shared is not None and combined.twins is not None:
        index = chosen * len(combined.twins.leaders) + combined.twins.of_row
        return pa.concat_arrays(shared).take(pa.array(index, mask=chosen < 0))
    order, bounds = group_indices(chosen, len(choices.choices))
    parts, places = [], []
    for choice, aggregation in enumerate(choices.choices):
        rows = order[bounds[choice] : bounds[choice + 1]]
        if len(rows):
            parts += _lowered([aggregation], combined, None if len(rows) == size else rows, plan)
            places.append(rows)
    if len(parts) == 1 and len(parts[0]) == size:
        return parts[0]
    return _scattered(parts, places, size, type_)


def _lowered_for_all(aggregations: Sequence[Aggregation], combined: _Combined, plan: OutputPlan) -> list[pa.Array]:
    """Aggregates of all rows, those of twins worked out once."""
    shared = _lowered_once(aggregations, combined, plan)
    if shared is None or combined.twins is None:
        return _lowered(aggregations, combined, None, plan)
    of_row = pa.array(combined.twins.of_row)
    return [array.take(of_row) for array in shared]


def _lowered_once(aggregations: Sequence[Aggregation], combined: _Combined, plan: OutputPlan) -> list[pa.Array] | None:
    """Aggregates of the rows that lead; None if that is no less work, or if sums beyond their type must be counted row by row."""
    twins = combined.twins
    if twins is None or len(aggregations) * len(twins.leaders) > 2 * len(twins.of_row):
        return None
    arrays = lower_many(aggregations, combined.of_leaders(plan.ops(aggregations), twins), plan.types)
    beyond = (
        FUNCTIONS[a.function].overflows and array.null_count for a, array in zip(aggregations, arrays, strict=True)
    )
    return None if any(beyond) else arrays


def _lowered(
    aggregations: Sequence[Aggregation], combined: _Combined, rows: Int64Array | None, plan: OutputPlan
) -> list[pa.Array]:
    """Aggregates of some rows (None: of all). A sum beyond its type is null, and counted."""
    partials = combined.of(plan.ops(aggregations), rows)
    arrays = lower_many(aggregations, partials, plan.types)
    for aggregation, array in zip(aggregations, arrays, strict=True):
        if FUNCTIONS[aggregation.function].overflows and array.null_count:
            combined.overflow_count += overflows(aggregation, array, partials, type_read(aggregation, plan.types))
    return arrays


def _scattered(parts: list[pa.Array], places: list[Int64Array], size: int, type_: pa.DataType) -> pa.Array:
    """An array of ``size`` with each part at its places and null elsewhere."""
    if not parts:
        return pa.nulls(size, type_)
    if type_ in (pa.float64(), pa.int64()) and all(part.null_count == 0 for part in parts):
        # Not np.empty: rows that wait are in snapshots, and what lies under a null there should be the same each time.
        out, there = np.zeros(size, type_.to_pandas_dtype()), np.zeros(size, np.bool_)
        for part, place in zip(parts, places, strict=True):
            out[place] = part.to_numpy(zero_copy_only=False)
            there[place] = True
        validity = np.packbits(there, bitorder="little")
        return pa.Array.from_buffers(type_, size, [pa.py_buffer(validity), pa.py_buffer(out)])
    index, at = np.full(size, -1, np.int64), 0
    for place in places:
        index[place] = np.arange(at, at + len(place))
        at += len(place)
    return pa.concat_arrays(parts).take(pa.array(index, mask=index < 0))


def _replaces(piece: Closed, size: int) -> pa.Array:
    if not piece.replaces:
        return _NULLS.first(size)
    lists: list[list[dict[str, int]] | None] = [None] * size
    for row, windows in piece.replaces.items():
        lists[row] = [{"window_start": s, "window_end": e, "revision": r} for s, e, r in sorted(windows)]
    return pa.array(lists, REPLACES)


@dataclass(slots=True)
class ResultColumns:
    """Columns of result rows, the key of each with the ranks of all keys, and whether the rows are in order already."""

    columns: Mapping[str, pa.Array]
    key: Int32Array
    key_ranks: Int64Array
    is_sorted: bool
    overflow_count: int


def layout_table(pieces: Sequence[ResultColumns], layout: Layout, names: pa.Array) -> pa.Table:
    """All pieces as one table, sorted by (window end, window start, registration, key)."""
    tables = [pa.Table.from_arrays(_arranged(piece.columns, layout), schema=layout.schema) for piece in pieces]
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    if len(pieces) > 1 or not pieces[0].is_sorted:
        ranks = np.concatenate([piece.key_ranks[piece.key] for piece in pieces])
        sort_by = [ranks] + [table.column(name).to_numpy() for name in ("query", "window_start", "window_end")]
        table = table.take(pa.array(np.lexsort(sort_by))).combine_chunks()
    columns = table.columns
    codes = columns[0].combine_chunks()
    codes = codes.chunk(0) if isinstance(codes, pa.ChunkedArray) else codes
    columns[0] = pa.DictionaryArray.from_arrays(codes, names)
    return pa.Table.from_arrays(columns, names=layout.schema.names)


def _arranged(columns: Mapping[str, pa.Array], layout: Layout) -> list[pa.Array]:
    """A piece's columns in the order of the layout, null where it has none."""
    size = len(columns["query"])
    arrays = []
    for name, type_ in layout.columns.items():
        array = columns.get(name)
        if array is None:
            arrays.append(pa.nulls(size, type_))
        else:
            # Aggregates come in the type the layout took from them.
            arrays.append(array if name in layout.aggregates or array.type == type_ else array.cast(type_))
    return arrays


def empty_table(layout: Layout, names: pa.Array) -> pa.Table:
    """A result table without rows."""
    table = layout.schema.empty_table()
    return table.set_column(0, "query", pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), names))
