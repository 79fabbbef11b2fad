"""What nodes tell each other grows with their number as a line does (figure 9 of the paper on Holon)."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.node.holon.settings import HolonSettings
from headwater.simulator.holon.run import HolonRun
from headwater.simulator.holon.workload import HolonWorkload
from headwater.simulator.workloads.streams import SourceLog
from headwater.simulator.workloads.workload import TICK_NS

PARTITIONS, TICKS, EVERY = 10, 100, 20


def steady() -> HolonWorkload:
    """Every partition has an event with each tick; the steps are those of the windows."""
    dice = Random(1)
    logs = {}
    for name in (f"p{number}" for number in range(PARTITIONS)):
        batch = pa.record_batch({"time": list(range(TICKS)), "i": [dice.randint(0, 9) for _ in range(TICKS)]})
        logs[name] = SourceLog(name, name, batch, np.arange(TICKS) * TICK_NS)
    query = hw.query("q", hw.tumbling(EVERY), n=hw.count())
    return HolonWorkload((query,), logs, 0, EVERY, None, False, frozenset())


def frames(nodes: int) -> tuple[float, float]:
    """Frames and bytes per step and node, where nothing goes wrong."""
    run = HolonRun([f"n{number}" for number in range(nodes)], steady(), HolonSettings())
    run.world.cuts_batches = False
    run.play()
    steps = TICKS // EVERY
    return run.world.network.message_count / steps / nodes, run.world.network.byte_count / steps / nodes


def test_frames_per_step_and_node_grow_with_the_number_of_nodes_as_a_line_does():
    few, some, more = frames(5), frames(10), frames(20)
    for kind in range(2):
        # From 5 to 20 nodes the slope stays about what it was, though others have more to tell.
        first, second = (some[kind] - few[kind]) / 5, (more[kind] - some[kind]) / 10
        assert 0.5 * first < second < 1.5 * first


@pytest.mark.slow  # a hundred nodes tell each of the others where they stand, some 400,000 times
def test_frames_per_step_and_node_grow_as_a_line_up_to_a_hundred_nodes():
    counts = {nodes: frames(nodes)[0] for nodes in (10, 50, 100)}
    first, second = (counts[50] - counts[10]) / 40, (counts[100] - counts[50]) / 50
    assert 0.5 * first < second < 1.5 * first
