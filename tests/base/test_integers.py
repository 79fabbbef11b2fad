"""The integer codec against an obvious reader of its format, for lists of every length; the bytes themselves are pinned."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base import packing
from headwater.base.arrays import frozen
from headwater.base.integers import AT_ONCE_MAX, ESCAPE, RICE_COUNT_MIN, read_ints, write_ints
from headwater.base.packing import Reader, Writer
from headwater.errors import FormatError

PLAIN, STEPS, VARINT, BITS, STEP_BITS, RICE = range(6)
int64s = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)
steps = st.tuples(int64s, st.lists(st.integers(0, 2**40) | st.integers(-3, 3), max_size=150)).map(
    lambda drawn: np.cumsum(np.array([drawn[0], *drawn[1]], np.int64))
)
skewed = st.lists(st.integers(-3, 3) | st.integers(-(2**20), 2**20), min_size=RICE_COUNT_MIN, max_size=150)
lists = (st.lists(int64s, min_size=1, max_size=150) | skewed).map(lambda values: np.array(values, np.int64)) | steps


def written(values, unwritten=0):
    writer = Writer()
    writer._unwritten = unwritten
    for some in values:
        writer.ints(some)
    return writer.finish()


def read(data, count):
    reader = Reader(data)
    found = [reader.ints().tolist() for _ in range(count)]
    reader.finish()
    return found


class SlowReader:
    """The format of one list, bit by bit."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                assert value < 2**64
                return value

    def signed(self):
        return unzigzag(self.number())

    def bits(self, size):
        assert self.at + size <= len(self.data)
        found = [byte >> i & 1 for byte in self.data[self.at : self.at + size] for i in range(8)]
        self.at += size
        return found

    def ints(self):
        count = self.number()
        form = self.data[self.at]
        self.at += 1
        way, width = form >> 4, form & 15
        if way == VARINT:
            end = self.number() + self.at
            values = np.cumsum([self.signed() for _ in range(count)], dtype=object)
            assert self.at == end
        elif way == RICE:
            values = self.rice(count)
        else:
            assert way <= STEP_BITS
            bits = 8 * width
            if way in (BITS, STEP_BITS):
                bits = self.data[self.at]
                self.at += 1
            first = [self.signed()] if way in (STEPS, STEP_BITS) else []
            smallest = self.signed()
            packed = self.bits(((count - len(first)) * bits + 7) // 8)
            distances = [number_of(packed[i * bits : (i + 1) * bits]) for i in range(count - len(first))]
            values = [*first, *(smallest + distance for distance in distances)]
            values = np.cumsum(values, dtype=object) if first else values
        return [(int(value) + 2**63) % 2**64 - 2**63 for value in values]

    def rice(self, count):
        low_bits = self.data[self.at]
        self.at += 1
        centre = self.signed()
        bits = iter(self.bits(self.number()))
        values = []
        for _ in range(count):
            ones = 0
            while ones < ESCAPE and next(bits):
                ones += 1
            size = 64 if ones == ESCAPE else low_bits
            word = number_of([next(bits) for _ in range(size)])
            values.append(centre + unzigzag(word | (0 if ones == ESCAPE else ones << low_bits)))
        return values


def unzigzag(word):
    return word >> 1 if word & 1 == 0 else -((word + 1) >> 1)


def number_of(bits):
    return sum(bit << i for i, bit in enumerate(bits))


@given(values=st.lists(lists, min_size=1, max_size=4), is_full=st.booleans())
def test_lists_are_what_an_obvious_reader_reads(values, is_full):
    data = written(values, packing.UNWRITTEN_MAX - 30 if is_full else 0)
    slow = SlowReader(data)
    assert read(data, len(values)) == [slow.ints() for _ in values] == [some.tolist() for some in values]
    assert slow.at == len(data)


@given(values=lists, place=st.integers(0, 2**20), byte=st.integers(0, 255), lost=st.integers(0, 2))
def test_damaged_lists_are_read_as_they_stand_or_refused(values, place, byte, lost):
    data = bytearray(written([values]))
    head = 1 if len(values) < 128 else 2
    data[head + place % (len(data) - head)] = byte
    data = bytes(data[: len(data) - lost])
    try:
        found = Reader(data).ints().tolist()
    except FormatError:
        return
    assert found == SlowReader(data).ints()


def test_the_head_of_a_long_list_is_read_before_there_is_room_made():
    values = np.arange(AT_ONCE_MAX + 1) ** 2
    data, unwritten = write_ints(frozen(values, np.int64), room=0)
    encoded = np.frombuffer(data, np.uint8)
    found, end, again = read_ints(encoded, 0, len(values), 0)
    assert np.array_equal(found, values) and end == len(data) and again == unwritten == 0
    with pytest.raises(FormatError, match="end is missing"):
        read_ints(encoded[:-1], 0, len(values), 0)
    with pytest.raises(FormatError, match="take no bytes"):
        read_ints(encoded, 0, 2**40, 0)


def test_the_bytes_stay_as_they_are():
    """What lies in logs and checkpoints was written like this."""
    generator = np.random.default_rng(7)
    digest = hashlib.sha256()
    for count in (1, 2, 20, 63, 64, 300, 5000):
        noise = generator.integers(0, 2**50, count)
        for values in (
            generator.integers(0, 200, count),
            generator.integers(0, 30, count),
            generator.integers(0, 2**23, count),
            generator.integers(-(2**63), 2**63 - 1, count),
            np.cumsum(generator.integers(0, 7, count)) + 10**12,
            np.cumsum(generator.integers(0, 60_000, count)) + 10**12,
            np.full(count, 7),
            np.arange(count) * 3,
            np.where(np.arange(count) % 10 == 3, noise, noise & 3),
            generator.geometric(0.001, count),
        ):
            digest.update(written([values.astype(np.int64)]))
    assert digest.hexdigest() == "be00ec7aec0673fd2da7978323b974d439f0ea1b0050c775cba0388269ccbbc4"
