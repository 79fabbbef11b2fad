"""The book of sources: how far each has come, how far all have, and the decisions about who is waited for.

The engine keeps one (`engine/intake/watermarks.py`), and the root of a tree (`protocols/membership.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwater.base.arrays import BoolArray, Int64Array
from headwater.language.times import FOREVER, NEVER

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about a source: it is joined, idle or returned (``what``).

    ``offset``: how many of its events were accepted; ``time``: the watermark of all at that moment.
    """

    what: str
    source: str
    offset: int
    time: int


class SourceBook:
    """All sources, by number.

    Invariants: the watermark of all (``group``) is the minimum over the active sources, or higher if it was before: it never
    falls. A source that joins or returns goes on from there, so what lies before is settled. Who is active is decided once and
    logged, with the offset up to which events were accepted, so that a replay decides alike.

    In columns: thousands of sources move at once, and the lowest of ten thousand is found in microseconds.

    >>> book = SourceBook()
    >>> book.set_joined(["a", "b"])
    >>> book.raise_to(0, 10); book.raise_to(1, 7); book.group
    7
    >>> book.set_idle([1]); book.group
    10
    >>> book.decisions[-1]
    Decision(what='idle', source='b', offset=0, time=7)
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.numbers: dict[str, int] = {}
        self.decisions: list[Decision] = []
        #: Of each source: how many events were accepted, its watermark, and whether it is waited for.
        self.offsets: Int64Array = np.empty(0, np.int64)
        self.watermarks: Int64Array = np.empty(0, np.int64)
        self.active: BoolArray = np.empty(0, np.bool_)
        self.group = NEVER
        #: The watermark of all, or what it was before the end.
        self.finite = NEVER
        self._lowest = 0  # a source that held the others back when they were last looked at

    # --- decisions ---

    def set_joined(self, names: Iterable[str]) -> None:
        """Wait for these sources from now on."""
        first = len(self.names)
        for name in names:
            self.numbers[name] = len(self.names)
            self.names.append(name)
            self.decisions.append(Decision("joined", name, 0, self.group))
        self._resize(len(self.names))
        self.offsets[first:], self.watermarks[first:], self.active[first:] = 0, self.first_watermark(), True

    def first_watermark(self) -> int:
        """The watermark of a source that joins: that of all."""
        return self.group

    def set_idle(self, numbers: Iterable[int]) -> None:
        """Do not wait for these any more."""
        for number in numbers:
            # One after the other, as they are logged: each may let the watermark of all rise.
            self._decide("idle", number)
            self.active[number] = False
            self.follow()

    def set_returned(self, numbers: Iterable[int]) -> None:
        """Wait for these again: they go on with a watermark of at least that of all."""
        for number in numbers:
            self._decide("returned", number)
            self.active[number] = True
            self.raise_to(number, self.group)

    def _decide(self, what: str, number: int) -> None:
        self.decisions.append(Decision(what, self.names[number], self.offsets.item(number), self.group))

    def idle_numbers(self) -> list[int]:
        """The sources that the group does not wait for."""
        return list(np.flatnonzero(~self.active).tolist())

    @property
    def are_all_active(self) -> bool:
        """Whether no source is idle."""
        return bool(self.active.all())

    # --- watermarks ---

    def raise_to(self, number: int, watermark: int) -> None:
        """The watermark of one source; a lower one than before changes nothing."""
        if watermark > self.watermarks.item(number):
            self.watermarks[number] = watermark
        self.follow()

    def follow(self) -> None:
        """The watermark of all follows the lowest active source; to be called when watermarks have risen."""
        lowest, marks, active = self._lowest, self.watermarks, self.active
        if lowest < len(marks) and marks.item(lowest) <= self.group and active.item(lowest):
            return  # as nearly always: it still holds all others back
        if not active.any():
            return
        if not active.all():
            marks = np.where(active, marks, FOREVER)
        self._lowest = int(marks.argmin())
        self.group = max(self.group, marks.item(self._lowest))
        if self.group < FOREVER:
            self.finite = self.group

    # --- snapshots ---

    def decision_rows(self) -> list[list[Any]]:
        return [[d.what, d.source, d.offset, d.time] for d in self.decisions]

    def restore_book(self, names: Sequence[str], decisions: Iterable[Sequence[Any]], *columns: Sequence[Any]) -> None:
        """Sources as they were, with their offsets, watermarks and whether they were active."""
        self.names, self.numbers = list(names), {name: number for number, name in enumerate(names)}
        self.decisions = [Decision(*values) for values in decisions]
        self._resize(len(names))
        self.offsets[:], self.watermarks[:], self.active[:] = columns

    def _resize(self, count: int) -> None:
        self.offsets, self.active = _resized(self.offsets, count), _resized(self.active, count)
        self.watermarks = _resized(self.watermarks, count)


def _resized(column: NDArray[T], count: int) -> NDArray[T]:
    """A longer column. Behind it is room for half as many again: sources mostly join one by one."""
    room = column if column.base is None else column.base
    if count > len(room):
        room = np.concatenate((column, np.zeros(max(count - len(column), count // 2), column.dtype)))
    return room[:count]
