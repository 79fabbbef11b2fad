"""What Spark calls for each batch: frames in from the leaves, through the root, rows into the sinks, and then the state.

In this order, so that whatever dies in between, the batch is run again as it was: rows first (sinks know a batch by its number),
then the root's state, then the directive, with which the batch is done. Spark's own commit comes last. Before each step that
others see it is asked whether another driver has taken over (`owners`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from headwater.spark.result_rows import spark_shape
from headwater.spark.streaming.checkpoint import ROW_FORM, StreamCheckpoint
from headwater.spark.streaming.directives import Directive
from headwater.spark.streaming.errors import ReplacedError
from headwater.spark.streaming.host import BatchOutput, RootHost
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.reducers import joint, reduced
from headwater.spark.streaming.sinks import FolderSink, Sink
from headwater.spark.streaming.start.driver_lock import DriverLock
from headwater.spark.streaming.watch.observer import StreamObserver
from headwater.spark.tasks import bug

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RowQueries:
    """The queries of a batch's rows: those that the batch before left.

    Not those that are asked for by now: a query whose removal is asked for, or done in this very batch, has rows in it. Whoever
    comes in this batch has none, and a batch that is run again is to look the same.
    """

    def __init__(self, checkpoint: StreamCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._name = ""
        self._queries: Mapping[str, Query] = {}

    def of(self, batch: int) -> Mapping[str, Query]:
        """By name; the same object while they are the same. From now on `keys_of` speaks of this batch."""
        name = self._checkpoint.said(batch - 1).queries
        if self._name != name:
            entries = read_query_set(self._checkpoint.queries(name)).entries
            self._name, self._queries = name, {entry.query.name: entry.query for entry in entries}
        return self._queries

    def keys_of(self, query: str) -> Sequence[str]:
        """The key columns of a query that has rows in the batch that is being written."""
        if query not in self._queries:
            raise bug(f"there are rows of query {query!r}, which did not run")
        return self._queries[query].keys


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
    ) -> None:
        self.sink = sink
        self.aside = aside
        #: What stopped the stream, if it was something here.
        self.error: Exception | None = None
        self._owner = Ownership.taken(checkpoint.path) if owner is None else owner
        self._checkpoint = checkpoint
        self._running = threading.RLock()
        self._is_closed = False
        self._lock = lock
        self.observer = observer
        self._host = RootHost(checkpoint, self._owner.number)
        #: Sinks that have to know the keys of rows ask these.
        self.queries = RowQueries(checkpoint)
        self._shaped: tuple[Mapping[str, Query], ResultShape] | None = None
        self._about = about = checkpoint.about()
        self._roots, self._chains = (1, 1) if about is None else (about.roots, about.chains)
        self._is_warned = False

    def __call__(self, frames: DataFrame, batch: int) -> None:
        with self._running:
            if self._is_closed:
                raise HeadwaterError("the stream was stopped")
            try:
                if self._lock is None:
                    self._lock = DriverLock(self._checkpoint.path)
                self._run(frames, batch)
            except Exception as error:
                self.error = error
                self._release()  # Spark ends the stream
                if not isinstance(error, ReplacedError):
                    # Whatever went wrong, that another has taken over comes first: it may be why.
                    self._check_owner(error)
                raise

    def _check_owner(self, because: Exception) -> None:
        try:
            self._owner.check()
        except ReplacedError as error:
            self.error = error
            raise error from because

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
            for sink in (self.sink, self.aside):
                if sink is not None:
                    sink.close()
            self._release()

    def runs_as(self, is_active: Callable[[], bool]) -> None:
        """Say how to find out whether the stream runs: one that has ended by itself keeps nobody from starting it again."""
        if self._lock is not None:
            self._lock.is_active = is_active

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _run(self, frames: DataFrame, batch: int) -> None:
        began = time.monotonic()
        self._owner.check()
        if self._checkpoint.directive(batch) is not None:
            return  # done before Spark could say so
        outcome, finish = self._computed(frames, batch)
        computed = time.monotonic()
        self._owner.check()
        due_ns = self._write(batch, outcome)
        directive = replace(finish(), rows_due_ns=due_ns)
        self._owner.check()
        self._commit(directive)
        if self.observer is not None:
            seconds = {"batch": time.monotonic() - began, "compute": computed - began}
            self.observer.batch_done({**directive.status, "seconds": seconds}, outcome.notes)

    def _write(self, batch: int, outcome: BatchOutput) -> int | None:
        """Give the sinks what came out; returns when one of them has gathered for long enough."""
        shape = self._shape(batch)
        rows = joined(outcome.rows) if shape is None else shape.rows(joined(outcome.rows))
        due = [_given(self.sink, batch, rows, outcome.now_ns)]
        if self.observer is not None:
            self.observer.rows_out(rows, self.queries.of(batch))
            self.observer.aside_out(outcome.aside)
        self._warn(outcome.aside)
        if self.aside is not None:
            aside = pa.concat_tables([ASIDE.empty_table(), *outcome.aside])
            due.append(_given(self.aside, batch, aside if shape is None else shape.aside(aside), outcome.now_ns))
        return min((at for at in due if at is not None), default=None)

    def _commit(self, directive: Directive) -> None:
        """End the batch; if another driver has, either this one was replaced, or it replaced that one in this very batch."""
        if self._checkpoint.commit(directive):
            return
        self._owner.check()
        # Both had the same offset, so both have computed the same. The next batch goes on from the other's state.
        known = self._checkpoint.said(directive.batch)
        if not directive.says_the_same(known):
            raise bug(f"owners {known.owner} and {directive.owner} have done batch {directive.batch} in different ways")

    def _warn(self, aside: list[pa.Table]) -> None:
        """Say once that events are malformed; how many there are by now is in the status."""
        if not self._is_warned and (found := malformed_warning(aside)) is not None:
            self._is_warned = True
            logging.getLogger("headwater").warning("%s", found)

    def _shape(self, batch: int) -> ResultShape | None:
        """How the rows of a batch look; None in a stream that began with the columns of an earlier release."""
        about, queries = self._about, self.queries.of(batch)
        if about is None or about.row_form != ROW_FORM:
            return None
        if self._shaped is None or self._shaped[0] is not queries:
            time, unit = about.settings["time"], about.settings["unit"]
            self._shaped = queries, spark_shape(list(queries.values()), about.schema, time, unit, is_stream=True)
        return self._shaped[1]

    def _computed(self, frames: DataFrame, batch: int) -> tuple[BatchOutput, Callable[[], Directive]]:
        """The output of a batch, and a function that writes its state and gives the directive."""
        if self._chains > FAN_IN:
            frames = relayed(frames, self._roots, self._chains)
        if self._roots > 1:
            found, each = reduced(frames, self._checkpoint, self._owner.number, batch, self._roots)
            return found, lambda: joint(each)
        offset, outcome = self._host.run(batch, frames.toArrow().to_batches())

        def finish() -> Directive:
            self._host.save_state(batch)
            return self._host.directive(offset, outcome, self._host.status(offset, outcome))

        return outcome, finish


def _given(sink: Sink, batch: int, rows: pa.Table, now_ns: int) -> int | None:
    """Give a sink the rows of a batch; when the next batch is due for it, if it gathers them."""
    if isinstance(sink, FolderSink):
        return sink.write_at(batch, rows, now_ns)
    sink.write(batch, rows)
    return None


def joined(tables: list[pa.Table]) -> pa.Table:
    """Rows of one batch with names of queries as text; queries may have been added in the middle."""
    if not tables:
        return pa.table({})
    plain = [table.cast(plain_rows(table.schema)) for table in tables]
    return pa.concat_tables(plain, promote_options="default").combine_chunks()
