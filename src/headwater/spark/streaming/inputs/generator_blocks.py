"""A generator's events block by block: any block at any time, and the next one at the price of one.

A generator with ``block_count`` and ``arrivals_in(block, kept)`` (as SmartHome) is asked for the block itself, with a dictionary
where it may keep what the next block needs. Others are gone through from their beginning, and again only for what lies behind.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa

from headwater.errors import DataError, shown
from headwater.language.user_code import load_path

#: Batches of a generator without blocks of its own.
BATCH_EVENTS = 1 << 16
#: Blocks that were made last are kept, so many bytes of them in a process.
KEPT_BYTES = 1 << 29
#: And so many generators on their way.
GENERATORS_MAX = 256


class Blocks:
    """The blocks of the generator that a place describes (`files.find_pieces`)."""

    def __init__(self, place: str) -> None:
        self._place = place
        path, fields = json.loads(place)
        self._generator = load_path(path)(**fields)
        has_blocks = hasattr(self._generator, "arrivals_in") and hasattr(self._generator, "block_count")
        #: How many blocks there are, where the generator says so.
        self.count: int | None = self._generator.block_count if has_blocks else None
        self._stragglers: dict[int, Any] = {}
        self._next = 0
        self._batches: Iterator[pa.RecordBatch] = iter(())

    @property
    def start(self) -> int | None:
        """When the stream begins, if the generator says so."""
        start = getattr(self._generator, "start", None)
        return start if isinstance(start, int) else None

    def block(self, number: int) -> pa.RecordBatch | None:
        """The block of this number; None: the generator ends before."""
        found = _kept.get((self._place, number))
        if found is None:
            found = self._passing(number) if self.count is None else self._own(number, self.count)
            if found is not None:
                _kept.put((self._place, number), found)
        return found

    def _own(self, number: int, count: int) -> pa.RecordBatch | None:
        return self._generator.arrivals_in(number, self._stragglers) if number < count else None

    def _passing(self, number: int) -> pa.RecordBatch | None:
        if number < self._next or self._next == 0:
            self._batches, self._next = self._generator.batches(BATCH_EVENTS), 0
        for batch in self._batches:
            self._next += 1
            if self._next == number + 1:
                return batch
        # Begun anew whenever it is asked again.
        self._next = 0
        return None


@lru_cache(maxsize=GENERATORS_MAX)
def blocks_of(place: str) -> Blocks:
    """The blocks of a generator, the same object for all who ask in this process."""
    try:
        return Blocks(place)
    except (TypeError, ValueError) as error:
        raise DataError(f"generator {shown(place)}: {error}") from error


class _Kept:
    """The batches that were used last."""

    def __init__(self) -> None:
        self._batches: OrderedDict[tuple[str, int], pa.RecordBatch] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[str, int]) -> pa.RecordBatch | None:
        if key not in self._batches:
            return None
        self._batches.move_to_end(key)
        return self._batches[key]

    def put(self, key: tuple[str, int], batch: pa.RecordBatch) -> None:
        self._batches[key] = batch
        self._bytes += batch.nbytes
        while self._bytes > KEPT_BYTES and len(self._batches) > 1:
            _, oldest = self._batches.popitem(last=False)
            self._bytes -= oldest.nbytes


_kept = _Kept()
