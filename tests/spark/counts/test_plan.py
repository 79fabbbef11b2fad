"""Count windows by selection, stage by stage without Spark: the rows of the reference, whoever reads which file."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.language.windows import CountWindow
from headwater.spark.batch.plan import plan_queries
from headwater.spark.counts import carry_events, find_cuts
from headwater.spark.counts.exchange import received
from headwater.spark.counts.plan import (
    SelectionLimits,
    can_be_selected,
    every_if_carried,
    groups,
    shared_cuts,
)
from headwater.spark.native.positions import FIRST, LAST, TIME, over_positions
from headwater.spark.read import query_rows
from spark.answers import assert_same, closed_rows, expected, found, shuffled, write
from spark.batch.test_tasks import renamed, some_files
from strategies import SCHEMA, queries


@st.composite
def counted(draw):
    """Some count windows over all events, none of which depends on the order within a window."""
    drawn = draw(
        st.lists(queries(kinds=("count_tumbling", "count_sliding"), scopes=("global",)), min_size=1, max_size=3)
    )
    listed = renamed([replace(query, distinct=None) for query in drawn])
    return [query for query in listed if isinstance(query.window, CountWindow) and query.window.per == "all"]


#: However small files are.
ALWAYS = SelectionLimits(small_bytes=0)


def run(stage, shared, given_):
    """The notes of a stage, each with whom it is for."""
    return [note for batch in stage(shared, given_) for note in received([batch])]


def for_task(notes, task):
    return [note for note in notes if note[0] == task]


def frames_by_cuts(shared, tasks):
    """What roots get when keys near cuts travel."""
    samples = [note for task in tasks for note in run(find_cuts.sample, shared, [(task, None)])]
    zones = run(find_cuts.zone, shared, samples)
    keys = [note for task in tasks for note in run(find_cuts.keys, shared, for_task(zones, task))]
    owners = range(shared.owners)
    cuts = [note for number in owners for note in run(find_cuts.cut_zones, shared, for_task(keys, number))]
    return [batch for task in tasks for batch in find_cuts.leaves(shared, for_task(cuts, task))]


def frames_with_zones(shared, tasks):
    """What roots get when the events near cuts travel."""
    samples = [note for task in tasks for note in run(carry_events.sample, shared, [(task, None)])]
    sent = [batch for task in tasks for batch in carry_events.leaves(shared, for_task(samples, task))]
    by_bucket = shuffled(pa.Table.from_batches(sent)).sort_by("bucket").combine_chunks().to_batches(max_chunksize=2)
    return list(carry_events.settled(shared, by_bucket))


@pytest.mark.parametrize("frames_of", [frames_by_cuts, frames_with_zones])
@settings(max_examples=60)
@given(data=st.data())
def test_selected_windows_are_those_of_the_reference(frames_of, data):
    asked = data.draw(counted())
    events = data.draw(some_files())
    limits = SelectionLimits(small_bytes=0, step_min=1)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), events, SCHEMA)
        plan = plan_queries(folder, asked, None, data.draw(st.integers(1, 4)), True) if asked else None
        chosen = [query for query in asked if can_be_selected(query, plan, limits)]
        rows = []
        for group in groups(chosen):
            cores, every = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
            told, root = shared_cuts(plan, group, "time", "us", cores, every)
            over = [over_positions(query) for query in group]
            frames = frames_of(told, range(len(plan.tasks)))
            rows += full_windows(closed_rows(root, frames, over, told.roots))
        assert_same(expected(events, chosen), rows)


def full_windows(rows):
    """What Spark does with rows over positions: only full windows, with their first and last time."""
    windows = {}
    for row in rows:
        windows.setdefault((row.query, row.start, row.end), []).append(row)
    for (_, start, end), alike in windows.items():
        if sum(row.event_count for row in alike) == end - start:
            first, last = min(row.values[FIRST] for row in alike), max(row.values[LAST] for row in alike)
            for row in alike:
                values = {name: value for name, value in row.values.items() if name not in (FIRST, LAST)}
                yield row._replace(values=values, first_time=first, last_time=last)


@pytest.mark.spark
@pytest.mark.parametrize("carried", [{"carried_max": 0}, {"share": 1}])
@pytest.mark.parametrize("fan_in", [1, 32])
def test_selection_on_spark(spark, tmp_path, carried, fan_in):
    limits = SelectionLimits(small_bytes=0, fan_in=fan_in, **carried)
    rng = np.random.default_rng(5)
    schema = pa.schema([("time", pa.int64()), ("k", pa.string()), ("x", pa.float64())])
    columns = (
        rng.integers(0, 2000, 3000).tolist(),
        rng.choice(["u", "v"], 3000).tolist(),
        rng.normal(size=3000).tolist(),
    )
    rows = [{"time": t, "k": k, "x": x} for t, k, x in zip(*columns)]
    events = {f"{i}.parquet": rows[i::3] for i in range(3)}
    asked = [
        hw.query("all", hw.count_tumbling(500), total=hw.sum("x"), mid=hw.median("x")),
        hw.query("some", hw.count_sliding(300, 100), where=hw.col("x") > 0, keys=["k"], n=hw.count()),
        hw.query("order", hw.count_tumbling(700), first=hw.first("x")),
        hw.query("own", hw.count_tumbling(200, per="key"), keys=["k"], most=hw.max("x")),
        hw.query("time", hw.tumbling(300), least=hw.min("x")),
    ]
    folder = write(tmp_path, events, schema)
    rows = query_rows(spark, asked, lambda some: plan_queries(folder, some, None, 2, True), limits=limits)
    assert_same(expected(events, asked), found(rows, asked))


def test_files_of_different_types_are_not_selected_from(tmp_path):
    """A value that does not fit the wider type makes its event malformed, and so no member of any count window."""
    values = {"a": pa.array([0.5] * 10), "b": pa.array([2**53 + 1] + [1] * 9)}
    for name, column in values.items():
        pq.write_table(pa.table({"time": range(10), "v": column}), tmp_path / f"{name}.parquet")
    query = hw.query("five", hw.count_tumbling(16), n=hw.count(), most=hw.max("v"))
    plan = plan_queries(tmp_path, [query], None, 2, True)
    assert not can_be_selected(query, plan, ALWAYS)
    alone = plan_queries(tmp_path / "a.parquet", [query], None, 2, True)
    assert can_be_selected(query, alone, ALWAYS)


def test_cuts_that_lie_close_together_are_not_selected(tmp_path):
    pq.write_table(pa.table({"time": range(10)}), tmp_path / "a.parquet")
    wide, close = (hw.query("n", hw.count_sliding(1000, step), n=hw.count()) for step in (500, 999))
    plan = plan_queries(tmp_path, [wide], None, 1, True)
    assert can_be_selected(wide, plan, ALWAYS)
    assert not can_be_selected(close, plan, ALWAYS)


def test_events_travel_only_if_zones_are_sure_to_hold_few(tmp_path):
    rng = np.random.default_rng(1)
    for name in "ab":
        times = rng.integers(0, 1000, 40_000)  # in any order, and many of one time
        pq.write_table(pa.table({"time": times}), tmp_path / f"{name}.parquet", row_group_size=10_000)
    query = hw.query("n", hw.count_tumbling(16_000), n=hw.count())
    plan = plan_queries(tmp_path, [query], None, 2, True)
    limits = SelectionLimits()
    every = every_if_carried(plan, 16_000, limits)
    assert every == 16_000 // (8 * limits.share * 8)
    told, _ = shared_cuts(plan, [query], "time", "us", 2, every)
    samples = [note for task in range(2) for note in run(carry_events.sample, told, [(task, None)])]
    notes = [
        carry_events.from_bytes(b["frame"][0].as_py())
        for task in range(2)
        for b in carry_events.leaves(told, for_task(samples, task))
        if b["chain"][0].as_py() == carry_events.ZONES
    ]
    inside = sum(len(note[1]) for note in notes)
    assert 0 < inside <= 80_000 // limits.share
    assert sum(len(batch) for batch in carry_events.ranked(notes)) == inside
    assert every_if_carried(plan, 100, limits) is None  # eight runs, and each may have an event on either side of a cut
    assert every_if_carried(plan, 16_000, SelectionLimits(carried_max=100)) is None


def test_a_zone_that_lost_events_is_noticed():
    times = pa.table({TIME: [1, 2]})
    counts, two = np.array([5, 3, 5]), np.zeros(2, np.int64)
    with pytest.raises(hw.HeadwaterError, match="zones do not hold"):
        carry_events.ranked([[counts, two, two, np.arange(2), carry_events.table_to_bytes(times)]])
