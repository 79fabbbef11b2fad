"""A Prometheus endpoint: the status of streams as metrics, read anew at every scrape.

| metric | type | labels besides `stream` | what |
| --- | --- | --- | --- |
| `headwater_up` | gauge | | 1 while the stream runs |
| `headwater_batch` | gauge | | number of the last batch that is done |
| `headwater_batch_seconds` | gauge | | how long it took |
| `headwater_events_in_total` | counter | | events taken in |
| `headwater_events_per_second` | gauge | | over the last ten seconds |
| `headwater_events_total` | counter | `query`, `fate` | events by what became of them; fates as in `status.FATES` |
| `headwater_events_unexplained` | gauge | `query` | events without a fate: always 0 |
| `headwater_rows_total` | counter | `query` | result rows |
| `headwater_latency_seconds` | histogram | `query` | when a row was seen minus its window's end |
| `headwater_watermark_seconds` | gauge | | the watermark, in seconds since 1970 |
| `headwater_watermark_lag_seconds` | gauge | | now minus the watermark |
| `headwater_open_windows` | gauge | | slices and windows, by key, that are held because they are open |
| `headwater_state_bytes` | gauge | | what the next batch begins with |
| `headwater_link_bytes_total` | counter | `link` | bytes from leaves to the root since the process began |
| `headwater_sources` | gauge | `state` | sources that are active, and idle |
| `headwater_files_with_problems` | gauge | | files that are passed over, tried again, or have changed since they were read |
| `headwater_spark_batch_seconds` | gauge | `step` | Spark's own account of its last batch |
| `headwater_spark_input_rows` | gauge | | rows of Spark's last batch (in `hw.stream`: frames) |
| `headwater_spark_dropped_rows` | gauge | | rows that Spark's own operators dropped behind its watermark in its last batch |

What is not known is left out. Only this machine can ask, unless ``metrics_host`` says otherwise. The live page has the same
metrics at ``/metrics``, behind its token.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headwater.errors import DataError
from headwater.spark.streaming.watch.status import FATES, LATENCY_BOUNDS_S, Latencies, QueryStatus, StreamStatus

__all__ = ["MetricsServer", "QueryStatus", "StatusCollector", "StreamStatus", "serve"]

LOOPBACK = "127.0.0.1"
#: One stream, or several of different names.
StatusSource = Callable[[], StreamStatus | Iterable[StreamStatus]]

#: Metrics with one number per stream: name, what it is, how it is read.
GAUGES: tuple[tuple[str, str, Callable[[StreamStatus], float | None]], ...] = (
    ("up", "1 while the stream runs", lambda s: float(s.is_active)),
    ("batch", "Number of the last batch that is done", lambda s: s.batch),
    ("batch_seconds", "How long the last batch took", lambda s: s.batch_seconds),
    ("events_per_second", "Events taken in per second, over the last ten", lambda s: s.events_per_second),
    ("watermark_seconds", "The watermark, since 1970", lambda s: _in_seconds(s.watermark_us)),
    ("watermark_lag_seconds", "Now minus the watermark", lambda s: s.watermark_lag_s),
    ("open_windows", "Slices and windows by key that are held because they are open", lambda s: s.open_windows),
    ("state_bytes", "What the next batch begins with", lambda s: s.state_bytes),
    ("files_with_problems", "Files of which not all is read", lambda s: s.files_with_problems),
    ("spark_input_rows", "Rows of Spark's last batch", lambda s: s.spark.input_rows if s.spark else None),
    (
        "spark_dropped_rows",
        "Rows that Spark dropped in its last batch",
        lambda s: s.spark.dropped_rows if s.spark else None,
    ),
)


def _in_seconds(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / 1e6


class StatusCollector(Collector):
    """Asks for the status and gives it as metrics, whenever someone scrapes."""

    def __init__(self, status_source: StatusSource) -> None:
        self._source = status_source

    def collect(self) -> Iterator[Metric]:
        found = self._source()
        streams = [found] if isinstance(found, StreamStatus) else list(found)
        for name, text, value_of in GAUGES:
            values = [((stream.stream,), value_of(stream)) for stream in streams]
            yield _family(GaugeMetricFamily, name, text, (), values)
        yield from _by_query(streams)
        yield from _by_link_and_source(streams)


def _by_query(streams: list[StreamStatus]) -> Iterator[Metric]:
    queries = [((s.stream, name), query) for s in streams for name, query in s.queries.items()]
    fates = [((*labels, fate), query.fates.get(fate, 0)) for labels, query in queries for fate in FATES]
    yield _family(CounterMetricFamily, "events", "Events by what became of them", ("query", "fate"), fates)
    unexplained = [(labels, query.unexplained) for labels, query in queries]
    yield _family(GaugeMetricFamily, "events_unexplained", "Events without a fate: always 0", ("query",), unexplained)
    rows = [(labels, query.rows) for labels, query in queries]
    yield _family(CounterMetricFamily, "rows", "Result rows", ("query",), rows)
    latency = HistogramMetricFamily(
        "headwater_latency_seconds", "When a row was seen minus its window's end", labels=("stream", "query")
    )
    for labels, query in queries:
        latency.add_metric(labels, _buckets(query.latencies), query.latencies.sum_s)
    yield latency


def _buckets(latencies: Latencies) -> list[tuple[str, float]]:
    """Counts up to each bound, as Prometheus wants them.

    >>> _buckets(Latencies().with_more([0.01, 0.07]))[:3]
    [('0.05', 1), ('0.1', 2), ('0.2', 2)]
    """
    bounds = [*map(str, LATENCY_BOUNDS_S), "+Inf"]
    return [(bound, sum(latencies.counts[: number + 1])) for number, bound in enumerate(bounds)]


def _by_link_and_source(streams: list[StreamStatus]) -> Iterator[Metric]:
    taken = [((s.stream,), s.events) for s in streams]
    yield _family(CounterMetricFamily, "events_in", "Events taken in", (), taken)
    links = [((s.stream, link), size) for s in streams for link, size in s.link_bytes.items()]
    yield _family(CounterMetricFamily, "link_bytes", "Bytes from leaves to the root", ("link",), links)
    sources = [
        ((s.stream, state), count)
        for s in streams
        for state, count in (("active", s.sources_active), ("idle", s.sources_idle))
    ]
    yield _family(GaugeMetricFamily, "sources", "Sources by whether they are waited for", ("state",), sources)
    steps = [((s.stream, step), seconds) for s in streams if s.spark for step, seconds in s.spark.seconds.items()]
    yield _family(GaugeMetricFamily, "spark_batch_seconds", "Spark's account of its last batch", ("step",), steps)


def _family(
    kind: Any, name: str, text: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float | None]]
) -> Metric:
    family = kind(f"headwater_{name}", text, labels=("stream", *labels))
    for these, value in values:
        if value is not None:
            family.add_metric(these, value)
    made: Metric = family
    return made


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """An endpoint that answers until it is closed."""

    host: str
    port: int
    _server: Any
    _thread: threading.Thread

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}/metrics" if ":" in host else f"http://{host}:{self.port}/metrics"

    def close(self) -> None:
        """Stop answering; a second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(status_source: StatusSource, port: int = 0, host: str = LOOPBACK) -> MetricsServer:
    """Serve the status; port 0 takes any that is free. ``status_source`` is asked at every scrape, in a thread.

    >>> with serve(lambda: StreamStatus(events=7)) as server:
    ...     from urllib.request import urlopen
    ...     text = urlopen(server.url).read().decode()
    >>> 'headwater_events_in_total{stream="stream"} 7.0' in text
    True
    """
    try:
        server, thread = start_http_server(port, addr=host, registry=_registry(status_source))
    except (OSError, OverflowError) as error:
        raise DataError(
            f"metrics_port {port} of {host!r} cannot be had ({error}): give another, or 0 for any that is free"
        ) from None
    return MetricsServer(host, server.server_port, server, thread)


def exposition(status_source: StatusSource) -> Callable[[], tuple[bytes, str]]:
    """What a scrape gets, for another server to send: text and content type."""
    registry = _registry(status_source)
    return lambda: (generate_latest(registry), CONTENT_TYPE_LATEST)


def _registry(status_source: StatusSource) -> CollectorRegistry:
    # One of its own: the process may have metrics of other things, and other streams.
    registry = CollectorRegistry()
    registry.register(StatusCollector(status_source))
    return registry
