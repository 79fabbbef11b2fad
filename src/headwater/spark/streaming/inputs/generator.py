"""Generators as the input of a stream: SmartHome, or any dataclass in a module that has ``batches(batch_events)``.

An event's offset is its row number in its generator, as when the generator is read at once. With ``pace="real"`` an event is
there when the largest time so far has come, counted from when the stream began; a restart goes on by the same clock. With
``pace="fast"`` the next events are there as soon as those before have been asked for. A generator that ends is done.

Events are made block by block: any block at any time, and the next one at the price of one. A generator with ``block_count`` and
``arrivals_in(block, kept)`` (as SmartHome) is asked for the block itself, with a dictionary where it may keep what the next block
needs. Others are gone through from their beginning, and again only for what lies behind. To know how many events a block has it
must be generated once, in the planner; workers generate those they read again.
"""

from __future__ import annotations

import json
import os
import time as clocks
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.engine.intake.time_readings import read_timestamps
from headwater.errors import DataError, shown
from headwater.language.time_columns import time_column
from headwater.language.times import NEVER, TICK_NANOS
from headwater.language.user_code import load_path
from headwater.logs.files import replace
from headwater.spark.batch.files import find_pieces
from headwater.spark.formats import Batches, Wanted, schema_of
from headwater.spark.formats.file_range import BATCH_EVENTS, present
from headwater.spark.streaming.errors import CheckpointError
from headwater.spark.streaming.inputs.input import Extent
from headwater.spark.streaming.seals import sealed, unsealed

#: Events of a block, where the generator has no blocks of its own.
BLOCK_EVENTS = 1 << 16
#: Bytes of the blocks used last that a process keeps, and how many generators it keeps where they are.
KEPT_BYTES = 1 << 29
GENERATORS_MAX = 256
#: With ``pace="fast"``, how many more events of each source are there at a time.
STEP_EVENTS = 1 << 20


class Blocks:
    """The blocks of the generator that a place describes (`files.find_pieces`)."""

    def __init__(self, place: str) -> None:
        self._place = place
        path, fields = json.loads(place)
        self._generator = load_path(path)(**fields)
        has_blocks = hasattr(self._generator, "arrivals_in") and hasattr(self._generator, "block_count")
        #: How many blocks there are, where the generator says so.
        self.count: int | None = self._generator.block_count if has_blocks else None
        self._stragglers: dict[int, Any] = {}
        self._next = 0
        self._batches: Iterator[pa.RecordBatch] = iter(())

    @property
    def start(self) -> int | None:
        """When the stream begins, if the generator says so."""
        start = getattr(self._generator, "start", None)
        return start if isinstance(start, int) else None

    def block(self, number: int) -> pa.RecordBatch | None:
        """The block of this number; None: the generator ends before."""
        return KEPT_BLOCKS.get((self._place, number), lambda: self._made(number))

    def _made(self, number: int) -> pa.RecordBatch | None:
        if self.count is not None:
            return self._generator.arrivals_in(number, self._stragglers) if number < self.count else None
        if number < self._next or self._next == 0:
            self._batches, self._next = self._generator.batches(BLOCK_EVENTS), 0
        for batch in self._batches:
            self._next += 1
            if self._next == number + 1:
                return batch
        # Begun anew whenever it is asked again.
        self._next = 0
        return None


@lru_cache(maxsize=GENERATORS_MAX)
def blocks_of(place: str) -> Blocks:
    """The blocks of a generator, the same object for all who ask in this process."""
    try:
        return Blocks(place)
    except (TypeError, ValueError) as error:
        raise DataError(f"generator {shown(place)}: {error}") from error


