"""`headwater.stream`: window queries over sources that grow, answered while they do."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.base.count_limits import CountLimits
from headwater.errors import QueryError
from headwater.language.arguments import check_disorder, check_queries, check_real_time
from headwater.language.files.queries import to_json
from headwater.language.homes import Home, check_home, homed
from headwater.language.query import Query
from headwater.language.schemas import check_unit_of
from headwater.language.windows import CountWindow
from headwater.node import NodeSettings, RootNode
from headwater.node.splitting import Sharing
from headwater.page.settings import Page
from headwater.protocols.count_windows import Counting
from headwater.protocols.events import MessageReceived
from headwater.protocols.messages import Hello, encode
from headwater.spark.batch.columns import Types
from headwater.spark.batch.root import cores_of
from headwater.spark.data_sources import register
from headwater.spark.doors import check_session, check_source_kind
from headwater.spark.read import check_count
from headwater.spark.result_rows import spark_shape
from headwater.spark.streaming.checkpoint import About, StreamCheckpoint, checkpoint_folder, refuse_ended
from headwater.spark.streaming.host import RootHost
from headwater.spark.streaming.inputs.input import Input, rehomed
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.planning import Offset, joining
from headwater.spark.streaming.reducers import begin_roots
from headwater.spark.streaming.runner import BatchRunner, RowQueries
from headwater.spark.streaming.sinks import sink_of
from headwater.spark.streaming.sinks.gathered import check_target
from headwater.spark.streaming.sinks.timeline import Claimant, begin_life
from headwater.spark.streaming.start.driver_lock import DriverLock, refuse_running
from headwater.spark.streaming.start.handle import Stream
from headwater.spark.streaming.start.page_start import page_start
from headwater.spark.streaming.start.prepare import (
    as_spark_path,
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
    metrics_host: str = "127.0.0.1",
    page: int | Page | None = None,
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

    How it is doing: ``stream.status``, a line in the terminal (``progress``), a live page in the browser (``page``: a port, or
    ``hw.Page(port=, host=, token=)``; ``stream.page_url`` says where), on ``metrics_port`` for Prometheus, of this machine unless
    ``metrics_host`` says otherwise (0: any port that is free), and in the log "headwater.stream".
    """
    check_session(spark, "hw.stream")
    check_source_kind(source, "hw.stream")
    triggered = spark_trigger(trigger)
    shown = None if page is None else Page.of(page)
    sinks: dict[str, Any] = {"sink": sink_of(sink, "sink"), "aside": None if aside is None else sink_of(aside, "aside")}
    place = checkpoint_folder(checkpoint)
    known = StreamCheckpoint(place / "headwater")
    home = check_home(home) or None
    asked = None if queries is None else homed(check_queries(queries), home)
    about = known.about()
    if about is not None:
        refuse_ended(known)
    of_folder = {"format": format, "sources": sources, "schema": schema, "types": types, "strict": strict}
    opened = renamed_input(source, known, rename, pace=pace, time=time, unit=unit, **of_folder)
    if about is None:
        check_unit_of("disorder", disorder, opened.schema, time)
    settings = {"time": time, "unit": unit, "disorder": check_disorder(disorder, unit), "strict": strict}
    settings["idle_ns"] = None if idle is None else check_real_time("idle", idle)
    settings["ahead_max"] = checked_ahead(ahead_max, about, opened, time, unit)
    counting = count_scheme if isinstance(count_scheme, Counting) else Counting(count_scheme)
    check_count("max_events_per_trigger", max_events_per_trigger)
    check_count("tasks", tasks)
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect")
    if is_remote:
        check_remote(sinks, metrics_port, progress, shown)
    if about is None:
        cores = cores_of(spark)
        roots, why = choose_roots(opened, asked or (), cores, root)
    else:
        check_same(about, opened, settings, place)
        check_same_home(about, home, place)
        check_homes(running_queries(known).values() if asked is None else asked, known)
    # Through Spark Connect batches run at the server, which takes the lock, without an observer.
    if is_remote:
        refuse_running(known.path)
    with ExitStack() as undo:
        lock = None if is_remote else DriverLock(known.path)
        if lock is not None:
            undo.callback(lock.release)
        listening = None if shown is None else undo.enter_context(closing(shown.listen()))
        if about is None:
            leaves = cores if tasks is None else tasks
            owner = begin(known, opened, asked, settings, leaves, roots, why, counting, home=home)
        else:
            owner = Ownership.taken(known.path)
            known.go_on(about)
            if asked is not None:
                change_queries(known, about, asked)
        observer = None
        if not is_remote:
            untimed = frozenset(n for n, q in running_queries(known).items() if isinstance(q.window, CountWindow))
            watched: dict[str, Any] = {"metrics_port": metrics_port, "metrics_host": metrics_host, "progress": progress}
            watched["page"] = None if listening is None else page_start(listening, known, owner.number)
            problems = getattr(opened, "problems", tuple)
            observer = StreamObserver(name or place.name, unit, untimed, problems=problems, **watched)
        runner = BatchRunner(known, observer=observer, owner=owner, lock=lock, **sinks)
        undo.callback(runner.close)
        _open(known, sinks, runner.queries)
        started = _start(spark, place, opened, runner, owner, triggered, max_events_per_trigger, name)
        undo.pop_all()
    return started


def _open(checkpoint: StreamCheckpoint, sinks: Mapping[str, Any], queries: RowQueries) -> None:
    """Sinks that have to know whose rows they get are told."""
    about, done = checkpoint.begun(), checkpoint.last_done()
    lives = begin_life(checkpoint.path, done + 1, uuid.uuid4().hex[:16])
    for what, sink in sinks.items():
        waiting = checkpoint.path / "gathered" / what
        check_target(waiting, getattr(sink, "path", None), done)
        if hasattr(sink, "open"):
            is_rows = what == "sink"
            stream = Claimant(
                about.id if is_rows else f"{about.id}-{what}",
                lives,
                checkpoint.row_counts() if is_rows else {},
                checkpoint.last_done,
                waiting,
                queries.keys_of,
                about.born_ms,
            )
            sink.open(stream)


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
    who: str | None = None,
) -> Ownership:
    """A new stream, and who runs it: the root meets the sources that are there, so that the first batch can read them."""
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
    owner = Ownership.taken(checkpoint.path, who)
    checkpoint.prepare(roots)
    if roots == 1:
        directive = RootHost(checkpoint, owner.number).begin(root, Offset())
    else:
        directive = begin_roots(checkpoint, owner.number, root, roots)
    checkpoint.commit(directive)
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
        owner=owner.number,
    )
    owner.check()
    checkpoint.write_about(about)
    return owner


def _start(
    spark: SparkSession,
    place: Path,
    opened: Input,
    runner: BatchRunner,
    owner: Ownership,
    trigger: Mapping[str, Any],
    events: int | None,
    name: str | None,
) -> Stream:
    from headwater.spark.streaming.source import NAME

    register(spark)
    reader = spark.readStream.format(NAME).option("checkpoint", str(place / "headwater"))
    reader = reader.option("owner", owner.number)
    if events is not None:
        reader = reader.option("events", events)
    writer = reader.load().writeStream.foreachBatch(runner).option("checkpointLocation", as_spark_path(place / "spark"))
    if trigger:
        writer = writer.trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    with cheap_batches(spark):
        query = writer.start()
    runner.runs_as(lambda: bool(query.isActive))
    stream = Stream(query, StreamCheckpoint(place / "headwater"), opened, runner)
    if runner.observer is not None:
        runner.observer.begin(spark, query.id, stream.end)
    return stream
