"""Keys as small dense numbers, so that kernels index arrays by key instead of hashing.

A key is a tuple of column values (text, integers, times, decimals, bytes, nulls). Each distinct one gets the next number when it
is first seen; new integers of one batch are numbered in their own order. Dates and times are the integers that they are made of.
Integers that lie close together go through a table, others through a hash kernel; strings are hashed once per distinct value of
a batch. Several columns are numbered one by one and their pairs of numbers numbered again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.base.arrays import Int32Array, Int64Array, frozen
from headwater.base.arrow import array_of_integers, integers_of, is_time_like, plain_array, plain_type
from headwater.base.jit import njit
from headwater.base.snapshots import made_of, parts, snapshot
from headwater.engine.intake.widening import Widening

#: Integers that span more go through a hash table.
TABLE_SPAN_MAX = 1 << 22
FIRST_LOOK = 1 << 12
OUTSIDE, NEW = 1, 2
#: The key column of nodes, those at which sources are at home; no user's column has this name.
NODE_KEY = "\0node"


def node_key(home: str | None) -> str:
    """The key column of nodes as the column ``home`` says them; None: as sources do."""
    return NODE_KEY if home is None else f"{NODE_KEY}:{home}"


def is_node_key(name: str) -> bool:
    return name.startswith(NODE_KEY)


def node_names(column: pa.Array) -> pa.Array:
    """The nodes that a column of events names, as text; null is the node without a name.

    >>> node_names(pa.array([7, None, -1])).to_pylist()
    ['7', '', '-1']
    """
    return plain_array(column).cast(pa.string()).fill_null("")


@njit
def _span(values: Int64Array) -> tuple[int, int]:
    low = values[0]
    high = values[0]
    for i in range(1, len(values)):
        low = min(low, values[i])
        high = max(high, values[i])
    return low, high


@njit
def _encode_by_table(values: Int64Array, low: int, table: Int32Array, ids: Int32Array) -> int:
    """Number values through a table indexed by value - low; 0, or why it gave up: OUTSIDE of the table, or a NEW value."""
    size = np.uint64(len(table))
    for i in range(len(values)):
        # Unsigned: values below the table turn out larger than it.
        cell = np.uint64(values[i] - low)
        if cell >= size:
            return OUTSIDE
        number = table[cell]
        if number < 0:
            return NEW
        ids[i] = number
    return 0


@njit
def _number_new(values: Int64Array, low: int, table: Int32Array, found: Int64Array, next_id: int) -> int:
    """Give new values the next numbers, in their own order: then keys and their numbers run in step. Returns how many."""
    for value in values:
        if table[value - low] == -1:
            table[value - low] = -2
    count = 0
    for cell in range(len(table)):
        if table[cell] == -2:
            table[cell] = next_id + count
            found[count] = low + cell
            count += 1
    return count


@njit
def _slot(value: int, mask: np.uint64) -> np.uint64:
    # Fibonacci hashing: the multiplication spreads neighbours, the high bits are the good ones. Not `operators/hashing.py`:
    # SplitMix64 costs every event a third more, and where a key lies in the table shows nowhere.
    return ((np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask


@njit
def _encode_by_hash(
    values: Int64Array,
    slots_value: Int64Array,
    slots_id: Int32Array,
    ids: Int32Array,
    found: Int64Array,
    next_id: int,
    room: int,
) -> tuple[int, int]:
    """Number values through an open-addressing table; stops, and returns how far it came, when ``room`` new ones are in."""
    mask = np.uint64(len(slots_id) - 1)
    count = 0
    for i in range(len(values)):
        slot = _slot(values[i], mask)
        while slots_id[slot] >= 0 and slots_value[slot] != values[i]:
            slot = (slot + np.uint64(1)) & mask
        if slots_id[slot] < 0:
            if count == room:
                return i, count
            slots_id[slot] = next_id + count
            slots_value[slot] = values[i]
            found[count] = values[i]
            count += 1
        ids[i] = slots_id[slot]
    return len(values), count


@njit
def _insert(values: Int64Array, first_id: int, slots_value: Int64Array, slots_id: Int32Array) -> None:
    mask = np.uint64(len(slots_id) - 1)
    for i in range(len(values)):
        slot = _slot(values[i], mask)
        while slots_id[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots_id[slot] = first_id + i
        slots_value[slot] = values[i]


class IntegerNumbers:
    """Distinct int64 values, numbered as they come; those of one batch mostly in their own order.

    >>> numbers = IntegerNumbers()
    >>> numbers.encode(np.array([7, 5, 7]))
    array([1, 0, 1], dtype=int32)
    >>> numbers.encode(np.array([3, 5])), numbers.values
    (array([2, 0], dtype=int32), array([5, 7, 3]))
    """

    def __init__(self, values: Int64Array | None = None, table_span_max: int = TABLE_SPAN_MAX) -> None:
        self._table_span_max = table_span_max
        self._known = np.empty(16, np.int64)
        self._count = 0
        self.table = np.empty(0, np.int32)
        self.table_low = 0
        self._slots_id = np.empty(0, np.int32)
        self._slots_value = np.empty(0, np.int64)
        if values is not None and len(values):
            # Not encode(): new values of one batch would be numbered in another order than the one they stand in.
            self._append(values)
            if not self._fit_table(int(values.min()), int(values.max())):
                self._fit_slots()

    @property
    def values(self) -> Int64Array:
        return self._known[: self._count]

    def __len__(self) -> int:
        return self._count

    def encode(self, values: Int64Array) -> Int32Array:
        ids = np.empty(len(values), np.int32)
        if len(values) == 0:
            return ids
        values = frozen(values, np.int64)
        if len(self._slots_id) == 0:
            if _encode_by_table(values, self.table_low, self.table, ids) == 0:
                return ids
            if self._fit_table(*map(int, _span(values))):
                found = np.empty(min(len(values), len(self.table)), np.int64)
                self._append(found[: _number_new(values, self.table_low, self.table, found, self._count)])
                _encode_by_table(values, self.table_low, self.table, ids)
                return ids
        done = 0
        while done < len(values):
            room = self._fit_slots()
            found = np.empty(min(room, len(values) - done), np.int64)
            step, count = _encode_by_hash(
                values[done:], self._slots_value, self._slots_id, ids[done:], found, self._count, len(found)
            )
            self._append(found[:count])
            done += step
        return ids

    def in_order(self) -> Int64Array:
        """The numbers, sorted by value."""
        if len(self.table):
            return self.table[self.table >= 0].astype(np.int64)
        return np.argsort(self.values).astype(np.int64)

    def _append(self, found: Int64Array) -> None:
        if self._count + len(found) > len(self._known):
            grown = np.empty(2 * (self._count + len(found)), np.int64)
            grown[: self._count] = self.values
            self._known = grown
        self._known[self._count : self._count + len(found)] = found
        self._count += len(found)

    def _fit_table(self, low: int, high: int) -> bool:
        """Make the table span all known values and [low, high]; False if that is too wide, for good."""
        if self._count:
            low, high = min(low, int(self.values.min())), max(high, int(self.values.max()))
        if high - low >= self._table_span_max:
            return False
        if len(self.table) and self.table_low <= low and high < self.table_low + len(self.table):
            return True
        self.table = np.full(high - low + 1, -1, np.int32)
        self.table_low = low
        self.table[self.values - low] = np.arange(self._count)
        return True

    def _fit_slots(self) -> int:
        """Keep the hash table at most half full; returns how many new values fit."""
        if 2 * self._count >= len(self._slots_id) // 2:
            size = max(1 << 12, len(self._slots_id) * 4)
            while size < 8 * self._count:
                size *= 2
            self._slots_id = np.full(size, -1, np.int32)
            self._slots_value = np.zeros(size, np.int64)
            _insert(self.values, 0, self._slots_value, self._slots_id)
            self.table = np.empty(0, np.int32)
        return len(self._slots_id) // 2 - self._count


def _plain_objects(known: Mapping[object, int]) -> list[object]:
    """Objects as a snapshot can hold them."""
    return [{"decimal": str(each)} if isinstance(each, Decimal) else each for each in known]


def _object_of(plain: Any) -> object:
    return Decimal(plain["decimal"]) if isinstance(plain, dict) else plain


class ColumnNumbers:
    """Distinct values of one key column, null among them: as int64 where they fit, else as objects."""

    def __init__(self) -> None:
        self.type: pa.DataType | None = None
        self._integers = IntegerNumbers()
        self._objects: dict[object, int] = {}  # texts, bytes, decimals, integers beyond int64
        self._null_id: int | None = None  # integers only: the number that stands for null

    def encode(self, array: pa.Array) -> Int32Array:
        """Numbers of the values of ``array``; its type was checked before."""
        type_ = plain_type(array.type)
        if self.type is None:
            self.type = type_
        if is_integer_key(type_):
            return self._encode_integers(integers_of(plain_array(array)))
        return self._encode_dictionary(array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array))

    def retype(self, change: Widening) -> None:
        """The column has grown; one without values may turn into any other."""
        if change.old is None:
            has_null = len(self) > 0
            self._integers, self._objects, self._null_id = IntegerNumbers(), {}, None
            if has_null:
                self.encode(pa.nulls(1, plain_type(change.new)))
        if self.type is not None:
            self.type = plain_type(change.new)

    def in_order(self) -> Int64Array | None:
        """The numbers sorted by value, where that is quickly done: integers without a null."""
        if self.type is None or not is_integer_key(self.type) or self._null_id is not None:
            return None
        return self._integers.in_order()

    def direct(self, array: pa.Array) -> DirectKeys | None:
        if len(self) == 0:
            # A first look lets the first batch go the straight way too.
            self.encode(array[:FIRST_LOOK])
        table = self._integers.table
        if self._null_id is not None or len(table) == 0:
            return None
        return DirectKeys(frozen(to_int64(array), np.int64), self._integers.table_low, table, len(self._integers))

    def _encode_integers(self, array: pa.Array) -> Int32Array:
        if array.null_count == 0:
            return self._shift(self._integers.encode(to_int64(array)))
        valid = np.asarray(array.is_valid())
        ids = np.empty(len(array), np.int32)
        if self._null_id is None:
            self._null_id = len(self)
        ids[valid] = self._shift(self._integers.encode(to_int64(array.drop_null())))
        ids[~valid] = self._null_id
        return ids

    def _shift(self, ids: Int32Array) -> Int32Array:
        """Integers seen after the null have numbers one higher than their place among the integers."""
        if self._null_id is None:
            return ids
        return np.where(ids >= self._null_id, ids + np.int32(1), ids)

    def _encode_dictionary(self, array: pa.DictionaryArray) -> Int32Array:
        entries = array.dictionary.to_pylist()
        known = self._objects
        mapping = np.array([known.setdefault(entry, len(known)) for entry in entries], np.int32)
        if array.null_count == 0:
            return np.asarray(mapping[np.asarray(array.indices)], np.int32)
        codes = np.asarray(array.indices.fill_null(len(entries)))
        with_null = np.append(mapping, np.int32(known.setdefault(None, len(known))))
        return np.asarray(with_null[codes], np.int32)

    state, restore = snapshot(
        "type",
        made_of("_integers", lambda integers: integers.values, IntegerNumbers),
        made_of("_objects", _plain_objects, lambda plain: {_object_of(each): i for i, each in enumerate(plain)}),
        "_null_id",
    )

    def __len__(self) -> int:
        return len(self._objects) or len(self._integers) + (self._null_id is not None)

    def values(self) -> pa.Array:
        """The value of each number, in the column's own type."""
        if self.type is None or not is_integer_key(self.type):
            return pa.array(list(self._objects), pa.string() if self.type is None else self.type)
        values = self._integers.values
        if self._null_id is None:
            return array_of_integers(pa.array(values), self.type)
        mask = np.zeros(len(values) + 1, bool)
        mask[self._null_id] = True
        return array_of_integers(pa.array(np.insert(values, self._null_id, 0), mask=mask), self.type)


