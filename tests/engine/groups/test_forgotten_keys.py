"""Streams have new keys for ever: those that nothing refers to any more are forgotten, and no row changes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import headwater as hw
from agreement import assert_agreement
from headwater.engine.groups import shared as group
from strategies import Scenario, queries, scenarios

QUERIES = {
    "time": [
        hw.query("slide", hw.sliding(500, 100), total=hw.sum("v"), keys=["k"], lateness=50),
        hw.query("session", hw.session(60), total=hw.sum("v"), keys=["k"], lateness=30),
    ],
    "positions": [
        hw.query("count", hw.count_tumbling(30), total=hw.sum("v"), keys=["k"]),
        hw.query("slide", hw.count_sliding(20, 15), total=hw.sum("v"), keys=["k"]),
        hw.query("time", hw.tumbling(100), total=hw.sum("v"), keys=["k"], lateness=50),
    ],
}


def visitors(count: int) -> pa.Table:
    """Events of keys that come, stay a while and mostly never return, with some disorder."""
    rng = np.random.default_rng(1)
    returning = rng.random(count) < 0.1
    key = np.where(returning, rng.integers(0, count // 40, count), np.arange(count) // 40)
    times = np.arange(count) * 10 + rng.integers(-50, 50, count)
    return pa.table({"time": times, "k": [f"k{number}" for number in key], "v": rng.standard_normal(count)})


def rows_and_keys(events: pa.Table, asked: list[hw.Query]) -> tuple[list[dict], int]:
    engine = hw.Engine(asked, disorder=20)
    for batch in events.to_batches(max_chunksize=25):
        engine.push(batch)
    known = max(len(family.group.keys) for family in engine._state.registry.families.values())
    engine.flush()
    return engine.results().table.to_pylist(), known


@pytest.mark.parametrize("windows", QUERIES)
def test_forgetting_keys_changes_no_row(windows: str, monkeypatch: pytest.MonkeyPatch):
    events = visitors(20_000)
    rows, all_keys = rows_and_keys(events, QUERIES[windows])
    monkeypatch.setattr(group, "KEYS_KEPT", 8)
    rows_then, known = rows_and_keys(events, QUERIES[windows])
    assert rows_then == rows
    assert known < all_keys / 2


@given(scenarios(queries(kinds=("tumbling", "sliding", "session", "count_tumbling", "count_sliding"))))
def test_forgetting_early_and_often_agrees_with_the_reference(scenario: Scenario):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group, "KEYS_KEPT", 1)
        assert_agreement(scenario)
