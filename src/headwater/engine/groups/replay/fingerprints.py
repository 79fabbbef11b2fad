"""What a result row says, as one number: where members can change and the row still says the same.

A late copy of an id may take the place of the first one, and a window of one node may go from one union to another. Only
windows that changed are emitted again, so these are compared by their values and not by their members.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.engine.intake.chunk import Chunk
from headwater.engine.operators.operator import Op
from headwater.engine.results.aggregates import lower
from headwater.language.query import Query


def fingerprints(query: Query, partials: Mapping[Op, Any], counts: Int64Array, chunk: Chunk) -> Int64Array:
    """One number per row of ``partials``; ``counts`` are numbers of events, ``chunk`` tells the types of columns.

    >>> from headwater.language.aggregations import count
    >>> from headwater.engine.operators.numeric import CountColumn
    >>> from headwater.language.query import query
    >>> from headwater.language.windows import tumbling
    >>> numbers = np.array([2, 3, 2])
    >>> events = Chunk(numbers, 0, 0, [""])
    >>> found = fingerprints(query("q", tumbling(5), n=count()), {Op("count"): CountColumn(numbers)}, numbers, events)
    >>> bool(found[0] == found[2]), bool(found[0] == found[1])
    (True, False)
    """
    columns = [counts.tolist()]
    for _, aggregation in query.aggregates:
        type_ = None if aggregation.column is None else chunk.columns[aggregation.column].type
        columns.append(lower(aggregation, partials, type_).to_pylist())
    # Not hash(): it differs from process to process, and numbers are kept in snapshots.
    digests = [blake2b(repr(row).encode(), digest_size=8).digest() for row in zip(*columns, strict=True)]
    return np.frombuffer(b"".join(digests), np.int64)
