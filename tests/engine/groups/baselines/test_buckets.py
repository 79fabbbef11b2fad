"""The papers' baselines say what the reference says; what tells them apart is the work that they do for it."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from agreement import assert_agreement
from headwater.cases.hosts import EngineHost
from headwater.engine.groups import shared as group
from headwater.engine.modes import MODES
from strategies import EXACT, Scenario, aggregations, queries, scenarios, windows

BASELINES = ("cebuffer", "debucket", "scotty")
OVERLAPPING = ("sliding", "count_sliding")


@pytest.mark.parametrize("mode", BASELINES)
@given(scenario=scenarios())
def test_every_mode_says_what_the_reference_says(mode: str, scenario: Scenario) -> None:
    assert_agreement(scenario, EngineHost(mode))


@given(scenario=scenarios(queries(kinds=OVERLAPPING)))
def test_buckets_say_what_the_reference_says_where_windows_overlap(scenario: Scenario) -> None:
    assert_agreement(scenario, EngineHost("debucket"))


@given(scenario=scenarios(queries(kinds=("sliding",))))
def test_every_mode_says_what_the_reference_says_when_keys_are_forgotten_early_and_often(scenario: Scenario) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group, "KEYS_KEPT", 1)
        assert_agreement(scenario, EngineHost("debucket"))


class Restarted(EngineHost):
    """A host that goes on from a snapshot at every step."""

    def changed(self, engine: Any, index: int) -> Any:
        return hw.Engine.restore(engine.snapshot())


#: Users' code is restored by its import path, which code that is written in a test does not have.
PLAIN = {name: strategy for name, strategy in EXACT.items() if name != "user"}


@pytest.mark.parametrize("mode", BASELINES)
@given(scenario=scenarios(queries(aggregates=PLAIN), steps_max=8))
def test_every_mode_goes_on_from_a_snapshot_as_if_never_stopped(mode: str, scenario: Scenario) -> None:
    assert_agreement(scenario, Restarted(mode))


@st.composite
def alike(draw: st.DrawFn) -> Scenario:
    """Queries of very few windows and keys: many results are made of the same partials."""
    few = draw(st.lists(windows(("tumbling", "sliding", "count_tumbling", "punctuated")), min_size=1, max_size=2))
    keys = draw(st.sampled_from([(), ("k",)]))
    chosen = st.builds(
        lambda window, aggregate: hw.query("q", window, keys=keys, v=aggregate),
        st.sampled_from(few),
        aggregations(EXACT),
    )
    return draw(scenarios(chosen, query_count_max=8))


@given(alike())
def test_queries_of_the_same_windows_share_results_too(scenario: Scenario) -> None:
    assert_agreement(scenario)


# --- the work ---

#: Ten seconds of a hundred events each, in seconds and hundredths.
EVENTS = pa.table({"time": list(range(1000)), "key": [t % 4 for t in range(1000)], "x": [t * 0.5 for t in range(1000)]})


def work(asked: list[hw.Query], mode: str, batch_size: int = 130) -> dict[str, int]:
    engine = hw.Engine(asked, mode=mode)
    for batch in EVENTS.to_batches(batch_size):
        engine.push(batch)
        engine.advance(batch["time"][-1].as_py())
    engine.flush()
    return engine.statistics


def keyed(name: str, window: Any, **aggregates: Any) -> hw.Query:
    return hw.query(name, window, keys=["key"], **aggregates)


TUMBLING = [keyed(f"q{i}", hw.tumbling(100 * (i % 5 + 1)), avg=hw.avg("x")) for i in range(20)]
FUNCTIONS = [keyed(f"q{i}", hw.tumbling(100), **{f"v{i}": (hw.avg, hw.sum, hw.max)[i % 3]("x")}) for i in range(6)]
QUANTILES = [keyed(f"q{i}", hw.tumbling(100), v=hw.quantile("x", i / 20)) for i in range(20)]
SLIDING = [keyed(f"q{i}", hw.sliding(100 * (i + 1), 40), v=hw.max("x")) for i in range(5)]
MEASURES = [keyed("time", hw.tumbling(100), n=hw.sum("x")), keyed("count", hw.count_tumbling(50), n=hw.sum("x"))]


@pytest.mark.parametrize("asked", [TUMBLING, FUNCTIONS, QUANTILES, SLIDING, MEASURES])
def test_the_more_is_shared_the_fewer_calculations(asked: list[hw.Query]) -> None:
    counts = {mode: work(asked, mode)["calculations"] for mode in MODES}
    assert counts["desis"] <= counts["scotty"] <= counts["debucket"] == counts["cebuffer"]
    assert counts["desis"] < counts["debucket"]


def test_calculations_are_executions_of_an_operator_on_an_event() -> None:
    # Counting events is an operator too: every result says how many there were.
    assert work(QUANTILES, "desis")["calculations"] == 1000 * 2
    assert work(QUANTILES, "scotty")["calculations"] == 20 * 1000 * 2
    assert work(QUANTILES, "debucket")["calculations"] == 20 * 1000 * 2
    assert work(TUMBLING, "scotty")["calculations"] == work(TUMBLING, "desis")["calculations"] == 1000 * 3
    # Sliding by 50, every event is in two windows of 100.
    assert work([keyed("q", hw.sliding(100, 50), v=hw.max("x"))], "debucket")["calculations"] == 2 * 1000 * 2


@pytest.mark.parametrize("batch_size", [1000, 130, 7])
def test_slices_are_counted_once_whatever_the_batches(batch_size: int) -> None:
    windows_in_all = sum(-(-1000 // (100 * (i % 5 + 1))) for i in range(20))
    slices = {mode: work(TUMBLING, mode, batch_size)["slices"] for mode in MODES}
    assert slices == {"desis": 10, "scotty": 10, "debucket": windows_in_all, "cebuffer": windows_in_all}


@pytest.mark.parametrize("batch_size", [1000, 130, 7])
def test_what_lies_between_windows_is_no_slice(batch_size: int) -> None:
    """Sliding(100, 30) is four queries of windows 100 long and 120 apart; no event goes through a window it is not in."""
    done = work([keyed("q", hw.sliding(100, 30), v=hw.max("x"))], "debucket", batch_size)
    in_windows = [len(range(max(start, 0), min(start + 100, 1000))) for start in range(-90, 1000, 30)]
    assert done["slices"] == len(in_windows)
    assert done["calculations"] == 2 * sum(in_windows)


def test_buffers_hold_no_more_than_open_windows() -> None:
    engine = hw.Engine(
        [keyed("q", hw.tumbling(100), v=hw.max("x")), keyed("c", hw.count_tumbling(50), n=hw.count())], mode="cebuffer"
    )
    held = []
    for batch in EVENTS.to_batches(25):
        engine.push(batch)
        engine.advance(batch["time"][-1].as_py() + 1)
        held.append(engine.statistics["rows"])
    assert max(held) <= 100 + 50
    assert held[-1] == 0
