"""The truth of a run so far: the history that the root's notes and the sources' logs tell, kept in the reference.

The root notes what it accepted and decided, once that is on its disk; the logs say which events those were. So the reference
stands at every moment where the root should stand, without a look into any node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.language.query import Query
from headwater.language.times import FOREVER, NEVER
from headwater.reference import history
from headwater.reference.rows import ReferenceStream
from headwater.simulator.workloads.streams import SourceLog
from headwater.simulator.workloads.workload import Workload


class ViolationError(Exception):
    """Something happened that must never happen, or something did not that must."""


class Truth:
    """The reference, fed with what was accepted and decided."""

    def __init__(self, workload: Workload, added: Mapping[str, Query]) -> None:
        self.stream = ReferenceStream(history.StreamSettings(workload.queries, disorder=workload.disorder))
        self.logs = {log.source: log for log in workload.all_logs}
        #: Of each source: how many events were accepted, and whether the group waits for it.
        self.accepted = dict.fromkeys(self.logs, 0)
        self.active: dict[str, bool] = {}
        self.decision_count = 0
        self.is_flushed = False
        #: Whether a user has asked for the end: from then on sources may end anywhere.
        self.may_end = False
        self.draining: set[str] = set()
        #: How many events of the logs were not accepted yet.
        self.missing_count = sum(map(len, self.logs.values()))
        #: The sources that the group waits for although they may have no more to say: those that will not end.
        self.waiting_for = {source for source, log in self.logs.items() if log.ended_ns is None}
        self._added = added
        self._watermark = NEVER

    @property
    def held_up_by(self) -> set[str]:
        """Those of them that are behind another, or will be once it has ended, so that the group really waits."""
        active = [source for source, is_active in self.active.items() if is_active]
        marks = {source: self.stream.sources[source].watermark for source in active}
        ends = [FOREVER for source in active if self.logs[source].ended_ns is not None]
        highest = max([*marks.values(), *ends], default=NEVER)
        return {source for source in self.waiting_for if marks.get(source, NEVER) < highest}

    def note(self, what: str, detail: Mapping[str, Any]) -> None:
        """Take a note of the root; most are not about the stream."""
        match what:
            case "accepted":
                self._accept(detail["sources"])
                self._check_watermark(int(detail["watermark"]))
            case "decided":
                self._decide(detail["what"], detail["source"], detail["offset"], detail["time"])
            case "query added":
                self.stream.take(history.Added(self._added[detail["name"]], detail["at"]))
                if NEVER < self.stream.largest_time >= detail["at"]:
                    raise ViolationError(
                        f"query {detail['name']} was added at {detail['at']}, but {self.stream.largest_time} was seen"
                    )
            case "query removed":
                self.stream.take(history.Removed(detail["name"], detail["drain"]))
                if detail["drain"]:
                    self.draining.add(detail["name"])
            case "flushed":
                if not self.is_flushed:
                    self.stream.take(history.Flushed())
                self.is_flushed = True

    def _accept(self, sources: Mapping[str, Sequence[int]]) -> None:
        """What a root accepts with one record happens at one moment: no window sees a watermark in the midst of it."""
        for source, (start, end, watermark) in sorted(sources.items()):
            log = self.logs[source]
            if start != self.accepted[source] or not start <= end <= len(log):
                raise ViolationError(
                    f"{source}: [{start}, {end}) was accepted where it stood at {self.accepted[source]}"
                )
            if source not in self.active:
                raise ViolationError(f"{source} was accepted before it joined")
            self.active[source] = True
            self.accepted[source] = end
            self.missing_count -= end - start
            for step in _steps(log, start, end):
                self.stream.note(step)
            self._check_source(log, end, watermark)
            self.stream.note(history.Advanced(source, watermark))
        self.stream.rise()

    def _check_source(self, log: SourceLog, end: int, watermark: int) -> None:
        """Check the watermark of a source: it follows from what it told so far; what it told just behind may count or not."""
        before = self.stream.sources[log.source].watermark
        told = [before, *(told.watermark for told in log.told if told.position == end)]
        allowed = {max(told[: count + 1]) for count in range(len(told))}
        if self.may_end or end == len(log) and log.ended_ns is not None:
            allowed.add(FOREVER)
        if watermark not in allowed:
            raise ViolationError(
                f"{log.source}: behind {end} events its watermark is {sorted(allowed)}, not {watermark}"
            )

    def _check_watermark(self, watermark: int) -> None:
        if watermark < self._watermark:
            raise ViolationError(f"the watermark fell from {self._watermark} to {watermark}")
        self._watermark = watermark
        if watermark != self.stream.watermark:
            raise ViolationError(f"the watermark is {watermark} and should be {self.stream.watermark}")

    def _decide(self, what: str, source: str, offset: int, time: int) -> None:
        right_time = time == self.stream.watermark
        if offset != self.accepted[source] or not right_time:
            raise ViolationError(
                f"{source} {what} at offset {offset}, time {time};"
                f" accepted are {self.accepted[source]}, the watermark is {self.stream.watermark}"
            )
        self.active[source] = what != "idle"
        self.decision_count += 1
        back = history.Joined(source, self.logs[source].home) if what == "joined" else history.Returned(source)
        self.stream.take(history.Idle(source) if what == "idle" else back)
        is_awaited = self.active[source] and self.stream.sources[source].watermark < FOREVER
        if is_awaited and self.logs[source].ended_ns is None:
            self.waiting_for.add(source)
        else:
            self.waiting_for.discard(source)


def _steps(log: SourceLog, start: int, end: int) -> list[history.Step]:
    """The events of a stretch, and the explicit watermarks in front of and between them."""
    steps: list[history.Step] = []
    told = {mark.position: mark.watermark for mark in log.told if start <= mark.position < end}
    for offset in range(start, end):
        if offset in told:
            steps.append(history.Advanced(log.source, told[offset]))
        steps.append(history.Arrived(log.source, offset, log.rows[offset], log.home))
    return steps
