"""How parts are merged on the way up: rows of one family, slice and key become one; the rest travels side by side.

A merged part gives the same results as its parts, in whatever order and on whatever node they were merged. Merging needs
to know no query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.jit import njit
from headwater.engine.intake.keys import KeyTable
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import MISFIT, PartialColumn, joined_kinds, traits
from headwater.engine.slices.store import concat_columns, map_columns
from headwater.engine.wire.parts import HEAD_CHAIN, AccountsPart, Part, PiecesPart, RawRuns, RowsPart, key_count

#: By operator the `traits` of its partials.
Kinds: TypeAlias = Mapping[Op, tuple[object, ...]]


@dataclass(slots=True)
class Alike:
    """Parts that can be merged into one: of one family, with the same types of keys, partials and columns (None fits any)."""

    family: int
    types: tuple[str, ...]
    partials: Kinds | None
    columns: tuple[tuple[str, str], ...] | None
    parts: list[PiecesPart]

    @classmethod
    def of(cls, part: PiecesPart) -> Alike:
        types = tuple(str(column.type) for column in part.key_columns)
        columns = None if part.raw is None else tuple((name, str(c.type)) for name, c in part.raw.columns.items())
        return cls(part.family, types, _kinds(part.partials) if len(part.piece) else None, columns, [part])

    def takes(self, other: Alike) -> bool:
        """Take in the parts of the other, if they can be merged with these; returns whether they can."""
        if (self.family, self.types) != (other.family, other.types):
            return False
        partials = self.partials or other.partials
        if self.partials is not None and other.partials is not None:
            partials = fitting(self.partials, other.partials)
            if partials is None:
                return False
        columns = {self.columns, other.columns} - {None}
        if len(columns) > 1:
            return False
        self.partials, self.columns = partials, next(iter(columns), None)
        self.parts.extend(other.parts)
        return True


def merge_pieces(parts: Sequence[PiecesPart]) -> list[PiecesPart]:
    """The pieces in as few parts as possible."""
    alike: list[Alike] = []
    for part in map(Alike.of, parts):
        if not any(known.takes(part) for known in alike):
            alike.append(part)
    return [_joined(known.parts) if len(known.parts) > 1 else known.parts[0] for known in alike]


def _joined(parts: list[PiecesPart]) -> PiecesPart:
    first = parts[0]
    chains = tuple(sorted({chain for part in parts for chain in part.chains}))
    places = {chain: place for place, chain in enumerate(chains)}
    heads = np.concatenate([part.heads for part in parts], axis=1)
    heads[HEAD_CHAIN] = [places[part.chains[at]] for part in parts for at in part.heads[HEAD_CHAIN].tolist()]
    before = np.cumsum([0, *(part.heads.shape[1] for part in parts)])
    pieces = np.cumsum([0, *(len(part.sizes) for part in parts)])
    table = KeyTable([str(i) for i in range(len(first.key_columns))])
    keys = [table.encode(part.key_columns, key_count(part.key_columns)) for part in parts]
    return PiecesPart(
        first.family,
        chains,
        heads,
        np.concatenate([part.head + start for part, start in zip(parts, before)]),
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([part.first for part in parts], axis=1),
        np.concatenate([part.last for part in parts], axis=1),
        np.concatenate([part.piece + start for part, start in zip(parts, pieces)]),
        table.columns(),
        np.concatenate([known[part.key] for part, known in zip(parts, keys)]).astype(np.int64),
        concat_columns([part.partials for part in parts if len(part.piece)] or [{}]),
        _joined_raw(
            [
                (part.raw, known[part.raw.key].astype(np.int64), int(start))
                for part, known, start in zip(parts, keys, before)
                if part.raw is not None
            ]
        ),
    )


def _joined_raw(runs: Sequence[tuple[RawRuns, np.ndarray, int]]) -> RawRuns | None:
    if not runs:
        return None
    names = runs[0][0].columns
    return RawRuns(
        np.concatenate([raw.sizes for raw, _, _ in runs]),
        np.concatenate([raw.places for raw, _, _ in runs], axis=1),
        np.concatenate([keys for _, keys, _ in runs]),
        {name: pa.concat_arrays([raw.columns[name] for raw, _, _ in runs]) for name in names},
        np.concatenate([raw.head + start for raw, _, start in runs]),
    )


def merge_parts(parts: Sequence[Part]) -> list[Part]:
    """The parts, with those merged that are alike.

    >>> from headwater.engine.operators.numeric import CountColumn
    >>> from headwater.engine.operators.operator import Op
    >>> zeros = np.zeros(1, np.int64)
    >>> one = RowsPart(0, [], zeros, zeros, {Op("count"): CountColumn(np.array([2]))})
    >>> merge_parts([one, one])[0].partials[Op("count")].counts
    array([4])
    """
    rows: dict[tuple[object, ...], list[tuple[Kinds, list[RowsPart]]]] = {}
    pieces: list[PiecesPart] = []
    accounts: list[AccountsPart] = []
    others: list[Part] = []
    for part in parts:
        if isinstance(part, RowsPart):
            _put_to_alike(rows.setdefault(_likeness(part), []), part)
        elif isinstance(part, AccountsPart):
            accounts.append(part)
        elif isinstance(part, PiecesPart):
            pieces.append(part)
        else:
            others.append(part)
    merged: list[Part] = [_merge_rows(alike) for some in rows.values() for _, alike in some]
    return [*merged, *merge_pieces(pieces), *others, *([_merge_accounts(accounts)] if accounts else [])]


def _likeness(part: RowsPart) -> tuple[object, ...]:
    """What parts of rows must have in common to be merged: leaves that know of other queries cut differently for a while."""
    types = tuple(str(column.type) for column in part.key_columns)
    return part.family, part.cut, part.gap, types


def _put_to_alike(known: list[tuple[Kinds, list[RowsPart]]], part: RowsPart) -> None:
    """Add a part to the first of the others whose partials are like its own."""
    kinds = _kinds(part.partials)
    for number, (others, alike) in enumerate(known):
        if (both := fitting(others, kinds)) is not None:
            known[number] = both, [*alike, part]
            return
    known.append((kinds, [part]))


def _kinds(partials: Mapping[Op, PartialColumn]) -> Kinds:
    return {op: traits(column) for op, column in partials.items()}


def fitting(one: Kinds, other: Kinds) -> Kinds | None:
    """What partials of both are like; None if they differ: those of a node that is wrong about a type stay apart from all others.

    >>> fitting({Op("run", "v"): ("run", "i")}, {Op("run", "v"): ("run", None)})  # what has no values fits any
    {Op(kind='run', column='v', parameter=None): ('run', 'i')}
    """
    if one.keys() != other.keys():
        return None
    both = dict(one)
    for op, (*what, kind) in other.items():
        *own, known = one[op]
        joined = joined_kinds(known, kind)
        if what != own or joined is MISFIT:
            return None
        both[op] = (*own, joined)
    return both


def _merge_rows(parts: list[RowsPart]) -> RowsPart:
    if len(parts) == 1:
        return parts[0]
    first_part = parts[0]
    table = KeyTable([str(i) for i in range(len(first_part.key_columns))])
    key = np.concatenate([_numbered(table, part) for part in parts])
    slices = np.concatenate([part.slices for part in parts])
    gap, first, last = first_part.gap, None, None
    if gap is None:
        order = np.lexsort((slices, key))
    else:
        first = np.concatenate([cast(Int64Array, part.first) for part in parts])
        last = np.concatenate([cast(Int64Array, part.last) for part in parts])
        order = np.lexsort((first, slices, key))
    key, slices = key[order], slices[order]
    separate = np.ones(len(key), np.bool_)
    separate[1:] = (np.diff(key) != 0) | (np.diff(slices) != 0)
    if gap is not None:
        assert first is not None and last is not None
        first, last = first[order], last[order]
        _split_chains(first, last, gap, separate)
    heads = np.flatnonzero(separate)
    tails = np.append(heads[1:], len(key))
    joined = concat_columns([part.partials for part in parts])
    partials = map_columns(joined, lambda column: column.take(order).combine_ranges(heads, tails))
    if gap is not None:
        assert first is not None and last is not None
        first, last = first[heads], np.maximum.reduceat(last, heads) if len(heads) else last
    merged = replace(first_part, key_columns=table.columns(), key=key[heads].astype(np.int64), slices=slices[heads])
    return replace(merged, partials=partials, first=first, last=last)


def _numbered(table: KeyTable, part: RowsPart) -> Int32Array:
    """The keys of a part's rows as numbers of the table."""
    return table.encode(part.key_columns, key_count(part.key_columns))[part.key]


@njit
def _split_chains(first: Int64Array, last: Int64Array, gap: int, separate: BoolArray) -> None:
    """Set ``separate`` also where a row begins more than ``gap`` behind the end of all rows of its slice and key before it."""
    reach = np.int64(0)
    for i in range(len(first)):
        if not separate[i] and first[i] - gap > reach:
            separate[i] = True
        reach = last[i] if separate[i] else max(reach, last[i])


def _merge_accounts(accounts: list[AccountsPart]) -> AccountsPart:
    rows = np.concatenate([account.rows for account in accounts])
    families, place = np.unique(rows[:, 0], return_inverse=True)
    sums = np.zeros((len(families), rows.shape[1]), np.int64)
    np.add.at(sums, place, rows)
    sums[:, 0] = families
    return AccountsPart(sums, sum(a.timeless for a in accounts), sum(a.malformed for a in accounts))
