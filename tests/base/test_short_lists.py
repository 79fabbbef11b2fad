"""Short lists of integers: written and read in one call, byte for byte and error for error as step by step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base import packing
from headwater.base.packing import Reader, Writer
from headwater.errors import FormatError

int64s = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)
steps = st.tuples(int64s, st.lists(st.integers(0, 2**40) | st.integers(-3, 3), max_size=62)).map(
    lambda drawn: np.cumsum(np.array([drawn[0], *drawn[1]], np.int64))
)
lists = st.lists(int64s, min_size=1, max_size=63).map(lambda values: np.array(values, np.int64)) | steps


def step_by_step(function, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "SHORT_COUNT_MAX", 0)
        return function(*arguments)


def written(values, unwritten=0):
    writer = Writer()
    writer._unwritten = unwritten
    for some in values:
        writer.ints(some)
    return writer.finish()


def read(data, count):
    """What is there, or why nothing is."""
    reader = Reader(data)
    try:
        found = [reader.ints().tolist() for _ in range(count)]
    except FormatError as error:
        return str(error)
    return found, reader._unwritten


@given(values=st.lists(lists, min_size=1, max_size=4), is_full=st.booleans())
def test_short_lists_are_packed_to_the_bytes_of_long_ones(values, is_full):
    unwritten = packing.UNWRITTEN_MAX - 30 if is_full else 0
    data = written(values, unwritten)
    assert data == step_by_step(written, values, unwritten)
    assert read(data, len(values)) == step_by_step(read, data, len(values))
    assert read(data, len(values))[0] == [some.tolist() for some in values]


@given(values=lists, place=st.integers(0, 2**20), byte=st.integers(0, 255), lost=st.integers(0, 2))
def test_damage_of_short_lists_is_said_as_that_of_long_ones(values, place, byte, lost):
    data = bytearray(written([values]))
    data[1 + place % (len(data) - 1)] = byte
    data = bytes(data[: len(data) - lost])
    assert read(data, 1) == step_by_step(read, data, 1)
