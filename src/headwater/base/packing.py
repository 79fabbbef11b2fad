"""The byte form of arrays: integers in as few bytes as they need, the same bytes for the same values.

A partial travels, so its size counts; and two equal partials must have equal bytes, so every choice made here depends on
the values alone. `Writer` and `Reader` are a pair: what one writes, the other reads in the same order.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Self, TypeAlias

import numpy as np

from headwater.base.arrays import Float64Array, Int64Array, UInt8Array, empty, frozen
from headwater.base.integers import read_ints, write_ints
from headwater.base.names import names_from_bytes, names_to_bytes
from headwater.errors import FormatError

Bytes: TypeAlias = bytes | memoryview

INT64_MAX = np.int64(2**63 - 1)
#: No number that is written on its own takes more bytes; without a bound, made-up ones would cost time that grows by squares.
NUMBER_BYTES_MAX = 100
#: How many numbers may take no bytes (equal ones, or those in equal steps). A reader refuses more: a few bytes that were made
#: up must not cost gigabytes.
UNWRITTEN_MAX = 2**22
#: The same for all that one peer sends at once, in however many parts and columns: half a gigabyte of numbers.
UNWRITTEN_AT_ONCE_MAX = 2**26
#: An object takes about as much memory as this many numbers.
NUMBERS_PER_OBJECT = 4
#: Neither decimals nor whole numbers have more digits or bytes than this, squares of decimals included.
DIGITS_MAX, INTEGER_BYTES_MAX = 1000, 1000
#: How many numbers readers may still have that take no bytes, while one peer's message is read.
_room: Final[ContextVar[list[int] | None]] = ContextVar("_room", default=None)


@contextmanager
def one_peers_room(count: int = UNWRITTEN_AT_ONCE_MAX) -> Iterator[None]:
    """Within this, all readers together may have this many numbers that take no bytes: they share what one of them may have.

    >>> data = Writer().ints(np.zeros(1000, np.int64)).finish()
    >>> with one_peers_room(1500):
    ...     Reader(data).ints(), Reader(data).ints()
    Traceback (most recent call last):
    ...
    headwater.errors.FormatError: 1000 numbers are more than there are bytes for; of them, at most 500 may take no bytes
    """
    token = _room.set([count])
    try:
        yield
    finally:
        _room.reset(token)


def order_bits(values: Float64Array) -> Int64Array:
    """Floats as integers of the same order (NaN last): neighbours in value become neighbours in number.

    >>> [int(bits) for bits in np.diff(order_bits(np.array([-np.inf, -1.0, 0.0, 1.0, np.inf, np.nan]))) > 0]
    [1, 1, 1, 1, 1]
    """
    bits = values.view(np.int64)
    return bits ^ ((bits >> 63) & INT64_MAX)


def float_of_bits(bits: Int64Array) -> Float64Array:
    """The floats whose `order_bits` these are.

    >>> float_of_bits(order_bits(np.array([-1.5, 2.0])))
    array([-1.5,  2. ])
    """
    return (bits ^ ((bits >> 63) & INT64_MAX)).view(np.float64)


#: Nearly every number is a small one.
_ONE_BYTE: Final = tuple(bytes([value]) for value in range(0x80))


class Writer:
    """Collects the parts of a byte form, one behind the other; the ``version`` of the form stands in front, if it has one.

    >>> len(Writer().number(300).ints(np.arange(1000)).finish())
    7
    """

    def __init__(self, version: int | None = None) -> None:
        self._parts: list[Bytes] = []
        self._unwritten = 0
        if version is not None:
            self.number(version)

    def finish(self) -> bytes:
        """Everything written so far."""
        return b"".join(self._parts)

    def number(self, value: int) -> Self:
        """A number >= 0 of any size, seven bits to a byte."""
        if value < 0x80:
            self._parts.append(_ONE_BYTE[value])
            return self
        encoded = bytearray()
        while value >= 0x80:
            encoded.append(value & 0x7F | 0x80)
            value >>= 7
        encoded.append(value)
        self._parts.append(bytes(encoded))
        return self

    def signed(self, value: int) -> Self:
        """A number of any sign and size."""
        return self.number(value << 1 if value >= 0 else (-value << 1) - 1)

    def blob(self, data: Bytes) -> Self:
        """Bytes with their length in front."""
        self.number(len(data))
        self._parts.append(data)
        return self

    def ints(self, values: Int64Array) -> Self:
        """An int64 array: its length, and its numbers in as few bytes as they need."""
        values = frozen(values, np.int64)
        self.number(len(values))
        if len(values):
            data, unwritten = write_ints(values, UNWRITTEN_MAX - self._unwritten)
            self._unwritten += unwritten
            self._parts.append(data)
        return self

    def floats(self, values: Float64Array) -> Self:
        """A float64 array, to the last bit."""
        return self.ints(order_bits(np.ascontiguousarray(values)))

    def objects(self, values: Sequence[object]) -> Self:
        """Texts, bytes, decimals, whole numbers of any size and None."""
        tags = bytearray()
        encoded: list[bytes] = []
        for value in values:
            tag, data = _object_bytes(value)
            tags.append(tag)
            encoded.append(data)
        self.blob(bytes(tags))
        self.ints(np.array([len(data) for data in encoded], np.int64))
        self._parts.append(b"".join(encoded))
        return self

    def texts(self, values: Sequence[str]) -> Self:
        """Texts: their lengths as one list, then all of them as one."""
        lengths, data = names_to_bytes(values)
        return self.ints(lengths).blob(data)

    def words(self, values: np.ndarray[Any, Any]) -> Self:
        """An array of int64 or float64 as it lies in memory: quick, and eight bytes each."""
        self._parts.append(values.dtype.kind.encode())
        return self.blob(np.ascontiguousarray(values, f"<{values.dtype.kind}8").data.cast("B"))

    def array(self, values: np.ndarray[Any, Any]) -> Self:
        """An array of int64, float64 or objects, with a byte that says which."""
        kind = values.dtype.kind
        self._parts.append(kind.encode())
        if kind == "O":
            return self.objects(values)  # type: ignore[arg-type]
        return (self.floats if kind == "f" else self.ints)(values)


class Reader:
    """Reads what a `Writer` wrote: of ``what``, in this ``version`` if it has one. Anything else is a `FormatError`.

    Within ``with``, everything has to be read, and what NumPy says about parts that do not fit is such an error too.

    >>> with Reader(Writer(1).array(np.array([0.5, 0.5])).finish(), "loads", version=1) as reader:
    ...     reader.array()
    array([0.5, 0.5])
    >>> Reader(Writer(2).finish(), "loads", version=1)
    Traceback (most recent call last):
    ...
    headwater.errors.FormatError: loads of version 2; this release reads version 1
    """

    def __init__(self, data: Bytes, what: str = "a partial", version: int | None = None) -> None:
        self._data = memoryview(data)
        self._bytes: UInt8Array | None = None
        self._at = 0
        shared = _room.get()
        self._is_peers = shared is not None
        self._room = [UNWRITTEN_MAX] if shared is None else shared
        self._what = what
        if version is not None and (found := self.number()) != version:
            raise FormatError(f"{what} of version {found}; this release reads version {version}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self.finish()
        elif isinstance(error, ValueError | OverflowError | MemoryError):
            raise FormatError(f"{self._what} cannot be read: {error}") from error

    def finish(self) -> None:
        """Everything must have been read by now."""
        if self._at != len(self._data):
            raise FormatError(f"{len(self._data) - self._at} bytes too many behind {self._what}")

    def take(self, size: int) -> memoryview:
        """The next ``size`` bytes."""
        if size < 0:
            raise FormatError(f"{size} is no length")
        if size > len(self._data) - self._at:
            raise FormatError(f"{self._what} ends {size - (len(self._data) - self._at)} bytes early")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self) -> int:
        """A number >= 0."""
        data, at = self._data, self._at
        if at < len(data) and data[at] < 0x80:
            self._at = at + 1
            return data[at]
        value = 0
        for place, byte in enumerate(data[at : at + NUMBER_BYTES_MAX]):
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                self._at = at + place + 1
                return value
        raise FormatError("a number has no end")

    def count(self) -> int:
        """How many items follow; each takes at least one byte, so that there cannot be more than bytes."""
        count, left = self.number(), len(self._data) - self._at
        if count > left:
            raise FormatError(f"{count} items cannot be in {left} bytes")
        return count

    def signed(self) -> int:
        """A number of any sign."""
        value = self.number()
        return value >> 1 if value & 1 == 0 else -((value + 1) >> 1)

    def blob(self) -> bytes:
        """Bytes with their length in front."""
        return bytes(self.view())

    def view(self) -> memoryview:
        """Bytes with their length in front, not copied."""
        return self.take(self.number())

    def ints(self) -> Int64Array:
        """An int64 array."""
        count = self.number()
        if count == 0:
            return np.empty(0, np.int64)
        if self._bytes is None:
            self._bytes = frozen(np.frombuffer(self._data, np.uint8), np.uint8)
        room = self._room
        values, self._at, unwritten = read_ints(self._bytes, self._at, count, min(room[0], UNWRITTEN_MAX))
        room[0] -= unwritten
        return values

    def spend(self, count: int) -> None:
        """Something is to be unpacked into so many numbers more than were written; what did not come from a peer may be."""
        if self._is_peers and count > self._room[0]:
            raise FormatError(f"{self._what} would be {count} numbers that take no bytes; {self._room[0]} are allowed")
        self._room[0] -= max(count, 0) if self._is_peers else 0

    def floats(self) -> Float64Array:
        """A float64 array."""
        return float_of_bits(self.ints())

    def objects(self) -> list[object]:
        """What `Writer.objects` wrote."""
        tags = self.blob()
        lengths = self.ints()
        if len(lengths) != len(tags):
            raise FormatError("a list of values is damaged")
        self.spend(NUMBERS_PER_OBJECT * len(tags))
        return [_object_of(tag, bytes(self.take(int(length)))) for tag, length in zip(tags, lengths)]

    def texts(self, count_max: int | None = None) -> tuple[str, ...]:
        """What `Writer.texts` wrote, at most so many."""
        lengths = self.ints()
        if count_max is not None and len(lengths) > count_max:
            raise FormatError(f"{len(lengths)} names are more than the {count_max} that are allowed")
        return names_from_bytes(lengths, self.blob())

    def words(self) -> np.ndarray[Any, Any]:
        """What `Writer.words` wrote."""
        kind, data = bytes(self.take(1)), self.view()
        if kind not in (b"i", b"f") or len(data) % 8:
            raise FormatError(f"{len(data)} bytes are no array of kind {kind!r}")
        values = empty(len(data) // 8, np.int64 if kind == b"i" else np.float64)
        values[:] = np.frombuffer(data, f"<{kind.decode()}8")
        return values

    def array(self) -> np.ndarray[Any, Any]:
        """What `Writer.array` wrote."""
        kind = bytes(self.take(1))
        if kind == b"O":
            return object_array(self.objects())
        if kind not in (b"i", b"f"):
            raise FormatError(f"no array has the kind {kind!r}")
        return self.floats() if kind == b"f" else self.ints()


def object_array(values: Sequence[object]) -> np.ndarray[Any, Any]:
    """An object array that holds each value as it is, lists included.

    >>> object_array(["a", (1, 2)]).shape
    (2,)
    """
    array = np.empty(len(values), object)
    array[:] = values if not any(isinstance(value, list | tuple) for value in values) else _each(values)
    return array


def _each(values: Sequence[object]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def _object_bytes(value: object) -> tuple[int, bytes]:
    match value:
        case None:
            return 0, b""
        case str():
            return 1, value.encode("utf-8", "surrogatepass")
        case bytes():
            return 2, value
        case decimal.Decimal():
            return 3, str(value).encode()
        case bool():
            return 5, bytes([value])
        case int():
            return 4, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        case _:
            raise FormatError(f"a value of type {type(value).__name__} has no byte form")


def _object_of(tag: int, data: bytes) -> object:
    try:
        match tag:
            case 0:
                return None
            case 1:
                return data.decode("utf-8", "surrogatepass")
            case 2:
                return data
            case 3:
                return _decimal_of(data)
            case 4 if len(data) <= INTEGER_BYTES_MAX or _room.get() is None:
                return int.from_bytes(data, "little", signed=True)
            case 5:
                return bool(data[0])
    except (ArithmeticError, ValueError, IndexError) as error:
        raise FormatError(f"a value is damaged: {error}") from error
    raise FormatError(f"no value has the tag {tag} and {len(data)} bytes")


def _decimal_of(data: bytes) -> decimal.Decimal:
    """A decimal; from a peer one that can be reckoned with: what is written in a few digits may have millions."""
    value = decimal.Decimal(data.decode())
    if _room.get() is not None:
        exponent = value.as_tuple().exponent
        is_long = isinstance(exponent, str) or max(abs(exponent), abs(value.adjusted())) > DIGITS_MAX
        if is_long or len(data) > 2 * DIGITS_MAX:
            raise FormatError("a decimal has more digits than any that is computed")
    return value
