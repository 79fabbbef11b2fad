"""Chooses where the root of a stream runs: on the driver (lowest latency), or in tasks that share very many keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from headwater.base.arrow import plain_array
from headwater.errors import QueryError
from headwater.language.query import Query
from headwater.spark.batch.root import ROOTS_MAX
from headwater.spark.formats import Wanted
from headwater.spark.streaming.inputs.input import Input

#: So many events are looked at, and from so many keys among them on there are too many for the driver.
LOOK_EVENTS = 200_000
MANY_KEYS = 50_000


def choose_roots(opened: Input, queries: Sequence[Query], cores: int, wanted: str) -> tuple[int, str]:
    """How many roots, and why."""
    if wanted not in ("auto", "driver", "reducers"):
        raise QueryError(f"root is {wanted!r}: give 'auto', 'driver' or 'reducers'")
    roots = max(2, min(cores, ROOTS_MAX))
    keyed = [query for query in queries if query.keys]
    if wanted == "reducers":
        if not keyed:
            raise QueryError("root is 'reducers', but no query has keys that they could share; give 'driver'")
        return roots, "asked for"
    if wanted == "driver":
        return 1, "asked for"
    if not keyed:
        return 1, "no query has keys to share"
    count, looked = _key_count(opened, keyed)
    if count >= MANY_KEYS:
        return roots, f"{count} keys among the first {looked} events: roots in tasks share them"
    return 1, f"{count} keys among the first {looked} events: the driver answers soonest"


def _key_count(opened: Input, queries: Sequence[Query]) -> tuple[int, int]:
    """The most keys that a query has among the first events of all sources, and how many events were looked at."""
    names = sorted({name for query in queries for name in query.keys})
    tables = list(_looks(opened, names))
    if not tables:
        return 0, 0
    table = pa.Table.from_batches(tables)
    counts = [len(table.group_by(list(query.keys)).aggregate([])) for query in queries]
    return max(counts), len(table)


def _looks(opened: Input, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    extents = {source: extent for source, extent in opened.extents().items() if extent.end > 0}
    wanted = Wanted(names, opened.schema)
    for source, extent in extents.items():
        end = min(extent.end, LOOK_EVENTS // len(extents) + 1)
        for stretch in opened.stretches(source, 0, end):
            for batch in opened.read(stretch, wanted):
                if isinstance(batch, pa.RecordBatch) and set(names) <= set(batch.schema.names):
                    plain = [plain_array(batch.column(name)) for name in names]
                    yield pa.RecordBatch.from_arrays(plain, names=list(names))
