"""The key table against a dictionary: numbers, values, order, and what is forgotten."""

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.arrow import plain_type
from headwater.base.packing import Reader, Writer
from headwater.engine.intake.keys import IntegerNumbers, KeyTable
from headwater.engine.wire.part_bytes import read_keys, write_keys
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.engine.wire.split import bucket_numbers

near = st.integers(-20, 20)
far = st.sampled_from([-(2**63), 2**63 - 1, 2**40, -(2**40), 0])
words = st.sampled_from(["", "a", "b", "é", "\U0001f600", "z"])
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "near": (pa.int64(), near),
    "far": (pa.int64(), near | far),
    "small": (pa.int8(), near),
    "nullable": (pa.int64(), st.none() | near),
    "bool": (pa.bool_(), st.booleans()),
    "word": (pa.string(), words),
    "nullable word": (pa.string(), st.none() | words),
    "coded": (pa.dictionary(pa.int32(), pa.string()), st.none() | words),
    "day": (pa.date32(), st.none() | st.dates()),
    "coded day": (pa.dictionary(pa.int32(), pa.date32()), st.none() | st.dates()),
    "moment": (pa.timestamp("us"), st.none() | st.datetimes()),
    "zoned": (pa.timestamp("ms", "Asia/Tokyo"), st.none() | near.map(lambda s: datetime.fromtimestamp(s, UTC))),
    "clock": (pa.time32("s"), st.none() | near.map(lambda second: time(second=second % 60))),
    "lasting": (pa.duration("us"), st.none() | near.map(lambda second: timedelta(seconds=second))),
    "decimal": (pa.decimal128(9, 2), st.none() | near.map(lambda cents: Decimal(cents).scaleb(-2))),
    "bytes": (pa.binary(), st.none() | st.binary(max_size=2)),
    "long bytes": (pa.large_binary(), st.binary(max_size=2)),
    "two bytes": (pa.binary(2), st.none() | st.binary(min_size=2, max_size=2)),
    "unsigned": (pa.uint64(), st.sampled_from([0, 2**64 - 1, None])),
}


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[tuple[Any, ...]]]]:
    """Types of one to three key columns, and batches of keys."""
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))
    keys = st.lists(st.tuples(*(COLUMNS[name][1] for name in names)), max_size=12)
    return [COLUMNS[name][0] for name in names], draw(st.lists(keys, min_size=1, max_size=4))


def arrays(types: list[pa.DataType], keys: list[tuple[Any, ...]]) -> list[pa.Array]:
    found = [pa.array([key[i] for key in keys], plain_type(type_)) for i, type_ in enumerate(types)]
    return [array if array.type == type_ else array.dictionary_encode() for array, type_ in zip(found, types)]


def order(key: tuple[Any, ...]) -> list[Any]:
    return [(0,) if part is None else (1, part.encode() if isinstance(part, str) else part) for part in key]


def values_of(table: KeyTable) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns()), strict=True))


@given(batches())
def test_keys_are_numbered_like_in_a_dictionary(drawn: tuple[list[pa.DataType], list[list[tuple[Any, ...]]]]):
    types, all_batches = drawn
    table, known = KeyTable([str(i) for i in range(len(types))]), {}
    for keys in all_batches:
        expected = [known.setdefault(key, len(known)) for key in keys]
        numbers = table.encode(arrays(types, keys), len(keys))
        # Which number a key gets is the table's affair; that it is the same one each time is not.
        translated = dict(zip(expected, numbers.tolist(), strict=True))
        assert [translated[number] for number in expected] == numbers.tolist()
        assert len(table) == len(known)
        for key, number in zip(keys, numbers.tolist(), strict=True):
            assert values_of(table)[number] == key


@given(batches())
def test_keys_sort_nulls_first_and_text_by_its_bytes(drawn: tuple[list[pa.DataType], list[list[tuple[Any, ...]]]]):
    types, all_batches = drawn
    table = KeyTable([str(i) for i in range(len(types))])
    for keys in all_batches:
        table.encode(arrays(types, keys), len(keys))
        values = values_of(table)
        assert [values[number] for number in table.in_order()] == sorted(values, key=order)
        assert [values[number] for number in np.argsort(table.ranks())] == sorted(values, key=order)


