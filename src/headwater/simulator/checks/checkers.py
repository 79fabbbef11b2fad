"""The checker of a run: safety at every step, liveness at the end; it does not know how nodes work.

Safety: a row leaves only if the reference holds it for what was accepted by then; each (query, window, key, revision) leaves
once, also after crashes of the root; revisions rise, and what they replace was there. Liveness: in the end the last revision of
every window is what the reference says of everything, and so are the counters and the side output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.language.query import Query
from headwater.protocols.actions import Action, EmitAside, EmitRows, Noted, Refused, SendMessage
from headwater.protocols.delta import Delta
from headwater.protocols.events import Event
from headwater.protocols.messages import decode
from headwater.reference.rows import Entry, ResultRow, Row, identity
from headwater.simulator.checks.counts import Counts
from headwater.simulator.checks.silence import Silence
from headwater.simulator.checks.truth import Truth, ViolationError
from headwater.simulator.world.machine import Machine

#: What nodes tell of messages that make no sense: here all come from nodes.
DAMAGED = frozenset({"damaged frame", "damaged message", "damaged delta", "unreadable part"})
Place = tuple[str, Any, str, int, int]  # query, key, node, start, end


class StandingRow(NamedTuple):
    """A row that was emitted and still holds."""

    row: ResultRow
    step: int


class Checker:
    """Watches the root, and what leaves hold.

    ``share``: of how many emissions every row is compared with the reference at once; ``unaccepted_max``: how many deltas a leaf
    may have sent that the root has not accepted; ``idle_ns``: how long a source has to be silent to be called idle.
    """

    def __init__(
        self,
        truth: Truth,
        queries: Mapping[str, Query],
        counts: Counts,
        dice: Random,
        share: float,
        unaccepted_max: int | None = None,
        idle_ns: int | None = None,
    ) -> None:
        self.truth = truth
        self._silence = Silence(idle_ns)
        self._unaccepted_max = unaccepted_max
        #: Up to where each chain was accepted.
        self._stands: dict[str, int] = {}
        self.shown: dict[Place, StandingRow] = {}
        self.row_count = 0
        self._queries, self._counts, self._dice, self._share = queries, counts, dice, share
        self._revisions: dict[Place, int] = {}
        self._steps: dict[tuple[str, int], Any] = {}
        #: What the root told, by the number of its record.
        self._told: dict[int, list[Noted]] = {}
        #: The record of which the root first told after it had come back.
        self._learned: int | None = None
        self._aside: dict[tuple[str | None, str, int], str] = {}
        self.is_finished = False

    # --- what the world tells ---

    def after(self, time_ns: int, machine: Machine, event: Event | None, actions: list[Action], done: int) -> None:
        """A node was handed an event, and the first ``done`` of its actions were done."""
        is_root = machine.role == "root"
        if event is not None and is_root:
            self._learned = None
            self._silence.look(machine.now_ns)
        # What is on disk has happened, whether there was time to tell of it or not: a root's notes stand or fall together.
        told = len(actions) if is_root and done else done
        for action in actions[:told]:
            if isinstance(action, Noted):
                self._noted(machine, action, event is None)
        for action in actions[:done]:
            match action:
                case EmitRows(step, rows) if is_root:
                    self._emitted(step, rows)
                case EmitAside(step, rows) if is_root:
                    self._put_aside(step, rows)
                case SendMessage(_, frame) if machine.role == "leaf":
                    self._check_bound(machine.name, frame)
                case Refused(reason) if not self.truth.is_flushed:
                    raise ViolationError(f"{machine.name} was refused: {reason}")

    def happened(self, time_ns: int, machine: str, what: str) -> None:
        """Faults are not checked."""

    def _noted(self, machine: Machine, note: Noted, is_replay: bool) -> None:
        what = note.what
        detail = note.detail
        if what in DAMAGED:
            raise ViolationError(f"{machine.name} tells of a {what}, but nothing damages messages here: {detail}")
        if what == "decided":
            what = f"decided {detail['what']}"
        self._counts[f"path: {machine.role} {what}"] += 1
        if note.what == "rejected" and isinstance(detail.get("chains"), dict):
            for reason in detail["chains"].values():
                self._counts[f"path: {machine.role} rejected: {reason}"] += 1
        if self.is_finished and note.what == "accepted":
            raise ViolationError(f"something was accepted after the end: {detail}")
        if machine.role == "root" and "record" in detail:
            self._noted_by_root(machine, note, is_replay)

    def _noted_by_root(self, machine: Machine, note: Noted, is_replay: bool) -> None:
        """A note on something that is on disk. What the disk kept though the power was lost before it was synced has happened."""
        detail, number = note.detail, note.detail["record"]
        if is_replay and number not in self._told:
            self._learned = number
        told = self._told.setdefault(number, [])
        if not is_replay or number == self._learned:
            told.append(note)
            self._silence.note(note.what, detail, machine.now_ns)
            self.truth.note(note.what, detail)
            for chain, (_, _, end) in detail.get("chains", {}).items():
                self._stands[chain] = end
        elif note not in told:
            raise ViolationError(f"after its recovery the root tells of {note}; before it was {told}")

    def _check_bound(self, name: str, frame: bytes) -> None:
        """Check that a leaf waits when too much of what it sent is not accepted: what it holds is bounded."""
        message = decode(frame)
        for chain, stretch in message.ranges.items() if isinstance(message, Delta) else ():
            ahead = stretch.end - self._stands.get(chain, 0)
            if self._unaccepted_max is not None and ahead > self._unaccepted_max and "#" not in chain:
                raise ViolationError(
                    f"{name} has sent {ahead} deltas that were not accepted; {self._unaccepted_max} may be"
                )

    # --- safety ---

    def _emitted(self, step: int, table: pa.Table) -> None:
        rows = result_rows(table, self._queries)
        if self._is_repeated("rows", step, [identity(tuple(row)) for row in rows]):
            return
        if self.is_finished and rows:
            raise ViolationError(f"step {step} came after the end")
        self.row_count += len(rows)
        # Several rows may replace the same one: a window that was split.
        replaced = {place: row for row in rows for place in self._replaced(row, step)}
        for place in replaced:
            del self.shown[place]
        for row in rows:
            self._show(row, step)
        if rows and self._dice.random() < self._share:
            self.compare_now({row.query: None for row in rows}, rows)

    def _replaced(self, row: ResultRow, step: int) -> Iterator[Place]:
        """The places of the rows that a row replaces: each was emitted, with this revision, and still held."""
        for start, end, revision in row.replaces or ():
            place = (*_place(row)[:3], start, end)
            found = self.shown.get(place)
            if found is None or found.row.revision != revision:
                raise ViolationError(
                    f"step {step}: {_text(row)} replaces {start}..{end}#{revision}, which was not there"
                )
            yield place

    def _show(self, row: ResultRow, step: int) -> None:
        place = _place(row)
        if row.revision <= self._revisions.get(place, -1):
            raise ViolationError(f"step {step}: {_text(row)} comes again with a revision that was there before")
        self._revisions[place] = row.revision
        if not _is_gone(row):
            self.shown[place] = StandingRow(row, step)

    def compare_now(self, names: Mapping[str, None], rows: list[ResultRow]) -> None:
        """Check that the reference holds each of these rows right now."""
        for entry in self.truth.stream.entries:
            if entry.query.name not in names:
                continue
            held = self._reference(entry)
            for row in rows:
                if row.query != entry.query.name:
                    continue
                expected = held.get(_place(row))
                if _is_gone(row) != (expected is None) or expected is not None and not _same(row, expected):
                    raise ViolationError(
                        f"{_text(row)} was emitted; the reference says {_row_text(expected)} of what was accepted so far"
                        f" (watermark {self.truth.stream.watermark})"
                    )

    def _put_aside(self, step: int, table: pa.Table) -> None:
        rows = table.select(["query", "reason", "source", "offset"]).to_pylist()
        if self._is_repeated("aside", step, rows):
            return
        for row in rows:
            place = row["query"], row["source"], row["offset"]
            if place in self._aside:
                raise ViolationError(f"step {step}: {place} was put aside twice")
            self._aside[place] = row["reason"]

    def _is_repeated(self, kind: str, step: int, content: Any) -> bool:
        """Whether a step came before, as it may after a recovery; then its content has to be the same."""
        known = self._steps.setdefault((kind, step), content)
        if known is content:
            return False
        if known != content:
            raise ViolationError(f"step {step} came again with other {kind}: {content} where it was {known}")
        return True

    # --- liveness ---

    def check_settled(self) -> None:
        """Check, when all is quiet before the end of the stream, that closed windows without lateness are out."""
        for entry in self.truth.stream.entries:
            if not entry.query.lateness and not entry.is_removed:
                self._compare_all(entry)

    def check_end(self, counters: Mapping[str, Mapping[str, int]]) -> None:
        """Check, when the stream has ended, that everything is out, and nothing else."""
        for entry in self.truth.stream.entries:
            if not entry.is_removed:
                self._compare_all(entry)
        self._check_counters(counters)
        self._check_aside()

    def _compare_all(self, entry: Entry) -> None:
        expected = self._reference(entry)
        actual = {place: shown for place, shown in self.shown.items() if place[0] == entry.query.name}
        for place, row in expected.items():
            found = actual.pop(place, None)
            if found is None:
                raise ViolationError(f"{_place_text(place)} is missing: {_row_text(row)} of {entry.query}")
            if not _same(found.row, row):
                raise ViolationError(
                    f"{_text(found.row)} (step {found.step}) should be {_row_text(row)} of {entry.query}"
                )
        for found in actual.values():
            raise ViolationError(f"{_text(found.row)} (step {found.step}) is no window of {entry.query}")

    def _reference(self, entry: Entry) -> dict[Place, Row]:
        name = entry.query.name
        held = self.truth.stream.rows(entry)
        return {(name, identity(key), node, start, end): row for (key, node, start, end), row in held.items()}

    def _check_counters(self, counters: Mapping[str, Mapping[str, int]]) -> None:
        stream = self.truth.stream
        for entry in stream.entries:
            name = entry.query.name
            if entry.is_removed:
                continue
            expected, actual = stream.counters(entry), dict(counters[name])
            if name in self.truth.draining:
                expected, actual = _merged(expected), _merged(actual)
            if expected != actual:
                raise ViolationError(f"{name} counts {actual}; it should be {expected}")

    def _check_aside(self) -> None:
        stream = self.truth.stream
        live = {entry.query.name: entry for entry in stream.entries if not entry.is_removed}
        expected: set[tuple[str | None, str, int]] = {
            (name, event.source.decode(), event.offset)
            for name, entry in live.items()
            for event in entry.events
            if stream.fate(entry, event) in ("dropped", "malformed")
        }
        for source, count in self.truth.accepted.items():
            rows = self.truth.logs[source].rows[:count]
            expected |= {(None, source, offset) for offset, row in enumerate(rows) if row["time"] is None}
        actual = {place for place in self._aside if place[0] is None or place[0] in live}
        # A value of a wrong type that concerns all queries is put aside once, without a name.
        for unnamed in [place for place in actual - expected if place[0] is None]:
            actual.remove(unnamed)
            actual |= {(name, *unnamed[1:]) for name, entry in live.items() if _has_event(entry, *unnamed[1:])}
        if expected != actual:
            missing, more = sorted(expected - actual, key=str)[:5], sorted(actual - expected, key=str)[:5]
            raise ViolationError(f"put aside should be {len(expected)} events: missing {missing}, too many {more}")


def _merged(counts: Mapping[str, int]) -> dict[str, int]:
    """Counters that do not tell members from others: while a query drains, an event of no window may count as a member."""
    total = counts["member"] + counts["late"] + counts["outside"]
    return dict(counts) | {"member": total, "late": 0, "outside": 0}


def result_rows(table: pa.Table, queries: Mapping[str, Query]) -> list[ResultRow]:
    """The rows of a results table, as users or nodes have it, as the reference writes them: in ticks and positions."""
    return [result_row(row, queries[row["query"]]) for row in table.to_pylist()]


def result_row(row: dict[str, Any], query: Query) -> ResultRow:
    return ResultRow(
        query.name,
        *_bounds(row),
        tuple(row[key] for key in query.keys),
        {alias: row[alias] for alias, _ in query.aggregates},
        row["event_count"],
        row["revision"],
        tuple((*_bounds(other), other["revision"]) for other in row.get("replaces") or ()) or None,
        row.get("node") or "",
        row.get("first_time"),
        row.get("last_time"),
    )


def _bounds(row: dict[str, Any]) -> tuple[int, int]:
    """The bounds of a window: positions if there are no times."""
    if row["window_start"] is None:
        return row["position_start"], row["position_end"]
    return row["window_start"], row["window_end"]


def _has_event(entry: Entry, source: str, offset: int) -> bool:
    return any(event.offset == offset and event.source == source.encode() for event in entry.events)


def _place(row: ResultRow) -> Place:
    return row.query, identity(row.key), row.node, row.start, row.end


def _is_gone(row: ResultRow) -> bool:
    """Whether the row says that its window is no more."""
    return row.event_count == 0 and row.replaces is not None


def _same(row: ResultRow, expected: Row) -> bool:
    return row.event_count == expected.event_count and identity(row.values) == identity(expected.values)


def _text(row: ResultRow) -> str:
    place = f"{row.query} {row.key} {row.node}[{row.start}, {row.end})#{row.revision}"
    return f"{place} {row.values} of {row.event_count} events"


def _row_text(row: Row | None) -> str:
    return "there is no such row" if row is None else f"{row.values} of {row.event_count} events"


def _place_text(place: Place) -> str:
    name, key, node, start, end = place
    return f"{name} {tuple(part[1][-1] for part in key)} {node}[{start}, {end})"
