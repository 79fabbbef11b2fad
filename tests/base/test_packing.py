"""The byte form of arrays: there and back, in few bytes; what was made up is refused before it costs anything."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base import packing
from headwater.base.packing import NUMBER_BYTES_MAX, UNWRITTEN_MAX, Reader, Writer
from headwater.errors import FormatError

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
LISTS = st.lists(INT64, max_size=20) | st.builds(lambda value, size: [value] * size, INT64, st.integers(0, 20))


def number(value: int) -> bytes:
    writer = Writer()
    writer.number(value)
    return writer.finish()


def written(*arrays: list[int]) -> bytes:
    writer = Writer()
    for values in arrays:
        writer.ints(np.array(values, np.int64))
    return writer.finish()


def read(data: bytes, count: int) -> list[list[int]]:
    reader = Reader(data)
    arrays = [reader.ints().tolist() for _ in range(count)]
    reader.finish()
    return arrays


# --- numbers ---


@given(st.integers(0, 2 ** (7 * NUMBER_BYTES_MAX) - 1) | st.integers(0, 300))
def test_a_number_comes_back(value: int) -> None:
    reader = Reader(number(value))
    assert reader.number() == value
    reader.finish()


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 1_000_000, number(2 ** (7 * NUMBER_BYTES_MAX))])
def test_a_number_without_end_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        Reader(data).number()


def test_there_are_no_more_items_than_bytes() -> None:
    assert Reader(number(3) + b"abc").count() == 3
    with pytest.raises(FormatError, match="4 items"):
        Reader(number(4) + b"abc").count()


def test_nothing_has_a_negative_length() -> None:
    reader = Reader(b"abc")
    reader.take(2)
    with pytest.raises(FormatError):
        reader.take(-1)
    # Two texts, of which the second would begin where the first has begun.
    with pytest.raises(FormatError):
        Reader(b"\x02\x01\x01" + written([1, -1]) + b"ab").objects()


# --- arrays ---


@given(st.lists(LISTS, max_size=4))
def test_arrays_come_back(arrays: list[list[int]]) -> None:
    assert read(written(*arrays), len(arrays)) == arrays


@given(arrays=st.lists(LISTS, min_size=1, max_size=4), bound=st.integers(0, 30))
def test_arrays_come_back_when_no_more_numbers_may_take_no_bytes(arrays: list[list[int]], bound: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "UNWRITTEN_MAX", bound)
        data = written(*arrays)
        assert read(data, len(arrays)) == arrays
        # Whoever claims many numbers has to send bytes for those beyond the bound.
        assert sum(map(len, arrays)) <= bound + len(data)


@pytest.mark.parametrize("step", [0, 1])
def test_equal_steps_take_no_bytes_up_to_a_bound(step: int) -> None:
    most = np.arange(UNWRITTEN_MAX, dtype=np.int64) * step
    for extra, least, largest in ((0, 0, 20), (1, UNWRITTEN_MAX // 8, UNWRITTEN_MAX + 20)):
        values = np.append(most, most[-1] + step) if extra else most
        writer = Writer()
        writer.ints(values)
        data = writer.finish()
        assert least <= len(data) <= largest
        assert np.array_equal(Reader(data).ints(), values)


@pytest.mark.parametrize("count", [UNWRITTEN_MAX + 1, 2**40, 2**400])
@pytest.mark.parametrize("form", [*range(9), *range(16, 25), 32, 48, 64, 80])
def test_a_made_up_count_costs_nothing(count: int, form: int) -> None:
    data = number(count) + bytes([form]) + bytes(50)
    tracemalloc.start()
    with pytest.raises(FormatError):
        Reader(data).ints()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_many_made_up_arrays_together_cost_no_more_than_one() -> None:
    half = number(UNWRITTEN_MAX // 2 + 1) + b"\x00\x00"
    reader = Reader(half + half)
    assert not reader.ints().any()
    with pytest.raises(FormatError, match="take no bytes"):
        reader.ints()


@given(st.binary(max_size=60))
def test_random_bytes_are_arrays_or_refused(data: bytes) -> None:
    for read_one in (Reader.ints, Reader.floats, Reader.objects, Reader.array):
        try:
            read_one(Reader(data))
        except FormatError:
            continue
