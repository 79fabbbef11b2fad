"""Numbers of varying length: seven bits to a byte, all of a list with the bits of the largest, or as many as each is far out."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.base.arrays import Int64Array
from headwater.base.jit import njit

UInt8Array: TypeAlias = NDArray[np.uint8]
UInt64Array: TypeAlias = NDArray[np.uint64]


@njit
def _zigzag(step: np.uint64) -> np.uint64:
    """Small steps of either sign as small numbers."""
    return np.uint64((step << np.uint64(1)) ^ (np.uint64(0) - (step >> np.uint64(63))))


@njit
def _step(values: Int64Array, i: int) -> Any:
    """From one value to the next, from zero to the first. Differences wrap around, and so back again."""
    return values[i] - values[i - 1] if i > 0 else values[0]


@njit
def survey(values: Int64Array) -> tuple[Any, Any, Any, Any, int]:
    """Of at least one value the smallest and the largest, the same of the steps behind the first, and their size as varints."""
    low = high = values[0]
    step_low, step_high = np.int64(2**63 - 1), np.int64(-(2**63))
    size = 0
    for i in range(len(values)):
        low, high = min(low, values[i]), max(high, values[i])
        step = _step(values, i)
        if i > 0:
            step_low, step_high = min(step_low, step), max(step_high, step)
        rest = _zigzag(np.uint64(step))
        size += 1
        while rest >= np.uint64(0x80):
            size += 1
            rest >>= np.uint64(7)
    return low, high, step_low, step_high, size


@njit
def write_varints(values: Int64Array, encoded: UInt8Array) -> None:
    """Fill ``encoded``, which is as long as `survey` says, with the steps between the values."""
    at = 0
    for i in range(len(values)):
        rest = _zigzag(np.uint64(_step(values, i)))
        while rest >= np.uint64(0x80):
            encoded[at] = np.uint8((rest & np.uint64(0x7F)) | np.uint64(0x80))
            rest >>= np.uint64(7)
            at += 1
        encoded[at] = np.uint8(rest)
        at += 1


@njit
def write_bytes(values: Int64Array, are_steps: bool, smallest: int, width: int, encoded: UInt8Array) -> None:
    """The distances of values, or of the steps behind the first, from the smallest of them, each in ``width`` bytes."""
    at = 0
    for i in range(1 if are_steps else 0, len(values)):
        rest = np.uint64((_step(values, i) if are_steps else values[i]) - smallest)
        for _ in range(width):
            encoded[at] = np.uint8(rest & np.uint64(0xFF))
            rest >>= np.uint64(8)
            at += 1


@njit
def read_varints(encoded: UInt8Array, steps: UInt64Array) -> bool:
    """Whether exactly as many numbers as asked for were there."""
    at = 0
    for i in range(len(steps)):
        value = np.uint64(0)
        shift = np.uint64(0)
        while True:
            if at >= len(encoded) or shift > np.uint64(63):
                return False
            byte = np.uint64(encoded[at])
            at += 1
            value |= (byte & np.uint64(0x7F)) << shift
            shift += np.uint64(7)
            if byte < np.uint64(0x80):
                break
        steps[i] = (value >> np.uint64(1)) ^ (np.uint64(0) - (value & np.uint64(1)))
    return at == len(encoded)


@njit
def write_bits(values: Int64Array, are_steps: bool, smallest: int, bits: int, packed: UInt8Array) -> None:
    """The same in ``bits`` bits each, one behind the other, lowest bits first."""
    at = 0
    held = np.uint64(0)
    count = 0  # bits that are held
    for i in range(1 if are_steps else 0, len(values)):
        word = np.uint64((_step(values, i) if are_steps else values[i]) - smallest)
        left = bits
        while left > 0:
            taken = min(left, 8 - count)
            piece = word & ((np.uint64(1) << np.uint64(taken)) - np.uint64(1))
            held |= piece << np.uint64(count)
            word >>= np.uint64(taken)
            count += taken
            left -= taken
            if count == 8:
                packed[at] = np.uint8(held)
                at += 1
                held = np.uint64(0)
                count = 0
    if count > 0:
        packed[at] = np.uint8(held)


@njit
def read_bits(packed: UInt8Array, bits: int, words: UInt64Array) -> None:
    """The numbers that `write_bits` wrote; ``packed`` is long enough."""
    at = 0
    used = 0  # bits of the byte at ``at``
    for i in range(len(words)):
        word = np.uint64(0)
        have = 0
        while have < bits:
            taken = min(bits - have, 8 - used)
            piece = (np.uint64(packed[at]) >> np.uint64(used)) & ((np.uint64(1) << np.uint64(taken)) - np.uint64(1))
            word |= piece << np.uint64(have)
            have += taken
            used += taken
            if used == 8:
                used = 0
                at += 1
        words[i] = word


#: Quotients of so many ones or more are cut short, and the number follows in full.
ESCAPE = 24


@njit
def _rice_bits(word: np.uint64, low_bits: int) -> int:
    quotient = word >> np.uint64(low_bits)
    return ESCAPE + 64 if quotient >= np.uint64(ESCAPE) else int(quotient) + 1 + low_bits


@njit
def rice_plan(values: Int64Array) -> tuple[Any, int, int]:
    """The centre of the values, how many low bits to write plainly, and how many bits all of them take (-1: too many)."""
    low = values[0]
    for value in values:
        low = min(low, value)
    total = 0.0
    for value in values:
        total += np.float64(np.uint64(value - low))
    centre = low + np.int64(min(total / len(values), 2.0**62))
    away = 0.0
    for value in values:
        away += np.float64(_zigzag(np.uint64(value - centre)))
    guess = int(np.log2(max(away / len(values), 1.0)))
    best, best_size = 0, -1
    for low_bits in range(max(guess - 1, 0), min(guess + 2, 60)):
        size = 0
        for value in values:
            size += _rice_bits(_zigzag(np.uint64(value - centre)), low_bits)
        if best_size < 0 or size < best_size:
            best, best_size = low_bits, size
    return centre, best, best_size


@njit
def write_rice(values: Int64Array, centre: int, low_bits: int, packed: UInt8Array) -> None:
    """Distances from the centre: small ones in few bits, large ones in more. ``packed`` is zero and long enough."""
    at = 0
    for value in values:
        word = _zigzag(np.uint64(value - centre))
        quotient = word >> np.uint64(low_bits)
        ones = ESCAPE if quotient >= np.uint64(ESCAPE) else int(quotient)
        for _ in range(ones):
            packed[at >> 3] |= np.uint8(1 << (at & 7))
            at += 1
        count = low_bits
        if ones == ESCAPE:
            count = 64
        else:
            at += 1  # a zero ends the ones
        for i in range(count):
            if (word >> np.uint64(i)) & np.uint64(1):
                packed[at >> 3] |= np.uint8(1 << (at & 7))
            at += 1


@njit
def read_rice(packed: UInt8Array, centre: int, low_bits: int, values: Int64Array) -> bool:
    """Whether all values were there."""
    end = 8 * len(packed)
    at = 0
    for place in range(len(values)):
        ones = 0
        while ones < ESCAPE and at < end and packed[at >> 3] & np.uint8(1 << (at & 7)):
            ones += 1
            at += 1
        count = low_bits
        if ones == ESCAPE:
            count = 64
        else:
            at += 1
        if at + count > end:
            return False
        word = np.uint64(0)
        for i in range(count):
            if packed[at >> 3] & np.uint8(1 << (at & 7)):
                word |= np.uint64(1) << np.uint64(i)
            at += 1
        if ones < ESCAPE:
            word |= np.uint64(ones) << np.uint64(low_bits)
        step = (word >> np.uint64(1)) ^ (np.uint64(0) - (word & np.uint64(1)))
        values[place] = centre + np.int64(step)
    return True
