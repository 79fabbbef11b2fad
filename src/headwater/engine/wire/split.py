"""Parts taken apart by keys, so that several roots share the work: each has all windows of some keys.

Which key columns a family goes by is said from outside. What belongs to no key (counts of events, events that were set aside,
families without keys) goes to one root that all leaves know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int64Array, UInt64Array
from headwater.base.arrow import integers_of, plain_array
from headwater.engine.intake.keys import is_integer_key, to_int64
from headwater.engine.operators.hashing import hash_texts, hash_values, mixed_with
from headwater.engine.operators.operator import clean_floats
from headwater.engine.slices.store import map_columns
from headwater.engine.wire.parts import EventsPart, LatePart, Part, RowsPart
from headwater.language.schemas import type_kind

#: The key columns of each family by its number; a family without any stays together.
KeyNames = Mapping[int, Sequence[str]]


def owner_of(family: int, buckets: int) -> int:
    """The bucket that has everything of a family without keys: spread, so that not all lie on the first."""
    return max(family, 0) % buckets


def split_part(part: Part, buckets: int, key_names: KeyNames) -> dict[int, Part]:
    """The part for each bucket that gets any of it.

    >>> from headwater.engine.operators.numeric import CountColumn
    >>> from headwater.engine.operators.operator import Op
    >>> column, places = pa.array([7, 8, 9]), np.arange(3)
    >>> part = RowsPart(0, [column], places, places * 10, {Op("count"): CountColumn(np.array([1, 2, 3]))})
    >>> split = split_part(part, 2, {0: ["house"]})
    >>> sorted(key for one in split.values() for key in one.key_columns[0].to_pylist())
    [7, 8, 9]
    """
    if isinstance(part, RowsPart | LatePart):
        if not key_names.get(part.family):
            return {owner_of(part.family, buckets): part}
        bucket_of_key = bucket_numbers(part.key_columns, buckets)
        takes = _takes(bucket_of_key[part.key], buckets)
        if isinstance(part, LatePart):
            return {bucket: _late_of(part, rows, bucket_of_key == bucket) for bucket, rows in takes.items()}
        return {bucket: _rows_of(part, rows, bucket_of_key == bucket) for bucket, rows in takes.items()}
    if isinstance(part, EventsPart):
        names = key_names.get(part.family, ())
        if not names:
            return {owner_of(part.family, buckets): part}
        takes = _takes(bucket_numbers([part.columns[name] for name in names], buckets), buckets)
        return {bucket: _events_of(part, rows) for bucket, rows in takes.items()}
    return {0: part}


def bucket_numbers(columns: Sequence[pa.Array], buckets: int) -> Int64Array:
    """The bucket of each key: a function of its values alone, the same on every node and beside any other keys."""
    word = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed_with(word, hash_column(column))
    return (word % np.uint64(buckets)).astype(np.int64)


def hash_column(column: pa.Array) -> UInt64Array:
    """A hash of each value; nulls are alike."""
    column = plain_array(column)
    type_ = column.type
    if is_integer_key(type_):
        return hash_values(to_int64(integers_of(column).fill_null(0) if column.null_count else column))
    if pa.types.is_floating(type_):
        floats = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return hash_values(clean_floats(floats))
    if type_kind(type_) in ("text", "bytes"):
        return hash_texts(column.cast(pa.large_binary()).fill_null(b""))
    return hash_texts(pa.array(map(_text_of, column.to_pylist()), pa.large_binary()))


def _text_of(value: object) -> bytes:
    # However many digits behind the point a column has, a decimal is itself.
    text = f"{value:f}" if isinstance(value, Decimal) else repr(value)
    return (text.rstrip("0").rstrip(".") if isinstance(value, Decimal) and "." in text else text).encode()


def _takes(numbers: Int64Array, buckets: int) -> dict[int, Int64Array]:
    """The rows of each bucket that has any, in their order."""
    order = np.argsort(numbers, kind="stable")
    edges = np.searchsorted(numbers[order], np.arange(buckets + 1))
    return {bucket: order[edges[bucket] : edges[bucket + 1]] for bucket in np.flatnonzero(np.diff(edges)).tolist()}


def _rows_of(part: RowsPart, rows: Int64Array, keys: BoolArray) -> RowsPart:
    """The part with these rows only, which are all rows of these keys."""
    columns, key = _keys_of(part, rows, keys)
    partials = map_columns(part.partials, lambda column: column.take(rows))
    first, last = (None if each is None else each[rows] for each in (part.first, part.last))
    slices = part.slices[rows]
    return replace(part, key_columns=columns, key=key, slices=slices, partials=partials, first=first, last=last)


def _late_of(part: LatePart, rows: Int64Array, keys: BoolArray) -> LatePart:
    columns, key = _keys_of(part, rows, keys)
    return replace(part, key_columns=columns, key=key, **_placed(part, rows))


def _keys_of(part: RowsPart | LatePart, rows: Int64Array, keys: BoolArray) -> tuple[list[pa.Array], Int64Array]:
    place = np.cumsum(keys) - 1
    chosen = pa.array(np.flatnonzero(keys))
    return [column.take(chosen) for column in part.key_columns], place[part.key[rows]]


def _events_of(part: EventsPart, rows: Int64Array) -> EventsPart:
    place = np.full(len(part.times), -1)
    place[rows] = np.arange(len(rows))
    misfits = {name: place[bad][place[bad] >= 0].tolist() for name, bad in part.misfits.items()}
    return replace(part, misfits={name: bad for name, bad in misfits.items() if bad}, **_placed(part, rows))


def _placed(part: EventsPart | LatePart, rows: Int64Array) -> dict[str, Any]:
    """The fields of a part for these events only, without their keys."""
    arrays = {name: getattr(part, name)[rows] for name in ("times", "offsets", "sources", "watermarks")}
    chosen = pa.array(rows)
    return {**arrays, "columns": {name: column.take(chosen) for name, column in part.columns.items()}}
