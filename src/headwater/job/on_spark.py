"""A job on Spark: `hw.stream` with what the file says."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.job.file.description import ASIDE
from headwater.job.file.job_file import JobFile
from headwater.job.interrupts import Stopping
from headwater.job.progress import Show
from headwater.job.sinks import build_sinks
from headwater.job.sources import ahead_argument, stream_source, time_arguments
from headwater.job.summary import RunSummary
from headwater.job.watching import places, stream_watching
from headwater.language.time_columns import time_column
from headwater.spark.formats import Wanted
from headwater.spark.session import local_session
from headwater.spark.setup import check_java, check_libraries
from headwater.spark.streaming.inputs.input import Input
from headwater.spark.streaming.watch.status import StreamStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.spark.streaming.start.handle import Stream

LOOK_SECONDS = 0.25
#: Events from whose size that of all is told.
SAMPLE_EVENTS = 100_000


def session_of(file: JobFile, *, is_submitted: bool) -> SparkSession:
    """The Spark of a job: the one that spark-submit has prepared, one of this machine, or the master that the file names."""
    section = file.job.spark
    conf = {} if section is None else {name: _text(value) for name, value in section.conf.items()}
    master = None if section is None else section.master
    _see_modules(file.folder)
    if not is_submitted and (master is None or master.startswith("local")):
        return local_session(file.name, master=master or "local[*]", **conf)
    check_libraries()
    if not is_submitted:
        check_java()
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.appName(file.name)
    for name, value in conf.items():
        builder = builder.config(name, value)
    # What spark-submit was told counts more than the file.
    spark: SparkSession = (builder if is_submitted or master is None else builder.master(master)).getOrCreate()
    return spark


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _see_modules(folder: Path) -> None:
    """Workers on this machine find the modules beside the job file, as this process does."""
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(folder) not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*known, str(folder)]))


def run_on_spark(
    file: JobFile, spark: SparkSession, *, once: bool, show: Show, stopping: Stopping, event_bytes: float | None
) -> RunSummary:
    """Run the stream to its end, or until somebody stops it."""
    began = time.monotonic()
    job = file.job
    end = job.end or ("keep" if job.checkpoint is not None else "flush")
    with ExitStack() as ending:
        if job.checkpoint is None:
            checkpoint = ending.enter_context(TemporaryDirectory(prefix="headwater-job-", ignore_cleanup_errors=True))
        else:
            checkpoint = file.below(job.checkpoint)
        trigger = "available now" if once and end == "keep" else None if once else job.trigger
        stream = _start(file, spark, checkpoint, trigger)
        ending.callback(_stop, stream)
        show.say(*places(stream.page_url, stream.metrics_url))
        ending.enter_context(show.of(lambda: _status(stream)))
        if not (once and end == "flush"):
            while stream.is_active and not stopping.wait(LOOK_SECONDS):
                show.tick()
            if not stopping.is_set():
                stream.await_end()
        if end == "flush" and stream.is_active and not (once and stopping.is_set()):
            _flush(stream, show, stopping if once else Stopping())
        status = _status(stream)
    sent = sum(status.link_bytes.values())
    raw = None if event_bytes is None else round(event_bytes * status.events)
    return RunSummary(status, time.monotonic() - began, raw, sent, "partials", is_estimate=True)


def _start(file: JobFile, spark: SparkSession, checkpoint: str, trigger: str | None) -> Stream:
    from headwater.spark.stream import stream

    job = file.job
    source, options = stream_source(file)
    sinks = build_sinks(file)
    time, unit = time_arguments(job)
    section = job.spark
    tuned = ("tasks", "max_events_per_trigger", "root", "count_scheme")
    return stream(
        spark,
        source,
        list(file.queries),
        checkpoint=checkpoint,
        sink={name: sink for name, sink in sinks.items() if name != ASIDE},
        aside=sinks.get(ASIDE),
        time=time,
        unit=unit,
        disorder=job.disorder,
        ahead_max=ahead_argument(job),
        idle=job.idle,
        strict=job.strict,
        trigger=trigger,
        name=file.name,
        rename=job.rename or None,
        home=job.home,
        progress=False,
        **options,
        **({} if section is None else {name: getattr(section, name) for name in tuned}),
        **stream_watching(job),
    )


def _status(stream: Stream) -> StreamStatus:
    return stream.status or StreamStatus()


def _flush(stream: Stream, show: Show, stopping: Stopping) -> None:
    """End the stream behind what is there now; while that takes its time, somebody may still stop it."""
    with ThreadPoolExecutor(1, "headwater flush") as one:
        flushed = one.submit(stream.flush)
        while not flushed.done():
            if stopping.wait(LOOK_SECONDS):
                stream.stop()
                break
            show.tick()
        if not stopping.is_set():
            flushed.result()


def _stop(stream: Stream) -> None:
    if stream.is_active:
        stream.stop()


def event_size(opened: Input, queries: Any, time: str) -> float | None:
    """About how many bytes an event has as Arrow, in the columns that queries read; None if none is there yet."""
    needed = {time_column(time).name, *(name for query in queries for name in query.columns())}
    schema = opened.schema
    wanted = Wanted([name for name in schema.names if name in needed] or schema.names[:1], schema)
    for source, extent in opened.extents().items():
        for stretch in opened.stretches(source, 0, min(extent.end, SAMPLE_EVENTS)):
            for batch in type(opened).read(stretch, wanted):
                if isinstance(batch, pa.RecordBatch) and len(batch):
                    return float(batch.nbytes) / len(batch)
    return None
