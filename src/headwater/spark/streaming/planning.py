"""The offset of a batch, and how the next one is decided: by the last offset, the root's directive and how far sources go by now.

Decided by a pure function: the caller brings the time and the facts. An offset holds everything that decides a batch, so that a
batch that runs again is the same.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headwater.errors import DataError
from headwater.spark.streaming.arrivals import Taken, taken_since
from headwater.spark.streaming.directives import Directive
from headwater.spark.streaming.inputs.input import Extent

#: Sources that join with one batch at most.
JOINING_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Offset:
    """The end of a batch as Spark stores it, and the number of that batch.

    ``now_ns``: how much time had passed since the stream began (`elapsed`), which is the time for all that happens in it.
    ``clock_ns``: what the wall clock said when it was planned; if that was set back, the time it said before and what has passed.
    ``ends``: up to which event each source is read. ``joining``: sources that come with this batch, by chain; they are read from
    the next on. ``done``: sources that are not waited for behind their end. ``commands``: how many of the users' commands it
    knows. ``until``: how far sources went when the end of the stream was asked for, while not all of it is read. ``flush``: it
    is; sources end where they are. ``directive``: the hash of what the root said after the batch before. ``taken``: when events
    were first taken that may be read again, where that is their arrival.
    """

    batch: int = -1
    now_ns: int = 0
    ends: Mapping[str, int] = field(default_factory=dict)
    joining: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    done: Mapping[str, bool] = field(default_factory=dict)
    commands: int = 0
    flush: bool = False
    directive: str = ""
    taken: Taken = field(default_factory=dict)
    until: Mapping[str, int] | None = None
    clock_ns: int = 0

    def to_data(self) -> dict[str, Any]:
        # Left out where there is none, as in the checkpoints of releases that knew neither.
        left_out = {name for name, value in (("taken", self.taken), ("until", self.until)) if not value}
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Offset:
        # In offsets of earlier releases the time that passed was the wall clock's.
        return cls(**{"clock_ns": data["now_ns"], **data})

    @property
    def hash(self) -> str:
        """By which a directive says that it is the answer to this offset."""
        return hashlib.sha256(json.dumps(self.to_data(), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class PlannerView:
    """Facts for the planner: how far sources go, how many commands there are, whether a new one ends the stream, the time.

    If one does, the extents are of everything that is there. ``clock_ns``: what the wall clock says; ``passed_ns``: how long ago
    the last batch was planned.
    """

    extents: Mapping[str, Extent]
    commands: int
    flush: bool
    clock_ns: int
    passed_ns: int = 0


def next_offset(
    start: Offset,
    directive: Directive,
    found: PlannerView,
    chains: int,
    events_max: int | None,
    keeps_arrivals: bool = False,
) -> Offset:
    """The end of the next batch, or ``start`` if there is no reason for one.

    ``chains``: how many leaves share the sources at most; ``events_max``: how many events a batch has at most.
    ``keeps_arrivals``: whether events arrive when they are first taken.
    """
    last, start = start, _without(start, directive.forgotten)
    if directive.is_finished:
        return last
    # Spark may have lost the offset of a batch that is done: the root has not heard of the one that was planned in its place.
    is_unheard = directive.offset not in ("", last.hash)
    if start.flush:
        # Nothing more is taken in: only what the root has not accepted is read again.
        return _following(start, directive, found, {}) if directive.wants_batch or is_unheard else last
    known = directive.chain_of()
    _check_firm(start, found.extents)
    until = start.until
    if until is None and found.flush:
        until = {name: extent.end for name, extent in found.extents.items()}
    extents = found.extents if until is None else _cut_off(found.extents, until)
    ends = dict(start.ends) | _ends(start, {n: e for n, e in extents.items() if n in known}, events_max)
    joined = joining(directive.sources(), {n: e for n, e in extents.items() if n not in known}, chains)
    flush = until is not None and not joined and all(ends.get(name, 0) >= end for name, end in until.items())
    now_ns = start.now_ns + found.passed_ns
    is_due = any(at is not None and now_ns >= at for at in (directive.silent_at_ns, directive.rows_due_ns))
    is_new = is_unheard or ends != dict(start.ends) or bool(joined) or found.commands > start.commands or flush
    done = {
        name: True
        for name, extent in extents.items()
        if extent.is_done and name in known and ends.get(name, 0) >= extent.end
    }
    is_new = is_new or any(name not in start.done for name in done)
    if not is_new and not is_due and not directive.wants_batch:
        return last
    taken = {}
    if keeps_arrivals:
        now_us = _clock_ns(start, found) // 1_000
        taken["taken"] = taken_since(start.taken, start.ends, ends, now_us, directive.holds())
    news = {"ends": ends, "joining": joined, "done": done, "flush": flush, "until": None if flush else until, **taken}
    return _following(start, directive, found, news)


def _cut_off(extents: Mapping[str, Extent], until: Mapping[str, int]) -> dict[str, Extent]:
    """The sources that were there when the end was asked for, as far as they went then: what came later is not read."""
    return {name: replace(extents.get(name, Extent(end)), end=end) for name, end in until.items()}


def _without(start: Offset, sources: Collection[str]) -> Offset:
    """An offset that says nothing of sources that were forgotten."""
    if not sources:
        return start
    gone = {*sources}
    ends, done, taken = (
        {name: value for name, value in kept.items() if name not in gone}
        for kept in (start.ends, start.done, start.taken)
    )
    until = start.until and {name: end for name, end in start.until.items() if name not in gone}
    return replace(start, ends=ends, done=done, taken=taken, until=until)  # type: ignore[arg-type]


def _check_firm(start: Offset, extents: Mapping[str, Extent]) -> None:
    """Refuse a source that lost events which were read: those that get their offsets next would never be."""
    for name, extent in extents.items():
        if extent.is_firm and extent.end < start.ends.get(name, 0):
            raise DataError(
                f"source {name!r} ends at {extent.end} now, but its first {start.ends[name]} events were read already: it went"
                " back (it was restored, or a loss of power took what was not synced); begin a new stream with another checkpoint"
            )


def _following(start: Offset, directive: Directive, found: PlannerView, news: Mapping[str, object]) -> Offset:
    times = {"now_ns": start.now_ns + found.passed_ns, "clock_ns": _clock_ns(start, found)}
    fixed = {"batch": start.batch + 1, **times, "directive": directive.hash, "joining": {}}
    return replace(start, **{**fixed, "commands": found.commands, **news})  # type: ignore[arg-type]


def _clock_ns(start: Offset, found: PlannerView) -> int:
    """The wall clock's time. If it was set back, it goes on from where it was: times of arrival neither fall nor stand still."""
    return max(found.clock_ns, start.clock_ns + found.passed_ns)


