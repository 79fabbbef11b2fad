"""One seed of the holon scenario, from its first event to its verdict.

First faults and safety: no index of the output ever has two rows, and every step has the same rows on all nodes. Then everything
heals, and liveness: within a bounded time everything that can come out does, the stream is flushed, and the whole output is what
the reference says of the input and the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from headwater.node.holon.node import HolonNode
from headwater.node.holon.settings import HolonSettings
from headwater.node.holon.shared_program import ProgramPlan, StagePlan
from headwater.node.holon.stages import QueryStage
from headwater.node.holon.tables import SharedTable
from headwater.protocols.events import FlushAsked
from headwater.protocols.peers.decisions import LogEntry, PartitionReturned, entry_from_bytes
from headwater.protocols.steps import StepGrid
from headwater.simulator.checks.counts import chosen_faults
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.holon.checker import HolonChecker, check_memory
from headwater.simulator.holon.expected import check_output, expected_rows
from headwater.simulator.holon.faults import HolonFaultPlan, HolonFaults, draw_holon_plan
from headwater.simulator.holon.silence_rule import check_left_out
from headwater.simulator.holon.site import HolonSite
from headwater.simulator.holon.tally import STAGES
from headwater.simulator.holon.witness import StepWitness
from headwater.simulator.holon.workload import HolonWorkload, draw_holon_workload
from headwater.simulator.plants.tree import planted
from headwater.simulator.runner import Options, RunVerdict
from headwater.simulator.workloads.queries import SCHEMA
from headwater.simulator.workloads.workload import SPAN_TICKS, TICK_NS
from headwater.simulator.world.machine import Clock, Machine, Maker
from headwater.simulator.world.network import MS
from headwater.simulator.world.world import NodeError, World, WorldObserver

SECOND_NS = 1000 * MS
#: How long healing may take before it counts as never.
PATIENCE_NS = 30 * SECOND_NS
#: How long to watch after the end whether something still comes.
QUIET_NS = SECOND_NS // 2
#: A run with more steps than this per node has gone wild.
STEPS_PER_NODE_MAX = 40_000
#: Programs that take each other's place in a run, at most.
GENERATIONS_MAX = 3


def simulate_holon(options: Options, observers: Sequence[WorldObserver] = ()) -> RunVerdict:
    """One run; observers see each step before the checker does."""
    run = HolonRun.of(options, observers)
    failure = None
    with planted(options.plant, "holon"), run.witness.watching():
        try:
            run.play()
        except (ViolationError, NodeError) as error:
            failure = f"at {run.world.time_ns / 1e6:.3f} ms: {error}"
    world = run.world
    return RunVerdict(options, failure, world.counts, world.steps, run.row_count, world.time_ns)


class HolonRun:
    """A world of nodes that share their input and output, a workload, a plan of faults and what watches them."""

    def __init__(
        self,
        nodes: list[str],
        workload: HolonWorkload,
        settings: HolonSettings,
        plan: HolonFaultPlan | None = None,
        seed: int = 0,
        observers: Sequence[WorldObserver] = (),
    ) -> None:
        self.workload, self.settings, self.plan = workload, settings, plan or HolonFaultPlan()
        self.world = World(seed, list(observers), self._site)
        self.world.steps_max = STEPS_PER_NODE_MAX * (1 + len(nodes))
        self.witness, self.checker = StepWitness(), HolonChecker(self.world.counts, self.site.output)
        self.world.observers.append(self.checker)
        self.faults = HolonFaults(self.world, self.site, self.plan, self._successor)
        self.row_count = 0
        self._nodes = nodes
        self._clocks = dict(self.plan.clocks)
        table = SharedTable(0, workload.queries, SCHEMA, disorder=workload.disorder)
        stages = STAGES if workload.is_tallied else (StagePlan(once=QueryStage),)
        self._plans = [
            ProgramPlan(tuple(workload.logs), StepGrid(workload.every), (table,), stages, generation=generation)
            for generation in range(1, GENERATIONS_MAX + 1)
        ]

    @classmethod
    def of(cls, options: Options, observers: Sequence[WorldObserver] = ()) -> HolonRun:
        """Everything that the seed decides."""
        dice = Random(options.seed)
        workload = draw_holon_workload(Random(dice.getrandbits(64)), options.partitions)
        nodes = [f"n{number}" for number in range(options.nodes)]
        faults = chosen_faults(options.faults, "holon")
        plan_end_ns = SPAN_TICKS * TICK_NS * 5 // 4
        plan = draw_holon_plan(Random(dice.getrandbits(64)), nodes, faults, plan_end_ns)
        settings = _settings(Random(dice.getrandbits(64)), workload)
        run = cls(nodes, workload, settings, plan, dice.getrandbits(64), observers)
        run.site.look_ns, run.site.sync_ns = dice.choice([20, 50]) * MS, dice.choice([20, 100, 400]) * MS
        run.ends_early = bool(faults) and dice.random() < 0.2
        return run

    #: Whether the flush is asked for while faults last.
    ends_early = False

    def _site(self, world: World) -> HolonSite:
        self.site = HolonSite(world, self.workload.logs)
        return self.site

    # --- from the first event to the last ---

    def play(self) -> None:
        """Let the run happen."""
        world, plan, last_ns = self.world, self.plan, self.workload.last_ns
        self.begin()
        if self.ends_early:
            # Not before everything is there: a flush says that it is.
            world.at((plan.end_ns + last_ns) // 2, self.flush)
        world.run(max(plan.end_ns, last_ns))
        self.faults.heal()
        if not self.ends_early:
            self.settle()
            self.flush()
        self.end()

    def begin(self) -> None:
        """Nodes start one after the other, faults strike."""
        self.faults.begin()
        for place, name in enumerate(self._nodes):
            self.world.at(place * MS, self.world.add, self._machine(name, 1, self._clocks.get(name, Clock())))

    def settle(self) -> None:
        """Faults are over: whatever can come out does."""
        if self.workload.idle_ns is None:
            expected = expected_rows(self.workload, self.decisions())
            self._await("all final rows", lambda: self._there() >= sum(map(len, expected.values())))
        else:
            self.world.run(self.world.time_ns + 4 * self.workload.idle_ns)
        self.row_count = check_output(
            self.site.output, self.workload, expected_rows(self.workload, self.decisions()), False
        )

    def flush(self) -> None:
        """Somebody asks a node for the end; if it is down, another."""
        up = [machine for machine in self.living if machine.is_up]
        if not any(self.world.hand(machine, FlushAsked()) for machine in up[:1]):
            self.world.at(self.world.time_ns + 20 * MS, self.flush)

    def end(self) -> None:
        """Everything is out."""
        world = self.world
        self._await("the end", lambda: all(map(self.checker.has_finished, self.living)))
        output = self.site.output
        self._await("all rows to be safe", lambda: output.durable() == output.ends())
        world.run(world.time_ns + QUIET_NS)
        expected = expected_rows(self.workload, self.decisions())
        self.row_count = check_output(self.site.output, self.workload, expected, True)
        if not any(strike.fault == "jump" for strike in self.plan.strikes):
            check_left_out(self.workload, self.decisions())
        for machine in self.living:
            check_memory(machine, self.workload, len(self.decisions()))
        self._count()

    @property
    def living(self) -> list[Machine]:
        """The machines with the program that runs by now."""
        return [machine for machine in self.world.machines.values() if machine.successor is None]

    def decisions(self) -> list[LogEntry]:
        """All that was decided so far."""
        return [entry_from_bytes(entry) for _, entry in self.site.decisions.following(0)]

    def _there(self) -> int:
        return sum(self.site.output.ends().values())

    def _await(self, what: str, is_done: Callable[[], bool]) -> None:
        if not self.world.run(self.world.time_ns + PATIENCE_NS, is_done):
            raise ViolationError(
                f"{PATIENCE_NS // SECOND_NS} seconds after the last fault still waiting for {what};"
                f" there are {dict(self.site.output.ends())} rows, and these decisions: {self.decisions()[-3:]}"
            )

    def _count(self) -> None:
        """What the seed had drawn, and what nobody can strike with."""
        counts = self.world.counts
        counts.update({f"drawn: {feature}": 1 for feature in self.workload.features})
        returned = sum(isinstance(entry, PartitionReturned) for entry in self.decisions())
        counts.update({"fault: return" if "return" in self.plan.faults else "path: partition returned": returned})
        counts.update({"drawn: an end while things go wrong": 1} if self.ends_early else {})

    # --- machines ---

    def _machine(self, name: str, generation: int, clock: Clock) -> Machine:
        plan, settings = self._plans[generation - 1], self.settings
        maker = Maker(
            lambda: HolonNode(name, plan, settings),
            lambda data: HolonNode(name, plan, settings, data),
            lambda checkpoint, _: (HolonNode(name, plan, settings, checkpoint), []),
        )
        return Machine(name, "member", maker, clock=clock, place=name.partition("/")[0])

    def _successor(self, old: Machine) -> Machine | None:
        """A node of the next program."""
        generation = 1 + int(old.name.partition("/")[2] or 1)
        if generation > GENERATIONS_MAX:
            return None
        return self._machine(f"{old.place}/{generation}", generation, old.clock)


def _settings(dice: Random, workload: HolonWorkload) -> HolonSettings:
    """Settings with short times, so that little virtual time holds many messages, and bounds low enough to be met."""
    return HolonSettings(
        beat_ns=dice.choice([50, 100]) * MS,
        idle_ns=workload.idle_ns,
        lag_ns_min=dice.choice([30, 250]) * MS,
        lag_held_ns_min=dice.choice([100, 2000]) * MS,
        checkpoint_ns=dice.choice([100, 400]) * MS,
        deltas_held_max=dice.choice([0, 3, 64]),
        parts_held_max=dice.choice([2, 8, 256]),
        open_ns=dice.choice([0, 400]) * MS,
    )
