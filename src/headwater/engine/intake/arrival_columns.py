"""When events arrived, and the latest time that each may have: columns that hosts put beside those of the data."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.language.time_columns import ARRIVAL, LIMIT
from headwater.language.times import TICK_NANOS, TIME_MAX


def with_arrivals(batch: pa.RecordBatch, arrivals: pa.Array | int) -> pa.RecordBatch:
    """The events with when each arrived, in microseconds since 1970; one number for all.

    >>> with_arrivals(pa.record_batch({"load": [1, 2]}), 7).column(1).to_pylist()
    [7, 7]
    """
    if isinstance(arrivals, int):
        arrivals = pa.repeat(pa.scalar(arrivals, pa.int64()), len(batch))
    return batch.append_column(ARRIVAL, arrivals)


def with_limits(batch: pa.RecordBatch, ahead_max: int | None, unit: str) -> pa.RecordBatch:
    """Events that have arrivals with the latest time that each may have; without ``ahead_max`` any will do.

    >>> with_limits(with_arrivals(pa.record_batch({"load": [1]}), 2_000_000), 5, "s").column(2).to_pylist()
    [7]
    """
    if ahead_max is None:
        return batch
    micros, tick = batch.column(ARRIVAL), TICK_NANOS[unit]
    ticks = (
        pc.multiply(micros, 1_000) if tick < 1_000 else micros if tick == 1_000 else pc.divide(micros, tick // 1_000)
    )
    return batch.append_column(LIMIT, pc.add(pc.min_element_wise(ticks, TIME_MAX, skip_nulls=False), ahead_max))
