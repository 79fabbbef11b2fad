"""Events as chunks, for tests of operators: values with places in the order, lifted into rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import read_values

SOURCES = ["b", "a", "é"]


def chunk_of(
    values: Sequence[Any] | pa.Array, type: pa.DataType | None = None, times: Sequence[int] | None = None
) -> Chunk:
    """Events with these values in column "x"; sources take turns, offsets count up."""
    column = values if isinstance(values, pa.Array) else pa.array(values, type)
    count = len(column)
    clock = np.arange(count) if times is None else np.array(times, np.int64)
    sources = np.arange(count, dtype=np.int32) % len(SOURCES)
    return Chunk(clock.astype(np.int64), np.arange(count, dtype=np.int64), sources, SOURCES, {"x": read_values(column)})


def in_order(chunk: Chunk) -> list[int]:
    """The events of a chunk by time, source (as bytes) and offset, the obvious way."""
    names = [name.encode() for name in chunk.source_names]
    keys = zip(chunk.times.tolist(), (names[i] for i in chunk.source_ids), chunk.offsets.tolist())
    return [i for _, i in sorted((key, i) for i, key in enumerate(keys))]


def int32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)
