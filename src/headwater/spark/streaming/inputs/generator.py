"""Generators as the input of a stream: SmartHome, or any dataclass in a module that has ``batches(batch_events)``.

An event's offset is its row number in its generator, as when the generator is read at once. With ``pace="real"`` an event is
there when the largest time so far has come, counted from when the stream began; a restart goes on by the same clock. With
``pace="fast"`` the next events are there as soon as those before have been asked for. A generator that ends is done.
"""

from __future__ import annotations

import json
import os
import time as clocks
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.errors import DataError, shown
from headwater.language.user_code import load_path
from headwater.spark.batch.files import find_pieces
from headwater.spark.formats import Batches, Wanted, schema_of
from headwater.spark.formats.file_range import BATCH_EVENTS, present
from headwater.spark.streaming.inputs.generator_blocks import blocks_of
from headwater.spark.streaming.inputs.generator_progress import NANOSECONDS, GeneratorProgress
from headwater.spark.streaming.inputs.input import Extent

#: So many more events of each source are there at a time where no clock says when.
STEP_EVENTS = 1 << 20


class GeneratorInput:
    """Each generator is a source, named by its number.

    ``time`` and ``unit`` say when events are, ``began_ns`` when the stream began (by default now), ``clock`` how late it is; both
    count nanoseconds. ``seen``: a folder where the sizes of blocks are kept, so that a restart does not generate them again.
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
    ) -> None:
        if pace not in ("real", "fast"):
            raise DataError(f"pace is {pace!r}: give 'real' or 'fast'")
        if unit not in NANOSECONDS:
            raise DataError(f"unit is {unit!r}: give one of {', '.join(map(repr, NANOSECONDS))}")
        _, pieces = find_pieces(generators, "generated")
        self._places = {piece.source: piece.places[0] for piece in pieces}
        self._pace, self._time, self._unit = pace, time, unit
        self._began_ns = clock() if began_ns is None else began_ns
        self._seen = None if seen is None else Path(seen).absolute()
        self._clock = clock
        self._progress = {source: self._of(source) for source in self._places}

    def _of(self, source: str) -> GeneratorProgress:
        kept = None if self._seen is None else self._seen / f"{source}.json"
        return GeneratorProgress(self._places[source], self._time, self._unit, kept)

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
                progress.go_on(STEP_EVENTS)
        else:
            # All begin together, with the first event of any.
            begins = [begin for progress in self._progress.values() if (begin := progress.begin_ns) is not None]
            now_ns = min(begins, default=0) + self._clock() - self._began_ns
            for progress in self._progress.values():
                progress.reveal_until(now_ns)
        return {source: Extent(each.end, is_done=each.is_done) for source, each in self._progress.items()}

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
