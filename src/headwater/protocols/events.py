"""Everything that can happen to a node. A host turns clocks, sockets and files into these; a node never looks for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.offsets import check_offset
from headwater.base.packing import Bytes
from headwater.errors import DataError
from headwater.language.query import Query


@dataclass(frozen=True, slots=True)
class Started:
    """The node runs: the first event after it was made or restored."""


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A frame came over the link to a neighbour."""

    sender: str
    frame: Bytes


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer that the node had set ran out."""

    name: str


@dataclass(frozen=True, slots=True)
class SourceOpened:
    """A leaf has a source from now on: a sensor, a file, a partition of a log. ``home``: the node it belongs to by birth."""

    source: str
    home: str = ""
    schema: pa.Schema | None = None


@dataclass(frozen=True, slots=True)
class BatchArrived:
    """The next events of a source, the first of them at ``offset``; behind them its ``watermark``, if it is told.

    Read again, a source gives the same events and the same watermarks at the same offsets; how they are cut into batches is
    free.
    """

    source: str
    offset: int
    batch: pa.RecordBatch
    watermark: int | None = None

    def __post_init__(self) -> None:
        check_offset(self.source, self.offset, len(self.batch))


@dataclass(frozen=True, slots=True)
class MixedBatchArrived:
    """The next events of many sources at once, as a gateway has them: event i is of ``sources[which[i]]``, at ``offsets[i]``."""

    sources: Sequence[str]
    which: Int64Array
    offsets: Int64Array
    batch: pa.RecordBatch

    def __post_init__(self) -> None:
        if not len(self.which) == len(self.offsets) == len(self.batch):
            raise DataError(
                f"there are {len(self.which)} sources and {len(self.offsets)} offsets for {len(self.batch)} events; "
                "give one of each for every event"
            )
        for place in (int(self.offsets.argmin()), int(self.offsets.argmax())) if len(self.offsets) else ():
            check_offset(self.sources[self.which[place]], self.offsets[place], 1)


@dataclass(frozen=True, slots=True)
class EventsPassed:
    """The next ``count`` events of a source, which were not read because no query wants any of them.

    What is known of them: each is well-formed and has a time in [low, high], both of which occur; no condition of a query is true
    for it; it is in no window of a query without a condition. Without times there are no events at these offsets, as between the
    records of a broker's transactions: nothing is counted, and no watermark moves.
    """

    source: str
    offset: int
    count: int
    low: int | None = None
    high: int | None = None

    def __post_init__(self) -> None:
        check_offset(self.source, self.offset, self.count)


@dataclass(frozen=True, slots=True)
class SourceEnded:
    """No event of the source will come any more; ``offset`` events were there in all."""

    source: str
    offset: int

    def __post_init__(self) -> None:
        check_offset(self.source, self.offset)


@dataclass(frozen=True, slots=True)
class QueryAdded:
    """A user adds a query at the root; it becomes active at an event time above all that was accepted, not before ``at``."""

    query: Query
    at: int | None = None


@dataclass(frozen=True, slots=True)
class QueryRemoved:
    """A user ends a query at the root: at once, or (drain) when its open windows have closed."""

    name: str
    drain: bool = False


@dataclass(frozen=True, slots=True)
class FlushAsked:
    """The stream ends: leaves take in nothing more, and everything complete comes out."""


@dataclass(frozen=True, slots=True)
class IdleAsked:
    """An operator says at the root: do not wait for this source any more."""

    source: str


@dataclass(frozen=True, slots=True)
class ReturnAsked:
    """An operator says at the root: wait for this source again."""

    source: str


@dataclass(frozen=True, slots=True)
class Leaving:
    """A leaf ends here, as after each batch on Spark: what waits in it is sent now, and nothing is kept for later."""


#: What happens to a leaf and its sources.
LeafEvent = SourceOpened | BatchArrived | MixedBatchArrived | EventsPassed | SourceEnded | Leaving
#: What users and operators ask of the root.
RootEvent = QueryAdded | QueryRemoved | FlushAsked | IdleAsked | ReturnAsked
Event = Started | MessageReceived | TimerFired | LeafEvent | RootEvent
