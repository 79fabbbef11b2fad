"""When written rows are made safe and published, and so what `PartitionWriter.acknowledged` promises.

| policy     | synced                                     | published     | below `acknowledged` rows survive | below `end`     |
| ---------- | ------------------------------------------ | ------------- | --------------------------------- | --------------- |
| `"always"` | before each append returns                 | by each sync  | a loss of power                   | a loss of power |
| `"batch"`  | when enough bytes or time have gathered    | by each sync  | a loss of power                   | kill -9         |
| `"never"`  | when a segment is sealed, a writer closed  | by each write | kill -9 of the process            | kill -9         |

`acknowledged` is what is published, and readers see no more than that unless they ask for it. A loss of power can take only
rows that were not synced: what is left is always the beginning of what was appended, up to a whole record, in whatever order
the disk wrote its pages. Under `"never"` these may be rows that somebody has read; a reader that lives on, and a stream that
is further than the log's end, notice it.

A sync that fails is never acknowledged: the writer stops, and the next one writes what stands above the last mark again before
it syncs. After an error the kernel may hold such bytes for clean, and a second sync alone would prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from headwater.errors import DataError, shown

Mode = Literal["always", "batch", "never"]


@dataclass(frozen=True, slots=True)
class FsyncPolicy:
    """How long written rows may stay unsafe.

    ``byte_count`` and ``interval_ns`` concern ``"batch"``: it syncs with the append that brings the unsafe bytes to
    ``byte_count``, or that arrives ``interval_ns`` or more after the oldest unsafe one (None: bytes alone). Nothing happens
    between appends: a host that falls silent calls `PartitionWriter.sync`.

    >>> FsyncPolicy("batch", byte_count=100, interval_ns=50).is_due(99, 49), FsyncPolicy("always").is_due(1, 0)
    (False, True)
    """

    mode: Mode = "always"
    byte_count: int = 1 << 20
    interval_ns: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise DataError(f"fsync is {shown(self.mode)}: give 'always', 'batch' or 'never'")

    def is_due(self, unsafe_bytes: int, waited_ns: int) -> bool:
        """Whether to sync now, with ``unsafe_bytes`` of which the oldest have waited this long."""
        if self.mode != "batch":
            return self.mode == "always"
        return unsafe_bytes >= self.byte_count or (self.interval_ns is not None and waited_ns >= self.interval_ns)
