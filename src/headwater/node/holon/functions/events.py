"""Stage 0: what a function does with the events of a partition."""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from headwater.engine.intake.arrivals import times_of
from headwater.engine.intake.columns import without
from headwater.errors import DataError, QueryError
from headwater.language.functions.function import bound
from headwater.language.functions.handlers import WindowRead
from headwater.node.holon.functions.batches import EventBatch
from headwater.node.holon.functions.bound_states import EventState, LocalCell
from headwater.node.holon.functions.inserting import Inserts
from headwater.node.holon.functions.rows import listed_rows, rows_table
from headwater.node.holon.functions.setup import FunctionSetup
from headwater.protocols.steps import START, StepGrid
from headwater.protocols.windowed_crdt import Prefix, Reach

Peek = Callable[[str, WindowRead], Any]


class FunctionEvents:
    """Hands the events of a partition to ``events`` or ``event`` of an instance, and keeps what these insert, remember, yield."""

    def __init__(self, setup: FunctionSetup, partition: str, prefix: Prefix, grid: StepGrid, peek: Peek | None) -> None:
        known = json.loads(prefix.reach.private) if prefix.reach.private else {}
        self.cut = setup.program.cut
        self._setup = setup
        watermark = grid.time_of(prefix.step) if prefix.step != START else START
        reach = Reach(watermark, prefix.reach.latest)
        offsets = known.get("inserted", {})
        self._inserts = {
            state: Inserts(table, state, partition, partition, offsets.get(state, 0), reach)
            for state, table in setup.inserted(0).items()
        }
        self._locals = setup.cells(known.get("locals", {}))
        states: Mapping[str, Any] = {name: EventState(name, self, peek) for name in setup.states}
        assert setup.program.function is not None
        instance = bound(setup.program.function, {**states, **self._locals})
        self._method = getattr(instance, setup.program.has_events or "events")
        self._takes_batches = setup.program.has_events == "events"
        self._make_event: Any = None
        #: How many rows were yielded before, and those since.
        self._row_count: int = known.get("rows", 0)
        self._rows: list[dict[str, Any]] = []

    # --- what the runner of the partition asks ---

    def take(self, batch: pa.RecordBatch, offset: int) -> None:
        """The next events; those without a usable time are set aside where the queries are."""
        times, bad, _ = times_of(batch, self._setup.time, self._setup.unit)
        if bad:
            rows = without(bad, len(batch))
            batch, times = batch.take(pa.array(rows)), times[rows]
        try:
            if self._takes_batches:
                if len(batch):
                    self._rows += listed_rows(self._method(EventBatch(batch)))
            else:
                self._each(batch, times.tolist())
        except Exception as error:
            error.add_note(f"in {self._setup.program.name}, with events from {offset} on")
            raise

    def _each(self, batch: pa.RecordBatch, times: list[int]) -> None:
        if self._make_event is None:
            self._make_event = _event_class(batch.schema.names)
        columns = [column.to_pylist() for column in batch.columns]
        place = batch.schema.get_field_index(self._setup.time)
        if place >= 0:
            columns[place] = times
        method = self._method
        for event in map(self._make_event, *columns):
            made = method(event)
            if made is not None:
                self._rows += listed_rows(made)

    def close(self, watermark: int) -> None:
        for inserts in self._inserts.values():
            inserts.close(watermark)

    def take_parts(self) -> list[bytes]:
        return [part for inserts in self._inserts.values() for part in inserts.take_parts()]

    def take_rows(self) -> tuple[int, pa.Table | None]:
        """The rows since the last time, and the index of the first of them."""
        rows, self._rows, index = self._rows, [], self._row_count
        self._row_count += len(rows)
        return index, rows_table(rows, self._setup.program.name) if rows else None

    @property
    def row_count(self) -> int:
        return self._row_count + len(self._rows)

    def private(self) -> bytes:
        for inserts in self._inserts.values():
            inserts.settle()
        return private_bytes(self.row_count, self._inserts, self._locals)

    # --- what states ask ---

    def insert(self, state: str, element: Any, time: Any, key: Any) -> None:
        inserts = self._inserts.get(state)
        if inserts is None:
            raise QueryError(self._setup.wrong_inserter(state, self._setup.program.has_events or "events"))
        inserts.insert(element, time, key)


def private_bytes(
    row_count: int, inserts: Mapping[str, Inserts], cells: Mapping[str, LocalCell], later: list[Any] | None = None
) -> bytes:
    """What a function has to know to go on elsewhere; the same bytes for the same."""
    state = {
        "rows": row_count,
        "inserted": {name: one.offset for name, one in inserts.items()},
        "locals": {name: cell.value for name, cell in cells.items()},
        **({"later": later} if later else {}),
    }
    return json.dumps(state, sort_keys=True, separators=(",", ":")).encode()


def _event_class(names: list[str]) -> Any:
    odd = [name for name in names if not name.isidentifier() or name.startswith("_")]
    if odd:
        raise DataError(
            f"column {odd[0]!r} cannot be an attribute of an event: rename it, or write events(self, batch)"
        )
    return namedtuple("Event", names)
