"""What can go wrong with the checkpoint of a stream, and with whoever runs it."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import HeadwaterError


class CheckpointError(HeadwaterError):
    """A checkpoint that cannot be used; the message says where it is and why."""


class RunningError(HeadwaterError):
    """A stream that another driver runs at this moment; the message says who and since when."""


class ReplacedError(HeadwaterError):
    """Another driver runs this stream by now; the message says which."""


class OtherOffsetError(CheckpointError):
    """A batch that was begun with another offset than Spark's log has by now; the message says to start again."""


class EndedError(CheckpointError):
    """A stream that was flushed and has ended; the message says how to begin another."""


def missing_part(place: Path) -> CheckpointError:
    return CheckpointError(f"{place}: this part of the checkpoint is missing")
