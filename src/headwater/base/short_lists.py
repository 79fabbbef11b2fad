"""Short lists of integers, written and read in one call each: the same bytes as `packing` writes step by step.

A delta of a leaf has a dozen lists of a few numbers. What Python does for each of them takes longer than the numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.jit import leading_zeros, njit
from headwater.base.varints import (
    UInt8Array,
    UInt64Array,
    read_bits,
    read_varints,
    survey,
    write_bits,
    write_bytes,
    write_varints,
)

#: Lists with this many numbers or more are none of these.
SHORT_COUNT_MAX = 64
#: No number takes more than ten bytes; the head of a list has a form, a width and three numbers.
BYTES_PER_NUMBER, HEAD_BYTES = 10, 32
_PLAIN, _STEPS, _VARINT, _BITS, _STEP_BITS = range(5)
_FAR = 1 << 62


@njit
def _bit_length(word: np.uint64) -> int:
    zeros: int = leading_zeros(word)
    return 64 - zeros


@njit
def _put_number(out: UInt8Array, at: int, word: np.uint64) -> int:
    while word >= np.uint64(0x80):
        out[at] = np.uint8((word & np.uint64(0x7F)) | np.uint64(0x80))
        word >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(word)
    return at + 1


@njit
def _put_signed(out: UInt8Array, at: int, value: np.int64) -> int:
    word = np.uint64(value)
    return _put_number(out, at, (word << np.uint64(1)) ^ (np.uint64(0) - (word >> np.uint64(63))))


@njit
def _price(count: int, bits: int, numbers: int, room: int) -> int:
    """What single bits cost, as `packing` reckons; very much if a reader would refuse so many numbers in so few bytes."""
    if bits == 0:
        return _FAR
    size = (count * bits + 7) >> 3
    size += (size >> 3) + 1
    return size if numbers - size <= room else _FAR


@njit
def write_list(values: Int64Array, room: int, out: UInt8Array) -> tuple[int, int]:
    """Write a list of one number or more, without its length; ``room``: so many numbers may take no bytes.

    Returns how many bytes were written, and how many numbers took none.
    """
    count = len(values)
    low, high, step_low, step_high, varint_bytes = survey(values)
    bits = _bit_length(np.uint64(high) - np.uint64(low))
    step_bits = _bit_length(np.uint64(step_high) - np.uint64(step_low)) if count > 1 else 0
    narrowest = 0 if count <= room else 1
    width, step_width = max((bits + 7) >> 3, narrowest), max((step_bits + 7) >> 3, narrowest)
    mode, best = _PLAIN, width * count
    if step_width * (count - 1) < best:
        mode, best = _STEPS, step_width * (count - 1)
    if varint_bytes < best:
        mode, best = _VARINT, varint_bytes
    price = _price(count, bits, count, room)
    if price < best:
        mode, best = _BITS, price
    if _price(count - 1, step_bits, count, room) < best:
        mode = _STEP_BITS
    if mode == _VARINT:
        out[0] = np.uint8(mode << 4)
        behind = _put_number(out, 1, np.uint64(varint_bytes))
        write_varints(values, out[behind:])
        return behind + varint_bytes, 0
    are_steps = mode in (_STEPS, _STEP_BITS)
    smallest = low
    if are_steps:
        smallest = step_low if count > 1 else np.int64(0)
        width, bits = step_width, step_bits
    written = count - 1 if are_steps else count
    unwritten = count if width == 0 else 0
    is_packed = mode in (_BITS, _STEP_BITS)
    at = 1
    if is_packed:
        out[0], out[1] = np.uint8(mode << 4), np.uint8(bits)
        at = 2
    else:
        out[0] = np.uint8(mode << 4 | width)
    if are_steps:
        at = _put_signed(out, at, values[0])
    at = _put_signed(out, at, smallest)
    if is_packed:
        size = (written * bits + 7) >> 3
        write_bits(values, are_steps, smallest, bits, out[at:])
        return at + size, unwritten + max(count - size, 0)
    write_bytes(values, are_steps, smallest, width, out[at:])
    return at + written * width, unwritten


@njit
def _take_number(data: UInt8Array, at: int) -> tuple[int, Any]:
    """The number and where it ends; -1 if it has no end here, or is none of 64 bits."""
    value = np.uint64(0)
    for place in range(10):
        if at + place >= len(data):
            break
        byte = np.uint64(data[at + place])
        if place == 9 and byte > np.uint64(1):
            break
        value |= (byte & np.uint64(0x7F)) << np.uint64(7 * place)
        if byte < np.uint64(0x80):
            return at + place + 1, value
    return -1, value


@njit
def _take_signed(data: UInt8Array, at: int) -> tuple[int, Any]:
    at, word = _take_number(data, at)
    return at, (word >> np.uint64(1)) ^ (np.uint64(0) - (word & np.uint64(1)))


@njit
def _sum_up(words: UInt64Array, first: np.uint64) -> None:
    total = first
    for i in range(len(words)):
        total += words[i]
        words[i] = total


@njit
def read_list(data: UInt8Array, at: int, room: int, words: UInt64Array) -> tuple[int, int]:
    """Read as many numbers as fit; returns where they end and how many took no bytes. (-1, 0): read step by step instead.

    Whatever is wrong with the bytes is said by whoever reads them step by step.
    """
    count = len(words)
    if at >= len(data):
        return -1, 0
    mode, width = int(data[at]) >> 4, int(data[at]) & 15
    at += 1
    if mode == _VARINT and width == 0:
        at, length = _take_number(data, at)
        end: Any = at + np.int64(length)
        if at < 0 or length > np.uint64(len(data)) or end > len(data) or not read_varints(data[at:end], words):
            return -1, 0
        _sum_up(words, np.uint64(0))
        return end, 0
    is_packed = mode in (_BITS, _STEP_BITS)
    bits = 8 * width
    if is_packed:
        if width != 0 or at >= len(data):
            return -1, 0
        bits = int(data[at])
        at += 1
    if mode > _STEP_BITS or mode == _VARINT or bits > 64 or (is_packed and bits == 0):
        return -1, 0
    are_steps = mode in (_STEPS, _STEP_BITS)
    first = np.uint64(0)
    if are_steps:
        at, first = _take_signed(data, at)
        if at < 0:
            return -1, 0
    at, smallest = _take_signed(data, at)
    written = count - 1 if are_steps else count
    size = (written * bits + 7) >> 3
    unwritten = count if bits == 0 else 0
    if is_packed:
        unwritten = max(count - size, 0)
    if at < 0 or at + size > len(data) or unwritten > room:
        return -1, 0
    begin = 1 if are_steps else 0
    if bits > 0:
        read_bits(data[at : at + size], bits, words[begin:])
    else:
        words[begin:] = np.uint64(0)
    if are_steps:
        words[0] = first
        for i in range(1, count):
            words[i] += smallest + words[i - 1]
    else:
        for i in range(count):
            words[i] += smallest
    return at + size, unwritten