def _ends(start: Offset, extents: Mapping[str, Extent], events_max: int | None) -> dict[str, int]:
    """How far each source is read: as far as it goes, or an equal share of what waits in each."""
    waiting = {name: extent.end - start.ends.get(name, 0) for name, extent in extents.items()}
    waiting = {name: count for name, count in waiting.items() if count > 0}
    total = sum(waiting.values())
    if events_max is not None and total > events_max:
        # In proportion, so that all come to their ends together; every source that has events moves.
        waiting = {name: min(count, max(1, count * events_max // total)) for name, count in waiting.items()}
    return {name: start.ends.get(name, 0) + count for name, count in waiting.items()}


def joining(
    known: Mapping[str, Sequence[str]], extents: Mapping[str, Extent], chains: int
) -> dict[str, dict[str, str]]:
    """New sources with their homes, each with the chain that has the fewest of those that are ``known``.

    No more than `JOINING_MAX` at once: they travel in one message for each chain.
    """
    counts = Counter({chain: len(sources) for chain, sources in known.items()})
    joined: dict[str, dict[str, str]] = {}
    for name in sorted(extents)[:JOINING_MAX]:
        if len(counts) < chains:
            chain = f"{len(counts):05d}"
        else:
            chain = min(counts, key=lambda each: (counts[each], each))
        counts[chain] += 1
        joined.setdefault(chain, {})[name] = extents[name].home or name
    return joined
