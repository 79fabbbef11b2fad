"""Events for a group by hand, and what it closes as plain rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.engine.families import Group
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import Events, read_values, scan_times
from headwater.engine.operators.operator import COUNT, Op
from headwater.engine.windows.assembler import Closed
from headwater.engine.windows.late import Dropped
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes

TYPES = {"k": pa.string(), "v": pa.int64()}
Event = tuple[int, str, int]  # time, key, value


def give(group: Group, events: Sequence[Event], watermark: int | list[int]) -> list[Dropped]:
    """Let a group take in events of one source; ``watermark``: of the source just before each of them, or before all."""
    group.prepare(TYPES)
    times, keys, values = zip(*events, strict=True)
    arrays = {"k": pa.array(keys, pa.string()), "v": pa.array(values, pa.int64())}
    chunk = Chunk(np.array(times, np.int64), 0, 0, ["source"], {"v": read_values(arrays["v"])})
    marks = watermark if isinstance(watermark, int) else np.array(watermark, np.int64)
    return group.accept(Events(chunk, arrays, scan_times(chunk.times), marks))


def rows(group: Group, until: int) -> list[tuple[Any, ...]]:
    """What closes at a watermark, as (start, end, key, revision, number of events, sum of v)."""
    group.prepare(TYPES)
    return sorted(row for piece in group.close(until) for row in rows_of(group, piece))


def rows_of(group: Group, piece: Closed) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in group.keys.columns()]
    keys = [tuple(column[key] for column in columns) for key in piece.key.tolist()]
    revisions = [0] * len(piece) if piece.revision is None else piece.revision.tolist()
    counts, sums = (piece.partials[op].combine_ranges(piece.lo, piece.hi) for op in (COUNT, Op("sum", "v")))
    numbers = revisions, counts.counts.tolist(), sums.to_int64()[0].tolist()
    return [
        (*bounds, *key, *rest)
        for *bounds, key, rest in zip(piece.start.tolist(), piece.end.tolist(), keys, zip(*numbers))
    ]


def restored(group: Group, fresh: Group) -> Group:
    """A fresh group of the same queries that goes on from the other's snapshot."""
    fresh.restore(from_bytes(to_bytes(group.state())), TYPES)
    return fresh
