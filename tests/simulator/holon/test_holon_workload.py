"""Partitions that differ in everything that nodes without a root have to cope with."""

from collections import Counter
from random import Random

import numpy as np

from headwater.simulator.holon.workload import draw_holon_workload


def test_a_workload_is_a_function_of_its_seed():
    one, other = (draw_holon_workload(Random(5), 8) for _ in range(2))
    assert one.queries == other.queries
    assert [log.rows for log in one.logs.values()] == [log.rows for log in other.logs.values()]


def test_seeds_draw_every_kind_of_partition_and_window():
    drawn = [draw_holon_workload(Random(seed), 8) for seed in range(100)]
    features = Counter(feature for workload in drawn for feature in workload.features)
    kinds = ("Sliding", "Band", "Session", "Punctuated", "Between", "Custom", "CountWindow")
    assert not [kind for kind in kinds if not features[f"window {kind}"]]
    for what in ("is late to speak", "ends early", "falls silent", "never speaks"):
        assert features[f"a partition that {what}"]
    assert features["a gap in event time"] and features["idle"] and features["no idle"]
    assert {workload.disorder for workload in drawn} == {0, 4, 15}


def test_events_can_be_read_in_their_order():
    for seed in range(20):
        for log in draw_holon_workload(Random(seed), 4).logs.values():
            assert len(log.available_ns) == len(log)
            assert (np.diff(log.available_ns) >= 0).all()
