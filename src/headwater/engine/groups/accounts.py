"""What a group knows beyond its windows: the accounts of every event, and its state for snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.engine.groups.queries import GroupQueries, Totals
from headwater.engine.groups.work import WorkCount
from headwater.engine.intake.reorder import concat_stretches
from headwater.engine.windows.counts import CountQuery
from headwater.engine.windows.fixed import outside_of
from headwater.engine.windows.late import DROPPED, LATE, MEMBER, OUTSIDE
from headwater.engine.windows.markers import CutQuery
from headwater.engine.windows.sessions import SessionWindows


class GroupAccounts(GroupQueries):
    """Counts what became of every event, and can be written down and taken up again."""

    @property
    def slice_count(self) -> int:
        return self.work.slice_count

    @property
    def calculation_count(self) -> int:
        return self.work.calculation_count

    def row_count(self) -> int:
        return len(self.store)

    def count(self, seen: int, filtered: int, early: int) -> None:
        """Events that another half of the engine has seen."""
        self.totals.seen += seen
        self.totals.filtered += filtered
        self.totals.early += early

    def counters(self, number: int) -> dict[str, int]:
        """What became of every event since the query came, malformed ones aside."""
        base = self._baselines[number]
        seen, filtered = self.totals.seen - base.seen, self.totals.filtered - base.filtered
        extra = self._extra_counts(number)
        early = self.totals.early - base.early
        outside = int(extra[OUTSIDE]) + early
        stragglers = int(extra[MEMBER] + extra[LATE] + extra[DROPPED])
        return {
            "in": seen,
            "filtered": filtered,
            "outside": outside,
            "member": seen - filtered - outside - stragglers + int(extra[MEMBER]),
            "late": int(extra[LATE]),
            "dropped": int(extra[DROPPED]),
        }

    def _extra_counts(self, number: int) -> Int64Array:
        fixed = self.fixed.find(number)
        if fixed is not None:
            counts = self.fixed.counts.get(number, np.zeros(4, np.int64)).copy()
            for part in self.buffer.parts:
                counts[OUTSIDE] += outside_of(fixed, part.chunk.times)
            return counts
        for query in self._others():
            if query.entry.number == number:
                counts = query.counts.copy()
                counts[OUTSIDE] += self._waiting_outside(query)
                return counts
        return np.zeros(4, np.int64)

    def _waiting_outside(self, query: SessionWindows | CutQuery | CountQuery) -> int:
        """Events in no window of a query, as far as only the present order of what waits can tell."""
        waiting = concat_stretches(self.buffer.parts).in_order() if self.buffer.parts else None
        if isinstance(query, CountQuery):
            keys = np.empty(0, np.int32) if waiting is None else waiting.keys
            if not query.walk.by_key:
                return query.walk.outside(np.array([self.position + len(keys)]))
            totals = np.bincount(keys, minlength=len(self.keys))
            totals[: len(self.by_key.base)] += self.by_key.base
            return query.walk.outside(totals)
        if waiting is None:
            return 0
        if isinstance(query, SessionWindows):
            return int((waiting.chunk.times < query.entry.begin).sum())
        return query.walk.waiting_outside(waiting, len(self.keys))

    # --- snapshots ---

    def state(self) -> dict[str, Any]:
        """Everything that events have left behind; the queries themselves are kept by the engine."""
        return {
            "keys": self.keys.state(),
            "store": self.store.state(),
            "stragglers": self.stragglers.state(),
            "buffer": self.buffer.state(),
            "watermark": self.watermark,
            "totals": _numbers(self.totals),
            "baselines": [[number, _numbers(totals)] for number, totals in self._baselines.items()],
            "position": self.position,
            "by_key": self.by_key.base,
            "fixed": self.fixed.state(),
            "others": [query.state() for query in self._others()],
            "conditions": [query.walk.conditions for query in self.cut_queries],
            "in_order": self.in_order,
            "work": self.work.state(),
        }

    def restore(self, state: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
        """Take over a state; the queries were registered before, in the same order."""
        self.by_key.base = state["by_key"].copy()
        self.in_order = state["in_order"]
        self.prepare(types)
        self.keys.restore(state["keys"])
        self.store.restore(state["store"], self.ops)
        self.stragglers.restore(state["stragglers"])
        self.buffer.restore(state["buffer"])
        self._restore_markers(state["conditions"])
        # Queries that came just before the snapshot: nothing has a place for their operators yet.
        ops, self.ops = self.ops, []
        self._change_operators(ops)
        self.watermark, self.position = state["watermark"], state["position"]
        self.totals = Totals(*state["totals"])
        self._baselines = {number: Totals(*numbers) for number, numbers in state["baselines"]}
        self.fixed.restore(state["fixed"])
        for query, kept in zip(self._others(), state["others"], strict=True):
            query.restore(kept)
        self.work = WorkCount.restored(state["work"])

    def _restore_markers(self, places: list[list[int]]) -> None:
        """Conditions are numbered anew: let the markers of waiting events follow. ``places``: each cut query's old numbers."""
        old: dict[int, int] = {}
        for query, known in zip(self.cut_queries, places, strict=True):
            old.update(zip(query.walk.conditions, known, strict=True))
        for part in self.buffer.parts:
            part.markers = [part.markers[old[i]] for i in range(len(self.conditions))]


def _numbers(totals: Totals) -> list[int]:
    return [totals.seen, totals.filtered, totals.clean, totals.early]
