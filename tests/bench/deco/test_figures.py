"""The benchmark of count windows measures what it says: schemes are compared over the same events, and rows before times."""

import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from headwater.bench.common.report import Report
from headwater.bench.deco.network import MEASURED, bytes_shares, network, runs_of
from headwater.bench.deco.papers import TITLES, points
from headwater.bench.deco.points import CountPoint, check_point, correctness
from headwater.bench.deco.root import BELOW_RELAY, root_cost
from headwater.bench.deco.run import run_together
from headwater.bench.deco.schemes import EXACT, FRUGAL, SCHEMES, plain_query
from headwater.bench.deco.sweep import SweepBench, approx_share, measured
from headwater.bench.deco.throughput import LinkBench
from headwater.bench.deco.truth import right_sums, true_windows
from headwater.bench.deco.workload import PLAIN, DecoWorkload

SMALL = DecoWorkload(leaves=3, window=2_000, windows=12, change=0.1)


def quiet() -> Report:
    return Report("deco", quick=True, as_json=True, out=io.StringIO())


@pytest.mark.parametrize("at_once", [1, 3])
def test_every_exact_scheme_has_all_windows_however_much_is_read_at_once(at_once):
    query = plain_query(SMALL.window)
    runs, truth = run_together(SMALL, query, (*EXACT, FRUGAL), PLAIN, at_once), true_windows(SMALL)
    assert len(truth) == 12
    for scheme, run in runs.items():
        assert right_sums(run.rows, truth).all(), scheme


def test_wrong_sums_are_seen():
    truth = true_windows(SMALL)
    rows = run_together(SMALL, plain_query(SMALL.window), ["auto"], PLAIN)["auto"].rows
    values = rows["value"].to_numpy().copy()
    values[4] = np.nextafter(values[4], 9)
    changed = rows.set_column(rows.column_names.index("value"), "value", pa.array(values))
    assert np.flatnonzero(~right_sums(changed, truth)).tolist() == [4]
    assert not right_sums(rows.slice(1), truth)[0]


def test_windows_that_warm_up_are_in_neither_work_nor_events():
    query = plain_query(SMALL.window)
    whole = run_together(SMALL, query, ["auto"], PLAIN)["auto"]
    part = run_together(SMALL, query, ["auto"], PLAIN, warm_windows=6)["auto"]
    assert whole.events == SMALL.events
    assert 0 < part.events <= SMALL.events - 6 * SMALL.window
    assert part.rows.equals(whole.rows)


def test_a_point_is_checked_for_all_schemes():
    found = check_point(CountPoint(0.5, 1_000, 2), seed=1, is_quick=True)
    assert [each.scheme for each in found] == list(SCHEMES)
    assert all(each.right == each.windows for each in found if each.scheme in EXACT)


def test_correctness_counts_all_windows_of_all_points():
    report = quiet()
    correctness(report, [CountPoint(0.01, 1_000, 1), CountPoint(1.0, 1_000, 2)], processes=1)
    assert (report.figures[-1].name, report.figures[-1].value) == ("correct_share", 1.0)
    assert f"{2 * 3 * len(EXACT)} windows" in report.figures[-1].note


def test_bytes_are_compared_with_the_lesser_of_two_centrals():
    runs = runs_of(SMALL, ("central", "async"))
    shares = bytes_shares(runs, SMALL)
    assert shares["central"] >= 1  # its own frames are no smaller than plain batches
    assert shares["async"] < shares["central"]


def test_network_figures_are_there_for_all_schemes():
    report = quiet()
    network(report, SMALL)
    names = {figure.name for figure in report.figures}
    for scheme in MEASURED:
        kinds = ("network", "flows_up", "flows_down", "raw_events", "held_events")
        assert {f"{kind}_{scheme}" for kind in kinds} <= names
    assert "corrections_auto" in names
    assert isinstance(report.out, io.StringIO)
    assert all(json.loads(line)["bench"] == "deco" for line in report.out.getvalue().splitlines())


def test_the_root_is_measured_with_relays_only_if_there_are_several():
    few = root_cost(replace(SMALL, windows=6))
    many = root_cost(DecoWorkload(leaves=BELOW_RELAY + 1, window=40_000, windows=4))
    assert few.relays == 0 and few.best_ms == few.direct_ms > 0
    assert many.relays == 2 and many.relayed_ms > 0 and many.relay_ms > 0
    assert "behind 2 relays" in str(many)


def test_approx_is_right_while_nothing_changes():
    shares = [approx_share(true_windows(replace(SMALL, change=change))) for change in (0.0, 0.1, 1.0)]
    assert shares[0] > 0.99
    assert shares == sorted(shares, reverse=True)


def test_a_cell_compares_auto_with_the_best_that_is_right():
    cell = measured(SMALL, warm=2, repeats=1)
    assert cell.exact_right == 1
    assert cell.best in EXACT
    assert 0 < cell.auto_share <= 1


def test_every_point_has_a_title():
    report = quiet()
    sweep = SweepBench(report)
    for change in (0.01, 0.5):
        sweep.cells[change, SMALL.window, 8] = measured(SMALL, warm=2, repeats=1)
    made = points(LinkBench(report), sweep, runs_of(SMALL, ("auto",)))
    assert {point.experiment for point in made} <= set(TITLES)
    assert {"deco_8", "deco_9", "deco_10_change", "deco_10_unstable", "costs"} <= {point.experiment for point in made}
