"""What a partition of a micro-batch tells the roots behind it: how far each source came, and events for their queries.

Queries whose keys can be shared out form a group for each set of keys; each root has the events of some keys. All others are
in one group, whose events meet at one root.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.base.arrays import Int64Array
from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.engine.intake.arrivals import times_of
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.engine.wire.split import bucket_numbers
from headwater.language.query import Query
from headwater.language.windows import CountWindow

#: The group of queries whose events meet at one root.
TOGETHER = ""
#: The name under which events travel with their source.
SOURCE = "\0source"


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Queries that read the same events: ``columns`` are those of events, ``ties`` those that break ties, if order matters."""

    name: str
    queries: tuple[Query, ...]
    columns: tuple[str, ...]
    ties: tuple[str, ...] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that say which root has an event; none: one root has all."""
        return () if self.name == TOGETHER else self.queries[0].keys

    @property
    def travelling(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.columns, *(self.ties or ()))))


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What is asked of a stream. Times of the host's clock are in milliseconds; None: never."""

    groups: tuple[EventGroup, ...]
    time: str = "time"
    unit: str = "us"
    disorder: int | None = None
    strict: bool = False
    #: After how much silence a source is not waited for, and after how much silence of all the stream ends.
    idle_ms: int | None = None
    flush_after_ms: int | None = None
    #: How many roots share the keys: fixed for the life of a stream.
    buckets: int = 1
    #: Whether open windows are shown too, after each batch in which they changed.
    is_live: bool = False
    #: Where sources are at home that are not their own nodes.
    homes: Mapping[str, str] = field(default_factory=dict)


def group_name(query: Query) -> str:
    """The group of a query.

    >>> import headwater as hw
    >>> group_name(hw.query("q", hw.session(5), keys=["a", "b"], n=hw.count())), TOGETHER
    ('["a", "b"]', '')
    """
    counts_all = isinstance(query.window, CountWindow) and query.window.per == "all"
    if query.emit_empty or counts_all:
        return TOGETHER
    return json.dumps(query.keys) if query.keys else TOGETHER


@dataclass(slots=True)
class Heard:
    """What a batch has of one source: how many events, and the latest valid time of them."""

    count: int = 0
    latest: int | None = None

    def add(self, count: int, latest: int | None) -> None:
        self.count += count
        known = [time for time in (self.latest, latest) if time is not None]
        self.latest = max(known) if known else None


@dataclass(slots=True)
class Frame:
    """What one partition sends to one root."""

    sources: dict[str, Heard] = field(default_factory=dict)
    is_last: bool = False
    events: dict[str, pa.RecordBatch] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        return to_bytes(
            {
                "sources": [[name, heard.count, heard.latest] for name, heard in self.sources.items()],
                "last": self.is_last,
                "events": {name: table_to_bytes(batch, "lz4") for name, batch in self.events.items()},
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Frame:
        tree = from_bytes(data)
        sources = {name: Heard(count, latest) for name, count, latest in tree["sources"]}
        events = {name: table_from_bytes(batch).to_batches()[0] for name, batch in tree["events"].items()}
        return cls(sources, tree["last"], events)


def frames(
    batch: pa.RecordBatch,
    groups: Sequence[EventGroup],
    buckets: int,
    *,
    time: str,
    unit: str,
    sources: pa.Array | None = None,
    last: pa.Array | None = None,
) -> Iterator[tuple[int, Frame]]:
    """The frame of each bucket for these events.

    ``sources``: the source of each event; ``last``: which rows are no events but say that the stream ends.
    """
    is_last = False
    if last is not None:
        marked = last.fill_null(False)
        is_last = bool(pc.any(marked).as_py())
        kept = pc.invert(marked)
        batch = batch.filter(kept)
        sources = None if sources is None else sources.filter(kept)
    heard, names = _heard(batch, sources, time, unit)
    if names is not None:
        batch = batch.append_column(SOURCE, names)
    shares = [(group.name, _shares(batch, group, buckets, names is not None)) for group in groups]
    for bucket in range(buckets):
        yield bucket, Frame(heard, is_last, {name: share[bucket] for name, share in shares if bucket in share})


def _heard(
    batch: pa.RecordBatch, sources: pa.Array | None, time: str, unit: str
) -> tuple[dict[str, Heard], pa.Array | None]:
    times, bad, _ = times_of(batch, time, unit)
    usable = np.ones(len(batch), np.bool_)
    usable[list(bad)] = False
    if sources is None:
        return ({"": _of(times, usable)} if len(batch) else {}), None
    coded = sources.cast(pa.string()).fill_null("").dictionary_encode()
    which = coded.indices.to_numpy(zero_copy_only=False)
    found = {}
    for number, name in enumerate(coded.dictionary.to_pylist()):
        own = which == number
        found[name] = _of(times[own], usable[own])
    return found, coded


def _of(times: Int64Array, usable: np.ndarray[Any, np.dtype[np.bool_]]) -> Heard:
    good = times[usable]
    return Heard(len(times), int(good.max()) if len(good) else None)


def _shares(batch: pa.RecordBatch, group: EventGroup, buckets: int, with_source: bool) -> Mapping[int, pa.RecordBatch]:
    if not len(batch):
        return {}
    chosen = batch.select([*group.travelling, *([SOURCE] if with_source else [])])
    if not group.keys or buckets == 1:
        return {0: chosen}
    numbers = bucket_numbers([batch.column(key) for key in group.keys], buckets)
    order = np.argsort(numbers, kind="stable")
    edges = np.searchsorted(numbers[order], np.arange(buckets + 1))
    chosen = chosen.take(pa.array(order))
    return {
        bucket: chosen.slice(int(edges[bucket]), int(edges[bucket + 1] - edges[bucket]))
        for bucket in np.flatnonzero(np.diff(edges)).tolist()
    }
