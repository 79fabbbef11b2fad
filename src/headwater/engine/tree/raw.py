"""Queries of a leaf that need events as they are: these go on to the root once, whoever asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int64Array
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import TimeScan
from headwater.engine.intake.keys import KeyTable
from headwater.engine.intake.predicates import mask as predicate_mask
from headwater.engine.windows.assembler import Closed
from headwater.engine.windows.late import DROPPED, Dropped, standing
from headwater.engine.windows.registered import Registered
from headwater.language.times import NEVER

#: For so many deltas events travel before partials are tried again.
DELTAS_RAW = 15
#: A place of birth: time and offset.
PLACE_BYTES = 16


@dataclass(slots=True)
class RawChoice:
    """The choice for one family of queries, made anew with each delta.

    >>> choice = RawChoice()
    >>> choice.saw(100, 1600); choice.taken(); choice.weigh(5000); choice.is_raw
    True
    """

    _left: int = 0
    _bytes: int = 0
    _before: int = 0

    @property
    def is_raw(self) -> bool:
        return self._left > 0

    def saw(self, count: int, column_bytes: int) -> None:
        """Events came whose columns take so many bytes."""
        self._bytes += PLACE_BYTES * count + column_bytes

    def taken(self) -> None:
        """What has come together was taken for a delta."""
        self._before, self._bytes = self._bytes, 0
        self._left = max(self._left - 1, 0)

    def weigh(self, partial_bytes: int) -> None:
        """The partials of that delta took so many bytes."""
        if partial_bytes > self._before:
            self._left = DELTAS_RAW


class RawGroup:
    """Decides which events travel; a leaf computes nothing of them.

    Too late for a query is a matter of the event, its watermark and the query alone, so that is said here, where the event is
    still whole.
    """

    def __init__(self) -> None:
        self.keys = KeyTable(())
        self.watermark = NEVER
        self.slice_count = 0
        self.calculation_count = 0
        self._entries: dict[int, Registered] = {}

    def queries(self) -> list[Registered]:
        return list(self._entries.values())

    def register(self, entries: Iterable[Registered]) -> None:
        self._entries |= {entry.number: entry for entry in entries}

    def unregister(self, number: int) -> None:
        del self._entries[number]

    def columns(self) -> list[str]:
        """What has to travel."""
        return sorted({name for entry in self._entries.values() for name in entry.query.columns()})

    def wanted(self, arrays: Mapping[str, pa.Array], length: int) -> BoolArray | None:
        """Which events some query does not filter out; None for all."""
        wanted = np.zeros(length, np.bool_)
        for entry in self._entries.values():
            if entry.query.where is None:
                return None
            wanted |= predicate_mask(entry.query.where, arrays, length)
        return None if wanted.all() else wanted

    def too_late(self, chunk: Chunk, arrays: Mapping[str, pa.Array], watermarks: Int64Array) -> list[Dropped]:
        """The events that are too late, per query."""
        found = []
        for entry in self._entries.values():
            what = standing(entry, chunk.times, watermarks) == DROPPED
            if entry.query.where is not None:
                what &= predicate_mask(entry.query.where, arrays, len(chunk))
            rows = np.flatnonzero(what)
            if len(rows):
                found.append(Dropped(entry.number, chunk.take(rows), watermarks[rows]))
        return found

    # What a family asks of a group that computes; here there is nothing to answer.

    def changed(self) -> None:
        """Nothing to work out anew."""

    def prepare(self, types: Mapping[str, pa.DataType]) -> None:
        """Nothing to prepare."""

    def accept(
        self, chunk: Chunk, arrays: Mapping[str, pa.Array], scan: TimeScan, watermarks: Int64Array | int
    ) -> list[Dropped]:
        return []

    def expected_rows(self, until: int) -> int:
        return 0

    def close(self, until: int) -> list[Closed]:
        return []

    def count(self, seen: int, filtered: int, early: int) -> None:
        """The root keeps the accounts."""

    def counters(self, number: int) -> dict[str, int]:
        return dict.fromkeys(("in", "filtered", "outside", "member", "late", "dropped"), 0)

    def row_count(self) -> int:
        return 0

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        """Nothing was kept."""
