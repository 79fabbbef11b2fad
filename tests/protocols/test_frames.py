"""Frames: whole and of this version, or one error that says what is wrong."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import FormatError
from headwater.protocols.frames import FRAME_BYTES_MAX, HEADER, MAGIC, VERSION, FrameError, frame, open_frame


@given(kind=st.integers(0, 255), body=st.binary(max_size=100))
def test_a_frame_comes_back(kind: int, body: bytes) -> None:
    opened, content = open_frame(frame(kind, body))
    assert (opened, bytes(content)) == (kind, body)


@given(st.binary(max_size=60))
def test_random_bytes_are_no_frame(data: bytes) -> None:
    with pytest.raises(FrameError):
        open_frame(data)


@given(
    magic=st.sampled_from([MAGIC, b"HX"]),
    version=st.sampled_from([VERSION, VERSION + 1]),
    length=st.integers(0, 2**32 - 1) | st.integers(0, 20),
    checksum=st.integers(0, 2**32 - 1),
    body=st.binary(max_size=20),
)
def test_a_made_up_header_is_no_frame(magic: bytes, version: int, length: int, checksum: int, body: bytes) -> None:
    try:
        _, content = open_frame(HEADER.pack(magic, version, 1, length, checksum) + body)
    except FrameError:
        return
    assert bytes(content) == body


@given(body=st.binary(max_size=40), data=st.data())
def test_a_part_of_a_frame_or_more_than_a_frame_is_none(body: bytes, data: st.DataObject) -> None:
    whole = frame(1, body)
    for wrong in (whole[: data.draw(st.integers(0, len(whole) - 1))], whole + b"x"):
        with pytest.raises(FrameError):
            open_frame(wrong)


@given(body=st.binary(min_size=1, max_size=40), data=st.data())
def test_a_flipped_bit_is_found(body: bytes, data: st.DataObject) -> None:
    whole = bytearray(frame(1, body))
    bit = data.draw(st.integers(0, 8 * len(whole) - 1).filter(lambda bit: bit // 8 != 3))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameError):
        open_frame(bytes(whole))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "begins with a header"),
        (b"XY" + frame(1, b"abc")[2:], "no headwater frame"),
        (MAGIC + bytes([VERSION + 1]) + frame(1, b"abc")[3:], f"has version {VERSION + 1}"),
        (frame(1, b"abc")[:-1], "should have 3 bytes"),
        (frame(1, b"abc") + b"d", "should have 3 bytes"),
        (frame(1, b"abc")[:-1] + b"d", "checksum"),
        (struct.pack("<2sBBII", MAGIC, VERSION, 1, FRAME_BYTES_MAX + 1, 0), "longer than"),
    ],
)
def test_the_error_says_what_is_wrong(data: bytes, says: str) -> None:
    with pytest.raises(FrameError, match=says):
        open_frame(data)


def test_the_length_limit_can_be_set_lower() -> None:
    assert open_frame(frame(1, b"abc"), bytes_max=3)[0] == 1
    with pytest.raises(FrameError, match="longer than the 2"):
        open_frame(frame(1, b"abc"), bytes_max=2)


def test_nothing_is_sent_that_nobody_would_take() -> None:
    with pytest.raises(FrameError, match="longer than the 2"):
        frame(1, b"abc", bytes_max=2)


def test_a_frame_error_is_a_format_error() -> None:
    assert issubclass(FrameError, FormatError)
