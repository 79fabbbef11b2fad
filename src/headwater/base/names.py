"""Lists of names as bytes. Cached: the same hundreds of names come with every message of a link."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.errors import FormatError

#: How many lists are cached, and the shortest and the longest: those that are worth it and take little room.
LISTS_MAX, SHORTEST, LONGEST = 128, 8, 1024


def names_to_bytes(names: Sequence[str]) -> tuple[Int64Array, bytes]:
    """The length of each name in bytes, and all names as one run of bytes."""
    lengths, data = (_known_bytes if SHORTEST <= len(names) <= LONGEST else _bytes)(tuple(names))
    return np.frombuffer(lengths, np.int64), data


def names_from_bytes(lengths: Int64Array, data: bytes) -> tuple[str, ...]:
    """The names of which `names_to_bytes` made these.

    >>> names_from_bytes(*names_to_bytes(["a", "", "bc"]))
    ('a', '', 'bc')
    """
    return (_known_names if SHORTEST <= len(lengths) <= LONGEST else _names)(lengths.tobytes(), data)


def are_ascending(names: tuple[str, ...]) -> bool:
    """Whether the names are in order, each once."""
    return (_known_order if SHORTEST <= len(names) <= LONGEST else _order)(names)


def _bytes(names: tuple[str, ...]) -> tuple[bytes, bytes]:
    encoded = [name.encode() for name in names]
    return np.array([len(one) for one in encoded], np.int64).tobytes(), b"".join(encoded)


def _names(lengths: bytes, data: bytes) -> tuple[str, ...]:
    sizes = np.frombuffer(lengths, np.int64)
    ends = np.cumsum(sizes).tolist()
    is_wrong = len(sizes) and (not 0 <= int(sizes.min()) <= int(sizes.max()) <= len(data) or ends[-1] != len(data))
    if is_wrong or (not len(sizes) and data):
        raise FormatError("a list of texts is damaged")
    try:
        return tuple([data[begin:end].decode() for begin, end in zip([0, *ends], ends)])
    except UnicodeDecodeError as error:
        raise FormatError(f"a list of texts is damaged: {error}") from error


def _order(names: tuple[str, ...]) -> bool:
    return all(earlier < later for earlier, later in pairwise(names))


_known_bytes = lru_cache(LISTS_MAX)(_bytes)
_known_names = lru_cache(LISTS_MAX)(_names)
_known_order = lru_cache(LISTS_MAX)(_order)
