"""A stream over the loop whose driver dies at one moment after the other, into sinks that keep what they are given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from headwater.simulator import stream
from headwater.simulator.stream import Loop, StoryRun
from headwater.spark.streaming.sinks.sink import Sink

#: Makes the sink "rows" or "aside" of a new driver.
NewSink = Callable[[Loop, str], Sink]


class KilledRun(StoryRun):
    """Dies at one of these moments after the other, so many times."""

    def __init__(self, place: Path, seed: int, kills: int, roots: int, moments: tuple[str, ...]) -> None:
        self.died: Counter[str] = Counter()
        self._moments, self._left = cycle(moments), kills
        super().__init__(place, seed, crashes=False, roots=roots)

    def _something_happens(self) -> None:
        super()._something_happens()
        self.loop.events_max = 3  # many small batches: each kill needs one

    def _batches(self, count: int) -> None:
        for _ in range(count):
            if self._left and self.loop.crash_at is None:
                self.loop.crash_at = next(self._moments)
            moment, before = self.loop.crash_at, (len(self.loop.planned), self.loop.committed)
            super()._batches(1)
            if moment is not None and self.loop.crash_at is None:
                self.died[moment] += 1
                self._left -= 1
            elif before == (len(self.loop.planned), self.loop.committed):
                break

    @property
    def held(self) -> list[tuple[Any, ...]]:
        """Query, count and revision of the windows that hold at the end, as the checker knows them."""
        return sorted(
            (standing.row.query, standing.row.event_count, standing.row.revision)
            for standing in self.checker.shown.values()
        )


def told(sink: Sink, loop: Loop, name: str) -> Sink:
    """The sink, which tells the loop what it was given, and behind which somebody may die."""
    write = sink.write

    def watched(batch: int, rows: pa.Table) -> None:
        (loop.sink if name == "rows" else loop.aside).write(batch, rows)
        write(batch, rows)
        loop.reached(name)

    sink.write = watched  # type: ignore[method-assign]
    return sink


def played(
    place: Path,
    new_sink: NewSink,
    seed: int,
    kills: int,
    roots: int = 1,
    moments: tuple[str, ...] = stream.MOMENTS,
) -> KilledRun:
    """A stream from its first event to its end."""
    open_sinks: list[Sink] = []

    def new_sinks(driver):
        for dead in open_sinks:
            dead.close()  # as the kernel does for whoever has died
        open_sinks[:] = [told(new_sink(driver.loop, name), driver.loop, name) for name in ("rows", "aside")]
        return tuple(open_sinks)

    with mock.patch.object(stream.loop, "watched_sinks", new_sinks):
        run = KilledRun(place, seed, kills, roots, moments)
        run.play()
    run.loop.runner.close_sinks()
    return run


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order of their own, without what a table has only for other queries."""
    pairs = ([(name, _plain(value)) for name, value in row.items() if value is not None] for row in rows)
    return sorted(repr(sorted(each)) for each in pairs)


def _plain(value: Any) -> Any:
    """Decimals as the table has them, which is read as text and forgets zeros at the end; fields in the order of their names."""
    if isinstance(value, dict):
        return [(name, _plain(value[name])) for name in sorted(value)]
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value
