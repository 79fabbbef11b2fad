"""Known mistakes of streams in micro-batches, planted like those of trees."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.logs import files
from headwater.simulator.plants.planting import Plant, instead
from headwater.spark.streaming import checkpoint as checkpoints
from headwater.spark.streaming import planning, source
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.seals import sealed
from headwater.spark.streaming.sinks.claim import Claim
from headwater.spark.streaming.states import StateFolder


def _replaced(_right: Any, checkpoint: StreamCheckpoint, directive: Any) -> bool:
    """The directive of a batch takes the place of the one that is there."""
    files.replace(checkpoint.path / "directives" / f"{directive.batch}.json", sealed(directive.to_data()))
    files.sync_directory(checkpoint.path / "directives")
    checkpoint._forget(directive.batch - checkpoints.KEPT)
    return True


def _nothing(_right: Any, *_arguments: Any) -> None:
    """What was to be checked or removed is not."""


def _unsynced(right: Any, path: Path, data: bytes) -> None:
    """Directives and states are there at once, for as long as the power is."""
    if path.parent.name not in ("directives", "states"):
        right(path, data)
        return
    place = path.with_name(f".{path.name}{files.UNFINISHED}")
    files.remove(place)
    descriptor = files.make(place)
    try:
        files.write_all(descriptor, data)
    finally:
        os.close(descriptor)
    files.link(place, path)
    files.remove(place)


def _at_once(right: Any, *facts: Any, **more: Any) -> planning.Offset:
    """The batch in which the end is asked for is the last."""
    planned: planning.Offset = right(*facts, **more)
    return planned if planned.until is None else replace(planned, until=None, flush=True)


def _rows_last(_right: Any, runner: BatchRunner, frames: Any, batch: int) -> None:
    """A batch is done before its rows are out."""
    runner.owner.check()
    if runner._checkpoint.directive(batch) is not None:
        return
    outcome, finish = runner._computed(frames, batch)
    runner._checkpoint.fix(batch, runner.owner.number, outcome.offset.to_data())
    runner._commit(finish())
    runner._write(batch, outcome)


STREAM_PLANTS: dict[str, Plant] = {
    # The commit of a batch replaces what another driver has committed.
    "directive-replaced": instead(StreamCheckpoint, "commit", _replaced),
    # A driver never asks whether another has taken over.
    "owner-unchecked": instead(Ownership, "check", _nothing),
    # A sink takes rows of whoever comes.
    "sink-without-owner": instead(Claim, "_check_nobody_elses", _nothing),
    # A log that lost its newest events is read on as if nothing had happened.
    "log-that-went-back": instead(planning, "_check_firm", _nothing),
    # Directives and states are written, but not synced.
    "fsync-left-out": instead(files, "create", _unsynced),
    # States of batches that nobody needs are kept for ever.
    "memory-grows": instead(StateFolder, "forget", _nothing),
    # A flush ends the stream before everything that was there was read.
    "end-too-early": instead(source, "next_offset", _at_once),
    # Rows leave after the batch is done.
    "rows-after-the-directive": instead(BatchRunner, "_run", _rows_last),
}
