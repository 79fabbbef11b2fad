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
from headwater.spark.counts import far, near
from headwater.spark.counts import stages as counting
from headwater.spark.counts.notes import SelectionLimits, received
from headwater.spark.native.positions import FIRST, LAST, TIME, over_positions
from headwater.spark.read import complete_rows
from spark.answers import assert_same, closed_rows, expected, found, shuffled, write
from spark.batch.test_tasks import renamed, some_files
from strategies import SCHEMA, queries

#: Files of a few events are selected from as well.
ANY_SIZE = SelectionLimits(small_bytes=0)


@st.composite
def counted(draw):
    """Some count windows over all events, none of which depends on the order within a window."""
    drawn = draw(
        st.lists(queries(kinds=("count_tumbling", "count_sliding"), scopes=("global",)), min_size=1, max_size=3)
    )
    listed = renamed([replace(query, distinct=None) for query in drawn])
    return [query for query in listed if isinstance(query.window, CountWindow) and query.window.per == "all"]


def run(stage, counting, given_):
    """The notes of a stage, each with whom it is for."""
    return [note for batch in stage(counting, given_) for note in received([batch])]


def for_task(notes, task):
    return [note for note in notes if note[0] == task]


def frames_far(counting, tasks):
    """What roots get when keys near cuts travel."""
    samples = [note for task in tasks for note in run(far.sample, counting, [(task, None)])]
    zones = run(far.zone, counting, samples)
    keys = [note for task in tasks for note in run(far.keys, counting, for_task(zones, task))]
    owners = range(counting.owners)
    cuts = [note for number in owners for note in run(far.cut_zones, counting, for_task(keys, number))]
    return [batch for task in tasks for batch in far.leaves(counting, for_task(cuts, task))]


def frames_near(counting, tasks):
    """What roots get when the events near cuts travel."""
    samples = [note for task in tasks for note in run(near.sample_keys, counting, [(task, None)])]
    sent = [batch for task in tasks for batch in near.carrying_leaves(counting, for_task(samples, task))]
    by_bucket = shuffled(pa.Table.from_batches(sent)).sort_by("bucket").combine_chunks().to_batches(max_chunksize=2)
    return list(near.settled(counting, by_bucket))


@pytest.mark.parametrize("frames_of", [frames_far, frames_near])
@settings(max_examples=60)
@given(data=st.data())
def test_selected_windows_are_those_of_the_reference(frames_of, data):
    asked = data.draw(counted())
    events = data.draw(some_files())
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), events, SCHEMA)
        plan = plan_queries(folder, asked, None, data.draw(st.integers(1, 4)), True) if asked else None
        chosen = [
            query
            for query in asked
            if counting.can_be_selected(query, plan, SelectionLimits(small_bytes=0, step_min=1))
        ]
        rows = []
        for group in counting.groups(chosen):
            cores, every = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
            told, root = counting.counting_of(plan, group, "time", "us", cores, every)
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
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(SelectionLimits(small_bytes=0, zone_events_max=0), id="keys near cuts travel"),
        pytest.param(SelectionLimits(small_bytes=0, share=1), id="events near cuts travel"),
        pytest.param(
            SelectionLimits(small_bytes=0, share=1, leaves_at_root_max=1),
            id="events near cuts travel and get their positions before the root",
            marks=pytest.mark.slow(reason="the same stages, one of them in a task of its own"),
        ),
    ],
)
def test_windows_selected_on_spark_are_those_of_the_reference(spark, tmp_path, limits):
    rng = np.random.default_rng(5)
    schema = pa.schema([("time", pa.int64()), ("k", pa.string()), ("x", pa.float64())])
    columns = (
        rng.integers(0, 2000, 3000).tolist(),
        rng.choice(["u", "v"], 3000).tolist(),
        rng.normal(size=3000).tolist(),
    )
    rows = [{"time": t, "k": k, "x": x} for t, k, x in zip(*columns)]
    events = {f"{i}.parquet": rows[i::3] for i in range(3)}
    for name, some in events.items():
        pq.write_table(pa.Table.from_pylist(some, schema=schema), tmp_path / name)
    asked = [
        hw.query("all", hw.count_tumbling(500), total=hw.sum("x"), mid=hw.median("x")),
        hw.query("some", hw.count_sliding(300, 100), where=hw.col("x") > 0, keys=["k"], n=hw.count()),
        hw.query("order", hw.count_tumbling(700), first=hw.first("x")),
        hw.query("own", hw.count_tumbling(200, per="key"), keys=["k"], most=hw.max("x")),
        hw.query("time", hw.tumbling(300), least=hw.min("x")),
    ]

    def plan_of(queries):
        return plan_queries(tmp_path, queries, None, 2, True)

    for step in (500, 100):
        assert (near.every_near(plan_of(asked), step, limits) is None) == (limits.zone_events_max == 0)
    assert_same(expected(events, asked), found(complete_rows(spark, plan_of, asked, "time", "us", limits), asked))


