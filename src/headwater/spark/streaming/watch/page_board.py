"""The board of `hw.stream` for its live page: the status, the last windows, reasons of events set aside, and what happened."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.language.notebooks.words import query_in_words
from headwater.language.query import Query
from headwater.page.board import Diary, Happening, QueryReading, Reading, WindowTable
from headwater.page.last_windows import LastWindows
from headwater.page.reasons import Reasons
from headwater.page.settings import ListeningPage
from headwater.protocols.actions import Noted
from headwater.spark.streaming.watch.status import RATE_SECONDS, Latencies, QueryStatus, StreamStatus, now_us

#: Of sources to which the same happened in one batch so many are named.
NAMED_MAX = 3
#: What the root decides of sources, in words.
_DECIDED = {"joined": "joined", "idle": "fell idle, and is not waited for", "returned": "returned"}


@dataclass(frozen=True, slots=True)
class PageStart:
    """What the page of a stream begins with: where it listens, and what is known of the stream.

    ``event_bytes``: what an event would at least be if it travelled. ``events_before``: those of earlier lives.
    ``began``: how this life began, as a sentence.
    """

    listening: ListeningPage
    event_bytes: int | None = None
    events_before: int = 0
    began: str = "started"


class StreamPageBoard:
    """Told by the observer of a stream, asked by its page. ``status``: how the stream is now; ``unit``: of its times.

    The rest as in `PageStart`.
    """

    def __init__(
        self,
        status: Callable[[], StreamStatus],
        unit: str = "us",
        *,
        event_bytes: int | None = None,
        events_before: int = 0,
        clock: Callable[[], int] = now_us,
    ) -> None:
        self._status, self._unit, self._clock = status, unit, clock
        self._event_bytes, self._events_before = event_bytes, events_before
        self._windows, self._reasons, self._diary = LastWindows(), Reasons(), Diary()
        self._lock = threading.Lock()
        self._queries: Mapping[str, Query] = {}
        self._asks: dict[str, str] = {}
        self._news: Mapping[str, Any] = {}
        self._done_us: int | None = None
        self._stands = False
        self._error = ""
        self._is_ended = False

    # --- what the observer tells ---

    def happened(self, kind: str, text: str) -> None:
        with self._lock:
            self._diary.note(self._clock() // 1000, kind, text)

    def rows_out(self, rows: pa.Table, queries: Mapping[str, Query]) -> None:
        """Rows of these queries have reached the sink."""
        if queries is not self._queries:
            self._queries, self._asks = (
                queries,
                {name: query_in_words(query, self._unit) for name, query in queries.items()},
            )
        if len(rows):
            self._windows.take(rows, queries)

    def aside_out(self, tables: Iterable[pa.Table]) -> None:
        self._reasons.take(tables)

    def batch_done(self, news: Mapping[str, Any], notes: Sequence[Noted]) -> None:
        """A batch is done: its news, and what the root has decided in it."""
        self._news, self._done_us = news, self._clock()
        for kind, text in told(notes):
            self.happened(kind, text)

    def look(self) -> None:
        """Note when a standstill begins, and when it is over."""
        standstill = self._status().standstill
        if standstill is not None and not self._stands:
            self.happened("wait", f"no progress: {standstill.line()}; {standstill.why}")
        elif standstill is None and self._stands:
            self.happened("wait", "progress again")
        self._stands = standstill is not None

    def ended(self, error: str = "") -> None:
        """The stream has stopped; a second time says nothing."""
        if not self._is_ended:
            self._is_ended, self._error = True, error
            self.happened("end", f"stopped by an error: {error}" if error else "stopped")

    # --- what the page asks ---

    def reading(self) -> Reading:
        status, news = self._status(), self._news
        held = news.get("holding_up", {})
        p50, p99 = _quantiles(sum_of([query.latencies for query in status.queries.values()]))
        has_batch = status.batch >= 0
        return Reading(
            stream=status.stream,
            is_active=status.is_active,
            error=self._error,
            batch=status.batch if has_batch else None,
            batch_seconds=status.batch_seconds if has_batch else None,
            events=status.events,
            events_per_second=self._rate(status),
            rows=status.rows,
            watermark_us=status.watermark_us,
            lag_s=status.watermark_lag_s if status.is_active else None,
            waits_for=tuple(held.get("sources", ())),
            waits_count=held.get("count", 0),
            standstill=status.standstill.why if status.standstill is not None else "",
            sources_active=status.sources_active,
            sources_idle=status.sources_idle,
            open_windows=status.open_windows,
            state_bytes=status.state_bytes if has_batch else None,
            sent_bytes=sum(status.link_bytes.values()),
            raw_bytes=self._raw_bytes(status),
            files_with_problems=status.files_with_problems,
            latency_p50_s=p50,
            latency_p99_s=p99,
            queries=tuple(self._query(name, query) for name, query in status.queries.items()),
            reasons=self._reasons.found(),
        )

    def windows(self, version: int) -> Sequence[WindowTable]:
        return self._windows.tables(version)

    def happenings(self, number: int) -> Sequence[Happening]:
        with self._lock:
            return self._diary.after(number)

    def _rate(self, status: StreamStatus) -> float:
        """Events per second; none once nothing was done for as long as the rate is averaged over."""
        if self._done_us is None or not status.is_active:
            return 0.0
        silent_s = (self._clock() - self._done_us) / 1e6
        return status.events_per_second if silent_s < RATE_SECONDS + status.batch_seconds else 0.0

    def _raw_bytes(self, status: StreamStatus) -> int | None:
        if self._event_bytes is None or status.batch < 0:
            return None
        return max(0, status.events - self._events_before) * self._event_bytes

    def _query(self, name: str, query: QueryStatus) -> QueryReading:
        p50, p99 = _quantiles(query.latencies)
        return QueryReading(name, self._asks.get(name, ""), query.events_in, query.fates, query.rows, p50, p99)


def told(notes: Iterable[Noted]) -> list[tuple[str, str]]:
    """What people want to know of a root's notes on one batch: kind and sentence of each.

    >>> joined = [Noted("decided", {"what": "joined", "source": name}) for name in "abcde"]
    >>> told([*joined, Noted("query added", {"name": "peak"}), Noted("cut done", {})])
    [('source', "5 sources joined: 'a', 'b', 'c', ..."), ('query', "query 'peak' was added")]
    """
    sources: dict[str, list[str]] = {}
    sentences: list[tuple[str, str]] = []
    for note in notes:
        match note:
            case Noted("decided", {"what": what, "source": source}):
                sources.setdefault(what, []).append(source)
            case Noted("query added", {"name": name}):
                sentences.append(("query", f"query {name!r} was added"))
            case Noted("query removed", {"name": name}):
                sentences.append(("query", f"query {name!r} was removed"))
            case Noted("flushed"):
                sentences.append(("end", "flushed: the sources end here"))
    decided = [("source", _of_sources(names, _DECIDED.get(what, what))) for what, names in sources.items()]
    return [*decided, *dict.fromkeys(sentences)]


def _of_sources(names: Sequence[str], what: str) -> str:
    if len(names) == 1:
        return f"source {names[0]!r} {what}"
    shown = ", ".join(map(repr, names[:NAMED_MAX])) + (", ..." if len(names) > NAMED_MAX else "")
    return f"{len(names):,} sources {what.replace(' is ', ' are ')}: {shown}"


def event_bytes(schema: pa.Schema, columns: Iterable[str]) -> int:
    """Bytes of one event if these columns travelled as Arrow lays them out; a text counts as the four bytes of its length.

    >>> event_bytes(pa.schema([("time", pa.int64()), ("house", pa.string()), ("load", pa.float64())]), ["time", "house"])
    12
    """
    types = [schema.field(name).type for name in sorted(set(columns)) if name in schema.names]
    return sum(_width(type_) for type_ in types)


def _width(type_: pa.DataType) -> int:
    if pa.types.is_dictionary(type_):
        return _width(type_.index_type)
    try:
        return max(1, int(type_.bit_width) // 8)
    except ValueError:
        return 4


def sum_of(latencies: Iterable[Latencies]) -> Latencies:
    """The latencies of all together."""
    each = list(latencies)
    if not each:
        return Latencies()
    counts = tuple(sum(some) for some in zip(*(one.counts for one in each)))
    return Latencies(counts, sum(one.sum_s for one in each))


def _quantiles(latencies: Latencies) -> tuple[float | None, float | None]:
    """Median and 99th percentile; None without any, and beyond what is measured: such times are of long ago."""
    if not latencies.count:
        return None, None
    p50, p99 = latencies.quantile(0.5), latencies.quantile(0.99)
    return (p50 if math.isfinite(p50) else None), (p99 if math.isfinite(p99) else None)
