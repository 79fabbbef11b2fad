"""The half of an engine that has no events: it takes the parts of accepted deltas in, closes windows and gives rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.source_numbers import Resolve
from headwater.engine.counting.root import CountRootGroup, ProvenCut
from headwater.engine.families import Family, way_of
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import read_values, scan_times
from headwater.engine.intake.keys import NODE_KEY
from headwater.engine.operators.operator import Op
from headwater.engine.progress import Progress
from headwater.engine.results.output import ResultColumns, empty_table
from headwater.engine.slices.store import RowBlock
from headwater.engine.tree.marker_cuts import CutRootGroup
from headwater.engine.tree.part_checks import part_problem
from headwater.engine.wire.looks import Look
from headwater.engine.wire.part_bytes import cuts_to_bytes
from headwater.engine.wire.parts import (
    AccountsPart,
    AsidePart,
    EventsPart,
    LatePart,
    MarkersPart,
    Part,
    PiecesPart,
    RowsPart,
    key_count,
    values_of,
)
from headwater.engine.wire.query_set import QuerySet
from headwater.language.modes import (
    COUNTING,
    LARGE_ONLY,
    ONE_WAY,
    ROOT,
    ROOT_COUNTING,
    ROOT_COUNTING_LARGE,
    ROOT_ONE_WAY,
)
from headwater.language.query import Query
from headwater.language.times import FOREVER

#: The numbers of all sources of a chain, in the order of the chain.


class RootHalf(Progress):
    """Windows over what other halves have cut.

    Sources are numbered by whoever accepts deltas; ``names`` and ``homes`` are its lists and grow.
    """

    def __init__(
        self,
        queries: Iterable[Query] = (),
        *,
        round_trips: bool = True,
        counts: bool = False,
        large_only: bool = False,
        **settings: Any,
    ) -> None:
        mode = ROOT if round_trips else ROOT_ONE_WAY
        if counts and round_trips:
            mode = ROOT_COUNTING_LARGE if large_only else ROOT_COUNTING
        super().__init__(queries, **{"mode": mode} | settings)
        self.names: list[str] = []
        self.homes: list[str] = []

    # --- queries ---

    def query_set(self) -> QuerySet:
        """The queries as leaves need them."""
        queries = self._registry
        disorder = self._watermarks.disorder
        entries = list(queries.entries.values())
        settings = self._time, self._unit, disorder, self._strict
        names, types = queries.query_names, queries.types
        ways = self.has_round_trips, self.has_counts, self.has_large_only
        return QuerySet(*settings, entries, names, types, *ways)

    @property
    def has_round_trips(self) -> bool:
        """Whether leaves can be told where to cut."""
        return self._mode not in ONE_WAY

    @property
    def has_counts(self) -> bool:
        """Whether leaves cut events into pieces for count windows."""
        return self._mode in COUNTING

    @property
    def has_large_only(self) -> bool:
        """Whether they do so for large windows only."""
        return self._mode in LARGE_ONLY

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read at all, the time first."""
        return (self._time, *(name for name in self._registry.needed if name != self._time))

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of result rows, once the columns of events are known."""
        return empty_table(self._registry.layout, self._registry.names).schema

    def check(self, schema: pa.Schema) -> None:
        """Refuse queries that do not fit the columns; fixes the types of the columns that they read."""
        self._registry.check(schema)

    @property
    def open_count(self) -> int:
        """Slices and windows, by key, that are held."""
        return sum(family.row_count for family in self._registry.families.values())

    @property
    def queries(self) -> list[Query]:
        return [entry.query for entry in self._registry.entries.values()]

    @property
    def has_cuts(self) -> bool:
        """Whether some windows are cut by markers, so that leaves have to be told where."""
        return any(isinstance(family.group, CutRootGroup) for family in self._registry.families.values())

    def operators(self) -> list[Op]:
        """The operators of all queries."""
        groups = [family.group for family in self._ready_families().values()]
        return [op for group in groups if isinstance(group, QueryGroup) for op in group.ops]

    def _ready_families(self) -> dict[int, Family]:
        """The families by number, their operators worked out."""
        families = self._registry.numbered_families()
        for family in families.values():
            family.prepare(self._registry.types)
        return families

    # --- what comes in ---

    def problem(self, parts: Iterable[Part], resolve: Resolve) -> str | None:
        """What is wrong with the parts of a delta, None if nothing is: then they can be absorbed."""
        families = self._ready_families()
        raw = [family for family in families.values() if self._is_raw(family)]
        problems = (part_problem(part, families, raw, self._registry.types, resolve) for part in parts)
        return next(filter(None, problems), None)

    def absorb(self, parts: Iterable[Part], resolve: Resolve) -> None:
        """Take in the parts of an accepted delta. Parts of queries that are gone count for nothing."""
        families = self._ready_families()
        for group in self.counting().values():
            group.begin_delta()
        for part in parts:
            match part:
                case AccountsPart():
                    self._count(part, families)
                case AsidePart():
                    self._side.tables.append(part.rows)
                case EventsPart():
                    self._accept_events(part, families, resolve)
                case PiecesPart():
                    known = families.get(part.family)
                    if known is not None and isinstance(known.group, CountRootGroup):
                        known.group.names = self.names
                        known.group.absorb(part, resolve, self._registry.types)
                case RowsPart() | LatePart() | MarkersPart():
                    known = families.get(part.family)
                    if known is not None and isinstance(known.group, QueryGroup):
                        self._add(part, known.group, resolve)

    def _add(self, part: RowsPart | LatePart | MarkersPart, group: QueryGroup, resolve: Resolve) -> None:
        if isinstance(part, MarkersPart):
            assert isinstance(group, CutRootGroup)
            group.absorb_markers(part, resolve((part.chain,)).numbers[part.sources].astype(np.int32), self.names)
            return
        keys = group.keys.encode(part.key_columns, key_count(part.key_columns))[part.key]
        if isinstance(part, RowsPart):
            first = part.slices if part.first is None else part.first
            if group.gap is not None and part.last is None:
                return  # of a leaf that knew of no sessions; it will be told to begin again
            group.add_block(RowBlock(keys, first, part.last, None, None, dict(part.partials)))
            return
        columns = {name: values_of(array, self._registry.types[name]) for name, array in part.columns.items()}
        sources = resolve((part.chain,)).numbers[part.sources].astype(np.int32)
        group.add_late(Chunk(part.times, part.offsets, sources, self.names, columns), keys, part.watermarks)

    def _accept_events(self, part: EventsPart, families: Mapping[int, Family], resolve: Resolve) -> None:
        """Events as themselves, for one family or for all that ask for such."""
        arrays = dict(part.columns)
        sources = resolve((part.chain,)).numbers[part.sources].astype(np.int32)
        if self._registry.by_node:
            arrays[NODE_KEY] = pa.DictionaryArray.from_arrays(pa.array(sources), pa.array(self.homes, pa.string()))
        names = [name for name in self._registry.value_columns if name in arrays]
        columns = {name: read_values(arrays[name]) for name in names}
        chunk = Chunk(part.times, part.offsets, sources, self.names, columns)
        scan = scan_times(part.times)
        for number, family in families.items():
            if part.family == number or (part.family < 0 and self._is_raw(family)):
                # Whoever is too late was said where the event was whole.
                family.accept(chunk, arrays, scan, part.watermarks, part.misfits)

    def _count(self, part: AccountsPart, families: Mapping[int, Family]) -> None:
        self._registry.timeless += part.timeless
        self._malformed += part.malformed
        for number, seen, filtered, early, malformed in part.rows.tolist():
            for own, family in families.items():
                if own == number or (number < 0 and self._is_raw(family)):
                    family.count(seen, filtered, early, malformed)

    # --- what goes out ---

    def raise_to(self, watermark: int, latest: int) -> None:
        """The watermark of all, and the latest time of all events."""
        self._watermarks.group = max(self._watermarks.group, watermark)
        self._watermarks.highest_time = max(self._watermarks.highest_time, latest)

    def close(self) -> None:
        """Close what the watermark has passed, except for windows that wait for their cuts."""
        self._emit()

    def _emit(self) -> None:
        until = self._watermarks.group
        pieces: list[ResultColumns] = []
        for family in self._registry.families.values():
            # Count windows also wait for answers, which come without a rise of the watermark.
            is_due = family.watermark < until or isinstance(family.group, CountRootGroup)
            if is_due and not isinstance(family.group, CutRootGroup):
                family.prepare(self._registry.types)
                if isinstance(family.group, CountRootGroup):
                    family.group.names = self.names  # after a restoration too
                pieces.extend(family.close(until, self._registry.layout, self._registry.types))
        self._put_out(pieces)

    def announce(self, until: int) -> bytes:
        """Where markers cut below ``until``."""
        cuts = {}
        for number, family in self._registry.numbered_families().items():
            if isinstance(family.group, CutRootGroup):
                family.prepare(self._registry.types)
                cuts[number] = family.group.announce(until)
        return cuts_to_bytes(cuts)

    def finish_cut(self, until: int) -> None:
        """What lies below ``until`` has come, cut as announced."""
        pieces: list[ResultColumns] = []
        for family in self._registry.families.values():
            if isinstance(family.group, CutRootGroup):
                family.prepare(self._registry.types)
                made = family.group.finish(until)
                pieces.extend(family.pieces(made, self._registry.layout, self._registry.types))
        self._put_out(pieces)

    # --- count windows ---

    def counting(self) -> dict[int, CountRootGroup]:
        """The families of count windows that leaves cut into pieces."""
        families = self._registry.numbered_families()
        return {n: f.group for n, f in families.items() if isinstance(f.group, CountRootGroup)}

    @property
    def counts_are_done(self) -> bool:
        """Whether all count windows are out, at the end of the stream."""
        return all(group.is_done for group in self.counting().values())

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
        asked = {number: group.looks(chain) for number, group in self.counting().items()}
        return {number: looks for number, looks in asked.items() if looks}

    def looked_into(self) -> dict[tuple[int, int], str]:
        """All pieces that leaves look into, and their chains; a piece by family and number."""
        found = {family: group.looked_into() for family, group in self.counting().items()}
        return {(family, look): chain for family, looks in found.items() for look, chain in looks.items()}

    def covered(self, chain: str) -> dict[int, int]:
        """By family: up to which time a chain's events are in pieces."""
        return {number: group.covered(chain) for number, group in self.counting().items()}

    def settled_time(self) -> int:
        """Before this time no leaf will be asked for anything; the end of time if nobody is ever asked."""
        return min((group.settled_time for group in self.counting().values()), default=FOREVER)

    def take_rows(self) -> pa.Table | None:
        """The rows that came out since the last time."""
        if not self._tables:
            return None
        return self._take()[0]

    def _is_raw(self, family: Family) -> bool:
        return way_of(family.group.queries()[0].query, self._mode) == "raw"
