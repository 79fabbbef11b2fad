"""How the rows of a batch change a table that holds the last revision of every window.

A window is known by its query, its bounds or positions, its keys and its node; nulls are equal. Of several rows the highest
revision holds. What a row replaces is gone, and so is a window that vanished, whose row has no events and says what it replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.base.arrow import plain_array
from headwater.engine.results.shape import BOUNDS, POSITIONS
from headwater.spark.streaming.sinks.timeline import Claimant

#: The key columns of a query by its name.
KeysOf = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Upsert:
    """What a batch does to a table: first whatever it has of ``windows`` goes, each of which is here once; then ``rows`` come.

    ``windows`` has the columns by which a window is known, and ``revision``: the highest that is spoken of. ``rows`` are the
    windows among them that hold, without ``replaces``, of which nothing is left to be said.
    """

    windows: pa.Table
    rows: pa.Table

    @property
    def names(self) -> list[str]:
        """The columns by which a window is known."""
        return [name for name in self.windows.column_names if name != "revision"]


def upsert_of(rows: pa.Table, stream: Claimant) -> Upsert:
    """The change that the rows of a batch make, in the order in which they came."""
    names = _window_columns(rows, stream)
    rows = _plain(rows)
    places = pa.array(range(len(rows)), pa.int64())
    said = _said(rows, names, places)
    # Of one window the highest revision is the last word, and that it was replaced comes after it, whatever came first.
    order = pc.sort_indices(said, [("revision", "ascending"), ("is_replaced", "ascending"), ("turn", "ascending")])
    last = [("row", "last", pc.ScalarAggregateOptions(skip_nulls=False)), ("revision", "max")]
    held = said.take(order).group_by(names, use_threads=False).aggregate(last)
    windows = held.select([*names, "revision_max"]).rename_columns([*names, "revision"])
    kept = held["row_last"].drop_null()
    shown = [name for name in rows.column_names if name != "replaces"]
    return Upsert(windows, rows.take(kept.take(pc.sort_indices(kept))).select(shown))


def _window_columns(rows: pa.Table, stream: Claimant) -> list[str]:
    """The columns by which windows of these queries are known; a query without one of them has null there."""
    queries = [stream.only] if stream.only is not None else pc.unique(rows.column("query")).to_pylist()
    keys = dict.fromkeys(key for query in queries for key in stream.keys_of(query))
    possible = ["query", *BOUNDS, *POSITIONS, *keys, "node"]
    return [name for name in possible if name in rows.column_names]


def _said(rows: pa.Table, names: list[str], places: pa.Array) -> pa.Table:
    """What is said of windows: that a revision is there, or was replaced, and the row that holds from then on, null if none."""
    is_gone = _is_gone(rows)
    own = {name: rows.column(name) for name in names}
    own |= {
        "revision": rows.column("revision").cast(pa.int64()),
        "is_replaced": pa.repeat(0, len(rows)),
        "turn": places,
        "row": places if is_gone is None else pc.if_else(is_gone, pa.scalar(None, pa.int64()), places),
    }
    said = pa.table(own)
    if is_gone is None:
        return said
    lists = _whole(rows.column("replaces"))
    parents = pc.list_parent_indices(lists)
    one = lists.flatten()
    fields = dict(zip((field.name for field in one.type), one.flatten(), strict=True))
    replaced = {name: fields[name] if name in fields else rows.column(name).take(parents) for name in names}
    replaced |= {
        "revision": fields["revision"],
        "is_replaced": pa.repeat(1, len(parents)),
        "turn": parents.cast(pa.int64()),
    }
    replaced["row"] = pa.nulls(len(parents), pa.int64())
    return pa.concat_tables([said, pa.table(replaced).cast(said.schema)])


def _is_gone(rows: pa.Table) -> pa.ChunkedArray | None:
    """Which rows say that their window is no more; None if none can."""
    if "replaces" not in rows.column_names or rows.column("replaces").null_count == len(rows):
        return None
    return pc.and_(pc.equal(rows.column("event_count"), 0), pc.is_valid(rows.column("replaces")))


def _plain(rows: pa.Table) -> pa.Table:
    return pa.table({name: plain_array(_whole(column)) for name, column in zip(rows.column_names, rows.columns)})


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
