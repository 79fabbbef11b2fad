"""Integer codec: a list of int64 in as few bytes as it needs, as LEB128 varints, by fixed-width bit packing or by Golomb-Rice.

The same numbers always become the same bytes: the way is chosen by the values alone. A delta has a dozen lists of a few numbers,
so each list is written and read by one call of a kernel; Python only says what is wrong with bytes that were made up.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headwater.base.arrays import Int64Array, UInt8Array, UInt64Array
from headwater.base.jit import leading_zeros, njit
from headwater.errors import FormatError

#: The ways to write integers: distances from the smallest in whole bytes, the same of steps, steps as varints, the first two in
#: as many bits as they need, and distances from the middle (Rice). Of equal size, the first one is taken.
_PLAIN, _STEPS, _VARINT, _BITS, _STEP_BITS, _RICE = range(6)
#: Shorter lists are not worth trying the last way.
RICE_COUNT_MIN = 64
#: A quotient of this many ones or more is cut short, and the number follows in full.
ESCAPE = 24
#: No number takes more bytes than it has in memory; the head of a list has a form, a width and two numbers.
HEAD_BYTES = 32
#: Of longer lists the head is read before there is room made for the numbers: it may be made up.
AT_ONCE_MAX = 1 << 10
_FAR = 1 << 62
_ZERO, _ONE, _SEVEN, _SIGN = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(63)
_LOW, _MORE = np.uint64(0x7F), np.uint64(0x80)
_DAMAGED, _UNKNOWN_WAY, _UNAFFORDABLE = -1, -2, -3
_NO_WORDS = np.empty(0, np.uint64)
_REASONS: Final = {
    _DAMAGED: "a list of numbers is damaged, or its end is missing",
    _UNKNOWN_WAY: "a list of numbers is written in a way that this release does not know",
}


def write_ints(values: Int64Array, room: int) -> tuple[bytes, int]:
    """The bytes of at least one number, read-only, without their count; and how many of them take no bytes, at most ``room``.

    >>> from headwater.base.arrays import frozen
    >>> write_ints(frozen(np.arange(1000), np.int64), room=1000)
    (b'\\x10\\x00\\x02', 1000)
    """
    out = np.empty(8 * len(values) + HEAD_BYTES, np.uint8)
    size, unwritten = _write(values, room, out)
    return out[:size].tobytes(), unwritten


def read_ints(data: UInt8Array, at: int, count: int, room: int) -> tuple[Int64Array, int, int]:
    """The ``count`` numbers that begin at ``at``, where they end, and how many of them take no bytes, at most ``room``.

    Anything else is a `FormatError`, and costs no memory.
    """
    if count > AT_ONCE_MAX:
        is_possible = count <= len(data) - at + room
        end, reason = _read(data, at, count, room, _NO_WORDS) if is_possible else (-1, _UNAFFORDABLE)
        if end < 0:
            raise _error(reason, count, room)
    words = np.empty(count, np.uint64)
    end, unwritten = _read(data, at, count, room, words)
    if end < 0:
        raise _error(unwritten, count, room)
    return words.view(np.int64), end, unwritten


def _error(reason: int, count: int, room: int) -> FormatError:
    few = f"{count} numbers are more than there are bytes for; of them, at most {room} may take no bytes"
    return FormatError(_REASONS.get(reason, few))


@njit
def _bit_length(word: np.uint64) -> int:
    zeros: int = leading_zeros(word)
    return 64 - zeros


@njit
def _zigzag(step: np.uint64) -> np.uint64:
    """Zigzag encoding: small steps of either sign as small numbers."""
    return np.uint64((step << _ONE) ^ (_ZERO - (step >> _SIGN)))


@njit
def _unzigzag(word: np.uint64) -> np.uint64:
    return np.uint64((word >> _ONE) ^ (_ZERO - (word & _ONE)))


@njit
def _step(values: Int64Array, i: int) -> Any:
    """From one value to the next, from zero to the first. Differences wrap around, and so back again."""
    return values[i] - values[i - 1] if i > 0 else values[0]


# --- one number ---


@njit
def _put_varint(out: UInt8Array, at: int, word: np.uint64) -> int:
    while word >= _MORE:
        out[at] = np.uint8((word & _LOW) | _MORE)
        word >>= _SEVEN
        at += 1
    out[at] = np.uint8(word)
    return at + 1


@njit
def _take_varint(data: UInt8Array, at: int, end: int) -> tuple[int, Any]:
    """Read one varint: where it ends, and its value; -1 if it has no end here, or more than 64 bits."""
    word = _ZERO
    for place in range(min(10, end - at)):
        byte = np.uint64(data[at + place])
        word |= (byte & _LOW) << np.uint64(7 * place)
        if byte < _MORE:
            return (-1 if place == 9 and byte > _ONE else at + place + 1), word
    return -1, word


# --- writing ---


@njit
def _survey(values: Int64Array) -> tuple[Any, Any, Any, Any, int]:
    """The smallest and the largest value, the smallest and the largest step, and the size of all steps as varints."""
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
        while rest >= _MORE:
            size += 1
            rest >>= _SEVEN
    return low, high, step_low, step_high, size


@njit
def _price(count: int, bits: int, numbers: int, room: int) -> int:
    """What single bits cost: their bytes and an eighth more, for they take longer to read.

    _FAR, if a reader would refuse that many numbers in that few bytes.
    """
    if bits == 0:
        return _FAR
    size = (count * bits + 7) >> 3
    size += (size >> 3) + 1
    return size if numbers - size <= room else _FAR


@njit
def _write(values: Int64Array, room: int, out: UInt8Array) -> tuple[int, int]:
    """Write a list in the way that takes fewest bytes; returns how many bytes it took, and how many numbers took none."""
    count = len(values)
    low, high, step_low, step_high, varint_bytes = _survey(values)
    bits = _bit_length(np.uint64(high) - np.uint64(low))
    # The first value leads from zero: then steps say everything.
    step_bits = _bit_length(np.uint64(step_high) - np.uint64(step_low)) if count > 1 else 0
    narrowest = 0 if count <= room else 1
    width, step_width = max((bits + 7) >> 3, narrowest), max((step_bits + 7) >> 3, narrowest)
    way, best = _PLAIN, width * count
    if step_width * (count - 1) < best:
        way, best = _STEPS, step_width * (count - 1)
    if varint_bytes < best:
        way, best = _VARINT, varint_bytes
    price = _price(count, bits, count, room)
    if price < best:
        way, best = _BITS, price
    price = _price(count - 1, step_bits, count, room)
    if price < best:
        way, best = _STEP_BITS, price
    if count >= RICE_COUNT_MIN and best > count >> 1:
        centre, low_bits, rice_bits = _rice_plan(values)
        # Values from end to end of the numbers have no middle: then there is no plan.
        if rice_bits >= 0 and _price(1, rice_bits, count, room) < best:
            return _write_rice(values, centre, low_bits, (rice_bits + 7) >> 3, out)
    if way == _VARINT:
        out[0] = np.uint8(way << 4)
        at = _put_varint(out, 1, np.uint64(varint_bytes))
        for i in range(count):
            at = _put_varint(out, at, _zigzag(np.uint64(_step(values, i))))
        return at, 0
    are_steps, is_packed = way in (_STEPS, _STEP_BITS), way in (_BITS, _STEP_BITS)
    smallest = low
    if are_steps:
        smallest = step_low if count > 1 else np.int64(0)
        width, bits = step_width, step_bits
    at = 1
    if is_packed:
        out[0], out[1] = np.uint8(way << 4), np.uint8(bits)
        at = 2
    else:
        out[0] = np.uint8(way << 4 | width)
        bits = 8 * width
    if are_steps:
        at = _put_varint(out, at, _zigzag(np.uint64(values[0])))
    begin = _put_varint(out, at, _zigzag(np.uint64(smallest)))
    end = _write_bits(values, are_steps, smallest, bits, out, begin)
    # Of whole bytes, one for the first value of steps is none of its own: only numbers without any are unwritten.
    return end, max(count - (end - begin), 0) if is_packed or bits == 0 else 0


@njit
def _write_bits(values: Int64Array, are_steps: bool, smallest: int, bits: int, out: UInt8Array, at: int) -> int:
    """The distances of values, or of the steps behind the first, from the smallest, in ``bits`` bits each, lowest bits first."""
    if bits == 0:
        return at
    held = _ZERO
    count = 0  # bits that are held, fewer than 64
    for i in range(1 if are_steps else 0, len(values)):
        word = np.uint64((_step(values, i) if are_steps else values[i]) - smallest)
        held |= word << np.uint64(count)
        count += bits
        if count >= 64:
            for place in range(8):
                out[np.uint64(at + place)] = np.uint8(held >> np.uint64(8 * place))
            at += 8
            count -= 64
            held = word >> np.uint64(bits - count) if count > 0 else _ZERO
    for place in range((count + 7) >> 3):
        out[at] = np.uint8(held >> np.uint64(8 * place))
        at += 1
    return at


@njit
def _rice_bits(word: np.uint64, low_bits: int) -> int:
    quotient = word >> np.uint64(low_bits)
    return ESCAPE + 64 if quotient >= np.uint64(ESCAPE) else int(quotient) + 1 + low_bits


@njit
def _rice_plan(values: Int64Array) -> tuple[Any, int, int]:
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
def _write_rice(values: Int64Array, centre: int, low_bits: int, size: int, out: UInt8Array) -> tuple[int, int]:
    """Distances from the centre: small ones in few bits, large ones in more."""
    out[0], out[1] = np.uint8(_RICE << 4), np.uint8(low_bits)
    begin = _put_varint(out, _put_varint(out, 2, _zigzag(np.uint64(centre))), np.uint64(size))
    packed = out[begin : begin + size]
    packed[:] = 0
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
            if (word >> np.uint64(i)) & _ONE:
                packed[at >> 3] |= np.uint8(1 << (at & 7))
            at += 1
    return begin + size, max(len(values) - size, 0)


# --- reading ---


@njit
def _read(data: UInt8Array, at: int, count: int, room: int, words: UInt64Array) -> tuple[int, int]:
    """Where the numbers end, and how many took no bytes; or -1 and why. Without room for the numbers only the head is read."""
    if at >= len(data):
        return -1, _DAMAGED
    way, width = int(data[at]) >> 4, int(data[at]) & 15
    are_steps, is_packed = way in (_STEPS, _STEP_BITS), way in (_BITS, _STEP_BITS)
    if way > _RICE or width > (8 if way in (_PLAIN, _STEPS) else 0):
        return -1, _UNKNOWN_WAY
    at += 1
    bits = 8 * width
    if is_packed or way == _RICE:
        if at >= len(data):
            return -1, _DAMAGED
        bits = int(data[at])
        at += 1
        if bits > (60 if way == _RICE else 64) or (is_packed and bits == 0):
            return -1, _DAMAGED
    first = base = _ZERO
    if are_steps:
        at, first = _take_varint(data, at, len(data))
    if way != _VARINT and at >= 0:
        at, base = _take_varint(data, at, len(data))
    written = count - 1 if are_steps else count
    size: Any = (written * bits + 7) >> 3
    if way in (_VARINT, _RICE) and at >= 0:
        at, length = _take_varint(data, at, len(data))
        size = np.int64(min(length, np.uint64(len(data) + 1)))
    if at < 0 or size > len(data) - at:
        return -1, _DAMAGED
    unwritten = max(count - size, 0) if is_packed or way in (_VARINT, _RICE) or bits == 0 else 0
    if unwritten > (0 if way == _VARINT else room) or (way == _RICE and count > 8 * size):
        return -1, _UNAFFORDABLE
    end = at + size
    if len(words) < count:
        return end, unwritten
    base = _unzigzag(base)
    if way == _RICE:
        return (end, unwritten) if _read_rice(data[at:end], base, bits, words) else (-1, _DAMAGED)
    if way == _VARINT:
        return (end, unwritten) if _read_varints(data[at:end], words) else (-1, _DAMAGED)
    if not are_steps:
        _read_bits(data[at:end], bits, base, words)
        return end, unwritten
    _read_bits(data[at:end], bits, base, words[1:])
    words[0] = _unzigzag(first)
    for i in range(1, count):
        words[i] += words[i - 1]
    return end, unwritten


@njit
def _read_varints(encoded: UInt8Array, words: UInt64Array) -> bool:
    """Read varints; returns whether there were exactly as many as ``words`` has room for."""
    at = 0
    total = _ZERO
    for i in range(len(words)):
        at, word = _take_varint(encoded, at, len(encoded))
        if at < 0:
            return False
        total += _unzigzag(word)
        words[i] = total
    return at == len(encoded)


@njit
def _read_bits(packed: UInt8Array, bits: int, base: np.uint64, words: UInt64Array) -> None:
    """The numbers that `_write_bits` wrote, with ``base`` added; ``packed`` is long enough."""
    if bits == 0:
        words[:] = base
        return
    mask = ~_ZERO >> np.uint64(64 - bits)
    at = 0
    held = _ZERO
    have = 0  # bits that are held
    for i in range(len(words)):
        word = held
        if have >= bits:
            held >>= np.uint64(bits)
            have -= bits
        else:
            fresh = _ZERO
            got = min(len(packed) - at, 8)
            if got == 8:
                for place in range(8):
                    fresh |= np.uint64(packed[np.uint64(at + place)]) << np.uint64(8 * place)
            else:
                for place in range(got):
                    fresh |= np.uint64(packed[at + place]) << np.uint64(8 * place)
            at += got
            word |= fresh << np.uint64(have)
            used = bits - have
            held = fresh >> np.uint64(used) if used < 64 else _ZERO
            have = 8 * got - used
        words[i] = (word & mask) + base


@njit
def _read_rice(packed: UInt8Array, centre: np.uint64, low_bits: int, words: UInt64Array) -> bool:
    """Read Golomb-Rice codes; returns whether all values were there."""
    end = 8 * len(packed)
    at = 0
    for place in range(len(words)):
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
        word = _ZERO
        for i in range(count):
            if packed[at >> 3] & np.uint8(1 << (at & 7)):
                word |= _ONE << np.uint64(i)
            at += 1
        if ones < ESCAPE:
            word |= np.uint64(ones) << np.uint64(low_bits)
        words[place] = centre + _unzigzag(word)
    return True
