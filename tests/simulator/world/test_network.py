"""Links: what is lost, doubled, late or overtaken, and when that counts."""

from random import Random

import pytest

from headwater.simulator.checks.counts import Counts
from headwater.simulator.world.network import MS, Network, Quality
from headwater.simulator.world.world import World


class Wire:
    """A network whose deliveries are written down."""

    def __init__(self, quality, is_there=True):
        self.world, self.counts, self.arrived = World(0), Counts(), []

        def deliver(sender, target, frame):
            self.arrived.append((self.world.time_ns, frame))
            return is_there

        self.network = Network(Random(1), self.counts, self.world.at, deliver, quality, is_there=lambda name: is_there)

    def send(self, count):
        for number in range(count):
            self.network.send("a", "b", str(number).encode(), self.world.time_ns)
            self.world.run(self.world.time_ns + MS)
        self.world.run(self.world.time_ns + 1000 * MS)
        return [int(frame) for _, frame in self.arrived]


def test_a_good_link_carries_everything_in_order():
    wire = Wire(Quality(jitter_ns=10 * MS))
    assert wire.send(100) == list(range(100))
    assert wire.counts == {"fault: delay": 100}


def test_loss_counts_only_if_somebody_would_have_taken_it():
    wire, empty = Wire(Quality(loss=0.5)), Wire(Quality(loss=0.5), is_there=False)
    arrived = wire.send(100)
    assert len(arrived) + wire.counts["fault: loss"] == 100 and 20 < len(arrived) < 80
    empty.send(100)
    assert not empty.counts


def test_a_duplicate_comes_later_and_counts():
    wire = Wire(Quality(duplication=0.5))
    arrived = wire.send(100)
    assert len(arrived) == 100 + wire.counts["fault: duplication"] > 120
    assert set(arrived) == set(range(100))


def test_a_message_that_was_overtaken_counts():
    wire = Wire(Quality(reordering=0.3))
    arrived = wire.send(100)
    overtaken = sum(number < max(arrived[:place], default=-1) for place, number in enumerate(arrived))
    assert sorted(arrived) == list(range(100)) and wire.counts["fault: reordering"] == overtaken > 5


@pytest.mark.parametrize("direction", [("a", "b"), ("b", "a")])
def test_a_partition_cuts_both_directions_for_its_time(direction):
    wire = Wire(Quality())
    wire.network.partition([direction], 50 * MS)
    assert wire.send(100) == list(range(50, 100))
    assert wire.counts == {"fault: partition": 50}


def test_healing_mends_every_link():
    wire = Wire(Quality(loss=1.0))
    wire.network.partition([("a", "b")], 10**15)
    wire.network.heal()
    assert wire.send(5) == list(range(5))
