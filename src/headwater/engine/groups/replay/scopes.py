"""Windows of several nodes that are one: the i-th of each, those of equal bounds, those that overlap (Disco's readings)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.engine.groups.replay.kept import Formed
from headwater.language.times import FOREVER

Parts = list[int]  # rows of the windows that are one


def unite(formed: Formed, scope: str, owner: Int64Array, until: int) -> tuple[Formed, Int64Array]:
    """One window for all its parts. ``owner[k]`` is the key, without the node, of window key k.

    Returns the united windows, keyed by owner, and rows (united window, lo, hi) of their members. A united window waits for its
    open parts; at the end of the stream an unfinished part is none at all.
    """
    if until == FOREVER:
        formed = formed.take(formed.closed)
    keys = owner[formed.windows[:, 0]]
    united: list[Parts] = []
    for key in np.unique(keys).tolist():
        united.extend(_PARTS[scope](formed, np.flatnonzero(keys == key)))
    rows = [_union(formed, int(keys[parts[0]]), parts) for parts in united]
    members = [(i, *formed.windows[part, 3:].tolist()) for i, parts in enumerate(united) for part in parts]
    table = np.array(rows, np.int64).reshape(-1, 6)
    windows = np.concatenate((table[:, :3], np.zeros((len(table), 2), np.int64)), axis=1)
    closed = table[:, 5] == 1
    # Another node may add its part at any time, so nothing is ever final.
    final = np.zeros(len(table), np.bool_)
    return Formed(windows, table[:, 3], closed, final, formed.needed), np.array(members, np.int64).reshape(-1, 3)


def _union(formed: Formed, key: int, parts: Parts) -> tuple[int, int, int, int, int, int]:
    windows = formed.windows[parts]
    reach, closed = int(formed.reach[parts].max()), bool(formed.closed[parts].all())
    return key, int(windows[:, 1].min()), int(windows[:, 2].max()), reach, 0, int(closed)


def _ordinal(formed: Formed, rows: Int64Array) -> Iterator[Parts]:
    by_node = [rows[formed.windows[rows, 0] == node] for node in np.unique(formed.windows[rows, 0])]
    for number in range(max(map(len, by_node), default=0)):
        yield [int(windows[number]) for windows in by_node if number < len(windows)]


def _matched(formed: Formed, rows: Int64Array) -> Iterator[Parts]:
    together: dict[tuple[int, ...], Parts] = {}
    for row in rows.tolist():
        together.setdefault(tuple(formed.windows[row, 1:3].tolist()), []).append(row)
    yield from together.values()


def _overlap(formed: Formed, rows: Int64Array) -> Iterator[Parts]:
    chain: Parts = []
    reach = 0
    for row in sorted(rows.tolist(), key=lambda row: int(formed.windows[row, 1])):
        if chain and formed.windows[row, 1] > reach:
            yield chain
            chain = []
        reach = max(reach, int(formed.reach[row])) if chain else int(formed.reach[row])
        chain.append(row)
    if chain:
        yield chain


_PARTS: dict[str, Callable[[Formed, Int64Array], Iterator[Parts]]] = {
    "ordinal": _ordinal,
    "matched": _matched,
    "overlap": _overlap,
}
