"""A partitioned, append-only log of Arrow batches on disk: the embedded replayable source and durable output.

`log.py` is what a user holds: `Log`, whose `writer` and `reader` give one partition. `writer.py` and `reader.py` work on the
segment files of `segment.py`, whose bytes `layout.py` defines and `index.py` finds. `lock.py` keeps writers one at a time and
`epoch.py` fences one that did not notice, `repair.py` cuts off what a crash left unfinished, `fsync.py` says what is promised
when, `mark.py` what of it readers may see. `files.py` is all that touches the disk. The one clock is that of `Log.writer`.
"""

from headwater.logs.errors import (
    ConflictError,
    DamageError,
    FencedError,
    GapError,
    LockedError,
    OffsetError,
    RegressError,
    WriterStoppedError,
)
from headwater.logs.fsync import FsyncPolicy
from headwater.logs.log import Log
from headwater.logs.reader import PartitionReader
from headwater.logs.segments.repair import Repair
from headwater.logs.segments.segment import Stored
from headwater.logs.writer import PartitionWriter

__all__ = [
    "ConflictError",
    "DamageError",
    "FencedError",
    "FsyncPolicy",
    "GapError",
    "LockedError",
    "Log",
    "OffsetError",
    "PartitionReader",
    "PartitionWriter",
    "RegressError",
    "Repair",
    "Stored",
    "WriterStoppedError",
]
