"""Generated events: the same for everyone, and as described."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import generator
from headwater.generator import SCHEMA, SECOND, SmartHome

SMALL = SmartHome(seconds=150, rate=200)


def test_the_same_description_gives_the_same_events():
    assert SMALL.table() == SmartHome(seconds=150, rate=200).table()


def test_another_seed_gives_other_events():
    assert SMALL.table() != SmartHome(seconds=150, rate=200, seed=8).table()


@given(st.integers(1, 40_000))
def test_the_size_of_batches_changes_nothing(batch_events):
    batches = list(SMALL.batches(batch_events))
    assert {batch.num_rows for batch in batches[:-1]} <= {batch_events}
    assert pa.Table.from_batches(batches, SCHEMA) == SMALL.table()


def test_events_are_late_as_often_and_as_much_as_described():
    times = SMALL.table().column("time").to_numpy()
    lateness = np.maximum.accumulate(times) - times
    assert 0.01 < np.mean(lateness > 0) < 0.03
    assert SECOND < lateness.max() <= SMALL.delay_max


def test_without_disorder_events_arrive_in_order():
    times = SmartHome(seconds=150, rate=200, late_share=0).table().column("time").to_numpy()
    assert np.all(np.diff(times) >= 0)


def test_every_event_arrives_once_however_late():
    silent = {"silence": 0.0, "missing_share": 0.0}
    assert SmartHome(seconds=130, rate=100, late_share=1.0, delay_max=60 * SECOND, **silent).table().num_rows == 13_000


def test_busy_houses_send_more():
    counts = pc.value_counts(
        SmartHome(seconds=60, skew=1.0).table().column("house").combine_chunks().dictionary_decode()
    )
    by_house = {entry["values"]: entry["counts"] for entry in counts.to_pylist()}
    assert by_house["house-00"] > 10 * by_house["house-39"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("houses", 0), ("rate", -1), ("late_share", 1.5), ("silence", -0.1), ("delay_max", 61 * SECOND)],
)
def test_an_impossible_description_is_refused_with_its_field_and_value(field, value):
    with pytest.raises(ValueError, match=f"{field} is {value}: give"):
        SmartHome(**{field: value})


def test_rates_change_when_the_description_says_so():
    home = SmartHome(seconds=200, rate=100, changes=((30, 400), (150, 0)), silence=0.0, late_share=0.0)
    seconds = (home.table().column("time").to_numpy() - home.start) // SECOND
    assert [((seconds >= a) & (seconds < b)).sum() for a, b in ((0, 30), (30, 150), (150, 200))] == [3_000, 48_000, 0]


def test_a_drifting_rate_stays_within_its_share_and_is_drawn_once_per_stretch():
    described = {"seconds": 200, "rate": 1000, "drift": 0.5, "drift_seconds": 10, "silence": 0.0, "late_share": 0.0}
    home = SmartHome(**described)
    seconds = (home.table().column("time").to_numpy() - home.start) // SECOND
    counts = np.bincount(seconds // 10, minlength=20)
    assert counts.min() >= 5_000 and counts.max() <= 15_000
    assert len(set(counts.tolist())) > 10
    assert home.table() == SmartHome(**described).table()


@given(st.integers(1, 6))
def test_sources_share_the_houses(count):
    homes = SmartHome(seconds=60, rate=500, houses=6, silence=0.0).sources(count)
    tables = [home.table() for home in homes]
    houses = [set(table.column("house").to_pylist()) for table in tables]
    assert sum(map(len, houses)) == len(set().union(*houses)) == 6
    assert abs(sum(table.num_rows for table in tables) - 30_000) <= count


def test_a_source_of_one_is_the_stream_itself():
    assert SMALL.sources(1)[0].table() == SMALL.table()


def test_very_many_events_a_second_come_in_short_blocks():
    home = SmartHome(seconds=3, rate=40_000, late_share=0.3, delay_max=2 * SECOND, silence=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generator, "BLOCK_EVENTS", 50_000)
        table = home.table()
    assert table.num_rows == 120_000
    times = table.column("time").to_numpy()
    assert SECOND < (np.maximum.accumulate(times) - times).max() <= 2 * SECOND


@pytest.mark.parametrize(
    "fields", [{"changes": ((5, 1), (5, 2))}, {"changes": ((5, -1),)}, {"share": 2, "shares": 2}, {"shares": 41}]
)
def test_changes_and_shares_that_cannot_be_are_refused(fields):
    with pytest.raises(ValueError, match=r"(changes|share) is .*: give"):
        SmartHome(**fields)
