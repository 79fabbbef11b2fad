"""Does a part fit the queries of the root? Asked before a delta is accepted: afterwards it is too late.

Leaves and relays make no such parts. But a node that is older, newer or broken must not bring the root down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.arrow import plain_type
from headwater.base.source_numbers import Resolve
from headwater.engine.counting.root import CountRootGroup
from headwater.engine.families import Family
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.intake.columns import read_values
from headwater.engine.intake.keys import NODE_KEY
from headwater.engine.results.side_output import SCHEMA
from headwater.engine.tree.marker_cuts import CutRootGroup
from headwater.engine.wire.parts import (
    HEAD_CHAIN,
    AccountsPart,
    AsidePart,
    EventsPart,
    LatePart,
    MarkersPart,
    Part,
    PiecesPart,
    RowsPart,
)

Types = Mapping[str, pa.DataType]


def part_problem(
    part: Part, families: Mapping[int, Family], raw: Sequence[Family], types: Types, resolve: Resolve
) -> str | None:
    """What is wrong with a part, None if nothing is. ``raw``: the families that ask for events as they are."""
    match part:
        case AccountsPart():
            return "numbers of events are not negative" if (part.rows[:, 1:] < 0).any() else None
        case AsidePart():
            return None if part.rows.schema.equals(SCHEMA) else "the side output has other columns"
        case EventsPart():
            return _sources_problem(part, resolve) or _events_problem(part, families, raw, types)
        case RowsPart() | LatePart() | MarkersPart():
            family = families.get(part.family)
            if family is None:
                return None  # of a query that is gone
            if not isinstance(family.group, QueryGroup):
                return "partials came for a query that needs events"
            return _keyed_problem(part, family.group, types, resolve)
        case PiecesPart():
            family = families.get(part.family)
            return None if family is None else _pieces_problem(part, family, types, resolve)


def _pieces_problem(part: PiecesPart, family: Family, types: Types, resolve: Resolve) -> str | None:
    group = family.group
    if not isinstance(group, CountRootGroup):
        return "pieces came for a query that needs something else"
    raw = part.raw
    if not len(part.sizes) and raw is None:
        return None  # whoever has seen no key does not know of which types they are
    if [plain_type(column.type) for column in part.key_columns] != [_key_type(name, types) for name in group.key_names]:
        return f"keys are {', '.join(group.key_names) or 'none'}, and others came"
    if len(part.sizes) and not set(group.ops) <= set(part.partials):
        return "partials of some operators are missing"
    needed = {op.column for op in group.ops if op.column is not None}
    found = {} if raw is None else {name: column.type for name, column in raw.columns.items()}
    if raw is not None and found != {name: _kept_type(types[name]) for name in needed}:
        return f"raw events need the columns {', '.join(sorted(needed)) or 'none'}, in the types they are kept in"
    crowd, chains = resolve(part.chains), part.heads[HEAD_CHAIN]
    if not all(crowd.has(chains[part.head], keyed[1]) for keyed in (part.first, part.last)):
        return "pieces are of sources that are not there"
    if raw is not None and not crowd.has(chains[np.repeat(raw.head, raw.sizes)], raw.places[1]):
        return "events are of sources that are not there"
    return None


def _keyed_problem(
    part: RowsPart | LatePart | MarkersPart, group: QueryGroup, types: Types, resolve: Resolve
) -> str | None:
    if [plain_type(column.type) for column in part.key_columns] != [_key_type(name, types) for name in group.key_names]:
        return f"keys are {', '.join(group.key_names) or 'none'}, and others came"
    is_cut = isinstance(group, CutRootGroup)
    if isinstance(part, RowsPart):
        if part.cut != is_cut or (group.gap is not None and part.last is None):
            return "rows were cut in another way than the queries need"
        return None if set(group.ops) <= set(part.partials) else "partials of some operators are missing"
    problem = _sources_problem(part, resolve)
    if problem is not None:
        return problem
    if isinstance(part, MarkersPart):
        return None if is_cut and len(part.conditions) == len(group.conditions) else "markers of other windows came"
    needed = {op.column for op in group.ops if op.column is not None}
    found = {name: column.type for name, column in part.columns.items()}
    if found != {name: _kept_type(types[name]) for name in needed}:
        return f"late events need the columns {', '.join(sorted(needed)) or 'none'}, in the types they are kept in"
    return None


def _events_problem(
    part: EventsPart, families: Mapping[int, Family], raw: Sequence[Family], types: Types
) -> str | None:
    takers = raw if part.family < 0 else [f for number, f in families.items() if number == part.family]
    needed = {name for family in takers for name in family.columns}
    for name in sorted(needed):
        if name not in part.columns or plain_type(part.columns[name].type) != plain_type(types[name]):
            return f"events need the column {name!r} of type {types.get(name)}"
    size = len(part.times)
    if any(not 0 <= row < size for rows in part.misfits.values() for row in rows):
        return "events are named that are not there"
    return None


def _sources_problem(part: EventsPart | LatePart | MarkersPart, resolve: Resolve) -> str | None:
    sources: Int64Array = part.sources
    if len(sources) and not 0 <= int(sources.min()) <= int(sources.max()) < len(resolve((part.chain,)).numbers):
        return f"chain {part.chain!r} has no such sources"
    return None


def _key_type(name: str, types: Types) -> pa.DataType:
    return pa.string() if name == NODE_KEY else plain_type(types[name])


@lru_cache(256)
def _kept_type(type_: pa.DataType) -> pa.DataType:
    """The type in which a column's values are kept: numbers in 64 bits, everything else as it is."""
    kept = read_values(pa.nulls(0, plain_type(type_)))
    return pa.from_numpy_dtype(kept.data.dtype) if kept.data.dtype != object else kept.type
