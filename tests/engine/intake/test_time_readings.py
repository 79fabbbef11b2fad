"""Numbers since 1970 and ISO 8601 text as times: what the reference says, of every value alike."""

import datetime
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import headwater as hw
from headwater.engine.intake.arrivals import times_of
from headwater.language.times import TICK_NANOS
from headwater.reference.event_times import event_time
from headwater.reference.history import Arrived, StreamSettings

UNITS = st.sampled_from(sorted(TICK_NANOS))
FLOATS = st.floats() | st.floats(-1e10, 1e10) | st.integers(0, 2**52).map(lambda micros: micros / 1e6)
ZONES = st.sampled_from(["", "Z", "z", "+02", "-0530", "+05:45", "+24", "+0160"])


def times(values: list[object], type_: pa.DataType, time: str) -> list[int | None]:
    found, bad, _ = times_of(pa.record_batch({"ts": pa.array(values, type_)}), time, "us")
    return [None if row in bad else int(found[row]) for row in range(len(values))]


def reference(values: list[object], time: str) -> list[int | None]:
    return [event_time(StreamSettings((), time), Arrived("", 0, {"ts": value})) for value in values]


@given(st.lists(st.none() | FLOATS, max_size=8), UNITS)
@example([1715900000.1, 0.1, -0.1, math.nan, math.inf, 9007199254.740992], "s")
def test_float_epochs_are_the_last_microsecond_that_is_not_above_them(values, unit):
    time = hw.epoch("ts", unit)
    assert times(values, pa.float64(), time) == reference(values, time)


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**12), 10**12), max_size=8), UNITS)
def test_integer_epochs_are_rounded_down_to_microseconds(values, unit):
    time = hw.epoch("ts", unit)
    assert times(values, pa.int64(), time) == reference(values, time)


@given(st.integers(0, 2**50))
def test_a_microsecond_written_as_float_seconds_is_that_microsecond(micros):
    assert times([micros / 1e6], pa.float64(), hw.epoch("ts", "s")) == [micros]


@st.composite
def texts(draw):
    """Times as they are written, some of which cannot be."""
    stamp = draw(st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)))
    text = stamp.isoformat(
        draw(st.sampled_from(["T", "t", " "])), draw(st.sampled_from(["auto", "minutes", "seconds"]))
    )
    text += draw(ZONES)
    if draw(st.booleans()):
        text = text.replace("-", "", 2).replace(":", "", 2)
    place = draw(st.integers(0, len(text)))
    return draw(st.sampled_from([text, text, text, text[:place] + draw(st.sampled_from("9-T:z")) + text[place + 1 :]]))


@given(
    st.lists(st.none() | texts() | st.sampled_from(["", "now", "2024-02-30", "2023-02-29", "2024-02-29"]), max_size=8)
)
@example(["2024-05-16", "2024-05-16T10:11:12.1234567Z", "2024-05-16T24:00:00", "2024-05-16T10:11:60", "2024-05-16T10"])
def test_iso_texts_are_read_as_the_reference_reads_them(values):
    time = hw.iso("ts")
    expected = reference(values, time)
    assert times(values, pa.string(), time) == expected
    assert times(values, pa.large_string(), time) == expected
    coded = pa.record_batch({"ts": pa.array(values, pa.string()).dictionary_encode()})
    found, bad, _ = times_of(coded, time, "us")
    assert [None if row in bad else int(found[row]) for row in range(len(values))] == expected


def test_what_is_unreadable_is_named_with_its_row_and_the_form():
    batch = pa.record_batch({"ts": ["2024-05-16T10:00:00Z", "yesterday", None]})
    _, bad, scan = times_of(batch, hw.iso("ts"), "us")
    assert scan is None
    assert bad == {
        1: "time is 'yesterday', not ISO 8601 such as 2024-05-16T23:00:00.25+02:00",
        2: "time is null",
    }
    batch = pa.record_batch({"ts": [1.5, math.nan, math.inf, 1e300]})
    _, bad, _ = times_of(batch, hw.epoch("ts", "s"), "us")
    assert bad[1] == "time is nan, not a number of s within the range of times"
    assert sorted(bad) == [1, 2, 3]


def test_other_units_of_the_stream_round_down_the_microseconds():
    batch = pa.record_batch({"ts": [-0.0005, 1.9999]})
    assert times_of(batch, hw.epoch("ts", "s"), "ms")[0].tolist() == [-1, 1999]
    assert times_of(batch, hw.epoch("ts", "s"), "ns")[0].tolist() == [-500_000, 1_999_900_000]


@pytest.mark.parametrize("type_", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float32()])
def test_numbers_of_every_width_are_epochs(type_):
    assert times([5, None], type_, hw.epoch("ts", "ms")) == [5000, None]


def test_large_unsigned_numbers_are_out_of_range():
    values = pa.array(np.array([2**64 - 1, 7], np.uint64))
    _, bad, _ = times_of(pa.record_batch({"ts": values}), hw.epoch("ts", "us"), "us")
    assert list(bad) == [0]
