"""The queries of an engine: their numbers and names, the families that compute them, and the columns that they read.

Queries come and go, all of one call or none: whatever is wrong is found before anything changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic

import pyarrow as pa

from headwater.base.arrow import plain_type
from headwater.engine.families import AnyGroup, Family, FamilyName, GroupMaker
from headwater.engine.intake.columns import plan_type
from headwater.engine.intake.keys import node_key, node_names
from headwater.engine.intake.widening import Widening, wider_type
from headwater.engine.results.bounds import TICKS, bounds_type, finer, shown_time, shown_type
from headwater.engine.results.output import Layout
from headwater.engine.results.shape import ResultShape
from headwater.engine.windows.registered import Registered, one_of_each
from headwater.errors import FormatError, QueryError
from headwater.language.files.queries import from_json, to_json
from headwater.language.query import Query
from headwater.language.schemas import check_columns, check_durations
from headwater.language.time_columns import time_column
from headwater.language.times import NEVER
from headwater.language.windows import Custom


class Registry(Generic[AnyGroup]):
    """Queries by number and name, with their families.

    ``types``: of the columns, as wide as values have made them or as `fix` says; ``needed``: those that are read at all, and
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
        self._valueless: set[str] = set()  # columns that have had no value: their types are no more than a guess
        self._schema: pa.Schema | None = None  # if types are fixed: those of all columns
        self._seen: pa.Schema | None = (
            None  # the columns of the last batch: nothing is to be learned from the same again
        )
        self.needed: tuple[str, ...] = ()
        self.value_columns: tuple[str, ...] = ()
        self.layout = Layout({}, {}, False, False)
        self.names = pa.array([], pa.string())
        #: By which columns queries know the nodes of events; None among them: by the homes of sources.
        self.homes: frozenset[str | None] = frozenset()
        self.timeless = 0  # events without a usable time: they are malformed for every query
        self._timeless_before: dict[int, int] = {}
        self._family_of: dict[int, FamilyName] = {}
        self._divided: dict[FamilyName, list[FamilyName]] = {}  # families that fell apart, and into which
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
                added.setdefault(self._part_of(name, entry), []).append(entry)
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

    def _part_of(self, name: FamilyName, entry: Registered) -> FamilyName:
        """The name of the family itself or, once it is divided, of the one for the columns that the query reads."""
        if name not in self._divided:
            return name
        part = (*name, "reads", entry.query.columns())
        if part not in self._divided[name]:
            self._divided[name].append(part)
        return part

    def divide(self, misfits: Iterable[str]) -> None:
        """Values of a wrong type came in these columns: families of which only some queries read one fall apart, for good.

        Whoever does not read the column takes the events, the others do not; from then on they share no slices.
        """
        for name, family in [*self.families.items()]:
            if family.is_divided_by(misfits):
                self._divided[name] = []
                del self.families[name]
                for part in family.divided():
                    self._take_part(name, part)
                self._numbered = None

    def _take_part(self, name: FamilyName, part: Family[AnyGroup]) -> None:
        entries = part.group.queries()
        name = self._part_of(name, entries[0])
        self.families[name] = part
        self._family_of |= dict.fromkeys((entry.number for entry in entries), name)

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
            values.update((name, None) for _, a in query.aggregates for name in a.columns)
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
        self._schema = pa.schema(list(types.items()))
        self._settle(entries, NEVER)
        self._refresh()

    def numbered_families(self) -> dict[int, Family[AnyGroup]]:
        """Each family under the lowest number of its queries: the same on every node that has the same queries."""
        if self._numbered is None:
            self._numbered = {min(entry.number for entry in f.group.queries()): f for f in self.families.values()}
        return self._numbered

    def kin(self, number: int) -> list[Family[AnyGroup]]:
        """The family of this number, with all others that were one with it before they were divided; none if it is gone."""
        family = self.numbered_families().get(number)
        if family is None or not self._divided:
            return [] if family is None else [family]
        for parts in self._divided.values():
            if self._family_of[number] in parts:
                return [self.families[part] for part in parts if part in self.families]
        return [family]

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
        self._valueless.update(new if self._schema is None else ())
        self._unchecked, self._written, self._seen = [], [], None
        self._refresh()

    def _learn_time(self, schema: pa.Schema) -> None:
        """Note the type of the time column where it is more than an integer: rows show times as they came."""
        if not time_column(self._time).is_plain or shown_time(self._time, schema) == TICKS:
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
            known = self.types.get(self._time)
            times = shown_time(self._time, None) if known is None else shown_type(known)
            self._shape = ResultShape.of(queries, bounds_type(times, queries, self._unit), self._unit)
        return self._shape

    def add_nodes(self, arrays: dict[str, pa.Array], of_sources: Callable[[], pa.Array]) -> None:
        """Add the nodes of events to their columns, as queries know them; ``of_sources`` gives the homes of their sources."""
        for home in self.homes:
            if home is None:
                arrays[node_key(home)] = of_sources()
            elif home in arrays:  # what only some queries read is not in every part of a delta
                arrays[node_key(home)] = node_names(arrays[home])

    def fix(self, schema: pa.Schema) -> None:
        """The columns of all events are these: what is of another type and does not fit is malformed."""
        self._schema = schema
        self.check(schema)

    def learn(self, batch: pa.RecordBatch) -> bool:
        """Let columns grow by the values of a batch; returns whether one that is read has."""
        if self._schema is not None:
            self.check(self._schema)
            return False
        self.check(batch.schema)
        if not self._valueless and self._seen is not None and batch.schema.equals(self._seen):
            return False
        self._seen = batch.schema
        arrays = ((name, batch.column(name)) for name in self.needed if batch.schema.get_field_index(name) >= 0)
        return self.grow({name: array.type for name, array in arrays if array.null_count < len(array)})

    def grow(self, found: Mapping[str, pa.DataType]) -> bool:
        """Columns have values of these types: they grow where queries can take it; returns whether one has."""
        keys = {name for entry in one_of_each(self.by_name.values()) for name in (*entry.query.keys, entry.query.home)}
        changes = {}
        for name, type_ in found.items():
            known, other, is_key = self.types[name], plan_type(type_, name in keys), name in keys
            is_first = name in self._valueless
            new = other if is_first else wider_type(known, other, is_key)
            if new != known and self._takes(name, new):
                changes[name] = Widening(None if is_first else plain_type(known), new)
                self.types[name] = new
            if new == self.types[name]:
                self._valueless.discard(name)
        if not changes:
            return False
        for family in self.families.values():
            family.retype(changes, self.types)
        self._refresh()
        return True

    def _takes(self, name: str, type_: pa.DataType) -> bool:
        """Whether all queries can go on with a column of this type."""
        kinds, types = one_of_each(self.by_name.values()), self.types | {name: type_}
        known = types | dict.fromkeys(self._valueless - {name}, pa.null())
        try:
            check_columns([entry.query for entry in kinds], pa.schema(self._some_times() | known), self._time)
            Layout.of(kinds, types)
        except QueryError:
            return False
        return True

    def _some_times(self) -> dict[str, pa.DataType]:
        """The column of times, with a type that it may have."""
        column = time_column(self._time)
        return {column.name: pa.string() if column.reading == "iso" else pa.int64()}

    def concerned(
        self, timeless: Mapping[int, str], misfits: Mapping[str, Mapping[int, str]]
    ) -> Iterator[tuple[str | None, dict[int, str]]]:
        """Whom malformed events concern: the query (None for all of them), and per event its first reason.

        ``timeless`` events concern everybody, a value of a wrong type those who read its column.
        """
        found: dict[frozenset[str], list[str]] = {}
        wrong_columns = frozenset(misfits)
        reads = {entry.shape: entry.query.columns() & wrong_columns for entry in one_of_each(self.by_name.values())}
        for name, entry in self.by_name.items() if misfits else ():
            found.setdefault(reads[entry.shape], []).append(name)
        common = dict(timeless)
        for columns, names in found.items():
            wrong: dict[int, str] = {}
            for column in (name for name in misfits if name in columns):
                wrong = {**misfits[column], **wrong}
            wrong = {row: why for row, why in wrong.items() if row not in timeless}
            if len(found) == 1:
                common |= wrong
            elif wrong:
                yield from ((name, wrong) for name in names)
        if common:
            yield None, common

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
            **({"valueless": sorted(self._valueless)} if self._valueless else {}),
            **({} if self._schema is None else {"schema": {field.name: field.type for field in self._schema}}),
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
        self._valueless = set(state.get("valueless", ()))
        self._schema = pa.schema(state["schema"]) if "schema" in state else None
        self._unchecked = [self.entries[number] for number in state["unchecked"]]
        self._timeless_before = dict(map(tuple, state["malformed_before"]))
        names = [self._maker.family_of(self.entries[numbers[0]]) for numbers, _ in state["families"]]
        # Where there are several of one name, they are the parts of a family that was divided.
        self._divided = {name: [] for name, count in Counter(names).items() if name is not None and count > 1}
        for name, (numbers, kept) in zip(names, state["families"], strict=True):
            assert name is not None, "a query has a state and no family; this is a bug in headwater, please report it"
            entries = [self.entries[number] for number in numbers]
            self._check_united(entries)
            self._settle_family(self._part_of(name, entries[0]), entries, NEVER).restore(kept, self.types)
        self._refresh()

    def _check_united(self, entries: Sequence[Registered]) -> None:
        """Refuse queries that an earlier release computed together and that are apart now: leaves would not agree."""
        apart = [entry for entry in entries if self._maker.family_of(entry) != self._maker.family_of(entries[0])]
        if apart:
            raise FormatError(
                f"this snapshot computes the queries {entries[0].query.name!r} and {apart[0].query.name!r} together, which read "
                f"different columns, as headwater did before wrong values concerned only the queries that read them; let the "
                f"release that wrote it finish the stream, or begin anew"
            )
