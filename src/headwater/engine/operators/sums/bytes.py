"""The byte form of exact sums: small, and the same bytes for the same sums.

A sum is written as the bytes of its two's complement without the empty bytes at both ends, with their number and the
place of the first one: about 13 bytes for a thousand ordinary floats. Neither the unit nor the width in memory leaves a
trace. Special values follow for the rows that have any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.base.arrays import Int64Array, UInt8Array, UInt64Array
from headwater.base.jit import njit
from headwater.base.packing import Bytes, Reader, Writer
from headwater.errors import FormatError

VERSION = 1
#: Sums of squares reach from ``2**-2148`` to ``2**2048`` and some; nothing outside this many bytes was ever a sum.
PLACE_MAX = 512


@dataclass(frozen=True, slots=True)
class EncodedSums:
    """Sums as they travel: row i is ``sizes[i]`` bytes of ``digits``, the first one worth ``2**(8 * places[i])``.

    All nonzero sums are multiples of ``2**low`` and smaller than ``2**high``.
    """

    sizes: Int64Array
    places: Int64Array
    digits: UInt8Array
    low: int
    high: int
    specials: Int64Array | None

    def limbs(self, unit: int, width: int) -> UInt64Array:
        """The sums in units of ``2**unit``, with ``width`` words each."""
        rows = np.zeros((len(self.sizes), 8 * width), np.uint8)
        _unpack(self.sizes, self.places - unit // 8, self.digits, rows)
        return rows.view("<u8").astype(np.uint64, copy=False)


def encode(limbs: UInt64Array, unit: int, specials: Int64Array | None) -> bytes:
    """The byte form of sums in units of ``2**unit``.

    >>> len(encode(np.array([[1, 0], [2**50, 2**10]], np.uint64), -80, None))
    17
    """
    rows = _bytes_of(limbs)
    firsts, sizes = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    _measure(rows, firsts, sizes)
    digits = np.empty(int(sizes.sum()), np.uint8)
    _pack(rows, firsts, sizes, digits)
    writer = Writer(VERSION).ints(sizes).ints(firsts[sizes > 0] + unit // 8).blob(digits.tobytes())
    if specials is None:
        return writer.number(0).number(0).finish()
    special_rows = np.flatnonzero(specials.any(axis=1))
    return writer.ints(special_rows).ints(specials[special_rows].ravel()).finish()


def parse(data: Bytes) -> EncodedSums:
    """What `encode` wrote, checked: anything else is a `FormatError`."""
    with Reader(data, "exact sums", VERSION) as reader:
        sizes, nonzero_places = reader.ints(), reader.ints()
        digits = np.frombuffer(reader.blob(), np.uint8)
        special_rows, special_counts = reader.ints(), reader.ints()
    nonzero = sizes != 0
    if len(sizes) and (sizes.min() < 0 or sizes.max() > 2 * PLACE_MAX):
        raise FormatError("a sum of a size that no sum has")
    if len(nonzero_places) != nonzero.sum() or len(digits) != sizes.sum():
        raise FormatError("exact sums: the parts do not fit together")
    if len(nonzero_places) and not -PLACE_MAX <= nonzero_places.min() <= nonzero_places.max() <= PLACE_MAX:
        raise FormatError("a sum out of the range of all sums")
    places = np.zeros(len(sizes), np.int64)
    places[nonzero] = nonzero_places
    if not _minimal(sizes, digits):
        raise FormatError("a sum that is not in its shortest form")
    low, high = _extent_of_packed(sizes, places, digits)
    # One sum that is far away makes all of them wide.
    reader.spend((len(sizes) * (high - low) >> 6) - len(digits))
    return EncodedSums(sizes, places, digits, low, high, _specials(special_rows, special_counts, len(sizes)))


def _specials(rows: Int64Array, counts: Int64Array, row_count: int) -> Int64Array | None:
    if len(counts) != 3 * len(rows):
        raise FormatError("special values: the parts do not fit together")
    if len(rows) == 0:
        return None
    if rows.min() < 0 or rows.max() >= row_count or (np.diff(rows) <= 0).any() or counts.min() < 0:
        raise FormatError("special values: a row or a number that cannot be")
    specials = np.zeros((row_count, 3), np.int64)
    specials[rows] = counts.reshape(-1, 3)
    if not specials[rows].any(axis=1).all():
        raise FormatError("special values: a row without any")
    return specials


def extent(limbs: UInt64Array, unit: int) -> tuple[int, int]:
    """The exponents between which the bits of all these sums lie: multiples of ``2**low``, smaller than ``2**high``.

    >>> extent(np.array([[0, 1], [0, 2**10]], np.uint64), unit=-80)
    (-16, -5)
    """
    rows = _bytes_of(limbs)
    firsts, sizes = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    _measure(rows, firsts, sizes)
    digits = np.empty(int(sizes.sum()), np.uint8)
    _pack(rows, firsts, sizes, digits)
    low, high = _extent_of_packed(sizes, firsts + unit // 8, digits)
    return low, high


def _bytes_of(limbs: UInt64Array) -> UInt8Array:
    return np.ascontiguousarray(limbs, "<u8").view(np.uint8)


@njit
def _measure(rows: UInt8Array, firsts: Int64Array, sizes: Int64Array) -> None:
    """Where the bytes that count begin in each row, and how many they are: none for zero."""
    width = rows.shape[1]
    for i in range(len(rows)):
        first = 0
        while first < width and rows[i, first] == 0:
            first += 1
        last = width
        if first < width:
            sign = rows[i, width - 1] >> 7
            # A byte that only repeats the sign goes, as long as the byte below still shows it.
            while last - 1 > first and rows[i, last - 1] == sign * 255 and rows[i, last - 2] >> 7 == sign:
                last -= 1
        firsts[i] = first
        sizes[i] = last - first


@njit
def _pack(rows: UInt8Array, firsts: Int64Array, sizes: Int64Array, digits: UInt8Array) -> None:
    at = 0
    for i in range(len(rows)):
        for k in range(sizes[i]):
            digits[at] = rows[i, firsts[i] + k]
            at += 1


@njit
def _unpack(sizes: Int64Array, firsts: Int64Array, digits: UInt8Array, rows: UInt8Array) -> None:
    at = 0
    for i in range(len(rows)):
        if sizes[i] > 0:
            for k in range(sizes[i]):
                rows[i, firsts[i] + k] = digits[at]
                at += 1
            if digits[at - 1] >> 7 != 0:
                rows[i, firsts[i] + sizes[i] :] = 255


@njit
def _minimal(sizes: Int64Array, digits: UInt8Array) -> bool:
    """Whether no row begins with an empty byte or ends with one that only repeats the sign."""
    at = 0
    for i in range(len(sizes)):
        size = sizes[i]
        if size > 0:
            top = digits[at + size - 1]
            if digits[at] == 0:
                return False
            if size > 1 and (top == 0 or top == 255) and digits[at + size - 2] >> 7 == top >> 7:
                return False
            at += size
    return True


@njit
def _extent_of_packed(sizes: Int64Array, places: Int64Array, digits: UInt8Array) -> tuple[int, int]:
    low, high = 1 << 20, -(1 << 20)
    at = 0
    for i in range(len(sizes)):
        if sizes[i] > 0:
            at += sizes[i]
            top = np.int64(digits[at - 1])
            if top > 127:
                top = 256 - top  # the bytes below only make a negative number's magnitude smaller
            bits = 0
            while top > 0:
                bits += 1
                top >>= 1
            low = min(low, 8 * places[i])
            high = max(high, 8 * (places[i] + sizes[i] - 1) + bits)
    return (low, high) if low <= high else (0, 0)
