"""Which queries share slices: grids of equal slices, and the windows that a slice is part of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from headwater.language.query import Query
from headwater.language.windows import Band, Sliding
from headwater.spark.native.choice import finest_slice

#: To share a pass over the events, slices may be so much shorter than the shortest window needs, for each query that shares.
FINER_MAX = 8


@dataclass(frozen=True, slots=True)
class Numbered:
    """A query in ticks, with its place among all queries of the call."""

    number: int
    query: Query
    window: Sliding | Band


def numbered(queries: Iterable[Query], unit: str) -> list[Numbered]:
    """The queries of fixed windows among these."""
    found: list[Numbered] = []
    for query in queries:
        if isinstance(query.window, Sliding | Band):
            found.append(Numbered(len(found), query, query.window.resolved(unit, query.name)))
    return found


@dataclass(frozen=True, slots=True)
class SliceWindow:
    """One window in which a slice can lie: the ``lag``-th behind the newest. A band has the slide 0."""

    query: int
    size: int
    slide: int
    offset: int
    lag: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Slices [k * slice + offset, (k + 1) * slice + offset), of which all windows of its queries are made."""

    slice: int
    offset: int
    members: tuple[Numbered, ...]

    @property
    def is_window(self) -> bool:
        """The slices are the windows of the one query."""
        window = self.members[0].window
        return len(self.members) == 1 and isinstance(window, Sliding) and window.size == window.slide == self.slice

    @property
    def has_bands(self) -> bool:
        return any(isinstance(member.window, Band) for member in self.members)

    @property
    def is_regular(self) -> bool:
        """Every slice lies in as many windows of a query as every other."""
        return not self.has_bands and all(
            member.window.size % member.window.slide == 0
            for member in self.members
            if isinstance(member.window, Sliding)
        )

    def windows(self) -> list[SliceWindow]:
        """All windows a slice may be part of; unless the grid is regular, some slices are not part of some."""
        return [placed for member in self.members for placed in _placed(member)]


def _placed(member: Numbered) -> Iterable[SliceWindow]:
    window = member.window
    if isinstance(window, Band):
        return [SliceWindow(member.number, window.size, 0, window.start, 0)]
    offset = window.offset % window.slide
    count = -(-window.size // window.slide)
    return [SliceWindow(member.number, window.size, window.slide, offset, i * window.slide) for i in range(count)]


def grids(members: Sequence[Numbered]) -> list[Grid]:
    """Slices for all queries: one grid if that is not much finer than each would have alone, else several.

    >>> import headwater as hw
    >>> queries = [hw.query(str(n), hw.tumbling(n), n=hw.count()) for n in (60, 90, 700_001)]
    >>> [grid.slice for grid in grids([Numbered(i, q, q.window) for i, q in enumerate(queries)])]
    [30, 700001]
    """
    together = _grid(members)
    if _is_worth_it(together):
        return [together]
    found: list[Grid] = []
    for member in members:
        for place, grid in enumerate(found):
            wider = _grid([*grid.members, member])
            if _is_worth_it(wider):
                found[place] = wider
                break
        else:
            found.append(_grid([member]))
    return found


def _grid(members: Sequence[Numbered]) -> Grid:
    first = _offset(members[0].window)
    slice_ = gcd(*(finest_slice(m.window) for m in members), *(_offset(m.window) - first for m in members))
    return Grid(slice_, first % slice_, tuple(members))


def _offset(window: Sliding | Band) -> int:
    return window.start if isinstance(window, Band) else window.offset


def _is_worth_it(grid: Grid) -> bool:
    finest = min(finest_slice(member.window) for member in grid.members)
    return finest <= grid.slice * FINER_MAX * len(grid.members)
