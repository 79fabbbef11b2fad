"""What Spark calls for each batch: frames in from the leaves, through the root, rows into the sinks, and then the state.

In this order, so that whatever dies in between, the batch is run again as it was: its offset is kept, then come rows (sinks know
a batch by its number, or let its rows wait), then the root's state, then the directive, with which the batch is done. Then sinks
make files of rows that have waited for long enough, and Spark's own commit comes last. Before each step that others see it is
asked whether another driver has taken over (`owners`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.engine.results.shape import ResultShape
from headwater.engine.results.side_output import SCHEMA as ASIDE
from headwater.engine.results.side_output import malformed_warning
from headwater.engine.wire.query_set import read_query_set
from headwater.errors import HeadwaterError
from headwater.language.query import Query
from headwater.spark.batch.leaf import FAN_IN
from headwater.spark.batch.root import plain_rows, relayed
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.directives import Directive
from headwater.spark.streaming.errors import ReplacedError
from headwater.spark.streaming.host import BatchOutput, RootHost
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.reducers import joint, reduced
from headwater.spark.streaming.sinks.gathered import Gathering
from headwater.spark.streaming.sinks.per_query import parts_of, shares_of
from headwater.spark.streaming.sinks.sink import GatheringSink, Sink
from headwater.spark.streaming.start.driver_lock import DriverLock
from headwater.spark.streaming.start.query_changes import stream_shape
from headwater.spark.streaming.watch.observer import StreamObserver
from headwater.spark.tasks import bug

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: Sources of one task from which on it is said that they are many: about half of what one message can name.
MANY_SOURCES = 45_000


class RowQueries:
    """The queries of a batch's rows: those that the batch before left.

    Not those that are asked for by now: a query whose removal is asked for, or done in this very batch, has rows in it. Whoever
    comes in this batch has none, and a batch that is run again is to look the same.
    """

    def __init__(self, checkpoint: StreamCheckpoint, session: SparkSession | None = None) -> None:
        self._checkpoint = checkpoint
        #: That of Spark in which the batch runs; before the first, that of the user.
        self.session = session
        self._name = ""
        self._queries: Mapping[str, Query] = {}

    def behind(self, said: Directive) -> Mapping[str, Query]:
        """By name; the same object while they are the same. From now on `query_of` speaks of the batch behind this directive."""
        name = said.queries
        if self._name != name:
            entries = read_query_set(self._checkpoint.queries(name)).entries
            self._name, self._queries = name, {entry.query.name: entry.query for entry in entries}
        return self._queries

    def query_of(self, name: str) -> Query:
        """A query that has rows in the batch that is being written."""
        if name not in self._queries:
            raise bug(f"there are rows of query {name!r}, which did not run")
        return self._queries[name]

    def present_session(self) -> SparkSession | None:
        """Spark's session of the batch that is being written."""
        return self.session

    def __getstate__(self) -> dict[str, Any]:
        """Through Spark Connect it is pickled; every batch brings its session there."""
        return {**self.__dict__, "session": None}


