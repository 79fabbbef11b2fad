"""What is read from Arrow columns, and what is set aside with a reason."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.intake.columns import conform, read_times, read_values, scan_times, without
from headwater.language.times import TIME_MAX

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.integers(INT64_MIN, INT64_MAX),
            st.sampled_from([TIME_MAX, TIME_MAX + 1, -TIME_MAX, -TIME_MAX - 1, INT64_MIN, INT64_MAX]),
        )
    )
)
def test_integer_times_are_taken_within_the_domain(values: list[int | None]):
    times, bad, scan = read_times(pa.array(values, pa.int64()), "us")
    wrong = {i for i, value in enumerate(values) if value is None or abs(value) > TIME_MAX}
    assert set(bad) == wrong
    assert [time for i, time in enumerate(times.tolist()) if i not in wrong] == [
        value for i, value in enumerate(values) if i not in wrong
    ]
    assert (scan is None) == (bool(wrong) or not values)
    if scan is not None:
        assert (scan.low, scan.high, scan.in_order) == (min(values), max(values), values == sorted(values))


@pytest.mark.parametrize(
    ("array", "reasons"),
    [
        (pa.array([None], pa.int64()), {0: "time is null"}),
        (pa.array([3.0]), {0: "time is of type double, not an integer, a timestamp or a date"}),
        (pa.array([2**64 - 1, 7], pa.uint64()), {0: f"time {INT64_MAX} is outside -2**62 .. 2**62"}),
        (pa.array(["1"]), {0: "time is of type string, not an integer, a timestamp or a date"}),
        (pa.array([True]), {0: "time is of type bool, not an integer, a timestamp or a date"}),
        (pa.nulls(1), {0: "time is null"}),
    ],
    ids=str,
)
def test_unusable_times_are_named(array: pa.Array, reasons: dict[int, str]):
    times, bad, scan = read_times(array, "us")
    assert bad == reasons
    assert len(times) == len(array)
    assert scan is None


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("stream_unit", UNITS)
def test_timestamps_are_ticks_of_the_streams_unit(unit: str, stream_unit: str):
    seconds = [-3, 0, 7]
    array = pa.array([second * UNITS[unit] for second in seconds], pa.timestamp(unit, "Europe/Berlin"))
    assert read_times(array, stream_unit)[0].tolist() == [second * UNITS[stream_unit] for second in seconds]


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([*UNITS]), st.sampled_from([*UNITS]))
def test_timestamps_are_rounded_down_and_never_wrap(count: int, unit: str, stream_unit: str):
    times, bad, _ = read_times(pa.array([count], pa.int64()).cast(pa.timestamp(unit)), stream_unit)
    ticks = count * UNITS[stream_unit] // UNITS[unit]
    assert bad if abs(ticks) > TIME_MAX else times.tolist() == [ticks]


def test_dates_are_times_too():
    assert read_times(pa.array([datetime.date(1970, 1, 2)]), "s")[0].tolist() == [86_400]
    assert read_times(pa.array([datetime.date(1970, 1, 2)], pa.date64()), "s")[0].tolist() == [86_400]


@given(st.lists(st.integers(-5, 5), min_size=1))
def test_a_scan_tells_span_and_order(times: list[int]):
    scan = scan_times(np.array(times))
    assert (scan.low, scan.high, scan.in_order) == (min(times), max(times), times == sorted(times))


@pytest.mark.parametrize(
    ("array", "data"),
    [
        (pa.array([1, -2], pa.int8()), [1, -2]),
        (pa.array([1.5, -2], pa.float32()), [1.5, -2.0]),
        (pa.array([True, False]), [1, 0]),
        (pa.array([5], pa.date32()), [5]),
        (pa.array([5], pa.time32("s")), [5]),
        (pa.array([5], pa.timestamp("ns")), [5]),
        (pa.array([5], pa.duration("ms")), [5]),
        (pa.array([2**64 - 1], pa.uint64()), [Decimal(2**64 - 1)]),
        (pa.array(["a", "é"]), ["a", "é"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([Decimal("1.50")]), [Decimal("1.50")]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_values_are_read_as_they_are(array: pa.Array, data: list[object]):
    values = read_values(array)
    assert values.data.tolist() == data
    assert values.valid is None
    with_null = pa.concat_arrays([array, pa.nulls(1, array.type)])
    values = read_values(with_null)
    assert values.data[:-1].tolist() == data
    assert values.valid.tolist() == [True] * len(array) + [False]


@pytest.mark.parametrize(
    ("array", "wanted", "values", "bad"),
    [
        (pa.array([1, 2]), pa.int64(), [1, 2], {}),
        (pa.array([1, None], pa.int32()), pa.int64(), [1, None], {}),
        (pa.array([1.0, 2.5]), pa.int64(), [1, None], {1: "column 'x' is 2.5, not int64"}),
        (pa.array([300, 3]), pa.int8(), [None, 3], {0: "column 'x' is 300, not int8"}),
        (pa.array(["7", None]), pa.int64(), [None, None], {0: "column 'x' is '7', not int64"}),
        (pa.array(["a", "b"]).dictionary_encode(), pa.string(), ["a", "b"], {}),
        (pa.array(["a", "b"]), pa.dictionary(pa.int32(), pa.string()), ["a", "b"], {}),
        (pa.array([[1]]), pa.int64(), [None], {0: "column 'x' is [1], not int64"}),
        (pa.nulls(2), pa.int64(), [None, None], {}),
    ],
    ids=str,
)
def test_a_later_column_conforms_to_the_first_or_is_named(
    array: pa.Array, wanted: pa.DataType, values: list[object], bad: dict[int, str]
):
    conformed, reasons = conform(array, wanted, "x")
    assert conformed.to_pylist() == values
    assert reasons == bad


def test_rows_without_the_malformed_remain_in_order():
    assert without({1: "bad", 3: "bad"}, 5).tolist() == [0, 2, 4]
    assert without({}, 2).tolist() == [0, 1]
