"""What goes wrong, and when: a plan drawn from the seed before the run begins.

Faults strike while the plan lasts. Then everything heals: links are good, everybody is awake, and the world is left alone until
everything is out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from headwater.simulator.world.machine import Clock, Machine
from headwater.simulator.world.network import MS, Quality
from headwater.simulator.world.topology import ROOT, Topology
from headwater.simulator.world.world import World


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault: what, whom, when and for how long; ``number`` is for whatever else it has to choose."""

    at_ns: int
    fault: str
    target: str
    length_ns: int
    number: int


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All that will go wrong: the strikes in order, the quality of links, the clocks that run wrong."""

    strikes: tuple[Strike, ...]
    quality: Quality
    bad_links: dict[tuple[str, str], Quality]
    clocks: dict[str, Clock]
    faults: frozenset[str]


def draw_plan(dice: Random, topology: Topology, faults: frozenset[str], until_ns: int) -> FaultPlan:
    """A plan with the faults that were asked for; about a dozen strikes, however large the tree is."""
    quality = _quality(dice, faults)
    bad = {}
    for child, parent in topology.links():
        if faults and dice.random() < 0.15:
            link = (child, parent) if dice.random() < 0.5 else (parent, child)
            bad[link] = replace(quality, loss=quality.loss * 8, duplication=quality.duplication * 4)
    names = [ROOT, *topology.relays, *topology.leaves]
    clocks = {}
    if "drift" in faults:
        clocks = {name: Clock(dice.randrange(10**9), dice.randint(-200_000, 200_000)) for name in names}
    strikes = []
    kinds = [fault for fault in sorted(STRIKES) if fault in faults]
    for _ in range(dice.randint(3, 14) if kinds else 0):
        fault = dice.choices(kinds, [STRIKES[kind][0] for kind in kinds])[0]
        target = _target(dice, topology, fault)
        length_ns = int(dice.expovariate(1 / (250 * MS))) + MS
        strikes.append(Strike(dice.randrange(until_ns), fault, target, length_ns, dice.randrange(1 << 30)))
    return FaultPlan(tuple(sorted(strikes, key=lambda s: (s.at_ns, s.number))), quality, bad, clocks, faults)


def _quality(dice: Random, faults: frozenset[str]) -> Quality:
    """Most runs have some of each: too many faults at once hide one another."""

    def some(fault: str, high: float) -> float:
        amount = dice.choice([0.0, high / 4, high])
        return amount if fault in faults else 0.0

    delay_ns, jitter_ns = dice.choice([MS // 2, 5 * MS]), dice.choice([0, MS, 20 * MS])
    if "delay" not in faults:
        delay_ns, jitter_ns = MS // 2, 0
    return Quality(delay_ns, jitter_ns, some("loss", 0.1), some("duplication", 0.1), some("reordering", 0.2))


def _target(dice: Random, topology: Topology, fault: str) -> str:
    if fault == "root":
        return ROOT
    if fault == "replacement":
        return dice.choice(topology.leaves)
    if fault == "slow":
        return dice.choice([ROOT, *topology.relays])
    if fault == "halfway" and dice.random() < 0.3:
        return ROOT
    if fault in ("pause", "partition") and dice.random() < 0.1:
        return ROOT
    return dice.choice([*topology.relays, *topology.leaves])


class Faults:
    """Lets a plan happen to a world. ``replace`` makes the machine that takes a leaf's sources over."""

    def __init__(
        self, world: World, topology: Topology, plan: FaultPlan, replace: Callable[[Machine], Machine]
    ) -> None:
        self._world, self._topology, self._plan, self._replace = world, topology, plan, replace
        self._is_over = False

    def begin(self) -> None:
        """Links become bad now; each strike comes at its time."""
        network = self._world.network
        network.quality, network.qualities = self._plan.quality, dict(self._plan.bad_links)
        for strike in self._plan.strikes:
            self._world.at(strike.at_ns, self._strike, strike)

    def heal(self) -> None:
        """No more faults: good links, everybody awake, everybody up who was not replaced."""
        self._is_over = True
        world = self._world
        world.network.heal()
        for machine in list(world.machines.values()):
            machine.stumble = None
            machine.slowness_ns = 0
            if machine.paused_until_ns > world.time_ns:
                machine.paused_until_ns = world.time_ns
                world.wake(machine)
            self._restart(machine)
        # A word that was still on its way may have given a chain back to a machine that is down.
        for machine in list(world.machines.values()):
            world.at(world.time_ns + 1000 * MS, self._restart, machine)

    def _strike(self, strike: Strike) -> None:
        machine = self._world.machines[strike.target]
        if machine.is_up and not self._is_over:
            STRIKES[strike.fault][1](self, machine, strike)

    def _pause(self, machine: Machine, strike: Strike) -> None:
        self._world.pause(machine, self._world.time_ns + strike.length_ns)

    def _slow(self, machine: Machine, strike: Strike) -> None:
        machine.slowness_ns = strike.length_ns // 20
        self._world.at(self._world.time_ns + 4 * strike.length_ns, self._speed_up, machine)

    def _partition(self, machine: Machine, strike: Strike) -> None:
        """Cut a node off from its parent, or (the root) from half of its children."""
        if machine.name == ROOT:
            links = [link for link in self._topology.links() if link[1] == ROOT][::2]
        else:
            links = [(machine.name, self._topology.parents[machine.name])]
        self._world.network.partition(links, self._world.time_ns + strike.length_ns)
        self._world.tell(machine.name, "is cut off")

    def _crash(self, machine: Machine, strike: Strike) -> None:
        self._world.crash(machine, keeps_memory=strike.fault != "amnesia")
        machine.unread_faults.append(strike.fault)
        self._world.at(self._world.time_ns + strike.length_ns, self._restart, machine)

    def _halfway(self, machine: Machine, strike: Strike) -> None:
        """It falls over in the middle of doing what its node asks for, as soon as that is more than one thing."""
        machine.stumble = (strike.number >> 1, strike.number % 2 == 0)
        # A while after it has stumbled; if it has not, it never will.
        self._world.at(self._world.time_ns + 2 * strike.length_ns, self._restart, machine)

    def _replacement(self, machine: Machine, strike: Strike) -> None:
        """Another leaf gets the sources while the old one lives, perhaps cut off or paused for a while."""
        if machine.successor is not None:
            return
        if strike.number % 3 == 0 and "pause" in self._plan.faults:
            self._pause(machine, strike)
        elif strike.number % 3 == 1 and "partition" in self._plan.faults:
            self._partition(machine, strike)
        self._world.tell(machine.name, "is replaced")
        machine.successor = self._replace(machine)
        self._world.add(machine.successor)

    def _speed_up(self, machine: Machine) -> None:
        machine.slowness_ns = 0

    def _restart(self, machine: Machine) -> None:
        machine.stumble = None
        # One that was replaced may come back too, as a zombie; after the faults only the living do.
        if not machine.is_up and not machine.is_retired and not (self._is_over and machine.is_replaced):
            self._world.tell(machine.name, "starts again")
            self._world.start(machine)


#: Faults that strike a machine: how often each is drawn, and what it does.
STRIKES: dict[str, tuple[int, Callable[[Faults, Machine, Strike], None]]] = {
    "pause": (4, Faults._pause),
    "crash": (4, Faults._crash),
    "amnesia": (4, Faults._crash),
    "halfway": (6, Faults._halfway),
    "replacement": (3, Faults._replacement),
    "root": (3, Faults._crash),
    "slow": (3, Faults._slow),
    "partition": (4, Faults._partition),
}
