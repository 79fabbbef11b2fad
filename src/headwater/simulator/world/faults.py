"""What goes wrong, and when: a plan drawn from the seed before the run begins.

Faults strike while the plan lasts. Then everything heals: links and disks are good, all machines are awake that were not lost
for good, and the world is left alone until everything is out; some plans end while sources still speak.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from headwater.simulator.checks.counts import BORDER_FAULTS
from headwater.simulator.world.machine import Clock, Machine
from headwater.simulator.world.network import MS, Quality
from headwater.simulator.world.storage import CHECKPOINT, MEMORY, RECORDS
from headwater.simulator.world.topology import ROOT, Topology
from headwater.simulator.world.world import World

SECOND_NS = 1000 * MS
HOUR_NS = 3600 * SECOND_NS
#: How far clocks leap.
LEAPS_NS = (SECOND_NS // 3, 5 * SECOND_NS, HOUR_NS)
#: Within how many steps on its disk a machine loses its power: a record takes two, a checkpoint about six.
TORN_STEPS = 48


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault: what, whom, when and for how long; ``number`` decides whatever else there is to choose."""

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
    #: When it ends, and whether sources may still speak then.
    end_ns: int = 0
    ends_early: bool = False


def draw_plan(dice: Random, topology: Topology, faults: frozenset[str], until_ns: int) -> FaultPlan:
    """A plan with the faults that were asked for; about a dozen strikes, however large the tree is.

    Faults of borders have dice of their own: without them a seed is what it was before there were any.
    """
    quality = draw_quality(dice, faults)
    bad = {}
    for child, parent in topology.links():
        if faults and dice.random() < 0.15:
            link = (child, parent) if dice.random() < 0.5 else (parent, child)
            bad[link] = replace(quality, loss=quality.loss * 8, duplication=quality.duplication * 4)
    names = [ROOT, *topology.relays, *topology.leaves]
    clocks = {}
    if "drift" in faults:
        clocks = {name: Clock(dice.randrange(10**9), dice.randint(-200_000, 200_000)) for name in names}
    borders = faults & set(BORDER_FAULTS)
    strikes = _strikes(dice, topology, faults - borders, (3, 14), until_ns)
    dice = Random(dice.getrandbits(64))
    strikes += _strikes(dice, topology, borders, (3, 8), until_ns)
    if "jump" in faults:
        # High enough to fall when a machine starts anew.
        clocks = {name: clocks.get(name, Clock()).showing(HOUR_NS, 0) for name in names}
    ends_early = bool(borders) and dice.random() < 1 / 3
    ordered = tuple(sorted(strikes, key=lambda s: (s.at_ns, s.number)))
    return FaultPlan(ordered, quality, bad, clocks, faults, until_ns // 2 if ends_early else until_ns, ends_early)


def _strikes(
    dice: Random, topology: Topology, faults: frozenset[str], count: tuple[int, int], until_ns: int
) -> list[Strike]:
    kinds = [fault for fault in sorted(STRIKES) if fault in faults]
    strikes = []
    for _ in range(dice.randint(*count) if kinds else 0):
        fault = dice.choices(kinds, [STRIKES[kind][0] for kind in kinds])[0]
        target = _target(dice, topology, fault)
        length_ns = int(dice.expovariate(1 / (250 * MS))) + MS
        strikes.append(Strike(dice.randrange(until_ns), fault, target, length_ns, dice.randrange(1 << 30)))
    return strikes


def draw_quality(dice: Random, faults: frozenset[str]) -> Quality:
    """Most runs have some of each: too many faults at once hide one another."""

    def some(fault: str, high: float) -> float:
        amount = dice.choice([0.0, high / 4, high])
        return amount if fault in faults else 0.0

    delay_ns, jitter_ns = dice.choice([MS // 2, 5 * MS]), dice.choice([0, MS, 20 * MS])
    if "delay" not in faults:
        delay_ns, jitter_ns = MS // 2, 0
    return Quality(delay_ns, jitter_ns, some("loss", 0.1), some("duplication", 0.1), some("reordering", 0.2))


def _target(dice: Random, topology: Topology, fault: str) -> str:
    if fault in ("root", "torn", "full", "stall"):
        return ROOT
    if fault in ("flip", "jump") and dice.random() < 0.5:
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
    """Lets a plan happen to a world. ``parents``: who is whose parent by now; ``successor`` makes the machine that takes a leaf's
    sources over, which is let after a silence of ``takeover_ns``."""

    def __init__(
        self,
        world: World,
        parents: dict[str, str],
        plan: FaultPlan,
        successor: Callable[[Machine], Machine],
        takeover_ns: int,
    ) -> None:
        self._world, self._parents, self._plan = world, parents, plan
        self._successor, self._takeover_ns = successor, takeover_ns
        self._is_over = False
        #: The last checkpoint that was damaged: the one before each has to be whole.
        self._flipped = -1

    def begin(self) -> None:
        """Make links bad, and schedule the strikes."""
        network = self._world.network
        network.quality, network.qualities = self._plan.quality, dict(self._plan.bad_links)
        for strike in self._plan.strikes:
            self._world.at(strike.at_ns, self._strike, strike)

    def heal(self) -> None:
        """End all faults: links are good, machines awake, and those up that were not replaced.

        One that sleeps while another asks for its sources wakes in its own time: it has lost them by then, as zombies have.
        """
        self._is_over = True
        world = self._world
        world.network.heal()
        for machine in list(world.machines.values()):
            machine.stumble = None
            machine.slowness_ns = 0
            machine.storage.disk.mend()
            if machine.paused_until_ns > world.time_ns and machine.successor is None:
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
            links = [link for link in self._parents.items() if link[1] == ROOT][::2]
        else:
            links = [(machine.name, self._parents[machine.place])]
        self._world.network.partition(links, self._world.time_ns + strike.length_ns)
        self._world.tell(machine.name, "is cut off")

    def _cut_one_way(self, machine: Machine, strike: Strike) -> None:
        """A node is not heard by its parent, or does not hear it."""
        link = machine.name, self._parents[machine.place]
        self._world.network.cut_one_way(
            link if strike.number % 2 == 0 else link[::-1], self._world.time_ns + strike.length_ns
        )
        self._world.tell(machine.name, "is not heard" if strike.number % 2 == 0 else "does not hear")

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
        """Another leaf asks for the sources while the old one lives, perhaps cut off or paused until the other has got them."""
        if machine.successor is not None:
            return
        strike = replace(strike, length_ns=self._takeover_ns + strike.length_ns)
        if strike.number % 3 == 0 and "pause" in self._plan.faults:
            self._pause(machine, strike)
        elif strike.number % 3 == 1 and "partition" in self._plan.faults:
            self._partition(machine, strike)
        self._world.tell(machine.name, "is replaced")
        machine.successor = self._successor(machine)
        self._world.add(machine.successor)

    def _gone(self, machine: Machine, strike: Strike) -> None:
        """It never returns: another takes a leaf's sources over, and the children of a relay get another parent."""
        if machine.successor is not None:
            return
        self._world.crash(machine, keeps_memory=False)
        machine.is_gone = True
        self._world.tell(machine.name, "is gone for good")
        follow = self._take_over if machine.role == "leaf" else self._move_children
        self._world.at(self._world.time_ns + strike.length_ns, follow, machine)

    def _take_over(self, machine: Machine) -> None:
        machine.successor = self._successor(machine.successor or machine)
        machine.successor.unread_faults.append("gone")
        self._world.add(machine.successor)

    def _move_children(self, machine: Machine) -> None:
        """Those below a relay begin anew, below its own parent."""
        above = self._parents[machine.place]
        for place in [place for place, parent in self._parents.items() if parent == machine.place]:
            self._parents[place] = above
            for child in [one for one in self._world.machines.values() if one.place == place]:
                self._world.crash(child, keeps_memory=False)
                child.storage.forget()  # it would go on below the old one
                child.unread_faults.append("gone")
                self._restart(child)

    # --- disks and clocks ---

    def _torn(self, machine: Machine, strike: Strike) -> None:
        """It loses its power in the middle of writing, soon."""
        machine.storage.disk.steps_left = strike.number % TORN_STEPS
        self._world.at(self._world.time_ns + 2 * strike.length_ns, self._restart, machine)

    def _flip(self, machine: Machine, strike: Strike) -> None:
        """It falls over, and what it kept cannot be read any more: a memory, the last of two checkpoints, or a record."""
        self._world.crash(machine, keeps_memory=True)
        self._world.at(self._world.time_ns + strike.length_ns, self._restart, machine)
        storage = machine.storage
        if machine.role == "root" and strike.number % 2 and (below := storage.followed_bytes()):
            storage.disk.flip(RECORDS.format(storage.number), self._world.dice, below)
            return  # it counts when it is noticed
        if machine.role != "root":
            name = MEMORY
        elif self._flipped + 2 <= storage.number >= 2:
            name, self._flipped = CHECKPOINT.format(storage.number), storage.number
        else:
            return  # the one before is damaged, too, or there is none
        if name in storage.disk.files:
            storage.disk.flip(name, self._world.dice)
            machine.unread_faults.append("flip")

    def _full(self, machine: Machine, strike: Strike) -> None:
        machine.storage.disk.is_full = True
        self._world.tell(machine.name, "has a full disk")
        self._world.at(self._world.time_ns + strike.length_ns, self._repair_disk, machine)

    def _stall(self, machine: Machine, strike: Strike) -> None:
        machine.storage.disk.delay_ns = strike.length_ns // 20
        self._world.tell(machine.name, "has a slow disk")
        self._world.at(self._world.time_ns + 2 * strike.length_ns, self._repair_disk, machine)

    def _repair_disk(self, machine: Machine) -> None:
        machine.storage.disk.mend()
        self._restart(machine)

    def _jump(self, machine: Machine, strike: Strike) -> None:
        """The clock leaps ahead; or the machine starts anew, and its clock begins at zero."""
        world, clock = self._world, machine.clock
        machine.unread_faults.append("jump")
        if strike.number % 2:
            leap_ns = LEAPS_NS[(strike.number >> 1) % len(LEAPS_NS)]
            machine.clock = clock.showing(clock.now(world.time_ns) + leap_ns, world.time_ns)
            world.tell(machine.name, f"has a clock that leaps {leap_ns / 1e9:g} s")
            return
        world.crash(machine, keeps_memory=True)
        machine.clock = clock.showing(0, world.time_ns)
        world.tell(machine.name, "has a clock that begins anew")
        world.at(world.time_ns + strike.length_ns, self._restart, machine)

    def _speed_up(self, machine: Machine) -> None:
        machine.slowness_ns = 0

    def _restart(self, machine: Machine) -> None:
        machine.stumble = None
        # One that was replaced may come back too, as a zombie; after the faults only the living do.
        if machine.is_gone:
            self._follow_up(machine)
        elif not machine.is_up and not machine.is_retired and not (self._is_over and machine.is_replaced):
            self._world.tell(machine.name, "starts again")
            self._world.start(machine)

    def _follow_up(self, machine: Machine) -> None:
        """The last word of a leaf that is gone may come after the first of its successor, which has to stop then: one more."""
        if machine.successor is not None and machine.successor.is_retired:
            self._take_over(machine)


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
    "one-way": (3, Faults._cut_one_way),
    "torn": (4, Faults._torn),
    "flip": (3, Faults._flip),
    "full": (2, Faults._full),
    "stall": (2, Faults._stall),
    "jump": (3, Faults._jump),
    "gone": (3, Faults._gone),
}