@given(batches(), st.data())
def test_a_restored_table_goes_on_with_the_same_numbers(
    drawn: tuple[list[pa.DataType], list[list[tuple[Any, ...]]]], data: st.DataObject
):
    types, all_batches = drawn
    names = [str(i) for i in range(len(types))]
    never = KeyTable(names)
    restored = KeyTable(names)
    for keys in all_batches:
        again = KeyTable(names)
        again.restore(from_bytes(to_bytes(restored.state())))
        restored = again
        expected = never.encode(arrays(types, keys), len(keys)).tolist()
        assert restored.encode(arrays(types, keys), len(keys)).tolist() == expected
    assert values_of(restored) == values_of(never)


@given(batches())
def test_keys_of_any_type_travel_and_go_to_one_root_each(drawn: tuple[list[pa.DataType], list[list[tuple[Any, ...]]]]):
    types, all_batches = drawn
    buckets: dict[tuple[Any, ...], int] = {}
    for keys in all_batches:
        columns = arrays(types, keys)
        writer = Writer(1)
        write_keys(writer, columns, np.arange(len(keys)))
        back, places = read_keys(Reader(writer.finish(), "keys", 1))
        assert [column.type for column in back] == [plain_type(type_) for type_ in types]
        assert list(zip(*(column.to_pylist() for column in back))) == keys
        assert places.tolist() == list(range(len(keys)))
        for key, bucket in zip(keys, bucket_numbers(columns, 4).tolist()):
            assert buckets.setdefault(key, bucket) == bucket


@given(batches(), st.data())
def test_forgotten_keys_leave_the_others_their_values(
    drawn: tuple[list[pa.DataType], list[list[tuple[Any, ...]]]], data: st.DataObject
):
    types, all_batches = drawn
    table = KeyTable([str(i) for i in range(len(types))])
    for keys in all_batches:
        table.encode(arrays(types, keys), len(keys))
    before = values_of(table)
    kept = sorted(data.draw(st.sets(st.integers(0, len(before) - 1)))) if before else []
    renumbered = table.keep(np.array(kept, np.int64))
    after = values_of(table)
    assert len(after) == len(table) == len(kept)
    assert [number for number in range(len(before)) if renumbered[number] >= 0] == kept
    assert all(after[renumbered[number]] == before[number] for number in kept)


@given(st.lists(st.lists(near | far, max_size=20), max_size=4), st.booleans())
def test_integers_keep_their_numbers_in_a_table_and_in_hash_slots(batches: list[list[int]], hashed: bool):
    numbers, known = IntegerNumbers(table_span_max=0 if hashed else 1 << 22), {}
    for batch in batches:
        found = numbers.encode(np.array(batch, np.int64)).tolist()
        # In which order the new ones of a batch are numbered is their affair.
        assert found == [known.setdefault(value, number) for value, number in zip(batch, found, strict=True)]
        assert sorted(known.values()) == list(range(len(known)))
    assert numbers.values.tolist() == sorted(known, key=known.__getitem__)
    assert [numbers.values[number] for number in numbers.in_order()] == sorted(known)


def test_many_keys_outgrow_the_hash_slots():
    dice = np.random.default_rng(5)
    values = dice.integers(-(2**62), 2**62, 30_000)
    numbers = IntegerNumbers()
    for part in np.array_split(np.concatenate((values, values)), 7):
        numbers.encode(part)
    assert len(numbers) == len(set(values.tolist()))
    assert (numbers.values[numbers.encode(values)] == values).all()


def test_without_key_columns_there_is_one_key():
    table = KeyTable([])
    assert table.encode([], 3).tolist() == [0, 0, 0]
    assert len(table) == 1 and table.columns() == [] and table.ranks().tolist() == [0]
