"""The half of an engine that has no events: it takes the parts of accepted deltas in, closes windows and gives rows."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any, TypeVar

import pyarrow as pa

from headwater.base.arrow import plain_type
from headwater.base.count_limits import CountLimits
from headwater.base.source_numbers import Resolve
from headwater.engine.counting.root import CountRootGroup, ProvenCut
from headwater.engine.families import Family
from headwater.engine.halves import COUNT_MAX, GroupPart, SlicedRootGroup, numbers_of, places_problem, sources_problem
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import Events, read_values, scan_times
from headwater.engine.operators.operator import Op
from headwater.engine.results.output import empty_table
from headwater.engine.results.shape import ResultShape
from headwater.engine.results.side_output import SCHEMA
from headwater.engine.state import EngineState
from headwater.engine.tree.marker_cuts import CutRootGroup
from headwater.engine.tree.roles import Role, RootGroup
from headwater.engine.wire.looks import Look
from headwater.engine.wire.part_bytes import cuts_to_bytes
from headwater.engine.wire.parts import AccountsPart, AsidePart, EventsPart, Part, chains_of
from headwater.engine.wire.query_set import QuerySet
from headwater.engine.wire.snapshot_bytes import from_bytes
from headwater.language.query import Query
from headwater.language.time_columns import time_column
from headwater.language.times import FOREVER, NEVER

Kind = TypeVar("Kind", bound=SlicedRootGroup)
ROOT = Role(is_leaf=False)


class RootHalf:
    """Makes windows of the parts that leaves send.

    Sources are numbered by the node that accepts deltas; ``names`` and ``homes`` are its lists and grow.
    """

    def __init__(self, queries: Iterable[Query] = (), role: Role = ROOT, **settings: Any) -> None:
        self.role = role
        self.names: list[str] = []
        self.homes: list[str] = []
        self._closed_to = NEVER  # up to where `close` was last asked for
        self._state: EngineState[RootGroup] = EngineState(self.role.root_groups(), **settings)
        self._queries = self._state.registry
        self._state.register(queries)

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Everything that is known, as bytes; rows not taken yet included."""
        return self._state.snapshot()

    @classmethod
    def restore(cls, data: bytes, limits: CountLimits) -> RootHalf:
        """A half that goes on exactly where ``snapshot`` was taken."""
        state = from_bytes(data)
        time, unit, strict, name = state["settings"]
        half = cls(role=Role.named(name, limits), time=time, unit=unit, strict=strict)
        half._state.restore(state)
        half._closed_to = half._state.watermarks.group
        return half

    # --- queries ---

    def add_query(self, query: Query, at: int | None = None) -> int:
        """Add a query while the stream runs; returns the event time at which it begins, above every time seen so far."""
        return self._state.add_query(query, at)

    def remove_query(self, name: str, drain: bool = False) -> None:
        """End a query at once, or (``drain``) after the windows that are open now have closed."""
        self._state.remove_query(name, drain)

    def query_set(self) -> QuerySet:
        """The queries as leaves need them."""
        state, queries, role = self._state, self._queries, self.role
        settings = state.time, state.unit, state.watermarks.disorder, state.strict
        names, types = queries.query_names, queries.types
        ways = role.round_trips, role.counts, role.large_only
        return QuerySet(*settings, list(queries.entries.values()), names, types, *ways)

    @property
    def time(self) -> str:
        """How the time of an event is told."""
        return self._state.time

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read at all, the time first."""
        time = time_column(self._state.time).name
        return (time, *(name for name in self._queries.needed if name != time))

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of result rows, once the columns of events are known."""
        return empty_table(self._queries.layout, self._queries.names).schema

    @property
    def shape(self) -> ResultShape:
        """How rows look to users."""
        return self._queries.shape

    def check(self, schema: pa.Schema) -> None:
        """Refuse queries that do not fit the columns; says the types of those that they read."""
        self._queries.check(schema)

    def grow(self, schema: pa.Schema) -> bool:
        """Let columns have the types that stand here, where these are wider; returns whether one that is read has grown."""
        needed = self._queries.needed
        has_grown = self._queries.grow(
            {c.name: c.type for c in schema if c.name in needed and not pa.types.is_null(c.type)}
        )
        if has_grown:
            self._state.refit()
        return has_grown

    @property
    def open_count(self) -> int:
        """Slices and windows, by key, that are held."""
        return sum(family.group.row_count() for family in self._queries.families.values())

    def counters(self) -> dict[str, dict[str, int]]:
        """Per query: in = filtered + outside + member + late + dropped + malformed."""
        return self._queries.counters()

    def operators(self) -> list[Op]:
        """The operators of which partials come."""
        groups = [family.group for family in self._ready_families().values()]
        return [op for group in groups if isinstance(group, SlicedRootGroup) for op in group.ops]

    def _ready_families(self) -> dict[int, Family[RootGroup]]:
        """The families by number, their operators worked out."""
        families = self._queries.numbered_families()
        for family in families.values():
            family.group.prepare(self._queries.types)
        self._tell_names(families.values())
        return families

    def _tell_names(self, families: Iterable[Family[RootGroup]]) -> None:
        """Let groups know the sources: after a restoration these are another list."""
        for family in families:
            if isinstance(family.group, SlicedRootGroup):
                family.group.names = self.names

    def _groups(self, kind: type[Kind]) -> dict[int, Kind]:
        """The groups of a kind, by the number of their family."""
        families = self._queries.numbered_families()
        return {number: f.group for number, f in families.items() if isinstance(f.group, kind)}

    # --- what comes in ---

    def problem(self, parts: Iterable[Part], resolve: Resolve, chains: Set[str]) -> str | None:
        """What is wrong with the parts of a delta of these ``chains``, None if nothing is: then they can be absorbed.

        Leaves and relays make no wrong parts. But a node that is older, newer or broken must not bring the root down.
        """
        self._ready_families()
        return next(filter(None, (self._problem(part, resolve, chains) for part in parts)), None)

    def _problem(self, part: Part, resolve: Resolve, chains: Set[str]) -> str | None:
        if not chains_of(part) <= chains:
            return f"it speaks of {sorted(chains_of(part) - chains)[:3]}, which it does not cover"
        match part:
            case AccountsPart():
                counts = part.rows[:, 1:]
                is_right = ((counts >= 0) & (counts <= COUNT_MAX)).all() and max(
                    part.timeless, part.malformed
                ) <= COUNT_MAX
                return None if is_right else f"numbers of events are from 0 to {COUNT_MAX}"
            case AsidePart():
                return None if part.rows.schema.equals(SCHEMA) else "the side output has other columns"
            case EventsPart():
                return sources_problem(part, resolve) or places_problem(part) or self._events_problem(part)
            case _:
                found = (self._group_problem(part, family.group, resolve) for family in self._queries.kin(part.family))
                return next(filter(None, found), None)

    def _group_problem(self, part: GroupPart, group: RootGroup, resolve: Resolve) -> str | None:
        if not isinstance(group, SlicedRootGroup):
            return "partials came for a query that needs events"
        return group.problem(part, self._queries.types, resolve)

    def _events_problem(self, part: EventsPart) -> str | None:
        types = self._queries.types
        needed = {name for family in self._takers(part.family) for name in family.columns}
        for name in sorted(needed):
            if name not in part.columns or plain_type(part.columns[name].type) != plain_type(types[name]):
                return f"events need the column {name!r} of type {types.get(name)}"
        size = len(part.times)
        if not part.misfits.keys() <= types.keys():
            return "values of a wrong type are in columns that nobody reads"
        if any(not 0 <= row < size for rows in part.misfits.values() for row in rows):
            return "events are named that are not there"
        return None

    def absorb(self, parts: Iterable[Part], resolve: Resolve) -> None:
        """Take in the parts of an accepted delta. Parts of queries that are gone count for nothing."""
        self._ready_families()
        for counted in self.counting().values():
            counted.coverage.begin_delta()
        for part in parts:
            match part:
                case AccountsPart():
                    self._count(part)
                case AsidePart():
                    self._state.side.tables.append(part.rows)
                case EventsPart():
                    self._accept_events(part, resolve)
                case _:
                    for family in self._queries.kin(part.family):
                        assert isinstance(family.group, SlicedRootGroup)
                        family.group.absorb(part, self._queries.types, resolve)

    def _accept_events(self, part: EventsPart, resolve: Resolve) -> None:
        """Events as themselves, for one family or for all that ask for such."""
        arrays, queries = dict(part.columns), self._queries
        sources = numbers_of(part, resolve)
        queries.add_nodes(arrays, lambda: pa.DictionaryArray.from_arrays(pa.array(sources), self._nodes()))
        columns = {name: read_values(arrays[name]) for name in queries.value_columns if name in arrays}
        chunk = Chunk(part.times, part.offsets, sources, self.names, columns)
        events = Events(chunk, arrays, scan_times(part.times), part.watermarks)
        if part.misfits:
            queries.divide(part.misfits)
            self._ready_families()
        for family in self._takers(part.family):
            family.accept(events, part.misfits)  # who is too late was said where the event was whole

    def _nodes(self) -> pa.Array:
        """The home of each source by its number: the one that was named, else the source itself."""
        return pa.array([home or name for home, name in zip(self.homes, self.names, strict=True)], pa.string())

    def _count(self, part: AccountsPart) -> None:
        self._queries.timeless += part.timeless
        self._state.malformed += part.malformed
        for number, seen, filtered, early, malformed in part.rows.tolist():
            for family in self._takers(number):
                family.count(seen, filtered, early, malformed)

    def _takers(self, number: int) -> list[Family[RootGroup]]:
        """The families of this number, if any is still there; for `ALL_RAW` all that ask for events as they are."""
        if number >= 0:
            return self._queries.kin(number)
        return [f for f in self._queries.families.values() if self.role.way(f.group.queries()[0].query) == "raw"]

    # --- what goes out ---

    def raise_to(self, watermark: int, latest: int) -> None:
        """Raise the watermark of all, and the latest time of all events."""
        marks = self._state.watermarks
        marks.group, marks.highest_time = max(marks.group, watermark), max(marks.highest_time, latest)

    def close(self, is_turn: bool = False) -> None:
        """Close what the watermark has passed, except for windows that wait for their cuts.

        A flood of windows without events comes bit by bit, one with each turn: `is_behind` says that there is more. Were it one
        with each call, a few bytes of a peer would cost as much as the flood lasts.
        """
        until, before = self._state.watermarks.group, self._closed_to
        due = [
            family
            for family in self._queries.families.values()
            if family.group.is_due(until) and (is_turn or not family.group.owes(before))
        ]
        self._closed_to = until
        self._tell_names(due)
        self._state.close(due, until, is_paced=True)

    @property
    def is_behind(self) -> bool:
        """Whether more comes out when `close` is called again: windows without events, of which too many were due at once."""
        until = self._state.watermarks.group
        return any(family.group.owes(until) for family in self._queries.families.values())

    def take_rows(self) -> pa.Table | None:
        """The rows that came out since the last time."""
        return self._state.take()[0] if self._state.tables else None

    def side_output(self) -> pa.Table:
        """Events that were too late for a query or malformed, since the last call: query, reason, place of birth, event."""
        return self._state.side.take()

    # --- windows that markers cut ---

    @property
    def has_cuts(self) -> bool:
        """Whether some windows are cut by markers, so that leaves have to be told where."""
        return bool(self._groups(CutRootGroup))

    def announce(self, until: int) -> bytes:
        """Where markers cut below ``until``."""
        cuts = {}
        for number, group in self._groups(CutRootGroup).items():
            group.prepare(self._queries.types)
            cuts[number] = group.announce(until)
        return cuts_to_bytes(cuts)

    def finish_cut(self, until: int) -> None:
        """What lies below ``until`` has come, cut as announced."""
        families = self._queries.numbered_families()
        self._state.close([families[number] for number in self._groups(CutRootGroup)], until)

    # --- count windows ---

    def counting(self) -> dict[int, CountRootGroup]:
        """The families of count windows that leaves cut into pieces."""
        return self._groups(CountRootGroup)

    @property
    def counts_are_done(self) -> bool:
        """Whether all count windows are out, at the end of the stream."""
        return all(g.frontier == FOREVER and not g.open_looks for g in self.counting().values())

    def take_proven(self) -> dict[int, list[ProvenCut]]:
        """The cuts over all events that were proven since the last time."""
        found = {}
        for number, group in self.counting().items():
            found[number], group.proven = group.proven, []
        return {number: cuts for number, cuts in found.items() if cuts}

    @property
    def reads_again(self) -> bool:
        """Whether leaves may have to read events once more."""
        return self.has_cuts or bool(self.counting())

    def looks(self, chain: str) -> dict[int, list[Look]]:
        """What the owner of a chain has to look into, by family."""
        asked = {number: group.open_looks.of(chain) for number, group in self.counting().items()}
        return {number: looks for number, looks in asked.items() if looks}

    def looked_into(self) -> dict[tuple[int, int], str]:
        """All pieces that leaves look into, and their chains; a piece by family and number."""
        found = {family: group.open_looks.chains for family, group in self.counting().items()}
        return {(family, look): chain for family, looks in found.items() for look, chain in looks.items()}

    def covered(self, chain: str) -> dict[int, int]:
        """By family: up to which time a chain's events are in pieces."""
        return {number: group.coverage.of(chain) for number, group in self.counting().items()}

    def settled_time(self) -> int:
        """No leaf will be asked for anything before this time; the end of time without count windows."""
        return min((group.settled_time for group in self.counting().values()), default=FOREVER)
