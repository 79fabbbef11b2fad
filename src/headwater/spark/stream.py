"""`headwater.stream`: window queries over sources that grow, answered while they do."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.base.count_limits import CountLimits
from headwater.errors import QueryError
from headwater.language.arguments import check_queries
from headwater.language.files.queries import to_json
from headwater.language.homes import Home, check_home, homed
from headwater.language.query import Query
from headwater.language.windows import CountWindow
from headwater.node import NodeSettings, RootNode
from headwater.node.splitting import Sharing
from headwater.page.settings import ListeningPage, Page
from headwater.protocols.count_windows import Counting
from headwater.protocols.events import MessageReceived
from headwater.protocols.messages import Hello, encode
from headwater.spark.batch.columns import Types
from headwater.spark.batch.files import SourceOf
from headwater.spark.batch.root import cores_of
from headwater.spark.data_sources import register
from headwater.spark.doors import check_session, check_source_kind, check_spark
from headwater.spark.read import check_count
from headwater.spark.result_rows import spark_shape
from headwater.spark.shipped import refuse_shipped
from headwater.spark.streaming.checkpoint import About, StreamCheckpoint, checkpoint_folder, refuse_ended
from headwater.spark.streaming.host import TASKS, RootHost, check_granted
from headwater.spark.streaming.inputs.input import Input, rehomed
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.planning import Offset, joining
from headwater.spark.streaming.reducers import begin_roots
from headwater.spark.streaming.runner import BatchRunner, RowQueries
from headwater.spark.streaming.sinks import sink_of
from headwater.spark.streaming.sinks.gathered import Gathering
from headwater.spark.streaming.sinks.per_query import parts_of
from headwater.spark.streaming.sinks.sink import GatheringSink
from headwater.spark.streaming.sinks.timeline import Claimant, begin_life
from headwater.spark.streaming.start.driver_lock import DriverLock, refuse_running
from headwater.spark.streaming.start.handle import Stream
from headwater.spark.streaming.start.page_start import page_start
from headwater.spark.streaming.start.prepare import (
    as_spark_path,
    cheap_batches,
    check_goes_on,
    check_remote,
    check_sinks,
    choose_roots,
    renamed_input,
    stream_settings,
)
from headwater.spark.streaming.start.query_changes import (
    aside_columns,
    change_queries,
    row_columns,
    running_queries,
)
from headwater.spark.streaming.start.spark_log import drop_replaced_offset
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
    disorder: object = None,
    ahead_max: object = "auto",
    idle: object = None,
    strict: bool = False,
    format: str | None = None,
    sources: SourceOf = "auto",
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
    source, in the order in which they come: ``sources="auto"``, which is "folder" here; with "file" each is one, which is not
    waited for once it is read. ``disorder`` says how far events of one source may be out of order; what is later than that is
    late, and if nothing is said it is 0. A source from which nothing has come for ``idle`` is not waited for. An event whose time
    is more than ``ahead_max`` ahead of when it arrived is malformed, so that it raises no watermark: by default one day, None for
    any; times that are plain integers have no such bound unless one is given. An event arrives when its file was last changed, by
    the timestamp of its Kafka message, else when the batch is planned that first takes it; with ``time=hw.arrival()`` that is its
    time.

    Rows go to ``sink``: a folder, "memory", "console", a function of (rows, batch), `foreach_batch`, `to_table`, `postgres`, or a
    sink of `headwater.spark`; or to one for each query, ``{"load": ..., "*": ...}``, with its own columns, "*" being all others.
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
    check_spark(spark, "hw.stream")
    check_source_kind(source, "hw.stream")
    triggered = spark_trigger(trigger)
    shown = None if page is None else Page.of(page)
    sinks: dict[str, Any] = {"sink": sink_of(sink, "sink"), "aside": None if aside is None else sink_of(aside, "aside")}
    place = checkpoint_folder(checkpoint)
    known = StreamCheckpoint(place / "headwater")
    home = check_home(home) or None
    asked = None if queries is None else homed(check_queries(queries), home)
    refuse_shipped(asked or (), "hw.stream")
    about = known.about()
    if about is not None:
        refuse_ended(known)
    of_folder = {"format": format, "sources": sources, "schema": schema, "types": types, "strict": strict}
    opened = renamed_input(source, known, rename, pace=pace, time=time, unit=unit, **of_folder)
    settings = stream_settings(
        about, opened, time=time, unit=unit, disorder=disorder, strict=strict, idle=idle, ahead_max=ahead_max
    )
    counting = count_scheme if isinstance(count_scheme, Counting) else Counting(count_scheme)
    check_count("max_events_per_trigger", max_events_per_trigger)
    check_count("tasks", tasks)
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect")
    if is_remote:
        check_remote(sinks, metrics_port, progress, shown)
        # Batches run at the server, which takes the lock, without an observer.
        refuse_running(known.path)
    if about is None:
        roots, why = choose_roots(opened, asked or (), cores_of(spark), root)
        how = cores_of(spark) if tasks is None else tasks, roots, why, counting
        take = partial(begin, known, opened, asked, settings, *how, home=home, gathered=_to_gather(sinks))
    else:
        check_goes_on(known, about, opened, settings, home, asked)
        take = partial(_go_on, known, about, place / "spark")
    check_sinks(sinks["sink"], asked, known)
    told = {"metrics_port": metrics_port, "metrics_host": metrics_host, "progress": progress}
    watched = None if is_remote else {"name": name or place.name, **told}
    with ExitStack() as undo:
        listening = None if shown is None else undo.enter_context(closing(shown.listen()))
        runner = _prepared(known, opened, sinks, asked, take, watched, undo, spark, listening)
        started = _start(spark, place, opened, runner, triggered, max_events_per_trigger, name)
        undo.pop_all()
    return started


def _to_gather(sinks: Mapping[str, Any]) -> dict[str, Gathering]:
    """The sinks for which rows will wait, each without any yet."""
    parts = [part for what, sink in sinks.items() if sink is not None for part in parts_of(what, sink)]
    return {part.name: Gathering(True) for part in parts if getattr(part.sink, "starts_gathering", False)}


def _go_on(checkpoint: StreamCheckpoint, about: About, spark_log: Path) -> Ownership:
    """The next turn at a stream that has begun."""
    owner = Ownership.taken(checkpoint.path)
    checkpoint.go_on(about)
    drop_replaced_offset(spark_log, checkpoint)
    return owner


def _prepared(
    checkpoint: StreamCheckpoint,
    opened: Input,
    sinks: Mapping[str, Any],
    asked: Sequence[Query] | None,
    take: Callable[[], Ownership],
    watched: Mapping[str, Any] | None,
    undo: ExitStack,
    session: SparkSession | None = None,
    listening: ListeningPage | None = None,
) -> BatchRunner:
    """All that is there before the first batch: a turn at the stream, somebody who watches it, and sinks that are open.

    ``watched`` is None where nobody can hold the lock or watch. ``undo``: what is to be done if the start is refused.
    """
    lock = None if watched is None else DriverLock(checkpoint.path)
    if lock is not None:
        undo.callback(lock.release)
    has_begun = checkpoint.about() is not None
    owner = take()
    about = checkpoint.begun()
    observer = None
    if watched is not None:
        answered = list(running_queries(checkpoint).values()) if asked is None else asked
        untimed = frozenset(query.name for query in answered if isinstance(query.window, CountWindow))
        problems = getattr(opened, "problems", tuple)
        page = None if listening is None else page_start(listening, checkpoint, answered, owner.number)
        unit = about.settings["unit"]
        observer = StreamObserver(unit=unit, untimed=untimed, problems=problems, page=page, **watched)
    runner = BatchRunner(checkpoint, observer=observer, owner=owner, lock=lock, session=session, **sinks)
    undo.callback(runner.close)
    with owner.comes_first():
        open_sinks(checkpoint, owner, sinks, runner.queries, asked or ())
    refuse_ended(checkpoint)  # one whose rows had waited for their sinks
    if has_begun and asked is not None:
        # Last of all: a start that is refused leaves the queries as they were.
        change_queries(checkpoint, asked)
    return runner


def open_sinks(
    checkpoint: StreamCheckpoint,
    owner: Ownership,
    sinks: Mapping[str, Any],
    queries: RowQueries,
    asked: Sequence[Query] = (),
) -> None:
    """Sinks that have to know whose rows they get are told, and get those that wait for them.

    ``asked``: queries that are to begin now.
    """
    about, done = checkpoint.begun(), checkpoint.last_done()
    lives = begin_life(checkpoint.path, owner.number, done + 1, uuid.uuid4().hex[:16])
    # Behind it: whoever takes over after this look knows of this life, and may follow it in the sinks.
    owner.check()
    rows = Claimant(
        about.id,
        lives,
        checkpoint.row_counts(),
        query_of=queries.query_of,
        born_ms=about.born_ms,
        check=owner.check,
        session=queries.present_session,
        columns=partial(row_columns, checkpoint, asked),
    )
    aside = replace(rows, stream=f"{about.id}-aside", row_counts={}, columns=partial(aside_columns, checkpoint))
    claims = {"sink": rows, "aside": aside}
    given = {what: sink for what, sink in sinks.items() if sink is not None}
    parts = [(part, claims[what]) for what, sink in given.items() for part in parts_of(what, sink)]
    gathered, paths = checkpoint.said(done).gathered, {part.name: getattr(part.sink, "path", None) for part, _ in parts}
    for name, said in gathered.items():
        checkpoint.gathered(name, owner.number).check_target(said, paths.get(name))
    for part, stream in parts:
        if hasattr(part.sink, "open"):
            part.sink.open(part.claimant(stream, checkpoint.gathered(part.name, owner.number)))
        if isinstance(part.sink, GatheringSink):
            part.sink.put_out(gathered.get(part.name))


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
    gathered: Mapping[str, Gathering] | None = None,
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
        hello = Hello(chain, chain, sources=tuple(named.items()))
        check_granted(root.handle(MessageReceived(TASKS, encode(hello)), 0))
    owner = Ownership.taken(checkpoint.path, who)
    checkpoint.prepare(roots)
    if roots == 1:
        directive = RootHost(checkpoint, owner.number).begin(root, Offset())
    else:
        directive = begin_roots(checkpoint, owner.number, root, roots)
    checkpoint.commit(directive.gathering(gathered or {}))
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
    trigger: Mapping[str, Any],
    events: int | None,
    name: str | None,
) -> Stream:
    from headwater.spark.streaming.source import NAME

    register(spark)
    reader = spark.readStream.format(NAME).option("checkpoint", str(place / "headwater"))
    reader = reader.option("owner", runner.owner.number)
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
        runner.observer.begin(spark, query.id, runner.look, stream.end)
    return stream
