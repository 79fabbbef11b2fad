"""When written rows are made safe, and so what `PartitionWriter.acknowledged` promises.

| policy     | synced                                           | rows below `acknowledged` survive | rows below `end` survive |
| ---------- | ------------------------------------------------ | --------------------------------- | ------------------------ |
| `"always"` | before each append returns                       | a loss of power                   | a loss of power          |
| `"batch"`  | when enough bytes or time have gathered          | a loss of power                   | kill -9 of the process   |
| `"never"`  | only when a segment is sealed or the writer closes | kill -9 of the process            | kill -9 of the process   |

A loss of power can take only the newest rows: what is left is always the beginning of what was appended, up to a whole
record. Readers see rows when they are written, which may be before they are safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from headwater.errors import DataError, shown

Mode = Literal["always", "batch", "never"]


@dataclass(frozen=True, slots=True)
class FsyncPolicy:
    """How long written rows may stay unsafe.

    ``byte_count`` and ``interval`` concern ``"batch"``: it syncs with the append that brings the unsafe bytes to
    ``byte_count``, or that arrives ``interval`` or more after the oldest unsafe one (in the unit of the arrivals given to
    `append`; None: bytes alone). Nothing happens between appends: a host that falls silent calls `PartitionWriter.sync`.

    >>> FsyncPolicy("batch", byte_count=100, interval=50).is_due(99, 49), FsyncPolicy("always").is_due(1, 0)
    (False, True)
    """

    mode: Mode = "always"
    byte_count: int = 1 << 20
    interval: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise DataError(f"fsync is {shown(self.mode)}: give 'always', 'batch' or 'never'")

    def is_due(self, unsafe_bytes: int, waited: int) -> bool:
        """Whether to sync now, with ``unsafe_bytes`` of which the oldest have ``waited`` this long."""
        if self.mode != "batch":
            return self.mode == "always"
        return unsafe_bytes >= self.byte_count or (self.interval is not None and waited >= self.interval)
