"""How result rows look to users. Inside they are ticks, positions and what is replaced; here they become times.

One function does it for tables of Arrow, behind every door; `spark.result_rows` does the same in expressions of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.results.bounds import TICKS, finer
from headwater.errors import DataError
from headwater.language.query import Query
from headwater.language.times import FOREVER, TICK_NANOS
from headwater.language.windows import CountWindow

AnyArray: TypeAlias = pa.Array | pa.ChunkedArray
BOUNDS = ("window_start", "window_end")
POSITIONS = ("position_start", "position_end")
EVENT_TIMES = ("first_time", "last_time")


@dataclass(frozen=True, slots=True)
class ResultShape:
    """The columns that users see of the rows of a call.

    ``times``: the type of bounds and other times, int64 or a timestamp; ``unit``: of the ticks that they are inside;
    ``counted``: the queries whose bounds are positions; ``has_replaces``: whether some query can revise.
    """

    times: pa.DataType = TICKS
    unit: str = "us"
    counted: frozenset[str] = frozenset()
    has_replaces: bool = True

    @classmethod
    def of(cls, queries: Iterable[Query], times: pa.DataType, unit: str, *, is_stream: bool = True) -> ResultShape:
        """The shape for these queries; in batch, where nothing is late, no query revises."""
        listed = list(queries)
        counted = frozenset(query.name for query in listed if isinstance(query.window, CountWindow))
        return cls(times, unit, counted, is_stream and any(query.can_revise for query in listed))

    @property
    def place(self) -> tuple[str, ...]:
        """The columns that say which window a row is of."""
        return (*BOUNDS, *POSITIONS) if self.counted else BOUNDS

    @property
    def replaced(self) -> pa.DataType:
        """The type of ``replaces``."""
        positions = [(name, TICKS) for name in POSITIONS if self.counted]
        return pa.list_(pa.struct([*((name, self.times) for name in BOUNDS), *positions, ("revision", TICKS)]))

    # --- rows ---

    def rows(self, table: pa.Table) -> pa.Table:
        """Result rows as users see them, of rows as they are inside.

        >>> inside = pa.table({"query": ["n"], "window_start": [0], "window_end": [10], "n": [3], "replaces": [None]})
        >>> ResultShape(pa.timestamp("us"), has_replaces=False).rows(inside).schema.names
        ['query', 'window_start', 'window_end', 'n']
        >>> ResultShape(counted=frozenset(["n"]), has_replaces=False).rows(inside).to_pylist()
        [{'query': 'n', 'window_start': None, 'window_end': None, 'position_start': 0, 'position_end': 10, 'n': 3}]
        """
        if not table.num_columns:
            return table  # a batch without rows has no columns either
        if self.times == TICKS and not self.counted:
            return table if self.has_replaces else table.drop_columns(["replaces"])
        columns = dict(zip(table.column_names, table.columns, strict=True))
        is_counted = self._is_counted(columns["query"]) if self.counted else None
        replaces = columns.pop("replaces")
        shown: dict[str, AnyArray] = {}
        for name, column in columns.items():
            if name in EVENT_TIMES:
                shown[name] = self.time(column)
            elif name not in BOUNDS:
                shown[name] = column
            elif name == BOUNDS[-1]:
                shown |= self._place([columns[bound] for bound in BOUNDS], is_counted)
            if name == "revision" and self.has_replaces:
                shown["replaces"] = self._replaces(replaces, is_counted)
        return pa.Table.from_arrays(list(shown.values()), names=list(shown))

    def _place(self, bounds: list[AnyArray], is_counted: AnyArray | None) -> dict[str, AnyArray]:
        """Bounds as times, or as positions where a query counts."""
        if is_counted is None:
            return {name: self.time(bound) for name, bound in zip(BOUNDS, bounds, strict=True)}
        none = pa.scalar(None, TICKS)
        times = [self.time(pc.if_else(is_counted, none, bound)) for bound in bounds]
        positions = [pc.if_else(is_counted, bound, none) for bound in bounds]
        return dict(zip((*BOUNDS, *POSITIONS), (*times, *positions), strict=True))

    def _is_counted(self, names: pa.ChunkedArray) -> pa.ChunkedArray:
        counted = pa.array(sorted(self.counted), pa.string())
        found = []
        for chunk in names.chunks:
            if pa.types.is_dictionary(chunk.type):
                found.append(pc.is_in(chunk.dictionary, value_set=counted).take(chunk.indices))
            else:
                found.append(pc.is_in(chunk, value_set=counted))
        return pa.chunked_array(found, pa.bool_())

    def _replaces(self, column: pa.ChunkedArray, is_counted: pa.ChunkedArray | None) -> AnyArray:
        if column.null_count == len(column):
            return pa.nulls(len(column), self.replaced)
        lists = pa.concat_arrays(column.chunks)
        inner = None
        if is_counted is not None:
            inner = pa.concat_arrays(is_counted.chunks).take(pc.list_parent_indices(lists))
        *bounds, revision = lists.flatten().flatten()
        place = self._place(bounds, inner)
        values = pa.StructArray.from_arrays([*place.values(), revision], fields=list(self.replaced.value_type))
        lengths = pc.fill_null(pc.list_value_length(lists), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
        return pa.ListArray.from_arrays(offsets, values, type=self.replaced, mask=lists.is_null())

    # --- events that were set aside ---

    @property
    def watermarks(self) -> pa.DataType:
        """The type of watermarks, which may lie at any tick."""
        return finer(self.times, pa.timestamp(self.unit))

    def aside(self, table: pa.Table) -> pa.Table:
        """The side output as users see it."""
        if self.times == TICKS:
            return table
        if not len(table):
            return _nothing_aside(table.schema, self)
        # After the end of a stream everything is late: no timestamp says that.
        marks = table.column("watermark")
        marks = pc.if_else(pc.equal(marks, FOREVER), pa.scalar(None, TICKS), marks)
        shown = {"time": self.time(table.column("time")), "watermark": self.time(marks, self.watermarks)}
        columns = [shown.get(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
        return pa.Table.from_arrays(columns, names=table.column_names)

    # --- times ---

    def time(self, ticks: AnyArray, type_: pa.DataType | None = None) -> AnyArray:
        """Ticks as times, rounded down where the type is coarser; without a copy where the units are equal."""
        wanted = self.times if type_ is None else type_
        if wanted == TICKS:
            return ticks
        have, want = TICK_NANOS[self.unit], TICK_NANOS[wanted.unit]
        if have > want:
            try:
                ticks = pc.multiply_checked(ticks, have // want)
            except pa.ArrowInvalid:
                raise DataError(
                    f"a bound of a window or a time does not fit {wanted}: give the column of times in a coarser unit"
                ) from None
        elif have < want:
            factor = want // have
            # Arrow's division rounds towards zero.
            ticks = pc.divide(pc.subtract(ticks, pc.if_else(pc.less(ticks, 0), factor - 1, 0)), factor)
        return ticks.cast(wanted)


@lru_cache(maxsize=8)
def _nothing_aside(schema: pa.Schema, shape: ResultShape) -> pa.Table:
    """An empty side output as users see it, made once: most steps have nothing to set aside."""
    types = {"time": shape.times, "watermark": shape.watermarks}
    return pa.schema([field.with_type(types.get(field.name, field.type)) for field in schema]).empty_table()
