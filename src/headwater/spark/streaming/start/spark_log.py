"""Spark's own log of offsets, as far as a start has to look into it.

A driver that was paused while it wrote to the log, and woke when another had long taken over, may have replaced the offset of a
batch of which rows are out. Spark would run the other one; without any it asks the planner, which knows the right one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headwater.logs import files
from headwater.spark.streaming.checkpoint import StreamCheckpoint


def drop_replaced_offset(spark: Path, checkpoint: StreamCheckpoint) -> None:
    """Remove the offset of the batch that is not done from Spark's log, if it is not the one that the batch was begun with."""
    batch = checkpoint.last_done() + 1
    fixed, place = checkpoint.fixed(batch), spark / "offsets" / str(batch)
    if fixed is None or not place.exists() or _stored(place) == fixed:
        return
    files.remove(place)
    files.remove(place.with_name(f".{batch}.crc"))


def _stored(place: Path) -> Any:
    """The offset in a file of Spark's: its version, what Spark knows of the batch, and the offset, a line each."""
    try:
        return json.loads(place.read_text().splitlines()[-1])
    except (ValueError, IndexError):
        return None  # a loss of power has left a part of it
