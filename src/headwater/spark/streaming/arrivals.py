"""When events of a stream arrived: as the input has stored it, else when the batch was planned that first took them.

Planning times are kept in the offset, for as long as their events may be read again: so these have the same arrivals then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.intake.arrival_columns import with_arrivals, with_limits

#: By source, in order: up to which offset events were taken, and when, in microseconds; None: by a release that did not keep it.
Taken = Mapping[str, Sequence[tuple[int, int | None]]]


def taken_since(
    before: Taken, ends: Mapping[str, int], news: Mapping[str, int], now_us: int, holds: Mapping[str, int]
) -> dict[str, list[tuple[int, int | None]]]:
    """What is kept after a batch that is planned now: sources went to ``ends`` and go to ``news``.

    Nothing before ``holds`` is ever read again.

    >>> taken_since({"a": [(3, 10), (5, 20)]}, {"a": 5, "b": 7}, {"a": 9, "b": 8}, 30, {"a": 4, "b": 0})
    {'a': [(5, 20), (9, 30)], 'b': [(7, None), (8, 30)]}
    """
    kept: dict[str, list[tuple[int, int | None]]] = {}
    for name, end in news.items():
        begin = ends.get(name, 0)
        known = [(stop, at) for stop, at in before.get(name, [(begin, None)]) if stop > holds.get(name, 0)]
        kept[name] = [*known, (end, now_us)] if end > begin else known
    return {name: some for name, some in kept.items() if some}


@dataclass(frozen=True, slots=True)
class Stamps:
    """How a leaf gives events their arrivals; ``taken``: None where the input stores them. ``ahead_max`` in ticks of ``unit``."""

    taken: Taken | None
    ahead_max: int | None
    unit: str

    def on(self, source: str, at: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The events of a source from offset ``at`` on, with their arrivals and the latest times that these allow."""
        if self.taken is not None:
            batch = with_arrivals(batch, self._planned(source, at, len(batch)))
        return with_limits(batch, self.ahead_max, self.unit)

    def _planned(self, source: str, at: int, count: int) -> pa.Array:
        assert self.taken is not None
        kept = self.taken.get(source, ())
        places = np.searchsorted([stop for stop, _ in kept], np.arange(at, at + count), side="right")
        times = pa.array([*(when for _, when in kept), None], pa.int64())
        return times.take(pa.array(places))
