"""One run of the simulator, from its seed to its verdict.

First faults and safety: nothing wrong may leave. Then everything heals, and liveness: within a bounded time
everything that the sources said is accepted, silent sources are left out, the stream ends, and all rows are out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from headwater.base.count_limits import CountLimits
from headwater.language.files.queries import modules_of
from headwater.node import LeafNode, NodeSettings, RelayNode, RootNode
from headwater.protocols.events import Event, FlushAsked, QueryAdded
from headwater.simulator.checks.checkers import Checker
from headwater.simulator.checks.counts import Counts, chosen_faults
from headwater.simulator.checks.memory import MemoryBound
from headwater.simulator.checks.truth import Truth, ViolationError
from headwater.simulator.plants.tree import planted
from headwater.simulator.scenarios import SCENARIOS, Scenario
from headwater.simulator.workloads.workload import SPAN_TICKS, TICK_NS, Workload
from headwater.simulator.world.faults import FaultPlan, Faults, draw_plan
from headwater.simulator.world.machine import Clock, Machine, Maker
from headwater.simulator.world.network import MS, Quality
from headwater.simulator.world.topology import ROOT, Topology
from headwater.simulator.world.world import NodeError, World, WorldObserver

SECOND_NS = 1000 * MS
#: How long healing may take before it counts as never.
PATIENCE_NS = 60 * SECOND_NS
#: A run with more steps than this per leaf has gone wild.
STEPS_PER_NODE_MAX = 4_000
#: How long to watch after the end whether something still comes.
QUIET_NS = SECOND_NS

#: By scenario, what says how large a world is.
SIZES = {"tree": ("leaves", "height"), "count-windows": ("leaves",), "stream": (), "holon": ("nodes", "partitions")}


@dataclass(frozen=True, slots=True)
class Options:
    """What to run.

    >>> Options(17, 16, 3).command
    'headwater replay tree --seed 17 --leaves 16 --height 3 --faults all'
    >>> Options(17, 8, scenario="count-windows").command
    'headwater replay count-windows --seed 17 --leaves 8 --faults all'
    >>> Options(17, scenario="stream").command
    'headwater replay stream --seed 17 --faults all'
    >>> Options(17, scenario="holon").command
    'headwater replay holon --seed 17 --nodes 5 --partitions 8 --faults all'
    """

    seed: int
    leaves: int = 16
    height: int = 3
    faults: str = "all"
    plant: str | None = None
    scenario: str = "tree"
    nodes: int = 5
    partitions: int = 8

    @property
    def command(self) -> str:
        """What replays this very run, step by step."""
        plant = f" --plant {self.plant}" if self.plant else ""
        sizes = "".join(f" --{name} {getattr(self, name)}" for name in SIZES[self.scenario])
        return f"headwater replay {self.scenario} --seed {self.seed}{sizes} --faults {self.faults}{plant}"


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """How a run went; ``failure`` says what was wrong."""

    options: Options
    failure: str | None
    counts: Counts
    steps: int = 0
    rows: int = 0
    time_ns: int = 0

    def text(self) -> str:
        """The failure and the one command that replays it."""
        return f"seed {self.options.seed} failed: {self.failure}\nreplay it: {self.options.command}"


def simulate(options: Options, observers: Sequence[WorldObserver] = ()) -> RunVerdict:
    """One run. Other observers see each step before the checker does."""
    if options.scenario == "stream":
        from headwater.simulator.stream.simulation import simulate_stream

        return simulate_stream(options, observers)
    if options.scenario == "holon":
        from headwater.simulator.holon.run import simulate_holon

        return simulate_holon(options, observers)
    run = Run.of(options, observers)
    failure = None
    with planted(options.plant):
        try:
            run.play()
        except (ViolationError, NodeError) as error:
            failure = f"at {run.world.time_ns / 1e6:.3f} ms: {error}"
    world = run.world
    return RunVerdict(options, failure, world.counts, world.steps, run.checker.row_count, world.time_ns)


@dataclass
class Run:
    """A world with a tree, a workload, a plan of faults and a checker."""

    world: World
    scenario: Scenario
    truth: Truth
    checker: Checker
    settings: NodeSettings
    plan: FaultPlan
    #: Who is whose parent by now.
    parents: dict[str, str] = field(init=False)
    faults: Faults = field(init=False)

    @classmethod
    def of(cls, options: Options, observers: Sequence[WorldObserver] = (), settings: NodeSettings | None = None) -> Run:
        """Everything that the seed decides, and a checker that watches it."""
        dice = Random(options.seed)
        draw = SCENARIOS[options.scenario]
        scenario = draw(Random(dice.getrandbits(64)), options.leaves, options.height)
        topology = scenario.topology
        plan_end_ns = SPAN_TICKS * TICK_NS * 5 // 4
        plan = draw_plan(Random(dice.getrandbits(64)), topology, chosen_faults(options.faults), plan_end_ns)
        drawn = _settings(Random(dice.getrandbits(64)), scenario.limits)
        world = World(dice.getrandbits(64), list(observers))
        world.steps_max = STEPS_PER_NODE_MAX * (10 + options.leaves)
        run = cls._with(world, scenario, plan, settings or drawn, Random(dice.getrandbits(64)))
        world.observers.append(run.checker)
        return run

    @classmethod
    def plain(cls, topology: Topology, workload: Workload, settings: NodeSettings) -> Run:
        """A run of one's own, without faults and without a checker."""
        world = World(0)
        world.cuts_batches = False
        plan = FaultPlan((), Quality(), {}, {}, frozenset())
        return cls._with(world, Scenario(topology, workload), plan, settings, Random(0))

    @classmethod
    def _with(cls, world: World, scenario: Scenario, plan: FaultPlan, settings: NodeSettings, dice: Random) -> Run:
        workload = scenario.workload
        added = {event.query.name: event.query for _, event in workload.script if isinstance(event, QueryAdded)}
        truth = Truth(workload, added)
        queries = {query.name: query for query in workload.queries} | added
        # One more than it may send: a leaf that crashes writes down what it had gathered.
        share, unaccepted_max = scenario.share, settings.steps_max + 1
        checker = Checker(truth, queries, world.counts, dice, share, unaccepted_max, settings.idle_ns)
        run = cls(world, scenario, truth, checker, settings, plan)
        run.parents = dict(scenario.topology.parents)
        run.faults = Faults(world, run.parents, plan, run.replacement, settings.takeover_ns)
        return run

    @property
    def topology(self) -> Topology:
        return self.scenario.topology

    @property
    def workload(self) -> Workload:
        return self.scenario.workload

    @property
    def modules(self) -> frozenset[str]:
        """Where the queries name users' code: what nodes that are told them allow."""
        added = [event.query for _, event in self.workload.script if isinstance(event, QueryAdded)]
        return modules_of([*self.workload.queries, *added])

    def play(self) -> None:
        """Let the run happen from the first step to the last."""
        self.begin()
        plan, last_ns = self.plan, self.workload.last_ns
        self.world.run(plan.end_ns if plan.ends_early else max(plan.end_ns, last_ns))
        self.faults.heal()
        self.world.run(max(self.world.time_ns, last_ns))
        self.settle()
        self.end()

    def begin(self) -> None:
        """Machines start one after the other, users do what their script says, faults strike."""
        self.faults.begin()
        world, workload = self.world, self.workload
        root = Maker(self._root, RootNode.restore, RootNode.recover)
        world.at(0, world.add, self._machine(ROOT, "root", root))
        for relay in self.topology.relays:
            world.at(0, world.add, self._machine(relay, "relay", self._relay(relay)))
        for leaf in self.topology.leaves:
            world.at(0, world.add, self.leaf(leaf, leaf))
        for at_ns, event in workload.script:
            world.at(at_ns, self.ask, event)

    def settle(self) -> None:
        """Faults are over: everything is accepted, and silent sources are not waited for any more."""
        truth = self.truth
        self._await("everything to be accepted", lambda: not truth.missing_count or truth.is_flushed)
        if truth.is_flushed or self.workload.ends_early:
            return
        self._await("silent sources to be left out", lambda: not truth.held_up_by)
        self._await_rows()
        self._check_memory("relay")

    def _await_rows(self) -> None:
        """Closed windows are out soon; later where a leaf is asked whose chain another has to get first, after a silence."""
        world = self.world
        last_ns = world.time_ns + PATIENCE_NS
        while True:
            world.run(world.time_ns + QUIET_NS)
            try:
                self.checker.check_settled()
            except ViolationError:
                if world.time_ns >= last_ns:
                    raise
            else:
                return

    def end(self) -> None:
        """The stream ends, and everything is out."""
        world = self.world
        if not self.truth.is_flushed:
            self.ask(FlushAsked())
        self._await("the end", lambda: world.is_finished)
        self.checker.is_finished = True
        world.run(world.time_ns + QUIET_NS)
        root = world.machines[ROOT].node
        assert isinstance(root, RootNode)
        self.checker.check_end(root.counters())
        self._check_memory("root", "relay", "leaf")
        self._count(root)

    def _check_memory(self, *roles: str) -> None:
        """Check that nodes of these roles hold no more than they may when all is quiet."""
        truth = self.truth
        queries = [entry.query for entry in truth.stream.entries]
        events, unaccepted_max = sum(truth.accepted.values()), self.settings.steps_max + 1
        bound = MemoryBound(queries, len(truth.logs), truth.decision_count, events, unaccepted_max)
        for machine in self.world.machines.values():
            if machine.node is not None and machine.role in roles:
                bound.check(machine.name, machine.role, len(machine.node.snapshot()))

    def _count(self, root: RootNode) -> None:
        """What the seed had drawn, and what count windows have cost."""
        counts = self.world.counts
        counts.update({f"drawn: {feature}": 1 for feature in self.scenario.features})
        counts.update({"drawn: streams that go on while the world heals": 1} if self.plan.ends_early else {})
        counts.update({f"count: {name}": int(value) for name, value in root.count_report().items()})

    def ask(self, event: Event) -> None:
        """Hand a user's event to the root, later if it is down."""
        if isinstance(event, FlushAsked):
            self.truth.may_end = True
        if not self.world.hand(self.world.machines[ROOT], event):
            self.world.at(self.world.time_ns + 20 * MS, self.ask, event)

    def leaf(self, name: str, chain: str) -> Machine:
        """A leaf's machine, for the first owner of a chain or another."""
        parents, settings, modules = self.parents, self.settings, self.modules
        maker = Maker(
            lambda: LeafNode(name, parents[chain], chain=chain, settings=settings, modules=modules),
            lambda data: LeafNode.restore(data, modules),
        )
        clock = self.plan.clocks.get(chain, Clock())
        return Machine(name, "leaf", maker, self.workload.logs[chain], clock, chain)

    def replacement(self, old: Machine) -> Machine:
        """The machine that takes a leaf's chain over."""
        return self.leaf(f"{old.name}b", old.place)

    def _root(self) -> RootNode:
        workload, counting = self.workload, self.scenario.counting
        return RootNode(ROOT, workload.queries, disorder=workload.disorder, settings=self.settings, counting=counting)

    def _relay(self, name: str) -> Maker:
        parents, settings, modules = self.parents, self.settings, self.modules
        return Maker(
            lambda: RelayNode(name, parents[name], settings=settings, modules=modules),
            lambda data: RelayNode.restore(data, modules),
        )

    def _machine(self, name: str, role: str, maker: Maker) -> Machine:
        return Machine(name, role, maker, clock=self.plan.clocks.get(name, Clock()), place=name)

    def _await(self, what: str, is_done: Callable[[], bool]) -> None:
        world = self.world
        if not world.run(world.time_ns + PATIENCE_NS, is_done):
            missing = {
                source: f"{count} of {len(self.truth.logs[source])}"
                for source, count in self.truth.accepted.items()
                if count < len(self.truth.logs[source])
            }
            raise ViolationError(
                f"{PATIENCE_NS // SECOND_NS} seconds after the last fault still waiting for {what};"
                f" accepted {missing or 'everything'}, waiting for {sorted(self.truth.held_up_by)[:5]}"
            )


def _settings(dice: Random, limits: CountLimits) -> NodeSettings:
    """Settings with short times, so that little virtual time holds many messages, and bounds low enough to be met."""
    return NodeSettings(
        linger_ns=dice.choice([20, 60]) * MS,
        resend_ns=dice.choice([150, 300]) * MS,
        hello_ns=200 * MS,
        idle_ns=dice.choice([400, 900]) * MS,
        steps_max=dice.choice([2, 4, 16]),
        held_max=dice.choice([20, 1 << 20]),
        pending_max=dice.choice([10, 1 << 18]),
        checkpoint_every=dice.choice([10, 50, 256]),
        counts=limits,
    )
