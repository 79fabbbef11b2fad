"""Where an engine stands: its queries, how far its sources have come, and the rows that came out and were not taken yet.

The core, a leaf and the root of a tree have one each; how events come to it is their own affair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic

import pyarrow as pa

from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.base.snapshots import Attribute, Spec, made_of, restore_into, state_of
from headwater.engine.families import AnyGroup, Family, GroupMaker
from headwater.engine.intake.watermarks import Watermarks
from headwater.engine.registry import Registry
from headwater.engine.results.output import ResultColumns, empty_table, fitted, layout_table
from headwater.engine.results.side_output import SideOutput
from headwater.engine.windows.empty_windows import EMPTY_STEP
from headwater.engine.wire.snapshot_bytes import to_bytes
from headwater.errors import DataError, QueryError
from headwater.language.arguments import check_disorder, check_queries, check_time, check_unit
from headwater.language.query import Query
from headwater.language.times import NEVER


class EngineState(Generic[AnyGroup]):
    """The queries, watermarks and rows of an engine; a snapshot of them goes on as if nothing had happened."""

    def __init__(
        self,
        maker: GroupMaker[AnyGroup],
        time: str = "time",
        unit: str = "us",
        disorder: object = None,
        strict: bool = False,
    ) -> None:
        self.time = time
        self.unit = check_unit(unit)
        self.strict = strict
        #: What the caller renames before events come here; kept for snapshots, new names by old ones.
        self.rename: dict[str, str] = {}
        self.watermarks = Watermarks(check_disorder(disorder, unit))
        self.registry = Registry(maker, time, unit)
        self.malformed = 0
        self.repeated = 0
        self.overflows = 0
        self.side = SideOutput()
        self._mode = maker.name
        self.tables: list[pa.Table] = []  # rows that were not taken yet

    # --- queries ---

    def register(self, queries: Iterable[Query], begin: int = NEVER) -> None:
        """Take in queries whose windows begin at ``begin`` or later."""
        self.registry.add([(query, begin) for query in check_queries(queries)], self.watermarks.group)

    def add_query(self, query: Query, at: int | None = None) -> int:
        """Add a query while the stream runs. It becomes active at the returned event time T, above every time seen so far.

        Its windows are those with start >= T; ``at`` asks for a later T.
        """
        (query,) = check_queries([query])
        now = self.watermarks
        lowest = NEVER if now.highest_time == NEVER else now.highest_time + 1
        if at is not None and check_time("at", at) < lowest:
            raise QueryError(f"query {query.name!r}: at is {at}: give a time above all seen so far, {lowest} or later")
        begin = max(lowest, now.group) if at is None else at
        self.register([query], begin)
        return begin

    def remove_query(self, name: str, drain: bool = False) -> None:
        """End a query at once, or (``drain``) after the windows that are open now have closed."""
        if drain:
            self.registry.drain(name, max(self.watermarks.highest_time, self.watermarks.group - 1, NEVER) + 1)
        else:
            self.registry.remove(name)

    # --- rows ---

    def refit(self) -> None:
        """Columns have grown: rows that were not taken yet follow."""
        self.tables = [fitted(table, self.registry.layout.columns) for table in self.tables]

    def close(self, families: Iterable[Family[AnyGroup]], until: int, is_paced: bool = False) -> None:
        """Make rows of what a watermark of ``until`` closes in these families.

        ``is_paced``: not more at once than about `EMPTY_STEP` windows without events; the rest when this is called again, and
        no number of them is refused.
        """
        queries = self.registry
        pieces: list[ResultColumns] = []
        for family in families:
            family.group.prepare(queries.types)
            made, step = 0, NEVER
            while step < until and made < EMPTY_STEP:
                step = family.group.reach(until) if is_paced else until
                closed = family.group.close(step, is_paced)
                made += sum(map(len, closed))
                pieces.extend(family.pieces(closed, queries.layout, queries.types))
        overflows = sum(piece.overflow_count for piece in pieces)
        if overflows and self.strict:
            raise DataError(f"{overflows} sums or products are beyond the type of their column (strict)")
        self.overflows += overflows
        if pieces:
            self.tables.append(layout_table(pieces, queries.layout, queries.names))

    def take(self) -> tuple[pa.Table, dict[str, Query]]:
        """The rows that came out since the last call, and the queries they may be of."""
        tables, self.tables = self.tables, []
        queries = self.registry
        if tables:
            return pa.concat_tables(tables, promote_options="permissive"), queries.take_queries()
        return empty_table(queries.layout, queries.names), queries.take_queries()

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Everything that is known, as bytes; rows not taken yet included."""
        settings = [self.time, self.unit, self.strict, self._mode, *([self.rename] if self.rename else [])]
        return to_bytes({"settings": settings, **self.registry.state(bool(self.tables)), **state_of(self, _STATE)})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what a snapshot says; the settings are the same already, and there were no queries before."""
        self.registry.restore(state)
        restore_into(self, _STATE, state)


def _tables(path: str) -> Attribute:
    return made_of(path, lambda some: list(map(table_to_bytes, some)), lambda some: list(map(table_from_bytes, some)))


_STATE: Spec = {
    "watermarks": made_of("watermarks", Watermarks.state, Watermarks.restored),
    "numbers": ["registry.timeless", "malformed", "repeated", "overflows"],
    "tables": _tables("tables"),
    "side": _tables("side.tables"),
}
