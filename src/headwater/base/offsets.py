"""Offsets as they come in: whole numbers that count up from 0 in their source, and what cannot be one is refused.

An offset that was swallowed would take its event with it: below the next one it passes for an event that came before.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.errors import DataError

#: The offset behind the last event fits int64.
END_MAX: Final = 2**63 - 1


def check_offsets(source: str, offset: Any, count: int) -> int | Int64Array:
    """The offset of the first of ``count`` events, or that of each, as they were given for a source.

    >>> check_offsets("meter", np.int64(3), 2), check_offsets("meter", [4, 6], 2)
    (3, array([4, 6]))
    >>> check_offsets("meter", -5, 2)
    Traceback (most recent call last):
    headwater.errors.DataError: source 'meter': offset is -5; offsets count up from 0
    """
    if isinstance(offset, int | np.integer) and not isinstance(offset, bool | np.bool_):
        _check_span(source, int(offset), int(offset) + count)
        return int(offset)
    offsets = np.asarray(offset)
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1:
        raise _refusal(source, f"offset is {_shown(offset)}")
    if len(offsets) != count:
        raise _refusal(source, f"there are {len(offsets)} offsets for {count} events")
    if count == 0:
        return offsets.astype(np.int64)
    if not (offsets[1:] > offsets[:-1]).all():
        at = int(np.flatnonzero(offsets[1:] <= offsets[:-1])[0])
        raise _refusal(source, f"offset {offsets[at + 1]} follows {offsets[at]}")
    _check_span(source, int(offsets[0]), int(offsets[-1]) + 1)
    return offsets.astype(np.int64)


def check_offset(source: str, offset: Any, count: int = 0) -> int:
    """The offset of the first of ``count`` events, which has to be one number."""
    if not isinstance(offset, int | np.integer) or isinstance(offset, bool):
        raise DataError(f"source {source!r}: offset is {_shown(offset)}; an offset is a whole number from 0 on")
    _check_span(source, int(offset), int(offset) + count)
    return int(offset)


def _check_span(source: str, first: int, end: int) -> None:
    if first < 0:
        raise DataError(f"source {source!r}: offset is {first}; offsets count up from 0")
    if end > END_MAX:
        raise DataError(f"source {source!r}: the offset behind the last event is {end}; the largest is 2**63 - 1")


def _shown(offset: Any) -> str:
    text = repr(offset)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _refusal(source: str, what: str) -> DataError:
    return DataError(
        f"source {source!r}: {what}; give the first event's offset, or one whole number per event, each above the one before"
    )
