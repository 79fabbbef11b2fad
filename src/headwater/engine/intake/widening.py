"""How the type of a column grows with its values, so that rows never depend on how a stream is cut into batches.

A column without values has no type yet. Integers grow to wider integers, decimals to more digits; integers grow to floats and to
decimals where such values come. Other types have nothing in common: what does not fit is malformed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from headwater.base.arrow import plain_type
from headwater.engine.intake.chunk import Chunk, Values, blank
from headwater.language.schemas import type_kind

#: Decimal digits of integers by their width in bits; unsigned ones of 64 bits are decimals already where they are values.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


class Widening(NamedTuple):
    """A column's type before, None if it had no values, and from now on."""

    old: pa.DataType | None
    new: pa.DataType


def wider_type(known: pa.DataType, other: pa.DataType, is_key: bool = False) -> pa.DataType:
    """The type that holds the values of both; ``known`` where there is none, or where it differs in its encoding only.

    >>> wider_type(pa.int32(), pa.int64()), wider_type(pa.decimal128(1, 0), pa.decimal128(3, 2))
    (DataType(int64), Decimal128Type(decimal128(3, 2)))
    >>> wider_type(pa.int64(), pa.float32()), wider_type(pa.string(), pa.int64())
    (DataType(double), DataType(string))
    """
    old, new = plain_type(known), plain_type(other)
    if old == new:
        return known
    if pt.is_integer(old) and pt.is_integer(new):
        return _wider_integers(old, new)
    if pt.is_decimal(old) and pt.is_decimal(new):
        return _wider_decimals(old, new)
    if is_key:
        return known  # integers and decimals as keys are numbered in different ways
    if _is_number(old) and _is_number(new) and (pt.is_floating(old) or pt.is_floating(new)):
        return old if pt.is_floating(old) and pt.is_floating(new) and old.bit_width > new.bit_width else pa.float64()
    if pt.is_integer(old) and pt.is_decimal(new):
        return _wider_decimals(_as_decimal(old), new)
    if pt.is_decimal(old) and pt.is_integer(new):
        return _wider_decimals(old, _as_decimal(new))
    return known


def have_one_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether there is a type for both, whichever comes first: one has no values, or the same type is wider than both.

    >>> have_one_type(pa.int64(), pa.float64()), have_one_type(pa.int64(), pa.string())
    (True, False)
    """
    if pt.is_null(one) or pt.is_null(other) or type_kind(one) == type_kind(other) in ("text", "bytes"):
        return True
    return bool(wider_type(plain_type(one), other) == wider_type(plain_type(other), one))


def is_kept_as(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of both types are kept in the same way, so that nothing has to change where one becomes the other."""
    both = plain_type(one), plain_type(other)
    if all(map(pt.is_decimal, both)):
        return bool(both[0].scale == both[1].scale)
    return bool(blank(both[0], 0).data.dtype == blank(both[1], 0).data.dtype)


def united_schema(known: pa.Schema, other: pa.Schema) -> pa.Schema:
    """The columns of both, in the wider type where both have one.

    >>> united_schema(pa.schema({"a": pa.int32(), "b": pa.null()}), pa.schema({"a": pa.int64(), "b": pa.string()})).types
    [DataType(int64), DataType(string)]
    """
    types = {column.name: column.type for column in known}
    for column in other:
        before = types.get(column.name, pa.null())
        types[column.name] = column.type if pt.is_null(before) else wider_type(before, column.type)
    return known if types == {column.name: column.type for column in known} else pa.schema(list(types.items()))


def _is_number(type_: pa.DataType) -> bool:
    return bool(pt.is_integer(type_) or pt.is_floating(type_))


def _wider_integers(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if pt.is_uint64(one) or pt.is_uint64(other):
        return one  # keys only
    if pt.is_signed_integer(one) == pt.is_signed_integer(other):
        return one if one.bit_width >= other.bit_width else other
    signed, unsigned = (one, other) if pt.is_signed_integer(one) else (other, one)
    return _SIGNED[max(signed.bit_width, 2 * unsigned.bit_width)]


def _as_decimal(type_: pa.DataType) -> pa.DataType:
    return pa.decimal128(_DIGITS[type_.bit_width], 0)


def _wider_decimals(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """As many digits before and behind the point as both need, if there is such a decimal."""
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale) + scale
    if digits > 76:
        return one
    is_large = digits > 38 or pt.is_decimal256(one) or pt.is_decimal256(other)
    return pa.decimal256(digits, scale) if is_large else pa.decimal128(digits, scale)


def widened_values(values: Values, change: Widening) -> Values:
    """A column as if its values had been of the wider type from the start."""
    if change.old is None:
        return blank(change.new, len(values.data))
    return Values(widened_data(values.data, change.new), values.valid, change.new)


def widen_chunks(chunks: Iterable[Chunk], changes: Mapping[str, Widening]) -> None:
    """Let events that are held have the wider types."""
    for chunk in chunks:
        for name in chunk.columns.keys() & changes.keys():
            chunk.columns[name] = widened_values(chunk.columns[name], changes[name])


def widened_data(data: np.ndarray[Any, Any], type_: pa.DataType) -> np.ndarray[Any, Any]:
    """Values as they are kept for the wider type.

    >>> widened_data(np.array([1, 2]), pa.float64()), widened_data(np.array([1]), pa.decimal128(20, 1))
    (array([1., 2.]), array([Decimal('1')], dtype=object))
    """
    if data.dtype != np.int64:
        return data
    if pt.is_floating(type_):
        return data.astype(np.float64)
    if pt.is_decimal(type_):
        decimals = np.empty(len(data), object)
        decimals[:] = [Decimal(value) for value in data.tolist()]
        return decimals
    return data
