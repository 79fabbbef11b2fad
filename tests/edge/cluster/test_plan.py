from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from edge.streams import made
from headwater.edge.cluster.outcome import ClusterOutcome, Emission, NodeOutcome
from headwater.edge.cluster.plan import ClusterPlan, Leaf, Relay
from headwater.edge.errors import EdgeError
from headwater.edge.pace import Pace
from headwater.edge.sources import MadeSource

QUERY = hw.query("n", hw.tumbling("1 s"), n=hw.count())
LEAVES = tuple(Leaf(f"l{n}", (MadeSource(f"s{n}", made, (n, 3, 10), pace=Pace(0, 5)),)) for n in range(3))
PLAN = ClusterPlan((QUERY,), LEAVES)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"leaves": ()}, "without leaves"),
        ({"leaves": (*LEAVES, LEAVES[0])}, "two nodes are called 'l0'"),
        ({"leaves": (*LEAVES, replace(LEAVES[0], name="x"))}, "two sources are called 's0'"),
        ({"leaves": (replace(LEAVES[0], name="root"),)}, "two nodes are called 'root'"),
        ({"leaves": (replace(LEAVES[0], parent="l1"), LEAVES[1])}, "parent 'l1' is no relay"),
        ({"relays": (Relay("r", "r"),)}, "parent 'r' is no relay"),
        ({"leaves_per_process": 0}, "1 at least"),
    ],
)
def test_what_cannot_be_run_is_refused(change, words):
    with pytest.raises(EdgeError, match=words):
        replace(PLAN, **change).check()


def test_a_plan_as_it_should_be():
    plan = replace(
        PLAN, relays=(Relay("r"),), leaves=(replace(LEAVES[0], parent="r"), *LEAVES[1:]), leaves_per_process=2
    )
    plan.check()
    assert plan.groups == [("root",), ("r",), ("l0", "l1"), ("l2",)]
    assert plan.parents == {"r": "root", "l0": "r", "l1": "root", "l2": "root"}
    assert plan.only(("l2",)).parents == {"r": "root", "l2": "root"}


def test_processors_of_leaves_that_share_a_process_add_up():
    plan = replace(PLAN, leaf_cpus=0.25, leaves_per_process=2)
    assert [plan.cpus_of(group) for group in plan.groups] == [None, 0.5, 0.25]


def test_a_warm_up_has_few_events_and_no_bounds():
    warm_up = replace(PLAN, warm_up_events=4, bits_per_s=1.0, leaf_cpus=1.0).warm_up()
    source = warm_up.leaves[0].sources[0]
    assert (source.stop, source.pace, source.open().end) == (4, None, 4)
    assert (warm_up.bits_per_s, warm_up.leaf_cpus, warm_up.warm_up_events) == (None, None, 0)


def test_every_row_has_the_moment_it_came_out():
    emissions = (Emission(1, 50, pa.table({"n": [1, 2]})), Emission(2, 70, pa.table({"n": [3]})))
    outcome = ClusterOutcome(emissions, None, 10, 10**9 + 10, {"root": NodeOutcome("root", 0.5, 0.4)})
    assert outcome.rows.column("n").to_pylist() == [1, 2, 3]
    assert np.array_equal(outcome.row_emitted_ns, [50, 50, 70])
    assert outcome.wall_s == 1.0
