"""Segment logs and generators as formats: their places are partitions and objects, not files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headwater.engine.intake.arrival_columns import with_arrivals
from headwater.errors import DataError
from headwater.language.time_columns import ARRIVAL
from headwater.language.user_code import load_path
from headwater.logs import Log, Stored
from headwater.spark.formats.file_range import BATCH_EVENTS, Batches, Format, Wanted, present


def _log_parts(place: str) -> tuple[Log, int]:
    path, _, partition = place.rpartition("#")
    return Log.open(path), int(partition)


def _log_schema(place: str) -> pa.Schema | None:
    log, partition = _log_parts(place)
    return next((stored.batch.schema for stored in log.reader(partition).read()), None)


def log_has_arrivals(place: str) -> bool:
    """Whether all rows of a partition tell when they arrived."""
    log, partition = _log_parts(place)
    return log.id is not None and log.reader(partition).has_arrivals


def _log(place: str, wanted: Wanted, groups: object) -> Batches:
    log, partition = _log_parts(place)
    for stored in log.reader(partition).read():
        yield stored_columns(stored, wanted.columns)


def stored_columns(stored: Stored, columns: Sequence[str]) -> pa.RecordBatch:
    """The columns that are asked for of rows of a log, and when they arrived if that is among them."""
    batch = stored.batch.select(present(columns, stored.batch.schema))
    if ARRIVAL not in columns:
        return batch
    if stored.arrival_ns is None:
        raise DataError("rows of a log of version 1 do not tell when they arrived; name a column of times")
    return with_arrivals(batch, stored.arrival_ns // 1_000)


def _generator(place: str) -> Any:
    """The generator that a place describes: where its class is, and the values of its fields."""
    path, fields = json.loads(place)
    return load_path(path)(**fields)


def _generated_schema(place: str) -> pa.Schema | None:
    return next((batch.schema for batch in _generator(place).batches(1)), None)


def _generated(place: str, wanted: Wanted, groups: object) -> Batches:
    for batch in _generator(place).batches(BATCH_EVENTS // 4):
        yield batch.select(list(wanted.columns))


LOG = Format((), _log_schema, _log, stores_arrivals=True)
GENERATED = Format((), _generated_schema, _generated)
