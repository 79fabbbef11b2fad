"""The order of events that have no places of birth: by time, and between events of one time by their other columns.

Values compare as Spark compares them: nulls first, NaN last and equal to itself, -0.0 equal to 0.0, text as its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.base.arrays import Int64Array

_AS_INT64 = (pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration)


def ordered(times: Int64Array, ties: Sequence[pa.Array]) -> Int64Array:
    """The rows in their order. Rows equal in everything are interchangeable.

    >>> ordered(np.array([5, 1, 5]), [pa.array(["b", None, "a"])]).tolist()
    [1, 2, 0]
    """
    order = np.argsort(times, kind="stable")
    if not ties or len(times) < 2:
        return order
    # Most events are alone at their time: only the others are looked at.
    same = times[order][1:] == times[order][:-1]
    tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    rows = order[tied]
    chosen = pa.array(rows)
    keys = [ranks(column.take(chosen)) for column in ties]
    order[tied] = rows[np.lexsort([*reversed(keys), times[rows]])]
    return order


def ranks(column: pa.Array) -> Int64Array:
    """For each value a number that compares as the value does; 0 for nulls.

    >>> ranks(pa.array([2.5, None, float("nan"), -1.0])).tolist()
    [2, 0, 3, 1]
    """
    if pa.types.is_dictionary(column.type):
        return ranks(column.dictionary_decode())
    found = np.zeros(len(column), np.int64)
    there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if len(there):
        values = column.drop_null()
        found[there] = np.unique(_comparable(values), return_inverse=True)[1].reshape(-1) + 1
    return found


def _comparable(values: pa.Array) -> np.ndarray[Any, Any]:
    """Numbers that compare as the values do; none of these is null."""
    type_ = values.type
    if pa.types.is_floating(type_):
        floats: np.ndarray[Any, Any] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return floats
    if any(test(type_) for test in _AS_INT64):
        whole: np.ndarray[Any, Any] = (
            values.cast(pa.int32() if type_.bit_width == 32 else pa.int64()).to_numpy(zero_copy_only=False)
            if not pa.types.is_integer(type_)
            else values.to_numpy(zero_copy_only=False)
        )
        return whole
    if pa.types.is_boolean(type_):
        return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_large_string(type_):
        place: np.ndarray[Any, Any] = pc.rank(values.cast(pa.large_binary()), tiebreaker="dense").to_numpy()
        return place
    return _ranked([_key(value) for value in values.to_pylist()])


def _ranked(keys: list[Any]) -> Int64Array:
    order = sorted(range(len(keys)), key=keys.__getitem__)
    found, rank = np.zeros(len(keys), np.int64), 0
    for before, row in zip([order[0], *order], order):
        rank += keys[before] != keys[row]
        found[row] = rank
    return found


def _key(value: Any) -> Any:
    """Lists element by element, the shorter first; structs field by field."""
    match value:
        case None:
            return (0,)
        case list():
            return 1, [_key(each) for each in value]
        case dict():
            return 1, [_key(each) for each in value.values()]
        case str():
            return 1, value.encode()
        case float() if value != value:
            return (2,)
    return 1, value