class KeptBlocks:
    """The blocks that were used last, ``bytes_max`` of them together."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._blocks: OrderedDict[tuple[str, int], pa.RecordBatch] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[str, int], make: Callable[[], pa.RecordBatch | None]) -> pa.RecordBatch | None:
        """The block of this key, made if it is not kept; None if there is none."""
        found = self._blocks.pop(key, None)
        if found is None:
            if (found := make()) is None:
                return None
            self._bytes += found.nbytes
        self._blocks[key] = found
        while self._bytes > self.bytes_max and len(self._blocks) > 1:
            _, oldest = self._blocks.popitem(last=False)
            self._bytes -= oldest.nbytes
        return found


KEPT_BLOCKS = KeptBlocks(KEPT_BYTES)


class GeneratorProgress:
    """How far one generator is. ``end``: how many of its events are there. ``kept``: the file for the sizes of its blocks."""

    def __init__(self, place: str, time: str, unit: str, kept: Path | None = None) -> None:
        self._place = place
        self._blocks = blocks_of(place)
        self._reading = time_column(time)
        self._time = self._reading.name
        self._tick_ns = TICK_NANOS[unit]
        self._kept = kept
        #: For each block that was counted, the offset at its end and the largest time up to there.
        self._ends: list[int] = []
        self._times: list[int] = []
        self._kept_count = 0
        self._is_whole = False
        self._planned: int | None = None
        self.end = 0
        self._restore()

    @property
    def is_done(self) -> bool:
        """Whether all events are there."""
        return self._is_whole and self.end == self._known

    @property
    def begin_ns(self) -> int | None:
        """When the generator begins: as it says itself, else with its first event; None if there is none."""
        if self._blocks.start is not None:
            return self._blocks.start * self._tick_ns
        first = self._blocks.block(0)
        times = [] if first is None else self._highest(first).tolist()
        return next((time for time in times if time != NEVER), None)

    def go_on(self, count: int) -> None:
        """Reveal at least ``count`` more events, once those that are there were asked for, or if none was yet."""
        if self._planned is not None and self._planned < self.end:
            return
        self.end = self._known
        enough = self.end + count
        while self.end < enough and self._learn():
            self.end = self._known
        self._keep()

    def reveal_all(self) -> None:
        """Reveal all events, if the generator says that it ends; else as many as it would at once."""
        if self._blocks.count is None:
            self.go_on(STEP_EVENTS)
            return
        while self._learn():
            pass
        self.end = self._known
        self._keep()

    def reveal_until(self, now_ns: int) -> None:
        """Reveal all events up to the first one whose time, or that of one before it, has not come."""
        # Largest times so far do not fall: blocks that are over come before those that are not.
        while (over := bisect_right(self._times, now_ns)) == len(self._times) and self._learn():
            pass
        end = self._ends[over - 1] if over else 0
        if over < len(self._ends):
            block = self._blocks.block(over)
            assert block is not None, "it was there when it was counted"
            highest = np.maximum(self._highest(block), self._times[over - 1] if over else NEVER)
            end += int(np.searchsorted(highest, now_ns, side="right"))
        # A clock may be put back, but what was there stays there.
        self.end = max(self.end, end)
        self._keep()

    def stretches(self, start: int, end: int) -> Iterator[dict[str, Any]]:
        """How to read the events [start, end): block by block."""
        while self._known < end:
            if not self._learn():
                raise DataError(
                    f"generator {shown(self._place)} ends at {self._known}, but {end} events of it were read before"
                )
        self._planned = max(end, self._planned or 0)
        self.end = max(self.end, end)
        for block in range(bisect_right(self._ends, start), len(self._ends)):
            first = self._ends[block - 1] if block else 0
            if first >= end:
                return
            rows, skip = self._ends[block] - first, max(start - first, 0)
            count = min(end - first, rows) - skip
            if count:
                yield {"place": self._place, "block": block, "skip": skip, "count": count, "rows": rows}

    @property
    def _known(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _learn(self) -> bool:
        """Count one more block; False: there is none."""
        block = None if self._is_whole else self._blocks.block(len(self._ends))
        if block is not None:
            before = self._times[-1] if self._times else NEVER
            self._times.append(max(before, int(self._highest(block)[-1])) if len(block) else before)
            self._ends.append(self._known + len(block))
        self._is_whole = block is None or len(self._ends) == self._blocks.count
        return block is not None

    def _highest(self, block: pa.RecordBatch) -> NDArray[np.int64]:
        """For each event the largest time up to it, in nanoseconds; a missing time is no time."""
        if self._time not in block.schema.names:
            raise DataError(
                f"generator {shown(self._place)}: there is no column {self._time!r} that says when events are"
            )
        column = block.column(self._time)
        if not self._reading.is_plain:
            column, _ = read_timestamps(column, self._reading)
        tick = TICK_NANOS[column.type.unit] if pa.types.is_timestamp(column.type) else self._tick_ns
        times = pc.fill_null(pc.multiply_checked(column.cast(pa.int64()), tick), NEVER)
        return np.asarray(np.maximum.accumulate(times.to_numpy(zero_copy_only=False)))

    def _restore(self) -> None:
        if self._kept is None or not self._kept.exists():
            return
        try:
            data: dict[str, Any] = unsealed(self._kept, self._kept.read_bytes())
        except CheckpointError:
            return  # Blocks are counted again, and are what they were.
        if data["place"] == self._place:
            self._ends, self._times, self._is_whole = data["ends"], data["times"], data["is_whole"]
            self._kept_count = len(self._ends)

    def _keep(self) -> None:
        if self._kept is None or self._kept_count == len(self._ends):
            return
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        data = {"place": self._place, "ends": self._ends, "times": self._times, "is_whole": self._is_whole}
        replace(self._kept, sealed({"is_sealed": True, **data}))
        self._kept_count = len(self._ends)


class GeneratorInput:
    """Each generator is a source, named by its number.

    ``time`` and ``unit`` say when events are, ``began_ns`` when the stream began (by default now), ``clock`` how late it is; both
    count nanoseconds. ``seen``: a folder where the sizes of blocks are kept, so that a restart does not generate them again.
    ``step_events``: with ``pace="fast"``, how many more events of each source are there at a time.
    """

    kind = "generated"

    def __init__(
        self,
        generators: Any,
        *,
        pace: str = "real",
        time: str = "time",
        unit: str = "us",
        began_ns: int | None = None,
        seen: str | os.PathLike[str] | None = None,
        clock: Callable[[], int] = clocks.time_ns,
        step_events: int = STEP_EVENTS,
    ) -> None:
        if pace not in ("real", "fast"):
            raise DataError(f"pace is {pace!r}: give 'real' or 'fast'")
        if unit not in TICK_NANOS:
            raise DataError(f"unit is {unit!r}: give one of {', '.join(map(repr, TICK_NANOS))}")
        _, pieces = find_pieces(generators, "generated")
        self._places = {piece.source: piece.places[0] for piece in pieces}
        self._pace, self._time, self._unit = pace, time, unit
        self._began_ns = clock() if began_ns is None else began_ns
        self._seen = None if seen is None else Path(seen).absolute()
        self._clock, self._step_events = clock, step_events
        self._progress = {
            source: GeneratorProgress(place, time, unit, None if self._seen is None else self._seen / f"{source}.json")
            for source, place in self._places.items()
        }

    @property
    def schema(self) -> pa.Schema:
        """The columns of the first generator that has any events."""
        for place in self._places.values():
            schema = schema_of("generated", place)
            if schema is not None:
                return schema
        raise DataError("no generator has any events, so nothing says which columns there are")

    def to_data(self) -> dict[str, Any]:
        return {
            "places": list(self._places.values()),
            "pace": self._pace,
            "time": self._time,
            "unit": self._unit,
            "began_ns": self._began_ns,
            "seen": None if self._seen is None else str(self._seen),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], clock: Callable[[], int] = clocks.time_ns) -> GeneratorInput:
        described = map(json.loads, data["places"])
        generators = [load_path(path)(**fields) for path, fields in described]
        options = {name: data[name] for name in ("pace", "time", "unit", "began_ns", "seen")}
        return cls(generators, **options, clock=clock)

    def extents(self) -> dict[str, Extent]:
        if self._pace == "fast":
            for progress in self._progress.values():
                progress.go_on(self._step_events)
        else:
            # All begin together, with the first event of any.
            begins = [begin for progress in self._progress.values() if (begin := progress.begin_ns) is not None]
            now_ns = min(begins, default=0) + self._clock() - self._began_ns
            for progress in self._progress.values():
                progress.reveal_until(now_ns)
        return self._extents()

    def everything(self) -> dict[str, Extent]:
        """With ``pace="fast"`` all events of generators that end are there."""
        if self._pace != "fast":
            return self.extents()
        for progress in self._progress.values():
            progress.reveal_all()
        return self._extents()

    def _extents(self) -> dict[str, Extent]:
        return {source: Extent(each.end, source, each.is_done) for source, each in self._progress.items()}

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        return list(self._progress[source].stretches(start, end))

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Batches:
        batch = blocks_of(stretch["place"]).block(stretch["block"])
        rows = 0 if batch is None else batch.num_rows
        if batch is None or rows != stretch["rows"]:
            raise DataError(
                f"block {stretch['block']} of generator {shown(stretch['place'])} has {rows} events, but had {stretch['rows']} "
                "before; a generator gives the same events each time"
            )
        chosen = batch.select(present(wanted.columns, batch.schema)).slice(stretch["skip"], stretch["count"])
        for first in range(0, len(chosen), BATCH_EVENTS):
            yield chosen.slice(first, BATCH_EVENTS)
