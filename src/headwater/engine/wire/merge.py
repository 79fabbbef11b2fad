"""How parts are merged on the way up: rows of one family, slice and key become one; the rest travels side by side.

What is merged says the same as before, whoever merged it and in whatever order. No query has to be known for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.base.jit import njit
from headwater.engine.intake.keys import KeyTable
from headwater.engine.slices.store import concat_columns, map_columns
from headwater.engine.wire.parts import AccountsPart, Part, PiecesPart, RowsPart, key_count
from headwater.engine.wire.piece_merge import merge_pieces


def merge_parts(parts: Sequence[Part]) -> list[Part]:
    """
    >>> from headwater.engine.operators.numeric import CountColumn
    >>> from headwater.engine.operators.operator import Op
    >>> zeros = np.zeros(1, np.int64)
    >>> one = RowsPart(0, [], zeros, zeros, {Op("count"): CountColumn(np.array([2]))})
    >>> merge_parts([one, one])[0].partials[Op("count")].counts
    array([4])
    """
    rows: dict[tuple[object, ...], list[RowsPart]] = {}
    pieces: list[PiecesPart] = []
    accounts: list[AccountsPart] = []
    others: list[Part] = []
    for part in parts:
        if isinstance(part, RowsPart):
            rows.setdefault(_likeness(part), []).append(part)
        elif isinstance(part, AccountsPart):
            accounts.append(part)
        elif isinstance(part, PiecesPart):
            pieces.append(part)
        else:
            others.append(part)
    merged: list[Part] = [_merge_rows(alike) for alike in rows.values()]
    return [*merged, *merge_pieces(pieces), *others, *([_merge_accounts(accounts)] if accounts else [])]


def _likeness(part: RowsPart) -> tuple[object, ...]:
    """Rows that are alike in this can be merged: leaves that have heard of other queries cut differently for a while."""
    types = tuple(str(column.type) for column in part.key_columns)
    return part.family, part.cut, part.gap, types, frozenset(part.partials)


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
    columns = table.columns()
    return RowsPart(
        first_part.family,
        columns,
        key[heads].astype(np.int64),
        slices[heads],
        partials,
        gap,
        first,
        last,
        first_part.cut,
    )


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
