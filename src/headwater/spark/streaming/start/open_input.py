"""Makes the input of a stream from what the user gives as its source, and checks it against the checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.errors import DataError
from headwater.spark.batch.columns import Types
from headwater.spark.streaming.about import About
from headwater.spark.streaming.checkpoint import CheckpointError, StreamCheckpoint
from headwater.spark.streaming.inputs.input import Input, LogInput


def open_input(
    source: Any,
    checkpoint: StreamCheckpoint,
    *,
    format: str | None,
    sources: str,
    schema: pa.Schema | None,
    types: Types | None,
    strict: bool,
    pace: str,
    time: str,
    unit: str,
) -> Input:
    """A folder, a segment log, generators, or an input that is one already."""
    if hasattr(source, "extents"):
        given: Input = source
        return given
    if hasattr(source, "batches") or isinstance(source, list | tuple):
        from headwater.spark.streaming.inputs.generator import GeneratorInput

        listed = [source] if hasattr(source, "batches") else list(source)
        return GeneratorInput(listed, pace=pace, time=time, unit=unit, seen=checkpoint.path / "generated")
    if not isinstance(source, str | os.PathLike):
        raise DataError(f"source is {source!r}: give a folder, a segment log, generators, or KafkaInput(...)")
    path = Path(source)
    if not path.is_dir():
        raise DataError(f"{path}: there is no such folder; a stream reads a folder, and goes on as files come to it")
    if (path / "log.json").is_file() and format in (None, "log"):
        return LogInput(path, schema)
    from headwater.spark.streaming.inputs.folder import FolderInput

    seen = checkpoint.path / "seen"
    return FolderInput(path, seen, sources=sources, format=format, schema=schema, types=types, strict=strict)


def check_same(about: About, given: Input, settings: Mapping[str, Any], place: Path) -> None:
    """Refuse to go on with another source, or with times that mean something else."""
    if about.kind != given.kind or _lasting(about.input) != _lasting(given.to_data()):
        raise CheckpointError(f"{place}: this checkpoint is of a stream over another source; give another folder")
    for name, value in settings.items():
        if about.settings[name] != value:
            raise CheckpointError(
                f"{place}: {name} is {value!r}, but was {about.settings[name]!r} when the stream began; it cannot change"
            )


def _lasting(data: Mapping[str, Any]) -> dict[str, Any]:
    """What an input is, without when it began."""
    return {name: value for name, value in data.items() if name not in ("began_ns", "began", "schema")}
