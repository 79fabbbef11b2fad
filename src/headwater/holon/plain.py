"""Windowed CRDTs as plain objects, without any runtime: the paper's Table 1 and Algorithm 1, made right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from headwater.base.packing import Reader, Writer
from headwater.errors import DataError, FormatError, QueryError, shown
from headwater.language.functions.grid import grid_of
from headwater.language.functions.handlers import WindowRead
from headwater.language.functions.states import WindowedState, arrow_type
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Sliding
from headwater.node.holon.executed_steps import written_part
from headwater.node.holon.functions.plans import INSERTED_TIME, read_state
from headwater.node.holon.functions.rows_in import row_of
from headwater.node.holon.replica import Replica
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import START, StepGrid
from headwater.protocols.windowed_crdt import (
    PrefixDelta,
    Reach,
    delta_from_bytes,
    delta_to_bytes,
    prefix_from_bytes,
    prefix_to_bytes,
)

VERSION = 1
#: What bytes hold: deltas, or all that is known.
DELTAS, PREFIXES = range(2)


class NotFinalError(DataError):
    """The window is not final on all partitions yet."""


class CRDTReplica:
    """What one partition knows of a windowed state that it shares with others. ``partitions``: all of them.

    A partition inserts and says how far its time has come; replicas tell each other deltas, or all they know, in any order, any
    number of times. A window is final when every partition is past it, and its value is then the same on all replicas.

    >>> import headwater as hw
    >>> bids = hw.WindowedCRDT(hw.crdts.GCounter(), hw.tumbling(10), columns={"value": int})
    >>> a, b = (bids.replica(name, ["a", "b"]) for name in "ab")
    >>> a.insert(3, time=4); a.increment_watermark(10)
    >>> b.insert(4, time=7); b.increment_watermark(20)
    >>> a.peek(hw.WindowRead(0, 10)) is None
    True
    >>> told = b.delta()
    >>> a.merge(told); a.merge(told); a.window_value(5), a.global_watermark
    (7, 10)
    """

    def __init__(self, state: WindowedState, partition: str, partitions: Iterable[str], unit: str = "us") -> None:
        names = sorted(set(partitions))
        if partition not in names:
            raise QueryError(f"partition is {shown(partition)}: it has to be one of the partitions, {', '.join(names)}")
        query = state.query("state")
        types = {name: arrow_type(given) for name, given in (state.columns or {}).items()}
        missing = sorted(query.columns() - types.keys())
        if missing:
            raise QueryError(f"the state reads {missing[0]!r}: say its type, columns={{{missing[0]!r}: int}}")
        schema = pa.schema([(INSERTED_TIME, pa.int64()), *types.items()])
        self._table = SharedTable(0, (query,), schema, INSERTED_TIME, unit)
        self._read = read_state(query.resolved(unit), 0, self._table, has_own_aliases=False)
        self._grid = StepGrid(grid_of([query], unit))
        self._replica = Replica([self._table], {name: name for name in names}, self._grid)
        self.partition = partition
        self._half = self._table.leaf_half(partition, partition)
        self._index = self._start = 0
        self._watermark, self._latest, self._step = NEVER, NEVER, START
        self._deltas: list[PrefixDelta] = []

    # --- what the partition does ---

    def insert(self, element: Any, time: int, key: Any = None) -> None:
        """One event; one that is late by the watermark of this partition is treated as in any stream."""
        row = row_of(self._table, "state", element, time, key)
        try:
            batch = pa.RecordBatch.from_pylist([row], self._table.schema)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"what was inserted is of another type: {error}") from error
        self._half.take_in(self.partition, self._index, batch, None)
        self._index += 1
        self._latest = max(self._latest, time)

    def increment_watermark(self, time: int) -> None:
        """No event of this partition with a smaller time will be inserted; a lower watermark than before changes nothing."""
        if time <= self._watermark:
            return
        # Every position is one thing that happened, also where nothing was inserted.
        self._half.pass_over(self.partition, self._index + 1, None, None)
        self._half.end(self.partition, time)
        self._index += 1
        self._watermark = time
        step = self._grid.step_of(time)
        if step > self._step:
            low, self._step = self._step + 1, step
            self._tell((low, step))

    def end(self) -> None:
        """Nothing will be inserted any more."""
        self.increment_watermark(FOREVER)

    def _tell(self, steps: tuple[int, int] | None) -> None:
        if self._index == self._start:
            return
        _, parts = self._half.take()
        written = tuple(written_part(0, part) for part in parts)
        start, self._start = self._start, self._index
        delta = PrefixDelta(
            self.partition, 1, 0, start, self._index, Reach(self._watermark, self._latest), written, steps
        )
        assert self._replica.apply(delta) is None
        self._deltas.append(delta)
        self._advance()

    # --- what replicas tell each other ---

    def delta(self) -> bytes:
        """What this partition did since the last call."""
        self._tell(None)
        deltas, self._deltas = self._deltas, []
        writer = Writer(VERSION).number(DELTAS).number(len(deltas))
        for delta in deltas:
            writer.blob(delta_to_bytes(delta))
        return writer.finish()

    def to_bytes(self) -> bytes:
        """All that is known here, of every partition."""
        self._tell(None)
        prefixes = self._replica.prefixes.chains
        writer = Writer(VERSION).number(PREFIXES).number(len(prefixes))
        for name, prefix in prefixes.items():
            writer.blob(name.encode()).blob(prefix_to_bytes(prefix))
        return writer.finish()

    def merge(self, other: bytes | CRDTReplica) -> None:
        """Take over what another replica said or knows. What is known already, or cannot be used yet, changes nothing."""
        data = other.to_bytes() if isinstance(other, CRDTReplica) else other
        with Reader(data, "a replica", VERSION) as reader:
            kind, count = reader.number(), reader.count()
            if kind == DELTAS:
                for delta in [delta_from_bytes(reader.blob()) for _ in range(count)]:
                    self._check(delta.chain, delta.parts)
                    self._replica.apply(delta)
            elif kind == PREFIXES:
                prefixes = {reader.blob().decode(): prefix_from_bytes(reader.blob()) for _ in range(count)}
                for name, prefix in prefixes.items():
                    self._check(name, [*prefix.open, *(part for step in prefix.closed for part in step.parts)])
                self._replica.merge(prefixes)
            else:
                raise FormatError(f"a replica of kind {kind}; this release knows deltas and prefixes")
        self._advance()

    def _check(self, chain: str, parts: Iterable[bytes]) -> None:
        problem = self._replica.steps.problem(chain, list(parts))
        if problem is not None:
            raise FormatError(f"what partition {chain!r} said cannot be: {problem}")

    def _advance(self) -> None:
        for _ in self._replica.advance():
            pass

    # --- reads ---

    @property
    def global_watermark(self) -> int:
        """How far all partitions have come, as far as that is known here: windows up to this time are final."""
        return self._replica.steps.time

    def window_value(self, w: WindowRead | int) -> Any:
        """The value of a window, or of the one that holds a time; a window that is not final yet is refused."""
        read = self._window(w)
        if not self._read.is_final(read.end, self.global_watermark):
            raise NotFinalError(
                f"the window [{read.start}, {read.end}) is not final: all partitions are past {self.global_watermark} as far as"
                f" {self.partition!r} knows, waiting for {', '.join(self._replica.behind)}; merge what they say, or peek"
            )
        windows = self._replica.kept.window(("state", read.start, read.end))
        return self._read.value(windows, self.partition)

    def peek(self, w: WindowRead | int) -> Any:
        """The same; None while the window is not final."""
        read = self._window(w)
        return self.window_value(read) if self._read.is_final(read.end, self.global_watermark) else None

    def _window(self, w: WindowRead | int) -> WindowRead:
        if isinstance(w, WindowRead):
            return w
        window = self._read.query.window
        if not isinstance(window, Sliding) or window.size != window.slide:
            raise QueryError(
                f"a time is in several windows, or its window is not known ahead: give hw.WindowRead(start, end), not {w}"
            )
        start = (w - int(window.offset)) // int(window.size) * int(window.size) + int(window.offset)
        return WindowRead(start, start + int(window.size))
