"""A program without a root, as one node runs it: what it knows of all chains, and the units that it runs itself.

A unit is a partition, or `ONCE` for what is computed once for all. Any number of nodes may run a unit at the same time: they say
the same. What one says is told to the others, who need not run anything to know all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.node.holon.decided_steps import DecidedSteps
from headwater.node.holon.executed_steps import StepRows
from headwater.node.holon.kept_steps import KeptSteps
from headwater.node.holon.partition import EventsHandler, PartitionRunner
from headwater.node.holon.replica import Replica
from headwater.node.holon.stages import ONCE, Output, QueryStage, StageMaker, StageRunner, stage_chain
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import StepGrid
from headwater.protocols.windowed_crdt import Prefix, PrefixDelta

#: Makes what a function does with the events of a partition, where a prefix ends; by level, the steps that it may peek at.
EventsMaker = Callable[[str, Prefix, Sequence[KeptSteps]], EventsHandler]


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage: what each partition does with the steps of the level below, what is done once for all, and the tables into which
    both insert."""

    of_partition: StageMaker | None = None
    once: StageMaker | None = None
    tables: tuple[SharedTable, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """All that nodes have to agree on. ``tables``: of level 0, the first of them over the events of the input."""

    partitions: tuple[str, ...]
    grid: StepGrid
    tables: tuple[SharedTable, ...]
    stages: tuple[StagePlan, ...] = (StagePlan(once=QueryStage),)
    #: What a function does with events; none if all is declared.
    events: EventsMaker | None = None
    #: So long, in ticks, the windows of a step can be read after all stages have taken it.
    retention: int = 0
    #: Which program it is of those that ran on the same state, from 1.
    generation: int = 1
    #: By unit, the chains of its stages; by chain the level whose state it is.
    units: Mapping[str, tuple[str, ...]] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        stages = range(1, len(self.stages) + 1)
        of_partition = [number for number in stages if self.stages[number - 1].of_partition is not None]
        once = [number for number in stages if self.stages[number - 1].once is not None]
        units = {p: (p, *(stage_chain(p, number) for number in of_partition)) for p in sorted(self.partitions)}
        if once:
            units[ONCE] = tuple([stage_chain(ONCE, number) for number in once])
        object.__setattr__(self, "units", units)

    @property
    def outputs(self) -> dict[str, str]:
        """By chain of any level, the chain of output with its rows: that of a stage has its name, events are stage 0."""
        stages = {chain: chain for level in range(1, len(self.stages) + 1) for chain in self.chains(level)}
        return {partition: stage_chain(partition, 0) for partition in self.chains(0)} | stages

    def chains(self, level: int) -> dict[str, str]:
        """The chains of a level, with the home of each: the unit that they are of."""
        if level == 0:
            return {partition: partition for partition in sorted(self.partitions)}
        found = {unit: stage_chain(unit, level) for unit in self.units}
        return {chain: unit for unit, chain in found.items() if chain in self.units[unit]}


#: From where a chain with this prefix is to be run.
Start = Callable[[str, Prefix], Prefix]


class SharedProgram:
    """Knows all levels, runs some units. Rows and deltas come as `Output`, in an order that has to be kept; a delta is known
    here, and may be told, when it is handed back to `confirm`.

    >>> import headwater as hw
    >>> table = SharedTable(0, (hw.query("q", hw.tumbling(10), n=hw.count()),), pa.schema({"time": pa.int64()}), disorder=0)
    >>> program = SharedProgram(ProgramPlan(("a", "b"), StepGrid(10), (table,)))
    >>> for unit in program.plan.units:
    ...     program.begin(unit)
    >>> for partition in ("a", "b"):
    ...     for output in program.take_in(partition, 0, pa.record_batch({"time": [1, 5, 12]})):
    ...         program.confirm(output)
    >>> outputs = list(program.advance())
    >>> [(output.chain, output.index, output.rows.column("n").to_pylist()) for output in outputs if output.rows]
    [('*/1', 0, [4])]
    """

    def __init__(self, plan: ProgramPlan, by_entries: bool = False) -> None:
        """``by_entries``: whether each step is closed by an entry of the decision log."""
        self.plan = plan
        tables = [plan.tables, *(stage.tables for stage in plan.stages)]
        settings = plan.grid, plan.generation, plan.retention
        self.levels = [Replica(own, plan.chains(level), *settings) for level, own in enumerate(tables)]
        self._level_of = {chain: level for level in range(len(tables)) for chain in plan.chains(level)}
        self.decided = DecidedSteps(self.levels[0], by_entries)
        self.running: dict[str, list[StageRunner]] = {}
        self._partitions: dict[str, PartitionRunner] = {}

    # --- units that are run here ---

    def begin(self, unit: str, start: Start | None = None) -> None:
        """Run a unit from where what is known of it ends; if it runs already, from there anew. ``start``: an earlier place from
        which a chain is to be run once more, given its prefix."""
        partition = self.levels[0].prefixes.chains.get(unit)
        if partition is not None:
            begun = partition if start is None else start(unit, partition)
            kept = [replica.kept for replica in self.levels]
            handler = None if self.plan.events is None else self.plan.events(unit, begun, kept)
            self._partitions[unit] = PartitionRunner(unit, self.plan.tables[0], self.plan.grid, begun, handler)
        self.running[unit] = [
            self._stage_runner(unit, level, chain, start)
            for level, replica in enumerate(self.levels[1:], start=1)
            if (chain := stage_chain(unit, level)) in replica.prefixes.chains
        ]

    def _stage_runner(self, unit: str, level: int, chain: str, start: Start | None) -> StageRunner:
        plan, prefix = self.plan.stages[level - 1], self.levels[level].prefixes.chains[chain]
        maker = plan.once if unit == ONCE else plan.of_partition
        assert maker is not None, f"no stage {level} of {unit}"
        begun = prefix if start is None else start(chain, prefix)
        below = [replica.kept for replica in self.levels[:level]]
        return StageRunner(chain, maker(unit, begun, below), self.plan.grid, begun)

    def stop(self, unit: str) -> None:
        """Run a unit no longer."""
        self.running.pop(unit, None)
        self._partitions.pop(unit, None)

    def next_index(self, partition: str) -> int:
        """The event that a partition which is run here has to be given next."""
        return self._partitions[partition].next_offset

    def positions(self, unit: str) -> dict[str, tuple[int, int, int]]:
        """By chain of a unit that is run here: under how many decisions, where its next delta begins, and what comes next."""
        found = {runner.chain: (runner.decisions, runner.taken, runner.taken) for runner in self.running[unit]}
        if (partition := self._partitions.get(unit)) is not None:
            found[unit] = partition.decisions, partition.start, partition.next_offset
        return found

    def take_in(self, partition: str, index: int, batch: pa.RecordBatch) -> Iterator[Output]:
        """Events of a partition that is run here."""
        runner, known = self._partitions[partition], self.levels[0].prefixes.chains[partition].version.at
        if runner.index < known < index + len(batch):
            # It is run once more: a delta ends where what is known ends, so that the next one fits.
            for delta in runner.take_in(index, batch.slice(0, known - index)):
                yield self._events_output(runner, delta)
            yield from self._rest(runner)
        for delta in runner.take_in(index, batch):
            yield self._events_output(runner, delta)

    def _rest(self, runner: PartitionRunner) -> Iterator[Output]:
        if (delta := runner.take_open()) is not None:
            yield self._events_output(runner, delta)

    def take_open(self, partition: str) -> Output | None:
        """What came of a partition since its last delta."""
        runner = self._partitions[partition]
        delta = runner.take_open()
        return None if delta is None else self._events_output(runner, delta)

    def _events_output(self, runner: PartitionRunner, delta: PrefixDelta) -> Output:
        index, rows = runner.take_rows()
        return Output(delta) if rows is None else Output(delta, stage_chain(runner.partition, 0), index, rows)

    def advance(self) -> Iterator[Output]:
        """Execute what steps can be executed, and let the stages that are run here take them."""
        for level, replica in enumerate(self.levels):
            for _ in self.decided.advance() if level == 0 else replica.advance():
                pass
            if level + 1 < len(self.levels):
                yield from self._taken(level + 1, replica.kept)

    def _taken(self, level: int, steps: KeptSteps) -> Iterator[Output]:
        for runners in list(self.running.values()):
            for runner in runners:
                if runner.chain not in self.levels[level].prefixes.chains:
                    continue
                for step in steps.behind(runner.taken):
                    output = runner.take(step)
                    if output is None:
                        break
                    yield output

    def confirm(self, output: Output) -> str | None:
        """The rows of an output are there: what they stand for is known from now on. Returns why it is not new."""
        return self.apply(output.delta)

    # --- what is known ---

    def level_of(self, chain: str) -> int | None:
        """The level whose state a chain is; None: there is no such chain."""
        return self._level_of.get(chain)

    def apply(self, delta: PrefixDelta) -> str | None:
        """Add what a stretch of a chain adds; returns why that is not possible."""
        level = self.level_of(delta.chain)
        return "unknown" if level is None else self.levels[level].apply(delta)

    def merge(self, others: Mapping[str, Prefix]) -> list[str]:
        """Take over prefixes that are further than ours; returns their chains."""
        return [chain for replica in self.levels for chain in replica.merge(others)]

    def prefix(self, chain: str) -> Prefix | None:
        """What is known of a chain."""
        level = self.level_of(chain)
        return None if level is None else self.levels[level].prefixes.chains[chain]

    @property
    def has_ended(self) -> bool:
        """Whether every stage has taken the last step."""
        last = self.levels[0].steps.count
        if not self.levels[0].has_ended and not self.decided.is_over:
            return False
        for replica in self.levels[1:]:
            if any(prefix.version.at < last for prefix in replica.prefixes.chains.values()):
                return False
            last = replica.steps.count
        return True

    def forget(self, steps: Sequence[int], starts: Mapping[str, int] | None = None) -> None:
        """All nodes have executed the steps up to these, by level; rows that every stage has taken are forgotten, too.
        ``starts``: of chains that may have to be run from earlier places once more."""
        for level, (replica, step) in enumerate(zip(self.levels, steps)):
            replica.forget(step, self._passed(level, starts or {}))

    def _passed(self, level: int, starts: Mapping[str, int]) -> int:
        """The last step of a level that all stages above it are known to have taken."""
        if level + 1 == len(self.levels):
            return self.levels[level].steps.count
        prefixes = self.levels[level + 1].prefixes.chains
        taken = (starts.get(chain, prefix.version.at) for chain, prefix in prefixes.items())
        return min(taken, default=self.levels[level].steps.count)

    # --- the world: for those who are too far behind ---

    def world(self) -> bytes:
        """What came of all steps so far, with the rows that some stage has still to take."""
        levels = [[replica.world(), [_row_state(step) for step in replica.kept]] for replica in self.levels]
        return to_bytes({"levels": levels, "decided": self.decided.state()})

    def take_world(self, data: bytes) -> list[int]:
        """Go on where another node is, if that is further; returns at which levels it is. Stages that run here have to begin anew
        from what is known of them."""
        state = from_bytes(data)
        # All of it is read before any of it is taken.
        read = [replica.read_world(world) for replica, (world, _) in zip(self.levels, state["levels"], strict=True)]
        kept = [[_row_of(row) for row in rows] for _, rows in state["levels"]]
        taken = [replica.take_world(one, rows) for replica, one, rows in zip(self.levels, read, kept)]
        if taken[0]:
            self.decided.follow(state["decided"])
        return [level for level, is_further in enumerate(taken) if is_further]


def _row_state(step: StepRows) -> list[object]:
    rows = {str(table): table_to_bytes(rows) for table, rows in step.rows.items()}
    return [step.number, step.time, rows, table_to_bytes(step.aside)]


def _row_of(state: list[object]) -> StepRows:
    number, time, rows, aside = state
    tables = {int(table): table_from_bytes(data) for table, data in rows.items()}  # type: ignore[attr-defined]
    return StepRows(number, time, tables, table_from_bytes(aside))  # type: ignore[arg-type]
