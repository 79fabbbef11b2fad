"""A root that is given micro-batches whole: all events of some keys, and word of all sources, batch by batch.

What holds for every batch: events have the watermark of their source as the batches before have left it, so their order
within the batch does not say who is late; sources that are new join first, those that had fallen idle return; when all events
are in, watermarks rise to the latest time of each source minus the disorder bound, and windows close. Several roots share
keys: each hears of all sources, so all decide alike, as do the engines within one: what is known of a source is asked of any of
them. Nothing here reads a clock: a batch brings its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.engine.intake.arrivals import times_of
from headwater.engine.intake.tie_order import ordered
from headwater.engine.windows.live_rows import with_open_rows
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import DataError, QueryError
from headwater.language.files.queries import to_json
from headwater.language.times import FOREVER, NEVER
from headwater.node.micro_batches.core import BatchCore
from headwater.node.micro_batches.frames import SOURCE, BatchSettings, EventGroup, Frame, Heard


@dataclass(slots=True)
class StepOutput:
    """What came out of a step: tables of rows, of events set aside, and what was counted since the last step."""

    rows: list[pa.Table] = field(default_factory=list)
    aside: list[pa.Table] = field(default_factory=list)
    accounts: list[dict[str, Any]] = field(default_factory=list)


class BatchRoot:
    """Windows over micro-batches, for the keys of one bucket.

    >>> import headwater as hw
    >>> query = hw.query("n", hw.tumbling(10), n=hw.count())
    >>> root = BatchRoot(BatchSettings((EventGroup("", (query,), ("time",)),), disorder=0))
    >>> events = pa.record_batch({"time": [3, 12, 4]})
    >>> outcome = root.take([Frame({"": Heard(3, 12)}, False, {"": events})])
    >>> outcome.rows[0].select(["window_start", "n"]).to_pylist()
    [{'window_start': 0, 'n': 2}]
    """

    def __init__(self, settings: BatchSettings) -> None:
        self.settings = settings
        self._cores = {group.name: self._new_core(group, NEVER) for group in settings.groups}
        self._heard: dict[str, int] = {}  # of each source, when something last came of it, in milliseconds
        self._latest = NEVER
        self._heard_ms = 0
        self._is_finished = False
        self._counted: dict[str, dict[str, int]] = {}
        self._shown: dict[str, pa.Table] = {}

    def _new_core(self, group: EventGroup, begin: int) -> BatchCore:
        settings = self.settings
        return BatchCore.beginning_at(
            list(group.queries), begin, time=settings.time, unit=settings.unit, strict=settings.strict
        )

    @property
    def _core(self) -> BatchCore:
        """Any engine, for they all know the same of sources."""
        return next(iter(self._cores.values()))

    # --- steps ---

    def take(self, frames: Iterable[Frame], now_ms: int = 0) -> StepOutput:
        """Take a batch: all frames of all partitions, in an order that a replay repeats."""
        frames = list(frames)
        heard: dict[str, Heard] = {}
        for frame in frames:
            for name, one in frame.sources.items():
                heard.setdefault(name, Heard()).add(one.count, one.latest)
        names = sorted(heard, key=str.encode)
        self._welcome(names, now_ms)
        for group in self.settings.groups:
            self._push(group, [frame.events[group.name] for frame in frames if group.name in frame.events])
        self._rise({name: heard[name].latest for name in names})
        if any(frame.is_last for frame in frames):
            self._finish()
        return self.tick(now_ms)

    @property
    def watermark(self) -> int:
        return self._core.watermark

    def holding_up(self) -> list[str]:
        """The sources for which all others wait: those of the lowest watermark that have not ended."""
        if self._is_finished:
            return []
        waited_for = {name: source.watermark for name, source in self._core.sources.items() if source.active}
        lowest = min(waited_for.values(), default=FOREVER)
        return [name for name, watermark in waited_for.items() if watermark == lowest < FOREVER]

    def next_tick_ms(self) -> int | None:
        """When something may have to be decided although no event comes; None: never."""
        settings = self.settings
        if self._is_finished or not self._heard:
            return None
        due = []
        if settings.idle_ms is not None:
            active = [self._heard[name] for name, source in self._core.sources.items() if source.active]
            # The last active source holds no other back.
            due += [min(active) + settings.idle_ms] if len(active) > 1 else []
        if settings.flush_after_ms is not None:
            due.append(self._heard_ms + settings.flush_after_ms)
        return min(due, default=None)

    def _welcome(self, names: Sequence[str], now_ms: int) -> None:
        """Let new sources join and idle ones return, and note that all of them were heard now."""
        for name in names:
            for core in self._cores.values():
                core.join(name, self._home(name))
                if not core.sources[name].active:
                    core.resume(name)
            self._heard[name] = now_ms
        if names:
            self._heard_ms = now_ms

    def _push(self, group: EventGroup, batches: Sequence[pa.RecordBatch]) -> None:
        if not batches:
            return
        core = self._cores[group.name]
        batch = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()[0]
        if group.ties is not None:
            times, bad, _ = times_of(batch, self.settings.time, self.settings.unit)
            times = times.copy()
            times[list(bad)] = NEVER
            batch = batch.take(pa.array(ordered(times, [batch.column(name) for name in group.ties])))
        for name, own in _by_source(batch):
            core.push([own.select(list(group.columns))], name, None, self._home(name))

    def _home(self, source: str) -> str:
        return self.settings.homes.get(source, source)

    def _rise(self, latest: dict[str, int | None]) -> None:
        """All events of the batch are in: raise the watermarks, and close windows."""
        self._latest = max([self._latest, *(time for time in latest.values() if time is not None)])
        disorder = self.settings.disorder
        if disorder is None:
            return
        marks = {name: time - disorder for name, time in latest.items() if time is not None}
        for core in self._cores.values():
            core.raise_each(marks)

    def _finish(self) -> None:
        self._is_finished = True
        for core in self._cores.values():
            core.flush()

    def tick(self, now_ms: int) -> StepOutput:
        """Time has passed: decide about those that are silent, and return what has come out."""
        settings = self.settings
        if settings.idle_ms is not None and not self._is_finished:
            self._decide_idle(now_ms - settings.idle_ms)
        ends = settings.flush_after_ms is not None and self._heard_ms + settings.flush_after_ms <= now_ms
        if ends and self._heard and not self._is_finished:
            self._finish()
        return self._outcome()

    def _decide_idle(self, until_ms: int) -> None:
        sources = self._core.sources
        active = sum(source.active for source in sources.values())
        for name in sorted(self._heard, key=str.encode):
            # The last active source stays: with none, there would be no watermark to go by.
            if active > 1 and self._heard[name] <= until_ms and sources[name].active:
                active -= 1
                for core in self._cores.values():
                    core.idle(name)

    # --- what comes out ---

    def _outcome(self) -> StepOutput:
        outcome = StepOutput()
        keys = {query.name: query.keys for group in self.settings.groups for query in group.queries}
        for number, (name, core) in enumerate(self._cores.items()):
            rows = core.take_rows()
            if self.settings.is_live:
                rows, self._shown[name] = with_open_rows(rows, core.open_rows(), self._shown.get(name), keys)
            if len(rows):
                outcome.rows.append(rows)
            aside = core.side_output()
            if number:
                # A malformed event is so for all queries: one group tells of it.
                aside = aside.filter(aside.column("query").is_valid())
            if len(aside):
                outcome.aside.append(aside)
            outcome.accounts += self._counts(core)
        return outcome

    def _counts(self, core: BatchCore) -> list[dict[str, Any]]:
        """What each query has counted since the last step."""
        changes = []
        for name, counts in core.counters().items():
            before = self._counted.get(name, dict.fromkeys(counts, 0))
            if counts != before:
                changes.append({"query": name, **{what: n - before[what] for what, n in counts.items()}})
                self._counted[name] = dict(counts)
        return changes

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Everything the root knows."""
        settings = self.settings
        known = self._core.sources
        sources = [
            [name, known[name].watermark, heard_ms, known[name].active] for name, heard_ms in self._heard.items()
        ]
        return to_bytes(
            {
                "fixed": [settings.time, settings.unit, settings.buckets],
                "cores": {name: core.snapshot() for name, core in self._cores.items()},
                "sources": sources,
                "numbers": [self._core.watermark, self._latest, self._heard_ms, self._is_finished],
                "counted": self._counted,
                "shown": {name: table_to_bytes(table) for name, table in self._shown.items()},
            }
        )

    @classmethod
    def restore(cls, data: bytes, settings: BatchSettings) -> BatchRoot:
        """A root that goes on where ``snapshot`` was taken, with the queries of now."""
        state = from_bytes(data)
        _check_fixed(state["fixed"], settings)
        root = cls(BatchSettings((), settings.time, settings.unit))
        root.settings = settings
        root._heard = {name: heard_ms for name, _, heard_ms, _ in state["sources"]}
        _, root._latest, root._heard_ms, root._is_finished = state["numbers"]
        root._shown = {name: table_from_bytes(table) for name, table in state["shown"].items()}
        kept = {name: BatchCore.restore(core) for name, core in state["cores"].items()}
        root._check_homes(next(iter(kept.values())))
        root._cores = {group.name: root._taken_over(group, kept) for group in settings.groups}
        asked = {query.name for group in settings.groups for query in group.queries}
        root._counted = {name: counts for name, counts in state["counted"].items() if name in asked}
        return root

    def _check_homes(self, known: BatchCore) -> None:
        for name, source in known.sources.items():
            if source.home != self._home(name):
                raise DataError(
                    f"home gives source {name!r} the node {self._home(name)!r}, and in the checkpoint it is at home at "
                    f"{source.home!r}: keep it, or begin with a new checkpoint"
                )

    def _taken_over(self, group: EventGroup, kept: dict[str, BatchCore]) -> BatchCore:
        """The engine of a group: queries that are new begin above every time seen so far, those that are gone end."""
        known = next(iter(kept.values()))
        begin = max(self._latest + 1 if self._latest > NEVER else NEVER, known.watermark)
        core = kept.get(group.name)
        if core is None:
            core = self._new_core(group, begin)
            for name in known.sources:
                core.join(name, self._home(name))
            core.raise_each({name: source.watermark for name, source in known.sources.items()})
            for name, source in known.sources.items():
                if not source.active:
                    core.idle(name)
            return core
        have = core.query_texts
        wanted = {query.name: query.resolved(self.settings.unit) for query in group.queries}
        for name in have.keys() - wanted.keys():
            core.remove_query(name)
        for name, query in wanted.items():
            if name not in have:
                core.add_at(query, begin)
            elif have[name] != to_json([query]):
                raise QueryError(
                    f"query {name!r} is another one than in the checkpoint; give the new one a name of its own"
                )
        return core


def _check_fixed(known: list[Any], settings: BatchSettings) -> None:
    now = [settings.time, settings.unit, settings.buckets]
    for name, before, after in zip(("time", "unit", "buckets"), known, now, strict=True):
        if before != after:
            raise DataError(
                f"{name} is {after!r}, and the checkpoint was made with {before!r}: keep it, or begin with a new checkpoint"
            )


def _by_source(batch: pa.RecordBatch) -> Iterable[tuple[str, pa.RecordBatch]]:
    """The events of each source, in their order."""
    if SOURCE not in batch.schema.names:
        return [("", batch)]
    coded = batch.column(SOURCE)
    which = coded.indices.to_numpy(zero_copy_only=False)
    names = coded.dictionary.to_pylist()
    there = sorted(np.unique(which).tolist(), key=lambda number: names[number].encode())
    return [(names[number], batch.take(pa.array(np.flatnonzero(which == number)))) for number in there]
