"""A job in this process: the inputs of streams on Spark read here, the engine between them and the sinks.

The sources, their offsets and their homes are those that `hw.stream` has, so the rows are the same.
"""

from __future__ import annotations

import time as clocks
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headwater.engine.intake.arrival_columns import with_arrivals, with_limits
from headwater.job.file.description import ASIDE
from headwater.job.file.job_file import JobFile
from headwater.job.interrupts import Stopping
from headwater.job.progress import Show
from headwater.job.sources import ahead_argument, time_arguments
from headwater.job.summary import RunSummary
from headwater.job.waiting_rows import WaitingRows
from headwater.job.watching import metrics_server, places
from headwater.language.arguments import check_real_time
from headwater.language.homes import check_home, homed
from headwater.language.query import Query
from headwater.language.time_columns import ARRIVAL, time_column
from headwater.language.windows import CountWindow
from headwater.local.engine import Engine
from headwater.local.results import Results
from headwater.spark.formats import Passed, Wanted
from headwater.spark.streaming.inputs.input import Extent, Input, Watermark, everything, rehomed, stores_arrivals
from headwater.spark.streaming.sinks.per_query import SinkPerQuery
from headwater.spark.streaming.sinks.timeline import Claimant, Life
from headwater.spark.streaming.start.prepare import checked_ahead
from headwater.spark.streaming.watch.status import StatusBoard

#: Events between two times that rows are taken and written.
STEP_EVENTS = 1 << 19
#: Seconds between two looks for more where there was nothing, unless the job's trigger says otherwise.
LOOK_SECONDS = 0.2


def run_on_engine(
    file: JobFile, opened: Input, sinks: Mapping[str, Any], *, once: bool, show: Show, stopping: Stopping
) -> RunSummary:
    """Read what there is, or go on until somebody stops it, and write the rows. Whatever happens, sinks are closed."""
    began = clocks.monotonic()
    run = EngineRun(file, opened, sinks)
    with ExitStack() as ending:
        ending.callback(run.close)
        if file.job.metrics is not None:
            served = ending.enter_context(metrics_server(run.board, file.job.metrics))
            show.say(*places(None, served.url))
        ending.enter_context(show.of(run.board.status))
        run.take_in(everything(opened) if once else opened.extents(), stopping, show)
        while not once and not run.is_over:
            if stopping.wait(_look_seconds(file)):
                break
            run.take_in(opened.extents(), stopping, show)
        run.end(is_flushed=(file.job.end or "flush") == "flush" and not (once and stopping.is_set()))
    return RunSummary(run.board.status(), clocks.monotonic() - began, run.raw_bytes, run.row_bytes, "result rows")


def _look_seconds(file: JobFile) -> float:
    trigger = file.job.trigger
    if trigger is None or not trigger[:1].isdigit():
        return LOOK_SECONDS
    return check_real_time("trigger", trigger) / 1e9