class DirectKeys(NamedTuple):
    """Integer keys that need no numbering of their own: value v has the number ``table[v - low]``, -1 if it is new."""

    values: Int64Array
    low: int
    table: Int32Array
    key_count: int


class KeyTable:
    """Tuples of key columns as dense numbers.

    >>> table = KeyTable(["room"])
    >>> table.encode([pa.array(["a", "b", "a"])], 3)
    array([0, 1, 0], dtype=int32)
    >>> table.columns()[0].to_pylist(), table.ranks()
    (['a', 'b'], array([0, 1]))
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._parts = [ColumnNumbers() for _ in names]
        self._pairs = [IntegerNumbers() for _ in names[1:]]
        self._ranks = np.empty(0, np.int64)
        self._order = np.empty(0, np.int64)

    def encode(self, arrays: Sequence[pa.Array], length: int) -> Int32Array:
        if not arrays:
            return np.zeros(length, np.int32)
        ids = self._parts[0].encode(arrays[0])
        for part, pair, array in zip(self._parts[1:], self._pairs, arrays[1:], strict=True):
            ids = pair.encode((ids.astype(np.int64) << 32) | part.encode(array))
        return ids

    def retype(self, changes: Mapping[str, Widening]) -> None:
        """Key columns have grown: keys keep their numbers."""
        for name, part in zip(self.names, self._parts, strict=True):
            if name in changes:
                part.retype(changes[name])

    def direct(self, arrays: Sequence[pa.Array]) -> DirectKeys | None:
        """A single integer column without nulls, for kernels that look numbers up themselves."""
        if len(arrays) != 1 or arrays[0].null_count or not pa.types.is_int64(arrays[0].type):
            return None
        return self._parts[0].direct(arrays[0])

    def keep(self, numbers: Int64Array) -> Int32Array:
        """Forget all keys but these; returns the new number of each old one, -1 for those forgotten.

        >>> table = KeyTable(["room"])
        >>> _ = table.encode([pa.array(["a", "b", "c"])], 3)
        >>> table.keep(np.array([2])), table.columns()[0].to_pylist()
        (array([-1, -1,  0], dtype=int32), ['c'])
        """
        renumbered = np.full(len(self), -1, np.int32)
        kept = KeyTable(self.names)
        renumbered[numbers] = kept.encode([column.take(pa.array(numbers)) for column in self.columns()], len(numbers))
        self._parts, self._pairs, self._order, self._ranks = kept._parts, kept._pairs, kept._order, kept._ranks
        return renumbered

    state, restore = snapshot(
        parts("_parts"),
        made_of("_pairs", lambda pairs: [p.values for p in pairs], lambda kept: [*map(IntegerNumbers, kept)]),
    )

    def __len__(self) -> int:
        if not self.names:
            return 1
        return len(self._pairs[-1]) if self._pairs else len(self._parts[0])

    def columns(self) -> list[pa.Array]:
        """One array per key column: the values of every number, in the order of the numbers."""
        if len(self.names) < 2:
            return [part.values() for part in self._parts]
        ids = np.arange(len(self), dtype=np.int64)
        reversed_columns = []
        for part, pair in zip(reversed(self._parts[1:]), reversed(self._pairs), strict=True):
            joined = pair.values[ids]
            reversed_columns.append(part.values().take(pa.array(joined & 0xFFFFFFFF)))
            ids = joined >> 32
        reversed_columns.append(self._parts[0].values().take(pa.array(ids)))
        return list(reversed(reversed_columns))

    def in_order(self) -> Int64Array:
        """The numbers of all keys, sorted by key: nulls first, text as UTF-8 bytes, all else by value."""
        if len(self._order) != len(self):
            order = self._parts[0].in_order() if len(self._parts) == 1 else None
            self._order = _sorted_indices(self.columns(), len(self)) if order is None else order
        return self._order

    def ranks(self) -> Int64Array:
        """The place of each number when keys are sorted."""
        if len(self._ranks) != len(self):
            self._ranks = np.empty(len(self), np.int64)
            self._ranks[self.in_order()] = np.arange(len(self))
        return self._ranks


def _sorted_indices(columns: list[pa.Array], length: int) -> Int64Array:
    if not columns:
        return np.arange(length, dtype=np.int64)
    names = [f"key{i}" for i in range(len(columns))]
    table = pa.Table.from_arrays(columns, names=names)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending", "at_start") for name in names])
    return np.asarray(order).astype(np.int64)


def is_integer_key(type_: pa.DataType) -> bool:
    """Whether values fit int64: integers, booleans, dates and times; unsigned 64-bit integers are numbered like text."""
    is_whole = pa.types.is_integer(type_) and not pa.types.is_uint64(type_) or pa.types.is_boolean(type_)
    return bool(is_whole) or is_time_like(type_)


def to_int64(array: pa.Array) -> Int64Array:
    """Integers, booleans, dates or times without nulls as int64, without a copy where it is int64 already."""
    if not pa.types.is_int64(array.type):
        array = integers_of(array)
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