def test_files_of_different_types_are_not_selected_from(tmp_path):
    """A value that does not fit the wider type makes its event malformed, and so no member of any count window."""
    values = {"a": pa.array([0.5] * 10), "b": pa.array([2**53 + 1] + [1] * 9)}
    for name, column in values.items():
        pq.write_table(pa.table({"time": range(10), "v": column}), tmp_path / f"{name}.parquet")
    query = hw.query("five", hw.count_tumbling(16), n=hw.count(), most=hw.max("v"))
    plan = plan_queries(tmp_path, [query], None, 2, True)
    assert not counting.can_be_selected(query, plan, ANY_SIZE)
    assert counting.can_be_selected(query, plan_queries(tmp_path / "a.parquet", [query], None, 2, True), ANY_SIZE)


def test_cuts_that_lie_close_together_are_not_selected(tmp_path):
    pq.write_table(pa.table({"time": range(10)}), tmp_path / "a.parquet")
    wide, close = (hw.query("n", hw.count_sliding(1000, step), n=hw.count()) for step in (500, 999))
    plan = plan_queries(tmp_path, [wide], None, 1, True)
    assert counting.can_be_selected(wide, plan, ANY_SIZE)
    assert not counting.can_be_selected(close, plan, ANY_SIZE)


def test_files_that_are_small_are_not_selected_from(tmp_path):
    pq.write_table(pa.table({"time": range(10)}), tmp_path / "a.parquet")
    query = hw.query("n", hw.count_tumbling(1000), n=hw.count())
    plan = plan_queries(tmp_path, [query], None, 1, True)
    size = sum(piece.size for task in plan.tasks for piece in task)
    assert counting.can_be_selected(query, plan, SelectionLimits(small_bytes=size))
    assert not counting.can_be_selected(query, plan, SelectionLimits(small_bytes=size + 1))


def test_events_travel_only_if_zones_are_sure_to_hold_few(tmp_path):
    rng = np.random.default_rng(1)
    for name in "ab":
        times = rng.integers(0, 1000, 40_000)  # in any order, and many of one time
        pq.write_table(pa.table({"time": times}), tmp_path / f"{name}.parquet", row_group_size=10_000)
    query = hw.query("n", hw.count_tumbling(16_000), n=hw.count())
    plan = plan_queries(tmp_path, [query], None, 2, True)
    limits = SelectionLimits()
    every = near.every_near(plan, 16_000, limits)
    assert every == 16_000 // (8 * limits.share * 8)
    told, _ = counting.counting_of(plan, [query], "time", "us", 2, every)
    samples = [note for task in range(2) for note in run(near.sample_keys, told, [(task, None)])]
    notes = [
        near.from_bytes(b["frame"][0].as_py())
        for task in range(2)
        for b in near.carrying_leaves(told, for_task(samples, task))
        if b["chain"][0].as_py() == near.ZONES
    ]
    inside = sum(len(note[1]) for note in notes)
    assert 0 < inside <= 80_000 // limits.share
    assert sum(len(batch) for batch in near.ranked(notes)) == inside
    assert near.every_near(plan, 100, limits) is None  # eight runs, and each may have an event on either side of a cut
    assert near.every_near(plan, 16_000, SelectionLimits(zone_events_max=100)) is None
    assert near.every_near(plan, 16_000, SelectionLimits(cuts_max=4)) is None


def test_a_zone_that_lost_events_is_noticed():
    times = pa.table({TIME: [1, 2]})
    counts, two = np.array([5, 3, 5]), np.zeros(2, np.int64)
    with pytest.raises(hw.HeadwaterError, match="zones do not hold"):
        near.ranked([[counts, two, two, np.arange(2), near.table_to_bytes(times)]])