class BatchRunner:
    """One stream's function for ``foreachBatch``."""

    def __init__(
        self,
        checkpoint: StreamCheckpoint,
        sink: Sink,
        aside: Sink | None = None,
        observer: StreamObserver | None = None,
        owner: Ownership | None = None,
        lock: DriverLock | None = None,
        session: SparkSession | None = None,
    ) -> None:
        self.sink = sink
        self.aside = aside
        #: By the names under which directives speak of them.
        given = {"sink": sink} if aside is None else {"sink": sink, "aside": aside}
        self._sinks = {part.name: part.sink for what, each in given.items() for part in parts_of(what, each)}
        #: What stopped the stream, if it was something here.
        self.error: Exception | None = None
        #: Its turn at the stream.
        self.owner = Ownership.taken(checkpoint.path) if owner is None else owner
        self._checkpoint = checkpoint
        self._running = threading.RLock()
        self._is_closed = False
        self._lock = lock
        self.observer = observer
        self._host = RootHost(checkpoint, self.owner.number)
        #: Sinks that have to know whose rows they get ask these.
        self.queries = RowQueries(checkpoint, session)
        self._shaped: tuple[Mapping[str, Query], ResultShape | None] | None = None
        self._about = about = checkpoint.about()
        self._roots, self._chains = (1, 1) if about is None else (about.roots, about.chains)
        self._is_warned = self._is_crowd_told = False

    def __call__(self, frames: DataFrame, batch: int) -> None:
        with self._running:
            if self._is_closed:
                raise HeadwaterError("the stream was stopped")
            try:
                if self._lock is None:
                    self._lock = DriverLock(self._checkpoint.path)
                with self.owner.comes_first():
                    self._run(frames, batch)
            except Exception as error:
                self.error = error
                self._release()  # Spark ends the stream
                raise

    def __getstate__(self) -> dict[str, Any]:
        """Through Spark Connect it is pickled: without its observer, and with locks of its own there."""
        return {**self.__dict__, "_running": None, "observer": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {**state, "_running": threading.RLock()}

    def close(self) -> None:
        """Wait for the batch that runs, for Spark does not: a restarted stream must not run beside it."""
        self.close_sinks()
        if self.observer is not None:
            self.observer.close()

    def close_sinks(self) -> None:
        """No batch runs any more, and sinks have written what they gathered."""
        with self._running:
            self._is_closed = True
            try:
                self._put_out_all()
                for sink in self._sinks.values():
                    sink.close()
            finally:
                self._release()

    def _put_out_all(self) -> None:
        """Make files of all rows that wait; those of a stream that another driver runs by now are that one's."""
        last = self._checkpoint.last_batch()
        if last is None or not any(isinstance(sink, GatheringSink) for sink in self._sinks.values()):
            return
        # Before the look who runs it: no file has a batch that the successor's life could have begun with.
        said = self._checkpoint.said(last)
        with suppress(ReplacedError), self.owner.comes_first():
            self.owner.check()
            for what, sink in self._sinks.items():
                if isinstance(sink, GatheringSink):
                    sink.put_out(said.gathered.get(what))

    def runs_as(self, is_active: Callable[[], bool]) -> None:
        """Say how to find out whether the stream runs: one that has ended by itself keeps nobody from starting it again."""
        if self._lock is not None:
            self._lock.is_active = is_active

    def look(self) -> None:
        """Let go of a stream that has ended by itself: Spark does not tell when its planner has failed."""
        if self._running.acquire(blocking=False):
            try:
                if self._lock is not None and not self._lock.is_active():
                    self._release()
            finally:
                self._running.release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _run(self, frames: DataFrame, batch: int) -> None:
        began = time.monotonic()
        self.owner.check()
        if self._checkpoint.directive(batch) is not None:
            # Done before Spark could say so.
            self._checkpoint.settle()
            self._put_out(self._checkpoint.said(batch))
            return
        self.queries.session = getattr(frames, "sparkSession", None)
        outcome, finish = self._computed(frames, batch)
        computed = time.monotonic()
        self.owner.check()
        self._checkpoint.fix(batch, self.owner.number, outcome.offset.to_data())
        gathered = self._write(batch, outcome)
        directive = finish().gathering(gathered)
        self.owner.check()
        self._put_out(self._commit(directive))
        self._warn_of_crowd(directive.status.get("sources", 0))
        if self.observer is not None:
            seconds = {"batch": time.monotonic() - began, "compute": computed - began}
            self.observer.batch_done({**directive.status, "seconds": seconds}, outcome.notes)

    def _write(self, batch: int, outcome: BatchOutput) -> dict[str, Gathering]:
        """Give the sinks what came out; what waits for them then."""
        before = self._checkpoint.said(batch - 1)
        shape = self._shape(before)
        rows = joined(outcome.rows) if shape is None else shape.rows(joined(outcome.rows))
        # What waits for a sink that is not given any more goes on to wait.
        gathered = dict(before.gathered)
        self._give("sink", self.sink, batch, rows, outcome.offset.now_ns, gathered)
        if self.observer is not None:
            self.observer.rows_out(rows, self.queries.behind(before))
            self.observer.aside_out(outcome.aside)
        self._warn(outcome.aside)
        if self.aside is not None:
            aside = pa.concat_tables([ASIDE.empty_table(), *outcome.aside])
            aside = aside if shape is None else shape.aside(aside)
            self._give("aside", self.aside, batch, aside, outcome.offset.now_ns, gathered)
        return gathered

    def _give(
        self, what: str, given: Sink, batch: int, rows: pa.Table, now_ns: int, gathered: dict[str, Gathering]
    ) -> None:
        """Give a sink the rows of a batch; ``gathered`` is changed from what waits before it to what waits then."""
        for name, sink, share in shares_of(what, given, rows, self.queries.query_of):
            if not isinstance(sink, GatheringSink):
                sink.write(batch, share)
                continue
            said = sink.write_after(gathered.pop(name, None), batch, share, now_ns)
            if said is not None:
                gathered[name] = said

    def _put_out(self, directive: Directive) -> None:
        """Rows that have waited for long enough, by the directive of a batch that is done."""
        for what, said in directive.gathered.items():
            sink: Any = self._sinks.get(what)
            if said.is_due and isinstance(sink, GatheringSink):
                sink.put_out(said)

    def _commit(self, directive: Directive) -> Directive:
        """End the batch, with this directive or another's.

        If another driver has, either this one was replaced, or it replaced that one in this very batch.
        """
        if self._checkpoint.commit(directive):
            return directive
        self.owner.check()
        # Both had the same offset, so both have computed the same. The next batch goes on from the other's state.
        known = self._checkpoint.said(directive.batch)
        if not directive.says_the_same(known):
            raise bug(f"owners {known.owner} and {directive.owner} have done batch {directive.batch} in different ways")
        return known

    def _warn(self, aside: list[pa.Table]) -> None:
        """Say once that events are malformed; how many there are by now is in the status."""
        if not self._is_warned and (found := malformed_warning(aside)) is not None:
            self._is_warned = True
            logging.getLogger("headwater").warning("%s", found)

    def _warn_of_crowd(self, sources: int) -> None:
        """Say once that sources are many, before they are too many."""
        if not self._is_crowd_told and sources > MANY_SOURCES * self._chains:
            self._is_crowd_told = True
            logging.getLogger("headwater").warning(
                "the stream has %d sources, %d for each of its %d tasks; with twice as many it stops: give sources='folder', or"
                " more tasks, to a new stream",
                sources, sources // self._chains, self._chains,
            )  # fmt: skip

    def _shape(self, before: Directive) -> ResultShape | None:
        """How the rows of the next batch look; None in a stream that began with the columns of an earlier release."""
        queries = self.queries.behind(before)
        if self._about is None:
            return None
        if self._shaped is None or self._shaped[0] is not queries:
            self._shaped = queries, stream_shape(self._about, queries.values())
        return self._shaped[1]

    def _computed(self, frames: DataFrame, batch: int) -> tuple[BatchOutput, Callable[[], Directive]]:
        """The output of a batch, and a function that writes its state and gives the directive."""
        if self._chains > FAN_IN:
            frames = relayed(frames, self._roots, self._chains)
        if self._roots > 1:
            found, each = reduced(frames, self._checkpoint, self.owner.number, batch, self._roots)
            return found, lambda: joint(each)
        offset, outcome = self._host.run(batch, frames.toArrow().to_batches())

        def finish() -> Directive:
            self._host.save_state(batch)
            return self._host.directive(offset, outcome, self._host.status(offset, outcome))

        return outcome, finish


def joined(tables: list[pa.Table]) -> pa.Table:
    """Rows of one batch with names of queries as text; queries may have been added in the middle."""
    if not tables:
        return pa.table({})
    plain = [table.cast(plain_rows(table.schema)) for table in tables]
    return pa.concat_tables(plain, promote_options="default").combine_chunks()
