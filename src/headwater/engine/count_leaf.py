"""Count windows over many nodes, the half that has the events: pieces of what is closed, and answers to looks into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.arrays import Int32Array, Int64Array
from headwater.engine.chunk import Chunk
from headwater.engine.group import QueryGroup
from headwater.engine.leaf_parts import arrow_values
from headwater.engine.looks import Look
from headwater.engine.parts import PiecesPart, RawRuns, listed_keys
from headwater.engine.pieces import (
    Ranges,
    Zoning,
    between_keys,
    key_ranges,
    looked_ranges,
    planned_ranges,
    rows_of,
    spread,
)
from headwater.engine.reorder import Stretch, concat_stretches
from headwater.expressions import Expr
from headwater.times import FOREVER, NEVER

#: As long as there is no plan, pieces are a small part of a window ...
PIECES_PER_STEP = 64
#: ... but not smaller, or larger, than this.
PIECE_MIN, PIECE_MAX = 32, 1 << 13


@dataclass(frozen=True, slots=True)
class NoPlan:
    """Nothing is expected: every piece is as likely to hold a cut as any other."""

    piece_max: int
    horizon: int = FOREVER

    def zones(self, low: int, high: int) -> tuple[Int64Array, Int64Array]:
        none = np.empty(0, np.int64)
        return none, none


@dataclass(slots=True)
class Kept:
    """Events that somebody may want to look into, newest last; the oldest go when there are too many."""

    events_max: int
    stretches: list[Stretch] = field(default_factory=list)
    count: int = 0

    def add(self, stretch: Stretch) -> None:
        self.stretches.append(stretch)
        self.count += len(stretch)
        while self.count > self.events_max and len(self.stretches) > 1:
            self.count -= len(self.stretches.pop(0))

    def forget(self, time: int) -> None:
        """Nobody asks for events before ``time`` any more."""
        self.stretches = [stretch for stretch in self.stretches if stretch.chunk.times[-1] >= time]
        self.count = sum(map(len, self.stretches))


class CountLeafGroup(QueryGroup):
    """Cuts events into pieces as soon as nothing can come before them; says no more of most than their number and partials."""

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int = NEVER) -> None:
        super().__init__(keys, where, begin)
        #: While events are read again, of which those before ``covered`` are in pieces already.
        self.known_already = False
        self.covered = NEVER
        self.plan: Zoning | None = None
        self.kept = Kept(1 << 20)
        self.raw_count = 0
        self.held_most = 0
        self._asked: list[Look] = []

    @property
    def counts_by_key(self) -> bool:
        """Whether each key counts for itself."""
        return any(walk.by_key for walk in self.count_walks)

    @property
    def held_count(self) -> int:
        """Events in memory."""
        return len(self.buffer) + self.kept.count

    def closed_below(self, watermark: int) -> int:
        """How many events wait for a plan although nothing can come before them."""
        return sum(int(np.searchsorted(part.chunk.times, watermark)) for part in self.buffer.parts)

    def zoning(self) -> Zoning:
        if self.plan is not None:
            return self.plan
        step = min((min(walk.window.size, walk.window.step) for walk in self.count_walks), default=PIECE_MAX)
        return NoPlan(min(max(step // PIECES_PER_STEP, PIECE_MIN), PIECE_MAX))

    # --- events ---

    def _wait(self, stretch: Stretch) -> None:
        if self.known_already and len(stretch):
            is_known = stretch.chunk.times < self.covered
            self._keep_asked(stretch.take(np.flatnonzero(is_known)))
            stretch = stretch.take(np.flatnonzero(~is_known))
        super()._wait(stretch)

    def expect(self, looks: Sequence[Look]) -> None:
        """Looks that can be answered once events were read again: of these, keep what they ask for."""
        self._asked = list(looks)

    def _keep_asked(self, stretch: Stretch) -> None:
        times = stretch.chunk.times
        is_asked = np.zeros(len(times), np.bool_)
        for look in self._asked:
            is_asked |= (times >= look.first[0]) & (times <= look.last[0])
        if is_asked.any():
            kept = stretch.take(np.flatnonzero(is_asked)).in_order()
            self.kept.stretches.append(kept)
            self.kept.count += len(kept)

    def _released(self, until: int) -> Stretch | None:
        released = self.buffer.release(until)
        return concat_stretches(released).in_order() if released else None

    # --- pieces ---

    def take_pieces(self, family: int, chain: str, until: int, latest: int, is_all: bool) -> PiecesPart:
        """The pieces of what lies before ``until`` and was not sent; with ``is_all``, the other events as they are."""
        if until < FOREVER:  # at the end of the stream nobody has to wait
            until = max(min(until, self.zoning().horizon), self.covered if self.covered < FOREVER else NEVER)
        self.covered = until
        self.held_most = max(self.held_most, self.held_count)
        parts = [(stretch, False) for stretch in [self._released(until)] if stretch is not None]
        if is_all and (rest := self._released(FOREVER)) is not None:
            parts.append((rest, True))
        if not parts:
            return self._part(family, chain, until, latest, is_all, -1, None, None)
        stretch = concat_stretches([part for part, _ in parts])
        for part, _ in parts:
            self.kept.add(part)
        if self.counts_by_key:
            return self._part(family, chain, until, latest, is_all, -1, *self._by_key(stretch))
        found = [self._planned(part, is_rest) for part, is_rest in parts]
        starts = np.concatenate([ranges.starts for ranges in found])
        starts[len(found[0].starts) :] += len(parts[0][0])
        sizes, is_raw = (np.concatenate([getattr(ranges, name) for ranges in found]) for name in ("sizes", "is_raw"))
        return self._part(family, chain, until, latest, is_all, -1, stretch, Ranges(starts, sizes, is_raw))

    def nothing(self, family: int, chain: str, latest: int) -> PiecesPart:
        """No pieces, for events are still read again."""
        return self._part(family, chain, self.covered, latest, self.covered == FOREVER, -1, None, None)

    def _planned(self, stretch: Stretch, is_rest: bool) -> Ranges:
        if is_rest:
            # Nothing says yet what comes between them: only as themselves can they be put in order.
            count = len(stretch)
            return Ranges(np.zeros(1, np.int64), np.array([count]), np.ones(1, np.bool_))
        return planned_ranges(stretch.chunk.times, self.zoning())

    def _by_key(self, stretch: Stretch) -> tuple[Stretch, Ranges]:
        stretch = stretch.take(np.argsort(stretch.keys, kind="stable"))
        return stretch, key_ranges(stretch.keys, self.zoning().piece_max)

    def answer(self, family: int, chain: str, looks: Sequence[Look]) -> list[PiecesPart] | None:
        """What lies in pieces that somebody looks into; None if some of it is not in memory any more."""
        parts = []
        for look in looks:
            near = [between_keys(stretch, look.first, look.last) for stretch in self.kept.stretches]
            found = [stretch for stretch in near if len(stretch)]
            if not found:
                return None
            stretch = concat_stretches(found).in_order()
            if self.counts_by_key:
                number = self.keys.encode(look.key_columns, 1)[0]
                stretch = stretch.take(np.flatnonzero(stretch.keys == number))
            if len(stretch) != look.count:
                return None
            ranges = looked_ranges(stretch.chunk.times, look.low, look.high)
            parts.append(self._part(family, chain, NEVER, NEVER, False, look.number, stretch, ranges))
        return parts

    def _part(
        self, family: int, chain: str, until: int, latest: int, is_all: bool, answers: int,
        stretch: Stretch | None, ranges: Ranges | None,
    ) -> PiecesPart:  # fmt: skip
        head = (family, chain, until, latest, is_all, answers)
        none, nowhere = np.empty(0, np.int64), np.empty((3, 0), np.int64)
        if stretch is None or ranges is None:
            return PiecesPart(*head, none, nowhere, nowhere, none, _no_keys(self), none, {})
        whole = np.flatnonzero(~ranges.is_raw)
        starts, sizes = ranges.starts[whole], ranges.sizes[whole]
        places = stretch.chunk.places(starts), stretch.chunk.places(starts + sizes - 1)
        rows = rows_of(stretch.keys, len(self.keys), ranges)
        partials = self._lifted(stretch.chunk, rows.of_event, len(rows.key)) if len(whole) else {}
        raw, raw_keys = self._raw(stretch, ranges)
        columns, keys = listed_keys(self.keys.columns(), np.concatenate((rows.key, raw_keys)))
        if raw is not None:
            raw.key = keys[len(rows.key) :]
            self.raw_count += len(raw.key)
        return PiecesPart(*head, sizes, *places, rows.piece, columns, keys[: len(rows.key)], partials, raw)

    def _raw(self, stretch: Stretch, ranges: Ranges) -> tuple[RawRuns | None, Int32Array]:
        chosen = np.flatnonzero(ranges.is_raw)
        if len(chosen) == 0:
            return None, np.empty(0, np.int32)
        events = spread(ranges.starts[chosen], ranges.sizes[chosen])
        chunk: Chunk = stretch.chunk.take(events)
        columns: dict[str, pa.Array] = {name: arrow_values(values) for name, values in chunk.columns.items()}
        places = chunk.places(np.arange(len(chunk)))
        return RawRuns(ranges.sizes[chosen], places, np.empty(0, np.int64), columns), stretch.keys[events]


def _no_keys(group: QueryGroup) -> list[pa.Array]:
    return [column.slice(0, 0) for column in group.keys.columns()]
