"""Sources in memory, as an input of `hw.stream`: they show more of themselves when somebody says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.reference.history import UNREAD
from headwater.spark.formats import Wanted
from headwater.spark.streaming.inputs import input as inputs
from headwater.spark.streaming.inputs.input import Extent, Watermark

inputs.KINDS["listed"] = "headwater.simulator.stream.listed_input:ListedInput"

#: The events of all sources, by name: what is "read" lies here.
TABLES: dict[str, pa.RecordBatch] = {}
#: The watermarks that sources tell themselves: each with the count of events before it.
TOLD: dict[str, list[tuple[int, int]]] = {}
#: Events of one batch that an input reads.
READ_EVENTS = 7


class ListedInput:
    """Sources by name: ``ends``: up to which event each is there by now; ``homes``: where they are at home."""

    kind = "listed"

    def __init__(self, schema: pa.Schema, ends: dict[str, int] | None = None, homes: dict[str, str] | None = None):
        self.schema = schema
        self.ends = {} if ends is None else ends
        self.homes = {} if homes is None else homes
        self.done: set[str] = set()
        self.forgotten: set[str] = set()
        #: Sources that cannot be seen for a while, and how often something of them was left out.
        self.hidden: set[str] = set()
        self.left_out = 0

    def to_data(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> ListedInput:
        raise AssertionError("the loop puts the input in place itself")

    @staticmethod
    def forgets_sources(data: Mapping[str, Any]) -> bool:
        return True

    def forget(self, sources: Sequence[str]) -> None:
        assert self.done.issuperset(sources)
        self.forgotten.update(sources)

    def extents(self) -> dict[str, Extent]:
        ends = {name: end for name, end in self.ends.items() if name not in self.forgotten}
        self.left_out += len(ends.keys() & self.hidden)
        ends = {name: end for name, end in ends.items() if name not in self.hidden}
        return {name: Extent(end, self.homes.get(name, ""), name in self.done) for name, end in ends.items()}

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        middle = (start + end) // 2
        parts = [(start, middle), (middle, end)]
        return [{"source": source, "start": a, "end": b} for a, b in parts if a < b]

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Iterator[pa.RecordBatch | Watermark]:
        table = TABLES[stretch["source"]]
        # Texts of values that could not be read stand beside their columns, as in all formats.
        texts = [UNREAD + name for name in wanted.columns if UNREAD + name in table.schema.names]
        table = table.select([*wanted.columns, *texts])
        at, end = stretch["start"], stretch["end"]
        told = {position: time for position, time in TOLD.get(stretch["source"], ()) if at <= position <= end}
        while at < end:
            # A watermark that stands where a stretch begins was told before; once more does no harm.
            if at in told:
                yield Watermark(told.pop(at))
            stop = min([end, at + READ_EVENTS, *told])
            yield table.slice(at, stop - at)
            at = stop
        if end in told:
            yield Watermark(told[end])
