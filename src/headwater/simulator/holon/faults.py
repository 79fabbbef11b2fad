"""What goes wrong where there is no root: nodes, links, clocks, storage, and programs that take each other's place.

A plan is drawn from the seed before the run begins. Faults strike while it lasts; then everything heals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from headwater.simulator.holon.site import HolonSite
from headwater.simulator.world.faults import HOUR_NS, LEAPS_NS, TORN_STEPS, Strike, draw_quality
from headwater.simulator.world.machine import Clock, Machine
from headwater.simulator.world.network import MS, Quality
from headwater.simulator.world.storage import Storage
from headwater.simulator.world.world import World

#: A node that sleeps for so long is suspected, and its partitions are taken.
ZOMBIE_NS = 1500 * MS
#: How long a machine is down at most, on average.
DOWN_NS = 250 * MS


@dataclass(frozen=True, slots=True)
class HolonFaultPlan:
    """All that will go wrong: strikes in order, the quality of links, clocks that run wrong, when it is over."""

    strikes: tuple[Strike, ...] = ()
    quality: Quality = field(default_factory=Quality)
    clocks: tuple[tuple[str, Clock], ...] = ()
    end_ns: int = 0
    faults: frozenset[str] = frozenset()


def draw_holon_plan(dice: Random, nodes: list[str], faults: frozenset[str], until_ns: int) -> HolonFaultPlan:
    """A plan with the faults that were asked for; some of each rather than many at once, which hide one another."""
    quality = draw_quality(dice, faults)
    kinds = [fault for fault in HOLON_STRIKES if fault in faults]
    strikes = []
    for _ in range(dice.randint(3, 10) if kinds else 0):
        fault = dice.choices(kinds, [HOLON_STRIKES[kind][0] for kind in kinds])[0]
        length_ns = int(dice.expovariate(1 / DOWN_NS)) + MS
        strikes.append(Strike(dice.randrange(until_ns), fault, dice.choice(nodes), length_ns, dice.randrange(1 << 30)))
    clocks = {}
    if faults & {"drift", "jump"}:
        drift = 200_000 if "drift" in faults else 0
        # High enough to fall when a machine starts anew.
        clocks = {name: Clock(HOUR_NS + dice.randrange(10**9), dice.randint(-drift, drift)) for name in nodes}
    ordered = tuple(sorted(strikes, key=lambda strike: (strike.at_ns, strike.number)))
    return HolonFaultPlan(ordered, quality, tuple(clocks.items()), until_ns if faults else 0, faults)


class HolonFaults:
    """Lets a plan happen. ``succeed`` starts a node of the next program beside one that runs, or gives None if there is one."""

    def __init__(
        self, world: World, site: HolonSite, plan: HolonFaultPlan, succeed: Callable[[Machine], Machine | None]
    ) -> None:
        self._world, self._site, self._plan, self._succeed = world, site, plan, succeed
        self._is_over = False
        #: Who sleeps for so long that others take over: by machine its life, and what it read when it fell asleep.
        self._asleep: dict[str, tuple[int, frozenset[str]]] = {}

    def begin(self) -> None:
        """Make links bad, and schedule the strikes."""
        self._world.network.quality = self._plan.quality
        for strike in self._plan.strikes:
            self._world.at(strike.at_ns, self._strike, strike)

    def heal(self) -> None:
        """End all faults: links and storage are good, machines awake and up; the programs that were replaced end."""
        self._is_over = True
        world = self._world
        world.network.heal()
        self._site.slowness_ns.clear()
        for machine in list(world.machines.values()):
            machine.stumble, machine.slowness_ns = None, 0
            machine.storage.disk.mend()
            if machine.successor is not None:
                world.crash(machine, keeps_memory=False)
                machine.is_gone = True
                continue
            if machine.paused_until_ns > world.time_ns:
                machine.paused_until_ns = world.time_ns
                world.wake(machine)
            self._restart(machine)

    def _strike(self, strike: Strike) -> None:
        machine = self._world.machines.get(strike.target)
        while machine is not None and machine.successor is not None and strike.number % 4:
            machine = machine.successor  # mostly the program that runs by now
        if machine is not None and machine.is_up and not self._is_over:
            HOLON_STRIKES[strike.fault][1](self, machine, strike)

    # --- nodes ---

    def _pause(self, machine: Machine, strike: Strike) -> None:
        self._world.pause(machine, self._world.time_ns + strike.length_ns)

    def _zombie(self, machine: Machine, strike: Strike) -> None:
        """It sleeps until others have its partitions, and goes on as if nothing had happened."""
        until_ns = self._world.time_ns + ZOMBIE_NS + strike.length_ns
        self._asleep[machine.name] = machine.life, frozenset(machine.readers)
        self._world.pause(machine, until_ns)
        self._world.at(until_ns, self._rise, machine)

    def _rise(self, machine: Machine) -> None:
        life, read = self._asleep.pop(machine.name, (-1, frozenset()))
        if machine.life == life and machine.is_up:
            others = [one for one in self._world.machines.values() if one is not machine and one.is_up]
            taken = [partition for partition in read if any(partition in one.readers for one in others)]
            self._world.counts["fault: zombie"] += bool(taken)

    def _crash(self, machine: Machine, strike: Strike) -> None:
        self._kill(machine, strike.fault, strike.length_ns)

    def _amnesia(self, machine: Machine, strike: Strike) -> None:
        """Its checkpoint is gone, too."""
        self._kill(machine, strike.fault, strike.length_ns)
        machine.storage = Storage()

    def _everyone(self, _: Machine, strike: Strike) -> None:
        """All nodes die at once."""
        self._kill_all(strike, strike.fault)

    def _power(self, machine: Machine, strike: Strike) -> None:
        """A node, or all, lose their power: what they did not sync may be gone. It counts if something is."""
        is_one = strike.number % 2 == 0
        lost = self._site.lose_power(self._world.dice, machine.name if is_one else None)
        fault = strike.fault if lost else None
        self._world.tell(machine.name if is_one else "everyone", f"loses power, and {lost} rows that were not synced")
        if is_one:
            self._kill(machine, fault, strike.length_ns)
        else:
            self._kill_all(strike, fault)

    def _kill_all(self, strike: Strike, fault: str | None) -> None:
        for place, machine in enumerate(list(self._world.machines.values())):
            self._kill(machine, fault, strike.length_ns + (strike.number >> place) % (20 * MS))

    def _halfway(self, machine: Machine, strike: Strike) -> None:
        """It falls over in the middle of doing what its node asks for, as soon as that is more than one thing."""
        machine.stumble = (strike.number >> 1, False)
        self._world.at(self._world.time_ns + 2 * strike.length_ns, self._restart, machine)

    def _slow(self, machine: Machine, strike: Strike) -> None:
        machine.slowness_ns = strike.length_ns // 40
        self._world.at(self._world.time_ns + 4 * strike.length_ns, self._speed_up, machine)

    def _speed_up(self, machine: Machine) -> None:
        machine.slowness_ns = 0

    def _program(self, machine: Machine, strike: Strike) -> None:
        """All nodes are started with the next program, while those of the old one live on for a while."""
        delay_ns = strike.number % (100 * MS)
        for old in [machine for machine in self._world.machines.values() if machine.successor is None]:
            self._world.at(self._world.time_ns + strike.number % 3 * delay_ns // 2, self._replace, old)
            delay_ns += 5 * MS

    def _replace(self, old: Machine) -> None:
        if not self._is_over and old.successor is None:
            new = self._succeed(old)
            if new is not None:
                old.successor = new
                self._world.tell(old.name, f"has a successor, {new.name}, with the next program")
                self._world.add(new)

    def _kill(self, machine: Machine, fault: str | None, length_ns: int) -> None:
        if machine.is_up:
            self._world.crash(machine, keeps_memory=False)
            machine.unread_faults += [] if fault is None else [fault]
            self._world.at(self._world.time_ns + length_ns, self._restart, machine)

    def _restart(self, machine: Machine) -> None:
        machine.stumble = None
        if not machine.is_up and not machine.is_gone:
            self._world.tell(machine.name, "starts again")
            self._world.start(machine)

    # --- links and clocks ---

    def _split(self, machine: Machine, strike: Strike) -> None:
        """Some nodes do not reach the others, nor these them."""
        names = sorted(self._world.machines)
        some = {machine.name, *(name for place, name in enumerate(names) if strike.number >> place & 1)}
        links = [(one, other) for one in sorted(some) for other in names if other not in some]
        self._world.network.partition(links, self._world.time_ns + 2 * strike.length_ns)
        self._world.tell(machine.name, f"is cut off, with {len(some) - 1} others")

    def _one_way(self, machine: Machine, strike: Strike) -> None:
        """A node is not heard, or does not hear."""
        until_ns = self._world.time_ns + 2 * strike.length_ns
        for other in self._world.machines:
            link = (machine.name, other) if strike.number % 2 else (other, machine.name)
            self._world.network.cut_one_way(link, until_ns)
        self._world.tell(machine.name, "is not heard" if strike.number % 2 else "does not hear")

    def _jump(self, machine: Machine, strike: Strike) -> None:
        """The clock leaps ahead; or the machine starts anew, and its clock begins at zero."""
        world, clock = self._world, machine.clock
        if strike.number % 2:
            leap_ns = LEAPS_NS[(strike.number >> 1) % len(LEAPS_NS)]
            machine.clock = clock.showing(clock.now(world.time_ns) + leap_ns, world.time_ns)
            machine.unread_faults.append(strike.fault)
            world.tell(machine.name, f"has a clock that leaps {leap_ns / 1e9:g} s")
            return
        self._kill(machine, strike.fault, strike.length_ns)
        machine.clock = clock.showing(0, world.time_ns)
        world.tell(machine.name, "has a clock that begins anew")

    # --- storage ---

    def _stall(self, machine: Machine, strike: Strike) -> None:
        """The storage of a node answers late."""
        self._site.slowness_ns[machine.name] = strike.length_ns
        self._world.tell(machine.name, "has slow storage")
        self._world.at(self._world.time_ns + 3 * strike.length_ns, self._mend, machine)

    def _full(self, machine: Machine, strike: Strike) -> None:
        """The storage of a node fails: the node stops."""
        machine.storage.disk.is_full = True
        self._world.tell(machine.name, "has full storage")
        self._world.at(self._world.time_ns + strike.length_ns, self._mend, machine)

    def _torn(self, machine: Machine, strike: Strike) -> None:
        """It loses its power in the middle of writing a checkpoint, soon."""
        machine.storage.disk.steps_left = strike.number % TORN_STEPS
        self._world.at(self._world.time_ns + 4 * strike.length_ns, self._mend, machine)

    def _mend(self, machine: Machine) -> None:
        self._site.slowness_ns.pop(machine.name, None)
        machine.storage.disk.mend()
        self._restart(machine)


#: Faults that strike: how often each is drawn, and what it does.
HOLON_STRIKES: dict[str, tuple[int, Callable[[HolonFaults, Machine, Strike], None]]] = {
    "pause": (3, HolonFaults._pause),
    "zombie": (3, HolonFaults._zombie),
    "crash": (4, HolonFaults._crash),
    "amnesia": (3, HolonFaults._amnesia),
    "everyone": (2, HolonFaults._everyone),
    "power": (4, HolonFaults._power),
    "halfway": (4, HolonFaults._halfway),
    "slow": (2, HolonFaults._slow),
    "program": (1, HolonFaults._program),
    "partition": (3, HolonFaults._split),
    "one-way": (2, HolonFaults._one_way),
    "jump": (3, HolonFaults._jump),
    "stall": (3, HolonFaults._stall),
    "full": (2, HolonFaults._full),
    "torn": (2, HolonFaults._torn),
}
