"""Numbers of varying length: seven bits to a byte, or all of a list with as many bits as the largest needs."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.jit import njit

UInt8Array: TypeAlias = NDArray[np.uint8]
UInt64Array: TypeAlias = NDArray[np.uint64]


@njit
def _zigzag(step: np.uint64) -> np.uint64:
    """Small steps of either sign as small numbers."""
    return np.uint64((step << np.uint64(1)) ^ (np.uint64(0) - (step >> np.uint64(63))))


@njit
def varint_size(steps: UInt64Array) -> int:
    """How many bytes these steps take."""
    size = len(steps)
    for i in range(len(steps)):
        rest = _zigzag(steps[i]) >> np.uint64(7)
        while rest != np.uint64(0):
            size += 1
            rest >>= np.uint64(7)
    return size


@njit
def write_varints(steps: UInt64Array, encoded: UInt8Array) -> None:
    """Fill ``encoded``, which is as long as `varint_size` says."""
    at = 0
    for i in range(len(steps)):
        rest = _zigzag(steps[i])
        while rest >= np.uint64(0x80):
            encoded[at] = np.uint8((rest & np.uint64(0x7F)) | np.uint64(0x80))
            rest >>= np.uint64(7)
            at += 1
        encoded[at] = np.uint8(rest)
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
def write_bits(words: UInt64Array, bits: int, packed: UInt8Array) -> None:
    """Each number in ``bits`` bits, one behind the other, lowest bits first; ``packed`` is zero and long enough."""
    at = 0
    held = np.uint64(0)
    count = 0  # bits that are held
    for word in words:
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
