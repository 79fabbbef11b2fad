"""The queries of an engine: their numbers and names, the families that compute them, and the columns that they read.

Queries come and go, all of one call or none: whatever is wrong is found before anything changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic

import pyarrow as pa

from headwater.engine.families import AnyGroup, Family, FamilyName, GroupMaker
from headwater.engine.intake.columns import plan_type
from headwater.engine.intake.keys import node_key, node_names
from headwater.engine.results.output import Layout
from headwater.engine.results.shape import ResultShape
from headwater.engine.windows.registered import Registered, one_of_each
from headwater.errors import QueryError
from headwater.language.files.queries import from_json, to_json
from headwater.language.query import Query
from headwater.language.schemas import check_columns, check_durations
from headwater.language.time_columns import TICKS, bounds_type, finer, shown_type, time_type
from headwater.language.times import NEVER
from headwater.language.windows import Custom


class Registry(Generic[AnyGroup]):
    """Queries by number and name, with their families.

    ``types``: of the columns, fixed by the first events that have them; ``needed``: those that are read at all, and
    ``value_columns`` those of which values are aggregated; ``layout`` and ``names``: how result rows look.
    """

    def __init__(self, maker: GroupMaker[AnyGroup], time: str, unit: str) -> None:
        self._maker = maker
        self._time = time
        self._unit = unit
        self.entries: dict[int, Registered] = {}
        self.by_name: dict[str, Registered] = {}
        self.query_names: list[str] = []  # of every number ever given
        self.families: dict[FamilyName, Family[AnyGroup]] = {}
        self.types: dict[str, pa.DataType] = {}
        self.needed: tuple[str, ...] = ()
        self.value_columns: tuple[str, ...] = ()
        self.layout = Layout({}, {}, False, False)
        self.names = pa.array([], pa.string())
        #: By which columns queries know the nodes of events; None among them: by the homes of sources.
        self.homes: frozenset[str | None] = frozenset()
        self.timeless = 0  # events without a usable time: they are malformed for every query
        self._timeless_before: dict[int, int] = {}
        self._family_of: dict[int, FamilyName] = {}
        self._leaving: dict[str, Query] = {}  # removed, with rows that were not taken yet
        self._unchecked: list[Registered] = []
        self._written: list[Query] = []  # the same as users wrote them: in ticks a duration does not tell its unit
        self._numbered: dict[int, Family[AnyGroup]] | None = None  # until queries come or go
        self._shape: ResultShape | None = None  # as long as it holds

    # --- queries that come and go ---

    def add(self, queries: list[tuple[Query, int]], watermark: int) -> None:
        """Take queries in, each with the time at which it begins; ``watermark`` is where the engine stands."""
        entries: list[Registered] = []
        names = set(self.by_name)
        for query, begin in queries:
            if query.name in names:
                raise QueryError(f"query {query.name!r} is there already; give each query a name of its own")
            names.add(query.name)
            entries.append(Registered(query.resolved(self._unit), len(self.query_names) + len(entries), begin))
        Layout.of(one_of_each([*self.by_name.values(), *entries]), self.types)
        self.query_names += [entry.query.name for entry in entries]
        self._unchecked += self._settle(entries, watermark)
        self._written += [query for query, _ in queries]
        self._refresh()

    def _settle(self, entries: list[Registered], watermark: int) -> list[Registered]:
        """Give entries to their families; returns them by family."""
        added: dict[FamilyName, list[Registered]] = {}
        for entry in entries:
            self.entries[entry.number] = self.by_name[entry.query.name] = entry
            self._timeless_before[entry.number] = self.timeless
            name = self._maker.family_of(entry)
            if name is not None:
                added.setdefault(name, []).append(entry)
        for name, members in added.items():
            self._settle_family(name, members, watermark)
        return [entry for members in added.values() for entry in members]

    def _settle_family(self, name: FamilyName, entries: list[Registered], watermark: int) -> Family[AnyGroup]:
        """The family of these entries, made if there is none yet."""
        if name not in self.families:
            group = self._maker.make_group(entries[0])
            group.watermark = watermark
            self.families[name] = Family(group)
        self._family_of |= dict.fromkeys((entry.number for entry in entries), name)
        self.families[name].register(entries)
        return self.families[name]

    def remove(self, name: str) -> None:
        """End a query at once."""
        entry = self._find(name)
        family = self.family_of(entry)
        family.unregister(entry.number)
        if not family.group.queries():
            del self.families[self._family_of[entry.number]]
        del self.by_name[name], self.entries[entry.number], self._family_of[entry.number]
        self._leaving[name] = entry.query
        self._refresh()

    def drain(self, name: str, stop: int) -> None:
        """Let a query run out: it has no windows that start at ``stop`` or later."""
        entry = self._find(name)
        entry.stop = min(entry.stop, stop)
        self.family_of(entry).group.changed()

    def _find(self, name: str) -> Registered:
        entry = self.by_name.get(name)
        if entry is None:
            raise QueryError(f"there is no query {name!r} to remove; there is {', '.join(self.by_name) or 'none'}")
        return entry

    def family_of(self, entry: Registered) -> Family[AnyGroup]:
        return self.families[self._family_of[entry.number]]

    def _refresh(self) -> None:
        """Work out which columns are read, after queries came or went."""
        self._numbered = self._shape = None
        needed: dict[str, None] = {}
        values: dict[str, None] = {}
        kinds = one_of_each(self.by_name.values())
        for entry in kinds:
            query = entry.query
            needed.update(dict.fromkeys(sorted(query.columns())))
            values.update((a.column, None) for _, a in query.aggregates if a.column is not None)
            if query.distinct is not None:
                values[query.distinct] = None
            if isinstance(query.window, Custom):
                values.update(dict.fromkeys(sorted(query.columns())))
        self.needed, self.value_columns = tuple(needed), tuple(values)
        self.names = pa.array(self.query_names, pa.string())
        self.layout = Layout.of(kinds, self.types)
        self.homes = frozenset(entry.query.home for entry in kinds if entry.query.scope != "global")

    def take_over(self, entries: list[Registered], names: list[str], types: Mapping[str, pa.DataType]) -> None:
        """Take over all queries of another engine, under the same numbers and with columns of the same types."""
        self.query_names, self.types = list(names), dict(types)
        self._settle(entries, NEVER)
        self._refresh()

    def numbered_families(self) -> dict[int, Family[AnyGroup]]:
        """Each family under the lowest number of its queries: the same on every node that has the same queries."""
        if self._numbered is None:
            self._numbered = {min(entry.number for entry in f.group.queries()): f for f in self.families.values()}
        return self._numbered

    # --- what they are asked ---

    def check(self, schema: pa.Schema) -> None:
        """Refuse queries that do not fit the columns, before their first events; fixes the types of columns that they read."""
        self._learn_time(schema)
        if not self._unchecked and not self._written:
            return
        entries = [entry for entry in self._unchecked if self.by_name.get(entry.query.name) is entry]
        check_columns([entry.query for entry in one_of_each(entries)], schema, self._time)
        check_durations([query for query in self._written if query.name in self.by_name], schema, self._time)
        keys = {name for entry in one_of_each(self.by_name.values()) for name in (*entry.query.keys, entry.query.home)}
        new = [name for name in self.needed if name not in self.types]
        types = {name: plan_type(schema.field(name).type, name in keys) for name in new}
        Layout.of(one_of_each(self.by_name.values()), self.types | types)
        self.types |= types
        self._unchecked, self._written = [], []
        self._refresh()

    def _learn_time(self, schema: pa.Schema) -> None:
        """Note the type of the time column where it is more than an integer: rows show times as they came."""
        if time_type(self._time, schema) == TICKS:
            return
        type_, known = schema.field(self._time).type, self.types.get(self._time)
        # One that is read as a value too keeps its type.
        wider = type_ if known is None else known if self._time in self.needed else finer(known, type_)
        if wider != known:
            self.types[self._time], self._shape = wider, None

    @property
    def shape(self) -> ResultShape:
        """How users see the rows that were not taken yet."""
        if self._shape is None:
            queries = [*self._leaving.values(), *(entry.query for entry in self.by_name.values())]
            times = shown_type(self.types.get(self._time, TICKS))
            self._shape = ResultShape.of(queries, bounds_type(times, queries, self._unit), self._unit)
        return self._shape

    def add_nodes(self, arrays: dict[str, pa.Array], of_sources: Callable[[], pa.Array]) -> None:
        """Add the nodes of events to their columns, as queries know them; ``of_sources`` gives the homes of their sources."""
        for home in self.homes:
            arrays[node_key(home)] = of_sources() if home is None else node_names(arrays[home])

    def take_queries(self) -> dict[str, Query]:
        """Every query that has rows since the last call, or may have."""
        queries = self._leaving | {name: entry.query for name, entry in self.by_name.items()}
        if self._leaving:
            self._leaving, self._shape = {}, None
        return queries

    def counters(self) -> dict[str, dict[str, int]]:
        """Per query: in = filtered + outside + member + late + dropped + malformed."""
        found = {}
        for name, entry in self.by_name.items():
            counts = self.family_of(entry).counters(entry.number)
            timeless = self.timeless - self._timeless_before[entry.number]
            counts["in"] += timeless
            counts["malformed"] += timeless
            found[name] = counts
        return found

    # --- snapshots ---

    def state(self, has_rows: bool) -> dict[str, Any]:
        """What a snapshot says. ``has_rows``: whether rows wait to be taken, some perhaps of queries that were removed."""
        return {
            "queries": to_json([entry.query for entry in self.entries.values()]),
            "entries": [[entry.number, entry.begin, entry.stop] for entry in self.entries.values()],
            "leaving": [to_json([query]) for query in self._leaving.values()] if has_rows else [],
            "names": self.query_names,
            "types": self.types,
            "unchecked": [entry.number for entry in self._unchecked if entry.number in self.entries],
            "malformed_before": [[number, self._timeless_before[number]] for number in self.entries],
            "families": [
                [[entry.number for entry in family.group.queries()], family.state()]
                for family in self.families.values()
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state; there were no queries before."""
        for query, (number, begin, stop) in zip(from_json(state["queries"]), state["entries"], strict=True):
            self.entries[number] = self.by_name[query.name] = Registered(query, number, begin, stop)
        self._leaving = {query.name: query for text in state["leaving"] for query in from_json(text)}
        self.query_names = state["names"]
        self.types = dict(state["types"])
        self._unchecked = [self.entries[number] for number in state["unchecked"]]
        self._timeless_before = dict(map(tuple, state["malformed_before"]))
        for numbers, kept in state["families"]:
            entries = [self.entries[number] for number in numbers]
            name = self._maker.family_of(entries[0])
            assert name is not None, "a query has a state and no family; this is a bug in headwater, please report it"
            self._settle_family(name, entries, NEVER).restore(kept, self.types)
        self._refresh()
