"""A program with a stage of each partition, and what the reference says of it: a part of the rows of each step is counted, the
counts go to a chain of the partition, and are inserted into a level of their own, whose windows go to one chain for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from headwater.base.count_limits import CountLimits
from headwater.base.packing import Reader, Writer
from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.tree.leaf_sources import Standing
from headwater.language import aggregations as agg
from headwater.language import windows as win
from headwater.language.query import query_of
from headwater.language.times import FOREVER, NEVER
from headwater.node.holon.executed_steps import StepRows, written_part
from headwater.node.holon.kept_steps import KeptSteps
from headwater.node.holon.shared_program import StagePlan
from headwater.node.holon.stages import QueryStage, Took, stage_chain, stage_watermark
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import StepGrid
from headwater.protocols.windowed_crdt import Prefix
from headwater.reference.history import Arrived, StreamSettings
from headwater.reference.rows import EmittedWindows, Group, ReferenceStream, ResultRow, changes_since

#: Of how many rows of a step a partition counts one.
SHARE = 3
COUNTS = pa.schema({"time": pa.int64(), "unit": pa.string(), "rows": pa.int64()})
COUNTED = query_of("counted", win.tumbling(30), (("n", agg.count()), ("total", agg.sum("rows"))), keys=("unit",))
#: The level that counts are inserted into.
TABLE = SharedTable(0, (COUNTED,), COUNTS)


class TallyStage:
    """Counts the rows of steps that are the partition's, and remembers how many there were."""

    def __init__(self, unit: str, prefix: Prefix, _: Sequence[KeptSteps]) -> None:
        self._unit = unit
        self._index, self._seen, self._offset, self._time = _read(prefix.reach.private)

    def take(self, step: StepRows) -> Took:
        """The counts of a step: as a row, if there were any, and as an event of the time of the step before."""
        rows = step.rows.get(0)
        mine = [] if rows is None else _share(self._unit, rows.column("event_count").to_pylist())
        index, told = self._index, None
        parts: tuple[bytes, ...] = ()
        if mine:
            self._index, self._seen = self._index + 1, self._seen + len(mine)
            told = pa.Table.from_pylist([_row(step.time, mine, self._seen)])
            parts = self._inserted(len(mine), stage_watermark(step.time)) if self._time > NEVER else ()
        self._time = step.time if step.time < FOREVER else self._time
        private = Writer().number(self._index).number(self._seen).number(self._offset).signed(self._time)
        return Took(index, told, parts, private.finish())

    def _inserted(self, count: int, watermark: int) -> tuple[bytes, ...]:
        chain, before = stage_chain(self._unit, 1), stage_watermark(self._time)
        standing = Standing(chain, self._unit, self._offset, before, self._offset, before)
        half = LeafHalf(TABLE.query_set, chain, [standing], before, NEVER, CountLimits())
        batch = pa.RecordBatch.from_pylist([{"time": self._time, "unit": self._unit, "rows": count}], COUNTS)
        half.take_in(chain, self._offset, batch, watermark)
        self._offset += 1
        return tuple(written_part(TABLE.number, part) for part in half.take()[1])


def _read(private: bytes) -> tuple[int, int, int, int]:
    if not private:
        return 0, 0, 0, NEVER
    with Reader(private) as reader:
        return reader.number(), reader.number(), reader.number(), reader.signed()


def _share(unit: str, counts: Sequence[int]) -> list[int]:
    """Of the rows of a step those of a partition, as how many events each has."""
    return [count for place, count in enumerate(counts, start=int(unit[1:])) if place % SHARE == 0]


def _row(time: int, mine: list[int], seen: int) -> dict[str, Any]:
    return {"time": time, "rows": len(mine), "events": sum(mine), "seen": seen}


#: The stages of the program: rows as they are and counts of each partition, and the windows over the counts.
STAGES = (StagePlan(TallyStage, QueryStage, (TABLE,)), StagePlan(once=QueryStage))


def expected_tallies(
    units: Sequence[str], steps: Sequence[tuple[int, list[ResultRow]]], every: int
) -> tuple[dict[str, list[dict[str, Any]]], list[ResultRow]]:
    """What each partition's chain holds after these steps, and the rows of the windows over the counts."""
    told: dict[str, list[dict[str, Any]]] = {unit: [] for unit in units}
    inserted: list[tuple[int, list[Arrived]]] = []
    seen, offsets, before = dict.fromkeys(units, 0), dict.fromkeys(units, 0), NEVER
    for time, rows in steps:
        events = []
        for unit in units:
            mine = _share(unit, [row.event_count for row in rows])
            if mine:
                seen[unit] += len(mine)
                told[unit].append(_row(time, mine, seen[unit]))
                if before > NEVER:
                    row = {"time": before, "unit": unit, "rows": len(mine)}
                    events.append(Arrived(stage_chain(unit, 1), offsets[unit], row, unit))
                    offsets[unit] += 1
        inserted.append((time, events))
        before = time if time < FOREVER else before
    return told, list(_windows(inserted, every))


def _windows(inserted: Sequence[tuple[int, list[Arrived]]], every: int) -> Iterator[ResultRow]:
    """Windows over counts close at the steps that the stages' watermark has reached."""
    stream, grid = ReferenceStream(StreamSettings((COUNTED,))), StepGrid(every)
    shown: dict[Group, EmittedWindows] = {}
    for time, events in inserted:
        for event in events:
            stream.note(event)
        reached = grid.time_of(grid.step_of(stage_watermark(time)))
        if reached > stream.watermark:
            stream.watermark = reached
            if reached < FOREVER:
                stream.finite_watermark = reached
            yield from changes_since(stream, shown)
