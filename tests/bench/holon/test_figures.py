"""The benchmark of nodes without a coordinator measures what it says: all events and windows are there before times are."""

import io
import json

import pyarrow as pa
import pytest

from headwater.bench.common.report import Report
from headwater.bench.common.workload import SECOND
from headwater.bench.holon import gaps, rates, shares, tops
from headwater.bench.holon.figures import PARTS, run
from headwater.bench.holon.timing import medians, turns

SMALL = 200_000


def test_the_leaf_and_the_runner_read_the_same_and_a_delta_comes_for_each_second():
    batches = rates.stream(SMALL)
    table = rates.declared_table(batches[0].schema)
    assert rates.leaf_reads(table, batches) == rates.leaf_reads(table, batches, writes=True) == SMALL
    seconds = batches[-1]["time"][-1].as_py() // SECOND
    assert rates.runner_reads(table, batches) == 1 + seconds >= 3


@pytest.mark.parametrize("function", [rates.EurosOfBids, rates.EachBid])
def test_a_function_gives_a_row_for_each_second_that_is_over(function):
    batches = rates.stream(SMALL // 2)
    assert rates.program_reads(function, batches) == batches[-1]["time"][-1].as_py() // SECOND


def test_deltas_of_a_map_are_a_small_part_of_it():
    whole, deltas, world = shares.map_bytes(3)
    assert len(deltas) == 3
    assert 0 < max(deltas) < whole / 20 < whole < world


def test_what_nodes_send_each_other_is_a_small_part_of_the_events():
    sent, event_bytes = shares.gossip_bytes(1)
    assert 0 < sent < event_bytes / 10


def test_a_gap_is_got_over_only_if_all_windows_before_it_came_out():
    assert gaps.gap_seconds() > 0


def test_best_prices_that_differ_are_refused():
    polars = pytest.importorskip("polars")
    table = tops.table_of(SMALL // 10)
    ours = tops.best_of_each(table, SMALL // 10 // 10_000)
    theirs = tops.peers_best(polars.DataFrame(polars.from_arrow(table)).lazy(), SMALL // 10 // 10_000)
    tops.check_rows(ours, theirs)
    with pytest.raises(RuntimeError, match="Polars has other best prices of 999 keys than headwater of 1000"):
        tops.check_rows(ours, theirs.head(999))


def test_medians_are_of_runs_that_take_turns():
    done: list[str] = []
    assert len(medians([lambda: done.append("a"), lambda: done.append("b")], repeats=2)) == 2
    assert done == ["a", "b", "a", "b", "a", "b"]
    assert turns(Report("holon", quick=True)) < turns(Report("holon"))


def test_figures_are_lines_of_json_and_those_that_must_be_reached_have_bounds(monkeypatch):
    pytest.importorskip("polars")
    for module, name, size in ((rates, "EVENTS", SMALL), (rates, "EVENTS_ONE_BY_ONE", SMALL), (tops, "EVENTS", SMALL)):
        monkeypatch.setattr(module, name, size * 10)
    out = io.StringIO()
    report = Report("holon", quick=True, as_json=True, out=out)
    threads = pa.cpu_count()
    run(report, "core")
    assert pa.cpu_count() == threads
    names = [json.loads(line)["figure"] for line in out.getvalue().splitlines()]
    assert names == [figure.name for figure in report.figures]
    bounded = {figure.name for figure in report.figures if figure.bound is not None}
    assert bounded == {
        "runner_ratio", "batch_rate", "event_rate", "delta_share", "gossip_share", "top_vs_polars", "year_gap_ms",
    }  # fmt: skip
    assert list(PARTS) == ["core"]
