"""The byte form of sorted runs: sorted values as small steps, or each value once with how often it comes.

Sensors repeat themselves, and sorted neighbours are close: whichever of the two forms is smaller is written. Of many values a
sample decides, and values that are all noise are written as they are: trying in vain would cost more than sorting them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.base.packing import Bytes, Reader, Writer, order_bits
from headwater.engine.operators.ragged import read_starts, row_of_item
from headwater.errors import FormatError

VERSION = 1
PLAIN, RUN_LENGTHS, WORDS = 0, 1, 2
#: Up to FEW values every form is tried; of more, a sample decides: STRETCHES stretches of STRETCH neighbours.
FEW, STRETCHES, STRETCH = 1 << 14, 16, 256
#: A form is worth its time if it takes at most this many of the 8 bytes of a value.
WORTH_BYTES = 7


def encode(values: np.ndarray[Any, Any], starts: Int64Array) -> bytes:
    """The bytes of runs ``values[starts[i]:starts[i + 1]]``.

    >>> len(encode(np.repeat([20.5, 21.0], 500), np.array([0, 1000])))
    30
    """
    writer = Writer(VERSION).ints(np.diff(starts))
    if len(values) == 0:
        return writer.finish()
    forms = (PLAIN, RUN_LENGTHS) if len(values) <= FEW or values.dtype == object else (_promising(values, starts),)
    return writer.finish() + min((_written(form, values, starts) for form in forms), key=len)


def _written(form: int, values: np.ndarray[Any, Any], starts: Int64Array) -> bytes:
    writer = Writer().number(form)
    if form != RUN_LENGTHS:
        return (writer.words if form == WORDS else writer.array)(values).finish()
    places = _first_of_equals(values, starts)
    return writer.array(values[places]).ints(np.diff(np.append(places, len(values)))).finish()


def _promising(values: np.ndarray[Any, Any], starts: Int64Array) -> int:
    """The form that suits a sample."""
    begins = np.linspace(0, len(values) - STRETCH, STRETCHES).astype(np.int64)
    sample = np.concatenate([values[begin : begin + STRETCH] for begin in begins])
    # A run that begins within a stretch is a step back, which no form likes: the sample has the runs of all values.
    edges = np.concatenate([_edges_within(starts, int(begin)) + i * STRETCH for i, begin in enumerate(begins)])
    sizes = {form: len(_written(form, sample, np.append(edges, len(sample)))) for form in (PLAIN, RUN_LENGTHS)}
    best = min(sizes, key=sizes.__getitem__)
    return best if sizes[best] < WORTH_BYTES * len(sample) else WORDS


def _edges_within(starts: Int64Array, begin: int) -> Int64Array:
    """Where runs begin in a stretch, its own begin among them."""
    inside = starts[np.searchsorted(starts, begin, "right") : np.searchsorted(starts, begin + STRETCH)]
    return np.unique(np.append(inside - begin, 0))


def decode(data: Bytes) -> tuple[np.ndarray[Any, Any], Int64Array]:
    """The values and starts of which these are the bytes; anything else is a `FormatError`.

    >>> decode(encode(np.array([1, 2, 5]), np.array([0, 2, 3])))
    (array([1, 2, 5]), array([0, 2, 3]))
    """
    reader = Reader(data, "sorted runs", VERSION)
    starts = read_starts(reader)
    values: np.ndarray[Any, Any] = np.empty(0, np.int64)
    if starts[-1] > 0:
        form = reader.number()
        if form not in (PLAIN, RUN_LENGTHS, WORDS):
            raise FormatError(f"sorted runs have no form {form}")
        values = reader.words() if form == WORDS else reader.array()
        if form == RUN_LENGTHS:
            counts = reader.ints()
            reader.spend(int(starts[-1]) - len(counts))
            values = _repeated(values, counts, int(starts[-1]))
    reader.finish()
    if len(values) != starts[-1] or not _are_sorted(values, starts):
        raise FormatError(f"sorted runs announce {starts[-1]} values and hold {len(values)}, or these are not sorted")
    return values, starts


def _are_sorted(values: np.ndarray[Any, Any], starts: Int64Array) -> bool:
    """Whether each run is in order: what looks for a value in it would not come to an end otherwise."""
    words = order_bits(values) if values.dtype.kind == "f" else values
    try:
        falls = np.flatnonzero(words[1:] < words[:-1]) + 1
    except TypeError as error:
        raise FormatError(f"sorted runs hold values that have no order: {error}") from error
    return bool((starts[np.searchsorted(starts, falls)] == falls).all())


def _repeated(values: np.ndarray[Any, Any], counts: Int64Array, total: int) -> np.ndarray[Any, Any]:
    if len(values) != len(counts) or ((counts < 1) | (counts > total)).any() or int(counts.sum()) != total:
        raise FormatError("sorted runs: the values and how often they come do not fit together")
    return np.repeat(values, counts)


def _first_of_equals(values: np.ndarray[Any, Any], starts: Int64Array) -> Int64Array:
    """Where a value differs from the one before it, or a row begins."""
    words = values if values.dtype == object else values.view(np.int64)
    rows = row_of_item(starts)
    differs = (words[1:] != words[:-1]).astype(bool) | (rows[1:] != rows[:-1])
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(differs) + 1])
