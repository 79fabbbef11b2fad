"""Schemes over real links: what is timed, and that what cannot be is refused."""

from dataclasses import replace

import numpy as np
import pytest

from headwater.bench.deco.links import LinkRate, check_rate, check_sums, logged, take_turns, warm_cluster
from headwater.bench.deco.throughput import latencies_ms, paced, provable_times
from headwater.bench.deco.workload import DecoWorkload
from headwater.bench.load.driver import LoadError

pytest.importorskip("zmq")

SMALL = DecoWorkload(leaves=2, window=20_000, windows=12, change=0.05)


@pytest.fixture(scope="module")
def events():
    with logged(SMALL) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(events):
    with warm_cluster(events, ("async", "central")) as warm:
        yield warm


def test_the_log_has_all_events_and_the_truth_all_windows(events):
    plan = events.plan("async")
    assert sum(leaf.sources[0].stop for leaf in plan.leaves) == SMALL.events
    assert len(events.truth) == SMALL.windows


def test_runs_take_turns_and_a_rate_is_that_of_the_whole_run(cluster, events):
    plans = {scheme: events.plan(scheme) for scheme in ("async", "central")}
    outcomes = take_turns(cluster, plans, events.truth, 2)
    for scheme, runs in outcomes.items():
        rate = LinkRate.of(scheme, runs)
        assert rate.best == max(run.events / run.wall_s for run in runs)
        assert rate.middle <= rate.best
    sent = {scheme: LinkRate.of(scheme, runs).total_bytes_per_event for scheme, runs in outcomes.items()}
    assert sent["async"] < sent["central"]


def test_a_run_that_would_be_faster_than_its_work_is_refused(cluster, events):
    outcome = cluster.run(events.plan("async"))
    check_rate(outcome, "async")
    soon = replace(outcome, finished_ns=outcome.begin_ns + 1000)
    with pytest.raises(LoadError, match="s of work in a run of"):
        check_rate(soon, "async")


def test_rows_of_other_windows_are_refused(cluster, events):
    rows = cluster.run(events.plan("async")).rows
    check_sums(rows, events.truth, "async")
    with pytest.raises(LoadError, match="of no true window"):
        check_sums(rows, replace(events.truth, members=events.truth.members + 1), "async")


def test_no_result_is_earlier_than_the_event_that_proves_it(cluster, events):
    rate = 200_000.0
    behind = provable_times(events)
    assert (behind > events.truth.last_times[: len(behind)]).all()
    late = latencies_ms(paced(cluster, events, "async", rate), behind, rate)
    assert len(late) and (np.asarray(late) > 0).all()
