"""What a seed is about: trees with queries of every kind, or count windows in all their schemes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from headwater.base.count_limits import CountLimits
from headwater.protocols.count_windows import PREFERENCES, SCHEMES, Counting
from headwater.simulator.workloads.count_limits import draw_limits
from headwater.simulator.workloads.count_workload import draw_count_workload
from headwater.simulator.workloads.workload import Workload, draw_workload
from headwater.simulator.world.topology import Topology, tree

#: The schemes whose windows are those of one machine; ``approx`` only comes near.
EXACT_SCHEMES = tuple(scheme for scheme in SCHEMES if scheme != "approx")


@dataclass(frozen=True)
class Scenario:
    """Who is there, what they say and what is asked. ``share``: of how many emissions all rows are compared at once;
    ``features``: what the seed has drawn, in words."""

    topology: Topology
    workload: Workload
    counting: Counting | None = None
    limits: CountLimits = field(default_factory=CountLimits)
    share: float = 0.25
    features: frozenset[str] = frozenset()


def draw_tree(dice: Random, leaves: int, height: int) -> Scenario:
    """A tree of this shape."""
    topology = tree(leaves, height)
    return Scenario(topology, draw_workload(dice, topology))


def draw_count_windows(dice: Random, leaves: int, _height: int) -> Scenario:
    """Some of so many leaves, now and then below relays. A few streams are long, with the limits of production."""
    counting = Counting(
        dice.choice(EXACT_SCHEMES),
        dice.choice(PREFERENCES),
        changes=dice.choice([1, 2, 8]),
        # A margin that is much too small: forecasts are wrong, and leaves have to look.
        margin=dice.choice([0.01, 0.5, 3.0]),
    )
    has_relays = dice.random() < 0.25
    topology = tree(dice.randint(1, leaves), 2 if has_relays else 1)
    is_long = dice.random() < 0.1
    workload, features = draw_count_workload(
        dice, topology, dice.randint(800, 2000) if is_long else dice.randint(60, 400)
    )
    features |= {f"scheme {counting.scheme}"} | ({"relays"} if has_relays else set())
    limits = CountLimits() if is_long else draw_limits(dice)
    return Scenario(topology, workload, counting, limits, 1.0, frozenset(features))


SCENARIOS: dict[str, Callable[[Random, int, int], Scenario]] = {
    "tree": draw_tree,
    "count-windows": draw_count_windows,
}