class EngineRun:
    """One run of a job: how far each source is read, and the engine that has read it."""

    def __init__(self, file: JobFile, opened: Input, sinks: Mapping[str, Any]) -> None:
        job = file.job
        self._opened, self._home = opened, check_home(job.home) or None
        time, unit = time_arguments(job)
        asked = homed(file.queries, self._home)
        self._engine = Engine(
            asked, time=time, unit=unit, disorder=job.disorder, strict=job.strict, schema=opened.schema
        )
        self._strict = job.strict
        self._unit, self._ahead = unit, checked_ahead(ahead_argument(job), None, opened, time, unit)
        needs_arrivals = self._ahead is not None or time_column(time).reading == "arrival"
        self._stores_arrivals = needs_arrivals and stores_arrivals(opened.kind, opened.to_data())
        self._stamps = needs_arrivals and not self._stores_arrivals
        self._wanted = self._columns(asked, time)
        self._idle_ns = None if job.idle is None else check_real_time("idle", job.idle)
        self._at: dict[str, int] = {}
        self._heard_ns: dict[str, int] = {}
        self._idle: set[str] = set()
        self._extents: dict[str, Extent] = {}
        self._batch, self._events = 0, 0
        self.raw_bytes, self.row_bytes = 0, 0
        untimed = frozenset(query.name for query in asked if isinstance(query.window, CountWindow))
        self.board = StatusBoard(file.name, unit=unit, untimed=untimed)
        self._targets = _opened_sinks(sinks, asked, self._engine.results())

    def _columns(self, asked: list[Query], time: str) -> Wanted:
        """What is read of the events: what queries name, in the order of the data."""
        needed = {time_column(time).name, *(name for query in asked for name in query.columns())}
        schema = self._opened.schema
        columns = [name for name in schema.names if name in needed] or schema.names[:1]
        return Wanted([*columns, ARRIVAL] if self._stores_arrivals else columns, schema, strict=self._strict)

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come: generators have an end, and everything else may grow."""
        return (
            self._opened.kind == "generated"
            and bool(self._extents)
            and all(extent.is_done and self._at[name] == extent.end for name, extent in self._extents.items())
        )

    def take_in(self, extents: dict[str, Extent], stopping: Stopping, show: Show) -> None:
        """Read all sources as far as they go by now, side by side, and write the rows that this makes."""
        now_ns = clocks.time_ns()
        self._extents = rehomed(extents, self._home)
        for name, extent in self._extents.items():
            if name not in self._at:
                self._engine.join(name, extent.home)
                self._at[name], self._heard_ns[name] = 0, now_ns
        reading = {
            name: self._read(name, extent) for name, extent in self._extents.items() if extent.end > self._at[name]
        }
        untaken = 0
        while reading and not stopping.is_set():
            for name in list(reading):
                count = next(reading[name], None)
                if count is None:
                    del reading[name]
                    continue
                untaken += count
                if untaken >= STEP_EVENTS:
                    self._write(show)
                    untaken = 0
        self._fall_idle(now_ns)
        self._write(show)

    def _read(self, source: str, extent: Extent) -> Iterator[int]:
        """Push what is new of a source, batch by batch; how many events each had."""
        self._heard_ns[source] = clocks.time_ns()
        self._idle.discard(source)
        for stretch in self._opened.stretches(source, self._at[source], extent.end):
            for told in type(self._opened).read(stretch, self._wanted):
                if isinstance(told, Watermark):
                    self._engine.advance(told.time, source)
                    continue
                at = self._at[source]
                if isinstance(told, Passed):
                    self._at[source] = at + told.count
                    continue
                self._engine.push(self._stamped(told), source, at, extent.home)
                self._at[source] = at + len(told)
                self._events += len(told)
                self.raw_bytes += told.nbytes
                yield len(told)

    def _stamped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The events with when they arrived, where that matters."""
        if self._stamps:
            batch = with_arrivals(batch, clocks.time_ns() // 1_000)
        return with_limits(batch, self._ahead, self._unit) if self._stamps or self._stores_arrivals else batch

    def _fall_idle(self, now_ns: int) -> None:
        """Do not wait for sources that are done, or from which nothing has come for so long."""
        for name, extent in self._extents.items():
            is_read = self._at[name] >= extent.end
            is_silent = self._idle_ns is not None and now_ns - self._heard_ns[name] >= self._idle_ns
            if is_read and name not in self._idle and (extent.is_done or is_silent):
                self._engine.idle(name)
                self._idle.add(name)

    def _write(self, show: Show) -> None:
        """Take the rows that are final by now, write them, and tell how it goes."""
        started = clocks.monotonic()
        results = self._engine.results()
        for name, target in self._targets.items():
            rows = results.side_output if name == ASIDE else results[name]
            self.row_bytes += rows.nbytes
            target.write(self._batch, rows)
        self.board.rows_out(results.table)
        self._tell(results.num_rows, started)
        self._batch += 1
        show.tick()

    def _tell(self, rows: int, started: float) -> None:
        self.board.batch_done(
            {
                "batch": self._batch,
                "now_ns": clocks.time_ns(),
                "events": self._events,
                "rows": rows,
                "watermark": self._engine.watermark,
                "counters": self._engine.counters(),
                "sources": len(self._at),
                "sources_idle": len(self._idle),
                "seconds": {"batch": clocks.monotonic() - started},
            }
        )

    def end(self, *, is_flushed: bool) -> None:
        """No more events come; windows that are open come out, if they are to."""
        if is_flushed:
            self._engine.flush()
        self._write(Show.nobody())

    def close(self) -> None:
        self.board.ended()
        for target in self._targets.values():
            target.close()


def _opened_sinks(sinks: Mapping[str, Any], asked: list[Query], nothing: Results) -> dict[str, WaitingRows]:
    """The sinks, each told whose rows it gets, those of this run alone, and how they look, as ``nothing`` has it."""
    by_name = {query.name: query for query in asked}
    run = uuid.uuid4().hex

    def columns(only: str | None) -> pa.Schema:
        return (nothing.side_output if only is None else nothing[only]).schema

    whole = Claimant(run, [Life(0, run[:16])], query_of=by_name.__getitem__, columns=columns)
    for part in SinkPerQuery({name: sink for name, sink in sinks.items() if name != ASIDE}).parts("sink"):
        part.sink.open(part.claimant(whole))
    if ASIDE in sinks:
        sinks[ASIDE].open(replace(whole, stream=f"{run}-{ASIDE}"))
    return {name: WaitingRows(sink) for name, sink in sinks.items()}
