"""Count windows over many nodes, the half that has the events: pieces of what is closed, and answers to looks into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from headwater.base.arrays import BoolArray, Int64Array
from headwater.base.count_limits import CountLimits
from headwater.engine.counting import pieces
from headwater.engine.counting.held_events import HeldEvents
from headwater.engine.counting.pieces import LiftedPieces, Ranges, Zoning
from headwater.engine.halves import LeafGroup
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.reorder import OrderedEvents, concat_stretches
from headwater.engine.operators.ragged import spread
from headwater.engine.wire.looks import Look
from headwater.engine.wire.parts import KeyRows, PiecesPart, RawRuns, arrow_values, listed_keys
from headwater.language.expressions import Expr
from headwater.language.times import FOREVER, NEVER

#: As long as there is no plan, pieces are a small part of a window, within limits.
PIECES_PER_STEP = 64
#: Of a part besides its pieces: family, chain, up to where its events are in pieces, their latest time, whether these are all
#: that there will be, and the look that it answers.
Head = tuple[int, str, int, int, bool, int]


class CountLeafGroup(LeafGroup):
    """Cuts events into pieces as soon as nothing can come before them; says no more of most than their number and partials.

    While events are read again, those before ``covered`` are in pieces already.
    """

    holds_events = True

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int, limits: CountLimits) -> None:
        super().__init__(keys, where, begin)
        self.limits = limits
        self.covered = NEVER
        self.reached = NEVER  # nothing that was sent is later
        self.plan: Zoning | None = None
        self.kept = HeldEvents(1 << 20)
        self.is_brief = False
        self.raw_count = 0
        self.taken = 0  # events that were put into pieces here
        self._rated = (0, NEVER)  # how many events there were, up to which time, when the rate was last told
        self.held_most = 0  # the most events that were in memory at once
        self._early: list[PiecesPart] = []
        self._early_count = 0
        self.looks: list[Look] = []  # that wait for their answer
        self._looked: set[int] = set()  # the numbers of those and of the ones that were answered

    def take_over(self, covered: int, latest: int, kept_max: int, is_brief: bool, looks: Sequence[Look]) -> None:
        """Before events come: which are in pieces already, and which of these are looked into; ``latest``: of all sent."""
        self.covered = covered
        self.reached = min(latest, covered - (covered > NEVER))
        self.kept.events_max, self.is_brief = 0 if is_brief else kept_max, is_brief
        self.kept.begin(self.reached, looks)

    def follow(self, plan: Zoning | None, settled: int) -> None:
        """Go by another plan of where cuts are expected; the root will not ask for anything before the time ``settled``."""
        self.plan = plan
        self.kept.forget(settled)

    def is_awaited(self, closed: int) -> bool:
        """Whether a window may wait for events up to here: else they are gathered, for many cost as much to send as a few."""
        waiting = len(self.buffer)
        is_over = FOREVER in (closed, self.covered)
        if is_over or waiting + self._early_count >= self.limits.gathered_max or self.counts_by_key:
            return True
        return self.zoning().awaits(self.covered, self.may_leave(closed), self.taken, self.taken + waiting)

    def cut_early(self, family: int, chain: str, closed: int, latest: int, has_one_source: bool) -> None:
        """Make pieces of what has come, for the next part."""
        if len(self.buffer) >= self.limits.early_min and not self.is_brief:
            before = self.taken
            self._early.append(self.take_pieces(family, chain, closed, latest, False, has_one_source))
            self._early_count += self.taken - before

    def take_early(self) -> list[PiecesPart]:
        """The pieces that `cut_early` made."""
        early, self._early, self._early_count = self._early, [], 0
        return early

    def zoning(self) -> Zoning:
        if self.plan is not None:
            return self.plan
        least, most = self.limits.piece_min, self.limits.unplanned_piece_max
        step = min((min(walk.window.size, walk.window.step) for walk in self.windows.count_walks), default=most)
        return Zoning(piece_max=min(max(step // PIECES_PER_STEP, least), most))

    @property
    def _piece_max(self) -> int:
        most = self.zoning().piece_max
        # With many keys, partials of small pieces are no smaller than their events.
        return min(most, max(self.limits.brief_piece_max, 4 * len(self.keys))) if self.is_brief else most

    def take_rate(self) -> float | None:
        """How many events came in a tick of time since the last time; None if time went no further."""
        (taken, time), now = self._rated, (self.taken, self.reached)
        if now[1] <= time:
            return None
        self._rated = now
        return (now[0] - taken) / (now[1] - time) if time > NEVER else None

    # --- events ---

    def wait(self, stretch: OrderedEvents) -> None:
        if self.known_already and len(stretch):
            is_known = stretch.chunk.times < self.covered
            self.kept.add_again(stretch.take(np.flatnonzero(is_known)))
            stretch = stretch.take(np.flatnonzero(~is_known))
        super().wait(stretch)

    def _released(self, until: int) -> OrderedEvents | None:
        released = self.buffer.release(until)
        return concat_stretches(released) if released else None

    # --- pieces ---

    def take_pieces(
        self, family: int, chain: str, closed: int, latest: int, is_all: bool, has_one_source: bool
    ) -> PiecesPart:
        """The pieces of what lies before ``closed`` and was not sent; with ``is_all``, the other events as they are."""
        until = closed
        if until < FOREVER:  # at the end of the stream nothing has to wait
            until = max(self.may_leave(until), self.covered if self.covered < FOREVER else NEVER)
        self.held_most = max(self.held_most, len(self.buffer) + self.kept.count)
        # Of a single source whatever was read is in its final order, also events at the very watermark.
        is_last_time = all(part.chunk.times[-1] <= until for part in self.buffer.parts)
        # Not as if all were sent: of what comes next, some may have to wait, and then it must be known what did not.
        until += has_one_source and until == closed < FOREVER and is_last_time
        if self.is_brief and not (has_one_source or self.counts_by_key or self.zoning().goes_by_position):
            return self._take_runs((family, chain, until, latest, is_all, -1))
        released = self._released(until)
        parts = [] if released is None else self._apart(released, has_one_source)
        if is_all and (rest := self._released(FOREVER)) is not None:
            parts.append((rest, True))
        self.covered = FOREVER if is_all else until
        head = (family, chain, until, latest, is_all, -1)
        if not parts:
            return self._part(head)
        stretch = concat_stretches([part for part, _ in parts])
        found = []
        begin = self.taken
        for part, is_rest in parts:
            self.kept.add(part)
            found.append(self._planned(part, is_rest))
            found[-1].starts += self.taken - begin
            self.taken += len(part)
        self.reached = max(self.reached, *(int(part.chunk.times[-1]) for part, _ in parts))
        if self.counts_by_key:
            travels = np.repeat([is_rest for _, is_rest in parts], [len(part) for part, _ in parts])
            return self._part(head, *self._by_key(stretch, travels))
        return self._part(head, stretch, pieces.joined_ranges(found))

    def _take_runs(self, head: Head) -> PiecesPart:
        """The same, of events that are not kept: those of several sources do not have to be brought into one order."""
        _, _, until, _, is_all, _ = head
        self.covered = FOREVER if is_all else until
        parts = self.buffer.split_off(self.covered)
        if not parts:
            return self._part(head)
        runs = [part.chunk.times for part in parts]
        low, high = max(self.reached + 1, min(int(times[0]) for times in runs)), max(int(times[-1]) for times in runs)
        # What lies among events that were sent travels, and what has no final place in the order.
        zones = self.zoning().zones(low, high) if low <= high else (np.empty(0, np.int64),) * 2
        cuts = pieces.cut_runs(runs, *pieces.zones_between(*zones, low, until), self._piece_max)
        self.taken += sum(map(len, parts))
        self.reached = max(self.reached, high)
        keys = np.concatenate([part.keys for part in parts])
        rows = pieces.rows_between(keys, len(self.keys), cuts.begins, cuts.ends, cuts.is_raw)
        values, travelling = pieces.values_of(parts, self.ops), pieces.raw_of(parts, cuts)
        whole, raw = cuts.sizes[~cuts.is_raw], cuts.sizes[cuts.is_raw]
        return self._put_together(head, whole, pieces.ends_of(parts, cuts), values, rows, travelling, raw)

    def may_leave(self, closed: int) -> int:
        """Up to where events may leave: those behind the horizon wait for another plan, but not for ever."""
        plan = self.zoning()
        return closed if closed > plan.horizon + plan.patience else min(closed, plan.horizon)

    def nothing(self, family: int, chain: str, latest: int) -> PiecesPart:
        """No pieces, for events are still read again."""
        return self._part((family, chain, self.covered, latest, self.covered == FOREVER, -1))

    def _planned(self, stretch: OrderedEvents, is_rest: bool) -> Ranges:
        if is_rest:
            # Nothing says yet what comes between them: only as themselves can they be put in order.
            count = len(stretch)
            return Ranges(np.zeros(1, np.int64), np.array([count]), np.ones(1, np.bool_))
        return self.zoning().ranges(stretch.chunk.times, self.taken, self._piece_max)

    def _apart(self, stretch: OrderedEvents, has_one_source: bool) -> list[tuple[OrderedEvents, bool]]:
        """Events of a source that joined late lie among those that were sent: these travel as they are.

        So a piece holds all events between its keys but those of sources that came after it, and can be found again.
        """
        side: Literal["left", "right"] = "left" if has_one_source else "right"
        count = int(np.searchsorted(stretch.chunk.times, self.reached, side=side))
        if count == 0:
            return [(stretch, False)]
        halves = [(stretch.take(slice(0, count)), True), (stretch.take(slice(count, len(stretch))), False)]
        return [(half, is_below) for half, is_below in halves if len(half)]

    def _by_key(self, stretch: OrderedEvents, travels: BoolArray) -> tuple[OrderedEvents, Ranges]:
        order = np.argsort(stretch.keys, kind="stable")
        stretch = stretch.take(order)
        return stretch, pieces.key_ranges(stretch.keys, travels[order], self._piece_max, self.limits.key_raw_max)

    # --- looks ---

    def look(self, looks: Sequence[Look]) -> None:
        """The root asks what lies in some pieces. Each look is answered once, with what is taken next."""
        fresh = [look for look in looks if look.number not in self._looked]
        self._looked.update(look.number for look in fresh)
        self.looks += fresh

    def take_answers(self, family: int, chain: str) -> list[PiecesPart] | None:
        """The answers to all looks; None if some events are not in memory any more: then the root asks again."""
        looks, self.looks = self.looks, []
        found = self._answers(family, chain, looks)
        if found is None:
            self._looked.difference_update(look.number for look in looks)
        return found

    def _answers(self, family: int, chain: str, looks: Sequence[Look]) -> list[PiecesPart] | None:
        parts: list[PiecesPart] = []
        if not looks:
            return parts
        if not all(map(self.kept.has_all, looks)):
            return None
        kept = self.kept.between(min(look.first[0] for look in looks), max(look.last[0] for look in looks))
        if kept is None:
            return None
        raw_max = self.limits.brief_raw_max if self.is_brief else self.zoning().raw_max
        for look in looks:
            stretch = pieces.between_keys(kept, look.first, look.last)
            if self.counts_by_key:
                number = self.keys.encode(look.key_columns, 1)[0]
                stretch = stretch.take(np.flatnonzero(stretch.keys == number))
            stretch = _of_first_sources(stretch, look.count)
            if len(stretch) != look.count:
                return None
            ranges = pieces.looked_ranges(stretch.chunk.times, look.low, look.high, raw_max, self.limits.look_parts)
            parts.append(self._part((family, chain, NEVER, NEVER, False, look.number), stretch, ranges))
        return parts

    def _part(self, head: Head, stretch: OrderedEvents | None = None, ranges: Ranges | None = None) -> PiecesPart:
        if stretch is None or ranges is None:
            none, nowhere = np.empty(0, np.int64), np.empty((3, 0), np.int64)
            no_keys = [column.slice(0, 0) for column in self.keys.columns()]
            return PiecesPart.of(*head, none, nowhere, nowhere, none, no_keys, none, {})
        whole, travels = np.flatnonzero(~ranges.is_raw), np.flatnonzero(ranges.is_raw)
        starts, sizes = ranges.starts[whole], ranges.sizes[whole]
        places = stretch.chunk.places(starts), stretch.chunk.places(starts + sizes - 1)
        rows = pieces.rows_of(stretch.keys, len(self.keys), ranges)
        events = spread(ranges.starts[travels], ranges.sizes[travels]) if len(travels) else slice(0, 0)
        raw = stretch.take(events)
        return self._put_together(head, sizes, places, stretch.chunk, rows, raw, ranges.sizes[travels])

    def _put_together(
        self, head: Head, sizes: Int64Array, places: tuple[KeyRows, KeyRows], chunk: Chunk, rows: LiftedPieces,
        raw: OrderedEvents, raw_sizes: Int64Array,
    ) -> PiecesPart:  # fmt: skip
        """Pieces of these sizes, and events that travel in runs."""
        partials = self.lifted(chunk, rows.of_event, len(rows.key)) if len(sizes) else {}
        columns, keys = listed_keys(self.keys.columns(), np.concatenate((rows.key, raw.keys)))
        runs = None
        if len(raw_sizes):
            values = {name: arrow_values(values) for name, values in raw.chunk.columns.items()}
            runs = RawRuns(raw_sizes, raw.chunk.places(np.arange(len(raw))), keys[len(rows.key) :], values)
            self.raw_count += len(raw)
        return PiecesPart.of(*head, sizes, *places, rows.piece, columns, keys[: len(rows.key)], partials, runs)


def _of_first_sources(stretch: OrderedEvents, count: int) -> OrderedEvents:
    """The events of the oldest sources that have ``count`` events together: all others joined later."""
    sources = stretch.chunk.source_ids
    below = np.cumsum(np.bincount(sources))
    is_older = sources <= np.searchsorted(below, count)
    return stretch if is_older.all() else stretch.take(np.flatnonzero(is_older))
