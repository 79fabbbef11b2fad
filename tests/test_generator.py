"""Generated events: the same for everyone, and as described."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
