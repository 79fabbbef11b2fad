"""A group of one query, which shares nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.groups.accounts import OwnAccounts
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import take_events
from headwater.engine.intake.keys import KeyTable
from headwater.engine.intake.predicates import mask as predicate_mask
from headwater.engine.windows.registered import Registered
from headwater.language.times import NEVER


class SingleGroup:
    """What groups of one query have in common: it comes when they are made, and when it goes they are of no use any more."""

    def __init__(self, entry: Registered, keys: tuple[str, ...]) -> None:
        self.entry = entry
        self.key_names = keys
        self.keys = KeyTable(keys)
        self.watermark = NEVER
        self.accounts = OwnAccounts()
        self._is_gone = False

    def queries(self) -> list[Registered]:
        return [] if self._is_gone else [self.entry]

    def register(self, entries: Sequence[Registered]) -> None:
        """The query comes that is here already."""

    def unregister(self, number: int) -> None:
        self._is_gone = True

    def changed(self) -> None:
        """The entry is shared: nothing to work out anew."""

    def is_due(self, until: int) -> bool:
        """Whether a watermark of ``until`` may close something."""
        return self.watermark < until

    def count(self, seen: int, filtered: int, early: int) -> None:
        """Events that another half of the engine has seen."""
        self.accounts.seen += seen
        self.accounts.filtered += filtered

    def passing(
        self, chunk: Chunk, arrays: Mapping[str, pa.Array], names: Iterable[str], watermarks: Int64Array | int
    ) -> tuple[Chunk, Mapping[str, pa.Array], Int64Array | int]:
        """The events that pass the condition, with the columns of these names; all of them are counted."""
        self.accounts.seen += len(chunk)
        if self.entry.query.where is None:
            return chunk, arrays, watermarks
        rows = np.flatnonzero(predicate_mask(self.entry.query.where, arrays, len(chunk)))
        self.accounts.filtered += len(chunk) - len(rows)
        return take_events(chunk, arrays, names, watermarks, rows)
