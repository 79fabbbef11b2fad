"""Looks into pieces: the root asks a leaf what lies in some of them, because a count window may end there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.packing import Reader, Writer
from headwater.engine.wire.part_bytes import read_keys, write_keys
from headwater.errors import FormatError

VERSION = 1


@dataclass(frozen=True, slots=True)
class Look:
    """The question what lies in a piece.

    Piece ``number`` has ``count`` events from key ``first`` to key ``last`` (sources by number in their chain). A window may end
    in it between the times ``low`` and ``high``. ``key_columns``: its one key, where keys count for themselves.
    """

    number: int
    count: int
    first: Int64Array
    last: Int64Array
    low: int
    high: int
    key_columns: list[pa.Array] = field(default_factory=list)

    def renumbered(self, numbers: Int64Array) -> Look:
        """The look with the places of its sources in this ascending list instead of their numbers."""
        first, last = (np.array([k[0], np.searchsorted(numbers, k[1]), k[2]]) for k in (self.first, self.last))
        return replace(self, first=first, last=last)


def looks_to_bytes(looks: Mapping[int, Sequence[Look]]) -> bytes:
    """The bytes of the looks of each family."""
    writer = Writer(VERSION).number(len(looks))
    for family, some in looks.items():
        numbers = [[look.number, look.count, *look.first, *look.last, look.low, look.high] for look in some]
        writer.number(family).ints(np.array(numbers, np.int64).ravel())
        for look in some:
            write_keys(writer, look.key_columns, np.zeros(1, np.int64))
    return writer.finish()


def looks_from_bytes(data: bytes) -> dict[int, list[Look]]:
    """The looks of which these are the bytes; anything else is a `FormatError`."""
    reader = Reader(data, "looks", VERSION)
    found: dict[int, list[Look]] = {}
    for _ in range(reader.count()):
        family, numbers = reader.number(), reader.ints()
        if len(numbers) % 10:
            raise FormatError("looks are damaged")
        found[family] = [
            Look(int(row[0]), int(row[1]), row[2:5], row[5:8], int(row[8]), int(row[9]), read_keys(reader)[0])
            for row in numbers.reshape(-1, 10)
        ]
    reader.finish()
    return found
