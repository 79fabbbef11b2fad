"""How fast partitions are run: what is declared against a plain leaf, and what functions insert in batches or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import headwater as hw
from headwater.bench.common.report import Report, at_least
from headwater.bench.common.workload import EVENTS_PER_SECOND, SECOND, SEED, EventColumns
from headwater.bench.holon.process import CountedProgram, planned
from headwater.bench.holon.timing import MILLION, medians, turns
from headwater.engine.wire.part_bytes import part_to_bytes
from headwater.node.holon.partition import PartitionRunner
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import StepGrid
from headwater.protocols.windowed_crdt import Prefix, Version

PARTITION = "p"
BATCH = 1 << 16
#: Events per second of a partition: a batch takes it over a step of one second, or two.
RATE = 60_000
#: Of one that is read as fast as it can be, or much faster than most: a step takes many batches.
RATE_FAST = 1_000_000
EVENTS = 4 * MILLION
EVENTS_ONE_BY_ONE = MILLION // 5
BID = 1


def stream(events: int, rate: int = RATE) -> list[pa.RecordBatch]:
    """Events of one partition in order of time, in batches; every other one is a bid."""
    data = EventColumns(events)
    kinds = np.random.default_rng([SEED, events]).integers(0, 2, events, dtype=np.int64)
    # The workload has fewer events a second; here its time runs faster.
    times = data.times // (rate // EVENTS_PER_SECOND)
    table = pa.table({"time": times, "key": data.keys, "kind": kinds, "price": data.values})
    return list(table.combine_chunks().to_batches(max_chunksize=BATCH))


# --- what is declared ---


def declared_table(schema: pa.Schema) -> SharedTable:
    """Count, exact sum and max of each second and key."""
    aggregates: dict[str, Any] = {"bids": hw.count(), "turnover": hw.sum("price"), "dearest": hw.max("price")}
    query = hw.query("bids", hw.tumbling("1 s"), keys=["key"], **aggregates)
    return SharedTable(0, (query,), schema, disorder=0)


def leaf_reads(table: SharedTable, batches: Sequence[pa.RecordBatch], writes: bool = False) -> int:
    """A plain leaf takes in the batches and gives what has come after each; returns how many events there were.

    ``writes``: it also writes this down, as it would before it is sent.
    """
    half, offset = table.leaf_half(PARTITION, PARTITION), 0
    for batch in batches:
        half.take_in(PARTITION, offset, batch, None)
        offset += len(batch)
        _, parts = half.take()
        if writes:
            [part_to_bytes(part) for part in parts]
    return offset


def runner_reads(table: SharedTable, batches: Sequence[pa.RecordBatch]) -> int:
    """A runner takes in the batches and gives the delta of each step; returns how many deltas there were."""
    runner = PartitionRunner(PARTITION, table, StepGrid(SECOND), Prefix(Version(1, 0, 0)))
    return sum(1 for batch in batches for _ in runner.take_in(runner.next_offset, batch))


def declared(report: Report) -> None:
    """Declared states through a runner, cut at steps and written as deltas, against a plain leaf that cuts nothing.

    The deltas of a runner are bytes, the parts of a plain leaf are not yet: against one that writes them, too, and where a step
    takes many batches, stands beside it.
    """
    for name, rate, writes, bound in (
        ("runner_ratio", RATE, False, at_least(0.9)),
        ("runner_ratio_written", RATE, True, None),
        ("runner_ratio_fast", RATE_FAST, False, None),
    ):
        batches = stream(EVENTS // (10 if report.quick else 1), rate)
        table, count = declared_table(batches[0].schema), sum(map(len, batches))
        works = [partial(leaf_reads, table, batches, writes), partial(runner_reads, table, batches)]
        of_leaf, of_runner = medians(works, turns(report))
        rates = f"{count / of_runner / MILLION:.0f} and {count / of_leaf / MILLION:.0f} M events/s"
        note = f"{rates}, {len(batches)} batches, {runner_reads(table, batches)} deltas"
        report.add(name, of_leaf / of_runner, "ratio", bound, note)


# --- what functions insert ---


class EurosOfBids(hw.ProcessingFunction):
    """One filter and one derived column in each batch."""

    turnover = hw.WindowedCRDT(hw.sum("euros"), hw.tumbling("1 s"), inserted_by="events", columns={"euros": float})

    def events(self, batch: Any) -> None:
        bids = batch.where(hw.col("kind") == BID)
        self.turnover.insert(bids.with_column("euros", pc.multiply(bids.column("price"), 0.9)))

    @hw.when_final(turnover, once=True)
    def report(self, w: Any, turnover: float) -> Any:
        yield {"window_end": w.end, "turnover": turnover}


class EachBid(hw.ProcessingFunction):
    """Every event by itself."""

    turnover = hw.WindowedCRDT(hw.sum("price"), hw.tumbling("1 s"), inserted_by="event", columns={"price": float})

    def event(self, e: Any) -> None:
        self.turnover.insert(e.price, e.time)

    @hw.when_final(turnover, once=True)
    def report(self, w: Any, turnover: float) -> Any:
        yield {"window_end": w.end, "turnover": turnover}


def program_reads(function: type[hw.ProcessingFunction], batches: Sequence[pa.RecordBatch]) -> int:
    """A whole program over one partition, its handler included; returns how many rows came out."""
    program = CountedProgram(planned(function, [PARTITION], batches[0].schema))
    for batch in batches:
        program.take_in(PARTITION, batch)
    return program.rows


def batches(report: Report) -> None:
    """``events(self, batch)`` with one filter and one derived column."""
    _measure(report, "batch_rate", EurosOfBids, EVENTS, 20)


def events(report: Report) -> None:
    """``event(self, e)`` that inserts every event."""
    _measure(report, "event_rate", EachBid, EVENTS_ONE_BY_ONE, 0.2)


def _measure(report: Report, name: str, function: type[hw.ProcessingFunction], count: int, bound: float) -> None:
    given = stream(count // (10 if report.quick else 1))
    (seconds,) = medians([partial(program_reads, function, given)], turns(report))
    rate, rows = sum(map(len, given)) / seconds / MILLION, program_reads(function, given)
    note = f"{rows} windows of a second, {RATE:,} events each"
    report.add(name, rate, "M events/s", at_least(bound), note)
