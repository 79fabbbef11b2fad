"""Roots inside Spark's stateful operator: the root of a bucket is one packed value of the state store.

Each call to the store crosses a socket, so there are two at most for a batch: the root is read, and the root is written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from headwater.base.arrow import plain_type, table_from_bytes, table_to_bytes
from headwater.engine.results.side_output import SCHEMA as ASIDE
from headwater.engine.results.side_output import malformed_warning
from headwater.node.micro_batches.frames import Frame
from headwater.node.micro_batches.root import BatchRoot, StepOutput
from headwater.spark.batch.root import ACCOUNTS, parts_of
from headwater.spark.dataframe_streams.plan import KIND, StreamPlan
from headwater.spark.streaming.watch.standstill import NAMED_MAX, ProgressWatch

#: What comes out of the operator: tables of rows, packed.
PACKED = "data binary"


class BucketProcessor(StatefulProcessor):
    """The root of each bucket, from its state to its state. The plan travels as text: code never travels."""

    def __init__(self, plan: str) -> None:
        self._text = plan
        self._plan: StreamPlan | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("root", "data binary")

    @property
    def plan(self) -> StreamPlan:
        if self._plan is None:
            self._plan = StreamPlan.from_text(self._text)
        return self._plan

    # Spark calls these by the names of their arguments.
    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """A micro-batch: the frames of all partitions."""
        # A shuffle brings them in any order, and a replay in another.
        sent = sorted((row["partition"], row["number"], row["frame"]) for row in rows)
        root = self._root()
        outcome = root.take([Frame.from_bytes(bytes(frame)) for _, _, frame in sent], self._now(timerValues))
        self._keep(root)
        _warn(self._text, outcome.aside)
        if self.plan.has_source:
            watch_progress(self._text, root, time.time_ns() // 1000)
        return packed_rows(self.plan, outcome)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """No frame has come for a while: sources may be idle, or the stream over."""
        root = self._root()
        outcome = root.tick(self._now(timerValues))
        self._keep(root)
        return packed_rows(self.plan, outcome)

    def close(self) -> None:
        """Nothing is held between batches."""

    def _root(self) -> BatchRoot:
        # One call instead of asking first whether there is a value.
        kept = self._state.get()
        return BatchRoot(self.plan.settings) if kept is None else BatchRoot.restore(kept[0], self.plan.settings)

    def _keep(self, root: BatchRoot) -> None:
        self._state.update((root.snapshot(),))
        if not self.plan.uses_clock:
            return
        due = root.next_tick_ms()
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        if due is not None:
            self._handle.registerTimer(due)

    def _now(self, timer_values: Any) -> int:
        # The time of the batch, which Spark writes down before it runs: a replay has the same.
        return int(timer_values.getCurrentProcessingTimeInMs()) if self.plan.uses_clock else 0


#: Plans of which malformed events were told in this process.
_WARNED: set[str] = set()


def _warn(plan: str, aside: Iterable[pa.Table]) -> None:
    """Say once in the log of the task that events are malformed."""
    if plan not in _WARNED and (found := malformed_warning(aside)) is not None:
        _WARNED.add(plan)
        logging.getLogger("headwater").warning("%s", found)


#: By plan: how watermarks move in this process. It is for people and decides nothing, so the clock is that of the process.
_WATCHED: dict[str, ProgressWatch] = {}


def watch_progress(plan: str, root: BatchRoot, now_us: int) -> None:
    """Say in the log of the task which source the others wait for, once the watermark has stood for a while."""
    if root.settings.disorder is None:
        return
    held, idle_ms = root.holding_up(), root.settings.idle_ms
    watch = _WATCHED.setdefault(plan, ProgressWatch())
    idle_ns = None if idle_ms is None else idle_ms * 1_000_000
    news = {"sources": held[:NAMED_MAX], "count": len(held)}
    watch.see({"watermark": root.watermark, "holding_up": news, "idle_ns": idle_ns}, now_us)
    if (found := watch.to_log(now_us)) is not None:
        logging.getLogger("headwater").warning("no progress for %.0f s: %s", found.seconds, found.why)


def packed_rows(plan: StreamPlan, outcome: StepOutput) -> Iterator[Row]:
    """Rows of Spark that hold the tables of an outcome, packed."""
    for table in tables(plan, outcome):
        yield from (Row(data=table_to_bytes(part)) for part in parts_of(table))


def tables(plan: StreamPlan, outcome: StepOutput) -> Iterator[pa.Table]:
    """The tables of an outcome that were asked for, in the columns that come out."""
    accounts = [pa.Table.from_pylist(outcome.accounts, schema=ACCOUNTS)] if outcome.accounts else []
    kinds = {"results": outcome.rows, "aside": outcome.aside, "accounts": accounts}
    if plan.output != "all":
        yield from (_fitted(table, plan.rows) for table in kinds[plan.output])
        return
    for table in outcome.rows:
        yield _fitted(table.append_column(KIND, _repeated("result", len(table))), plan.rows)
    for kind, schema, found in (("aside", ASIDE, outcome.aside), ("account", ACCOUNTS, accounts)):
        for table in found:
            structs = pa.StructArray.from_arrays(
                [table.column(name).combine_chunks() for name in schema.names], names=schema.names
            )
            yield _fitted(pa.table({KIND: _repeated(kind, len(table)), kind: structs}), plan.rows)


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of the whole call, null where these rows have none."""
    columns = []
    for field in schema:
        if field.name not in table.schema.names:
            columns.append(pa.nulls(len(table), field.type))
            continue
        column = table.column(field.name)
        columns.append(column.cast(plain_type(column.type)).cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _repeated(text: str, count: int) -> pa.Array:
    return pa.array([text] * count, pa.string())


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of packed tables."""
    for batch in batches:
        for data in batch.column("data"):
            yield from table_from_bytes(data.as_buffer()).to_batches()
