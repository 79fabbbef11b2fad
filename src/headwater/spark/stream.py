"""`headwater.stream`: window queries over sources that grow, answered while they do."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.base.count_limits import CountLimits
from headwater.errors import QueryError
from headwater.language.arguments import check_disorder, check_queries
from headwater.language.files.queries import to_json
from headwater.language.homes import Home, check_home, homed
from headwater.language.query import Query
from headwater.language.schemas import check_unit_of
from headwater.language.times import Nanos, duration, in_ticks
from headwater.language.windows import CountWindow
from headwater.node import NodeSettings, RootNode
from headwater.node.splitting import Sharing
from headwater.protocols.count_windows import Counting
from headwater.protocols.events import MessageReceived
from headwater.protocols.messages import Hello, encode
from headwater.spark.batch.columns import Types
from headwater.spark.batch.root import cores_of
from headwater.spark.data_sources import register
from headwater.spark.doors import check_session, check_source_kind
from headwater.spark.read import check_count
from headwater.spark.result_rows import spark_shape
from headwater.spark.streaming.checkpoint import About, StreamCheckpoint, checkpoint_folder
from headwater.spark.streaming.host import RootHost
from headwater.spark.streaming.inputs.input import Input, rehomed
from headwater.spark.streaming.planning import Offset, joining
from headwater.spark.streaming.reducers import begin_roots
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.sinks import sink_of
from headwater.spark.streaming.start.handle import Stream
from headwater.spark.streaming.start.prepare import (
    cheap_batches,
    check_remote,
    check_same,
    check_same_home,
    checked_ahead,
    choose_roots,
    renamed_input,
)
from headwater.spark.streaming.start.query_changes import change_queries, check_homes, running_queries
from headwater.spark.streaming.start.trigger import spark_trigger
from headwater.spark.streaming.watch.observer import StreamObserver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The host writes snapshots when they pay; the root is not to take any by itself.
NEVER_BY_ITSELF = 1 << 62


def stream(
    spark: SparkSession,
    source: Any,
    queries: Query | Iterable[Query] | None = None,
    *,
    checkpoint: str | Path,
    sink: Any = "console",
    aside: Any = None,
    time: str = "time",
    unit: str = "us",
    disorder: object = 0,
    ahead_max: object = "auto",
    idle: object = None,
    strict: bool = False,
    format: str | None = None,
    sources: str = "folder",
    schema: pa.Schema | None = None,
    types: Types | None = None,
    pace: str = "real",
    trigger: str | None = None,
    max_events_per_trigger: int | None = None,
    tasks: int | None = None,
    root: str = "auto",
    count_scheme: str | Counting = "auto",
    name: str | None = None,
    metrics_port: int | None = None,
    progress: bool | None = None,
    rename: Mapping[str, str] | None = None,
    home: Home = None,
) -> Stream:
    """Answer queries over sources that grow, and go on until the stream is stopped or flushed. Returns at once.

    ``source`` is a folder to which files come, a pattern of such files (``"events/day=*/*.csv"``), a segment log, generators, or
    ``KafkaInput(...)``. Folders named ``day=1`` say a column that the files below them lack. The files of one folder are one
    source, in the order in which they come; with ``sources="file"`` each is one, which is not waited for once it is read.
    ``disorder`` says how far events of one source may be out of order; what is later than that is late. A source from which
    nothing has come for ``idle`` is not waited for. An event whose time is more than ``ahead_max`` ahead of when it arrived is
    malformed, so that it raises no watermark: by default one day, None for any; times that are plain integers have no such bound
    unless one is given. An event arrives when its file was last changed, by the timestamp of its Kafka message, else when the
    batch is planned that first takes it; with ``time=hw.arrival()`` that is its time.

    Rows go to ``sink``: a folder, "memory", "console", a function of (rows, batch), or a sink of `headwater.spark.streaming`.
    Events that are in no result go to ``aside``, each with the reason. All that the stream knows is in ``checkpoint``; started
    again with the same, it goes on exactly where it was. Then queries that are new begin, and those that are not given any more
    end; without ``queries`` all go on.

    ``rename`` gives columns other names on the way in, of which queries and ``time`` speak; ``schema`` and ``types`` have those
    of the data. It is the same for the life of a checkpoint.

    ``trigger`` is "available now" (read what is there, and stop), a time between batches such as "1 second", or None: one batch
    after the other. ``max_events_per_trigger`` bounds a batch, ``tasks`` is how many leaves share the sources. The
    ``root`` is on the "driver", or in "reducers": tasks that share the keys, when these are very many.

    ``count_scheme`` says what leaves send for count windows before anybody asks (see `headwater.protocols.count_windows`), from
    the first batch to the last; all but "approx" are exact. With "central", and with roots in tasks, events travel.

    For queries with a scope over nodes the files of a folder are at home there, a log's partition in its log, Kafka's in their
    topic, a generator in itself. ``home`` says it otherwise: a mapping from sources to nodes, or a column that holds the node of
    each event.

    How it is doing: ``stream.status``, a line in the terminal (``progress``), on ``metrics_port`` for Prometheus (0: any port
    that is free), and in the log "headwater.stream".
    """
    check_session(spark, "hw.stream")
    check_source_kind(source, "hw.stream")
    triggered = spark_trigger(trigger)
    sinks: dict[str, Any] = {"sink": sink_of(sink, "sink"), "aside": None if aside is None else sink_of(aside, "aside")}
    place = checkpoint_folder(checkpoint)
    known = StreamCheckpoint(place / "headwater")
    home = check_home(home) or None
    asked = None if queries is None else homed(check_queries(queries), home)
    about = known.about()
    of_folder = {"format": format, "sources": sources, "schema": schema, "types": types, "strict": strict}
    opened = renamed_input(source, known, rename, pace=pace, time=time, unit=unit, **of_folder)
    if about is None:
        check_unit_of("disorder", disorder, opened.schema, time)
    settings = {"time": time, "unit": unit, "disorder": check_disorder(disorder, unit), "strict": strict}
    settings["idle_ns"] = None if idle is None else _real_time("idle", idle)
    settings["ahead_max"] = checked_ahead(ahead_max, about, opened, time, unit)
    counting = count_scheme if isinstance(count_scheme, Counting) else Counting(count_scheme)
    check_count("max_events_per_trigger", max_events_per_trigger)
    check_count("tasks", tasks)
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect")
    if is_remote:
        check_remote(sinks, metrics_port, progress)
    if about is None:
        cores = cores_of(spark)
        roots, why = choose_roots(opened, asked or (), cores, root)
        begin(known, opened, asked, settings, cores if tasks is None else tasks, roots, why, counting, home=home)
    else:
        check_same(about, opened, settings, place)
        check_same_home(about, home, place)
        check_homes(running_queries(known).values() if asked is None else asked, known)
        if asked is not None:
            change_queries(known, about, asked)
    _open(known, sinks)
    untimed = frozenset(n for n, q in running_queries(known).items() if isinstance(q.window, CountWindow))
    # Through Spark Connect batches run at the server, without an observer.
    observer = None
    if not is_remote:
        observer = StreamObserver(name or place.name, unit, untimed, metrics_port=metrics_port, progress=progress)
    runner = BatchRunner(known, observer=observer, **sinks)
    try:
        return _start(spark, place, opened, runner, triggered, max_events_per_trigger, name)
    except BaseException:
        runner.close()
        raise


def _real_time(name: str, value: object) -> int:
    """Nanoseconds by the clock, which has no ticks that a plain number could mean."""
    length = duration(value)
    if length != 0 and not isinstance(length, Nanos):
        raise QueryError(f"{name} is {value!r}: write a duration with its unit, such as '{value} s'")
    return in_ticks(length, "ns")


def _open(checkpoint: StreamCheckpoint, sinks: Mapping[str, Any]) -> None:
    """Sinks that have to know whose rows they get are told."""
    about = checkpoint.begun()
    for what, sink in sinks.items():
        if hasattr(sink, "open"):
            stream = about.id if what == "sink" else f"{about.id}-{what}"
            sink.open(stream, lambda query: running_queries(checkpoint)[query].keys, about.born_ms)


def begin(
    checkpoint: StreamCheckpoint,
    opened: Input,
    queries: Sequence[Query] | None,
    settings: dict[str, Any],
    chains: int,
    roots: int = 1,
    why: str = "",
    counting: Counting | None = None,
    limits: CountLimits | None = None,
    home: Home = None,
) -> None:
    """A new stream: the root meets the sources that are there, so that the first batch can read them."""
    if not queries:
        raise QueryError("queries are missing: a new stream needs at least one")
    schema = opened.schema
    spark_shape(queries, schema, settings["time"], settings["unit"], is_stream=True)  # or it is refused
    engine = {name: settings[name] for name in ("time", "unit", "disorder", "strict")}
    counts = CountLimits() if limits is None else limits
    nodes = NodeSettings(checkpoint_every=NEVER_BY_ITSELF, counts=counts)
    if settings["idle_ns"] is not None:
        # Batches gather by themselves: nothing lingers, so a source may fall idle as soon as one likes.
        nodes = replace(nodes, linger_ns=0, idle_ns=settings["idle_ns"])
    # Roots that share the keys have no way down of their own: what would need it travels.
    root = RootNode("root", queries, schema=schema, settings=nodes, round_trips=roots == 1, counting=counting, **engine)
    to_json(queries)  # those that cannot travel are refused
    for chain, named in joining({}, rehomed(opened.extents(), home), chains).items():
        root.handle(MessageReceived(chain, encode(Hello(chain, chain, sources=tuple(named.items())))), 0)
    checkpoint.prepare()
    if roots == 1:
        RootHost(checkpoint).begin(root, Offset())
    else:
        begin_roots(checkpoint, root, roots)
    about = About(
        id=uuid.uuid4().hex,
        kind=opened.kind,
        input=opened.to_data(),
        schema=schema,
        settings=settings,
        chains=chains,
        roots=roots,
        sharing=Sharing.of(queries, round_trips=roots == 1),
        why=why,
        counting=counting,
        born_ms=time_ns() // 1_000_000,
        home=home,
    )
    checkpoint.write_about(about)


def _start(
    spark: SparkSession,
    place: Path,
    opened: Input,
    runner: BatchRunner,
    trigger: Mapping[str, Any],
    events: int | None,
    name: str | None,
) -> Stream:
    from headwater.spark.streaming.source import NAME

    register(spark)
    reader = spark.readStream.format(NAME).option("checkpoint", str(place / "headwater"))
    if events is not None:
        reader = reader.option("events", events)
    writer = reader.load().writeStream.foreachBatch(runner).option("checkpointLocation", str(place / "spark"))
    if trigger:
        writer = writer.trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    with cheap_batches(spark):
        query = writer.start()
    if runner.observer is not None:
        runner.observer.begin(spark, query.id)
    return Stream(query, StreamCheckpoint(place / "headwater"), opened, runner)
