"""Real processes and real links, on this machine."""

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from edge.streams import broken, doomed, made, together
from headwater.edge.cluster.cluster import Cluster, run
from headwater.edge.cluster.outcome import ClusterOutcome
from headwater.edge.cluster.plan import ClusterPlan, Leaf, Relay
from headwater.edge.errors import EdgeError
from headwater.edge.pace import Pace
from headwater.edge.sources import LogSource, MadeSource
from headwater.engine.results.shape import ResultShape
from headwater.logs import Log
from headwater.node import NodeSettings

pytest.importorskip("zmq")

TUMBLING = hw.query("time", hw.tumbling("1 s"), keys=["key"], n=hw.count(), total=hw.sum("value"))
COUNTED = hw.query("count", hw.count_tumbling(700), total=hw.sum("value"), middle=hw.median("value"))
EVENTS = 5000


def plan_of(*queries: hw.Query, leaves: int = 2, pace: Any = None, **settings: Any) -> ClusterPlan:
    sources = [MadeSource(f"s{n}", made, (n, leaves, EVENTS), pace=pace) for n in range(leaves)]
    return ClusterPlan(queries, tuple(Leaf(f"leaf-{n}", (source,)) for n, source in enumerate(sources)), **settings)


def as_set(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def assert_right(outcome: ClusterOutcome, *queries: hw.Query, leaves: int = 2) -> None:
    """The rows are those of one machine that saw all events."""
    shape = ResultShape.of(queries, pa.int64(), "us", is_stream=False)
    assert as_set(shape.rows(outcome.rows)) == as_set(hw.run(together(leaves, EVENTS), queries).table)
    assert outcome.events == leaves * EVENTS


def test_two_leaves_and_a_root_say_what_one_machine_says():
    outcome = run(plan_of(TUMBLING, COUNTED))
    assert_right(outcome, TUMBLING, COUNTED)
    for name in ("leaf-0", "leaf-1"):
        leaf = outcome.nodes[name]
        assert leaf.events == EVENTS
        assert leaf.up.bytes > leaf.down.bytes > 0
        assert leaf.up.wire_bytes > leaf.up.bytes
        assert leaf.cpu_s > 0 and leaf.work_s > 0
    assert outcome.begin_ns < outcome.emissions[0].emitted_ns <= outcome.finished_ns
    assert outcome.root.cpu_s > 0 and outcome.root.up.frames == 0


def test_leaves_in_one_process_behind_relays_say_what_one_machine_says():
    plan = plan_of(TUMBLING, leaves=4, leaves_per_process=4, relays=(Relay("relay-0"), Relay("relay-1", "relay-0")))
    parents = ("relay-0", "relay-1", "relay-1", "root")
    leaves = tuple(Leaf(leaf.name, leaf.sources, parent) for leaf, parent in zip(plan.leaves, parents))
    outcome = run(ClusterPlan(plan.queries, leaves, plan.relays, leaves_per_process=4))
    assert_right(outcome, TUMBLING, leaves=4)
    assert all(node.up.bytes > 0 for name, node in outcome.nodes.items() if name != "root")


def test_windows_that_markers_cut_need_round_trips_and_end_by_themselves():
    marked = hw.query("marked", hw.punctuated(hw.col("value") > 2), n=hw.count(), total=hw.sum("value"))
    outcome = run(plan_of(marked, leaves_per_process=2))
    assert_right(outcome, marked)


def test_a_link_carries_no_more_than_its_rate():
    rate = 2_000_000
    outcome = run(plan_of(COUNTED, leaves_per_process=2, bits_per_s=rate, warm_up_events=1000))
    assert_right(outcome, COUNTED)
    for leaf in (outcome.nodes["leaf-0"], outcome.nodes["leaf-1"]):
        # Its raw events: time and value, 16 bytes each if nothing is saved; no more than twice that was sent.
        assert EVENTS * 4 < leaf.up.bytes < EVENTS * 32
        assert outcome.wall_s >= leaf.up.wire_bytes * 8 / rate * 0.9  # what is sent once everything is out is in it too
        assert leaf.queued_bytes_max > 0


def test_no_result_comes_before_its_events_were_due():
    settings = NodeSettings(is_recorded=False, linger_ns=5_000_000)
    pace = Pace(0, 10_000_000)  # ten seconds of event time in one
    plan = plan_of(TUMBLING, pace=pace, leaf_settings=settings, root_settings={"disorder": 0}, leaves_per_process=2)
    outcome = run(plan)
    assert_right(outcome, TUMBLING)
    last_due_s = (2 * EVENTS - 1) / 10_000
    assert outcome.wall_s >= last_due_s
    ends_us = np.asarray(outcome.rows.column("window_end").cast(pa.int64()))[:-3]
    # A window cannot come out before an event behind it was due, which is one at its end.
    assert (outcome.row_emitted_ns[:-3] >= outcome.begin_ns + ends_us * 100).all()


def test_partitions_of_a_log_are_sources_too(tmp_path):
    log = Log.create(tmp_path / "log", partition_count=2)
    for partition in range(2):
        with log.writer(partition) as writer:
            for batch in made(partition, 2, EVENTS):
                writer.append(batch)
    sources = [LogSource(f"s{n}", tmp_path / "log", n, in_memory=n == 1) for n in range(2)]
    outcome = run(ClusterPlan((TUMBLING,), (Leaf("both", tuple(sources)),), events_max=300))
    assert_right(outcome, TUMBLING)


def test_processes_serve_for_one_run_after_another():
    plan = plan_of(TUMBLING, leaves_per_process=2)
    with Cluster(plan) as cluster:
        pids = [worker.pid for worker in cluster.workers]
        first, second = cluster.run(plan), cluster.run(plan_of(COUNTED, leaves_per_process=2))
        assert [worker.pid for worker in cluster.workers] == pids
    assert_right(first, TUMBLING)
    assert_right(second, COUNTED)
    assert not any(is_running(pid) for pid in pids)


def test_a_root_that_is_killed_goes_on_from_its_journal():
    settings = NodeSettings(is_recorded=False, linger_ns=10_000_000, resend_ns=200_000_000, checkpoint_every=20)
    plan = plan_of(
        TUMBLING,
        pace=Pace(0, 5_000_000),
        leaf_settings=settings,
        root_settings={"disorder": 0},
        leaves_per_process=2,
        restart_root_s=1.0,
    )
    outcome = run(plan)
    assert_right(outcome, TUMBLING)
    assert outcome.killed_ns is not None and outcome.restarted_ns is not None
    moments = [emission.emitted_ns for emission in outcome.emissions]
    # Where processors are busy, nothing may have come out before the root was killed.
    assert outcome.killed_ns < outcome.restarted_ns < moments[-1]
    assert [emission.step for emission in outcome.emissions] == list(range(1, len(moments) + 1))


# --- what goes wrong ---


def is_running(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def failing(source: MadeSource, **settings: Any) -> tuple[str, list[int]]:
    """The message of a run with a leaf that has this source, and the processes that were there."""
    good = MadeSource("good", made, (0, 2, EVENTS), pace=Pace(0, 2_000_000))
    plan = ClusterPlan((TUMBLING,), (Leaf("good", (good,)), Leaf("bad", (source,))), **settings)
    with Cluster(plan) as cluster:
        pids = [worker.pid for worker in cluster.workers]
        with pytest.raises(EdgeError) as caught:
            cluster.run(plan)
    assert not any(map(is_running, pids))
    return str(caught.value), pids


@pytest.mark.parametrize("seconds", [0.0, 1.5])
def test_a_leaf_that_is_killed_ends_the_run_and_is_named(seconds):
    message, pids = failing(MadeSource("s", doomed, (seconds, 1, 2, EVENTS), pace=Pace(0, 2_000_000)))
    assert f"node 'bad': process {pids[-1]} died by SIGKILL" in message


def test_a_source_that_cannot_be_opened_names_its_node_and_the_reason():
    message, _ = failing(MadeSource("s", broken))
    assert "node 'bad' failed: ValueError: the sensor is broken" in message


def test_a_query_that_does_not_fit_the_events_ends_the_run():
    wrong = hw.query("wrong", hw.tumbling("1 s"), total=hw.sum("pressure"))
    with pytest.raises(EdgeError, match=r"node 'leaf-\d' has stopped: it was refused.*pressure"):
        run(plan_of(wrong, leaves_per_process=2))


def test_a_run_that_does_not_end_in_time_says_who_is_missing():
    with pytest.raises(EdgeError, match=r"time limit is over: .*'leaf-0', 'leaf-1'.* did not"):
        run(plan_of(TUMBLING, pace=Pace(0, 2_000), leaves_per_process=2, limit_s=4))


def test_a_cluster_only_runs_plans_with_its_nodes():
    with Cluster(plan_of(TUMBLING, leaves_per_process=2)) as cluster, pytest.raises(EdgeError, match="other processes"):
        cluster.run(plan_of(TUMBLING))
