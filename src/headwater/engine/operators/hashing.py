"""A 64-bit hash of values that is the same in every process, on every machine and in every release.

Numbers hash by value: 3, 3.0 and Decimal("3.00") are the same. Texts and bytes hash by their bytes.
"""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Float64Array, Int64Array, UInt8Array, UInt64Array, frozen
from headwater.base.jit import njit
from headwater.engine.operators.objects import EXACT

U = np.uint64
#: FNV-1a's start and factor for texts; SplitMix64's constants spread the result over all bits.
TEXT_START, TEXT_FACTOR = U(0xCBF29CE484222325), U(0x100000001B3)
STEP, MIX_1, MIX_2 = U(0x9E3779B97F4A7C15), U(0xBF58476D1CE4E5B9), U(0x94D049BB133111EB)
INT64 = range(-(2**63), 2**63)


def hash_values(data: np.ndarray[Any, Any]) -> UInt64Array:
    """The hash of each value of an int64, float64 or object array.

    >>> numbers = hash_values(np.array([3, 4]))
    >>> (numbers == hash_values(np.array([3.0, 4.0]))).all(), numbers[0] == numbers[1]
    (np.True_, np.False_)
    """
    out = np.empty(len(data), np.uint64)
    if data.dtype == object:
        return _hash_objects(data.tolist(), out)
    if data.dtype.kind == "f":
        floats = frozen(data, np.float64)
        _hash_floats(floats, floats.view(np.int64), out)
    else:
        _hash_ints(frozen(data, np.int64), out)
    return out


def hash_texts(texts: pa.Array) -> UInt64Array:
    """The hash of each of some bytes, none of them null, in a large binary array."""
    out = np.empty(len(texts), np.uint64)
    _, offsets, content = texts.buffers()
    starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    _hash_texts(np.frombuffer(content or b"", np.uint8), starts, out)
    return out


def mixed_with(words: UInt64Array, others: UInt64Array) -> None:
    """Mix other hashes into words, in place: the hash of several values together, in their order."""
    _mix(words, others)


def _hash_objects(values: list[Any], out: UInt64Array) -> UInt64Array:
    """Whole numbers go the way of integers, everything else the way of texts."""
    whole = [_whole_number(value) for value in values]
    texts = [b"" if number is not None else _text(value) for value, number in zip(values, whole)]
    out[:] = hash_texts(pa.array(texts, pa.large_binary()))
    places = np.flatnonzero(np.array([number is not None for number in whole], bool))
    if len(places):
        hashed = np.empty(len(places), np.uint64)
        _hash_ints(frozen(np.array([number for number in whole if number is not None]), np.int64), hashed)
        out[places] = hashed
    return out


def _whole_number(value: object) -> int | None:
    if isinstance(value, decimal.Decimal) and value == value.to_integral_value():
        return int(value) if int(value) in INT64 else None
    return None


def _text(value: object) -> bytes:
    match value:
        case str():
            return value.encode("utf-8", "surrogatepass")
        case bytes():
            return value
        case decimal.Decimal():
            return format(value.normalize(EXACT), "f").encode()
        case None:
            return b""
        case _:
            raise TypeError(f"a value of type {type(value).__name__} has no hash")


@njit
def _mixed(word: U) -> U:
    """SplitMix64: every bit of the result depends on every bit of the word."""
    word = word + STEP
    word = (word ^ (word >> U(30))) * MIX_1
    word = (word ^ (word >> U(27))) * MIX_2
    return word ^ (word >> U(31))


@njit
def _mix(words: UInt64Array, others: UInt64Array) -> None:
    for i in range(len(words)):
        words[i] = _mixed(words[i] ^ others[i])


@njit
def _hash_ints(values: Int64Array, out: UInt64Array) -> None:
    for i in range(len(values)):
        out[i] = _mixed(U(values[i]))


@njit
def _hash_floats(values: Float64Array, bits: Int64Array, out: UInt64Array) -> None:
    for i in range(len(values)):
        value = values[i]
        if value == np.floor(value) and abs(value) < 9.2e18:
            out[i] = _mixed(U(np.int64(value)))
        else:
            out[i] = _mixed(U(bits[i]))


@njit
def _hash_texts(content: UInt8Array, starts: Int64Array, out: UInt64Array) -> None:
    for i in range(len(out)):
        word = TEXT_START
        for j in range(starts[i], starts[i + 1]):
            word = (word ^ U(content[j])) * TEXT_FACTOR
        out[i] = _mixed(word)
