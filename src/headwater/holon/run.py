"""A program without a coordinator in this process: all partitions, in an order that a seed draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from headwater.engine.results.side_output import SCHEMA
from headwater.errors import DataError, QueryError, shown
from headwater.language.arguments import check_disorder, check_unit
from headwater.language.functions.program import Program, program_of
from headwater.language.schemas import check_unit_of
from headwater.language.time_columns import time_column
from headwater.local.tables import arrow_table, record_batches
from headwater.node.holon.functions.plans import PartitionsInput, plan_of
from headwater.node.holon.shared_program import ProgramPlan, SharedProgram
from headwater.node.holon.stages import ONCE, Output, stage_chain
from headwater.protocols.peers.decisions import PartitionEnded

#: Batches are cut to at most this many events where nothing else is said.
BATCH_EVENTS = 1 << 16


@dataclass(slots=True)
class Outputs:
    """What came out, by chain: ``"p/0"`` are the rows of the events of partition p, ``"p/1"`` and so on those of its handlers,
    ``"*/1"`` those of what is computed once for all.

    >>> import headwater as hw
    >>> outputs = run(hw.query("bids", hw.tumbling(10), n=hw.count()), {"a": pa.table({"time": [1, 12]})})
    >>> outputs["*/1"].column("n").to_pylist(), outputs.rows.num_rows
    ([1, 1], 2)
    """

    chains: dict[str, pa.Table]
    #: Events that were set aside: late ones, and malformed ones.
    aside: pa.Table = field(default_factory=SCHEMA.empty_table)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)

    def __getitem__(self, chain: str) -> pa.Table:
        if chain not in self.chains:
            raise KeyError(f"no chain of output is called {chain!r}; there are {', '.join(self.chains)}")
        return self.chains[chain]

    @property
    def rows(self) -> pa.Table:
        """All rows, with the chain in front, in the order of chains."""
        tables = [
            table.add_column(0, "chain", pa.repeat(pa.scalar(chain), len(table)))
            for chain, table in self.chains.items()
            if len(table)
        ]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


def run(
    thing: Any,
    tables: Mapping[str, Any],
    *,
    time: str = "time",
    unit: str = "us",
    disorder: object = 0,
    every: int | None = None,
    strict: bool = False,
    seed: int = 0,
    batch_events: int = BATCH_EVENTS,
    flush: bool = True,
) -> Outputs:
    """Run a processing function, a flow or queries over partitions, to their end.

    ``tables``: the events of each partition, Arrow, pandas or Polars, in the order in which they came. ``disorder``: how far a
    time may lie behind the latest one of its partition without being late. ``seed`` draws in which order, and in how many
    batches of at most ``batch_events``, partitions are read: it changes no row. ``flush``: whether the partitions end.

    >>> import headwater as hw
    >>> class BidShare(hw.ProcessingFunction):
    ...     total = hw.WindowedCRDT(hw.count(), hw.tumbling(10))
    ...     mine = hw.WindowedLocal(hw.count(), hw.tumbling(10))
    ...
    ...     @hw.when_final(total, mine)
    ...     def share(self, w, total, mine):
    ...         yield {"window_end": w.end, "share": mine / total}
    >>> events = {"a": pa.table({"time": [1, 5, 12]}), "b": pa.table({"time": [3, 14]})}
    >>> run(BidShare, events)["a/1"].to_pylist()
    [{'window_end': 10, 'share': 0.6666666666666666}, {'window_end': 20, 'share': 0.5}]
    """
    program = program_of(thing)
    arrow = tables_of(tables)
    given = input_of(arrow, time, unit, disorder, every, strict)
    plan = plan_of(program, arrow, given)
    process = HolonProcess(plan, Random(seed))
    for name, table in arrow.items():
        process.feed(name, list(record_batches(table, batch_events)))
    process.read_all()
    if flush:
        process.end()
    return process.outputs(program)


def tables_of(tables: Mapping[str, Any]) -> dict[str, pa.Table]:
    """The events of each partition as Arrow."""
    if not tables:
        raise DataError(f"tables is {shown(tables)}: give the events of each partition, {{'p0': table, 'p1': table}}")
    return {str(name): arrow_table(table) for name, table in tables.items()}


def input_of(
    tables: Mapping[str, pa.Table], time: str, unit: str, disorder: object, every: int | None, strict: bool
) -> PartitionsInput:
    """What the partitions have in common; what cannot be used is refused."""
    if time_column(time).reading == "arrival":
        raise QueryError(f"time is {time}: the rows of a table have no arrival; name the column that tells their times")
    if every is not None and (type(every) is not int or every < 1):
        raise QueryError(f"every is {shown(every)}: give the ticks between steps, 1 or more, or leave it out")
    try:
        schema = pa.unify_schemas([table.schema for table in tables.values()], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"the partitions have columns of one name and different types: {error}") from error
    check_unit_of("disorder", disorder, schema, time)
    ticks = check_disorder(disorder, check_unit(unit))
    if ticks is None:
        raise QueryError("disorder is None: without a coordinator watermarks follow from events; give a duration, or 0")
    return PartitionsInput(schema, time, unit, ticks, strict, every)


class HolonProcess:
    """All units of a program in one process, where everything that comes out is there at once."""

    def __init__(self, plan: ProgramPlan, dice: Random) -> None:
        self._dice = dice
        self._program = SharedProgram(plan)
        self._queues: dict[str, list[pa.RecordBatch]] = {}
        self._batches: dict[str, list[pa.RecordBatch]] = {}
        self._rows: dict[str, list[pa.Table]] = {}
        self._counts: dict[str, int] = {}
        self._aside: list[pa.Table] = []
        self._seen = 0
        for unit in plan.units:
            self._program.begin(unit)

    def feed(self, partition: str, batches: list[pa.RecordBatch]) -> None:
        """The events of a partition."""
        self._queues[partition] = list(batches)
        self._batches[partition] = batches

    def read_all(self) -> None:
        """Read all partitions, a batch of one and then of another."""
        while waiting := [name for name, queue in self._queues.items() if queue]:
            name = self._dice.choice(waiting)
            self._read(name, self._program.next_index(name), self._queues[name].pop(0))
            self._advance()

    def _read(self, partition: str, index: int, batch: pa.RecordBatch) -> None:
        for output in self._program.take_in(partition, index, batch):
            self._take(output)

    def end(self) -> None:
        """All partitions end behind what was read."""
        for name in self._queues:
            if (output := self._program.take_open(name)) is not None:
                self._take(output)
        ends = {name: sum(map(len, batches)) for name, batches in self._batches.items()}
        self._program.decided.learn(0, PartitionEnded(ends))
        self._advance()
        # What waited for more events, to be handed over with them, is read once more, with the end in sight.
        for name, batches in self._batches.items():
            self._program.begin(name)
            offset = 0
            for batch in batches:
                if offset + len(batch) > (index := self._program.next_index(name)):
                    self._read(name, max(index, offset), batch.slice(max(index - offset, 0)))
                offset += len(batch)
            self._advance()
        if not self._program.has_ended:
            raise QueryError("a handler waits for a window that is never final: it awaits one that no event can end")

    def _advance(self) -> None:
        moved = True
        while moved:
            moved = False
            for output in self._program.advance():
                self._take(output)
                moved = True
            self._look_aside()
            self._program.forget([replica.steps.step for replica in self._program.levels])

    def _look_aside(self) -> None:
        for step in self._program.levels[0].kept.behind(self._seen):
            self._seen = step.number
            self._aside.append(step.aside)

    def _take(self, output: Output) -> None:
        if output.rows is not None:
            known = self._counts.get(output.chain, 0)
            assert output.index <= known, f"row {output.index} of {output.chain} is not the next"
            # What was read once more, for the end, gives its rows once more.
            fresh = output.rows.slice(known - output.index)
            self._rows.setdefault(output.chain, []).append(fresh)
            self._counts[output.chain] = known + len(fresh)
        self._program.confirm(output)

    def outputs(self, program: Program) -> Outputs:
        """What came out so far."""
        half = self._program.levels[0].steps.half(0)
        aside = pa.concat_tables(self._aside) if self._aside else SCHEMA.empty_table()
        chains = {
            name: pa.concat_tables(rows, promote_options="permissive") for name, rows in sorted(self._rows.items())
        }
        if program.function is None:
            chain = stage_chain(ONCE, 1)
            chains[chain] = half.shape.rows(chains.get(chain, half.result_schema.empty_table()))
        return Outputs(chains, half.shape.aside(aside), self._program.levels[0].steps.counters())
