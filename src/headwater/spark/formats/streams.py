"""Segment logs and generators as formats: their places are partitions and objects, not files."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from headwater.language.user_code import load_path
from headwater.logs import Log
from headwater.spark.formats.file_range import BATCH_EVENTS, Batches, Format, Wanted, present


def _log_parts(place: str) -> tuple[Log, int]:
    path, _, partition = place.rpartition("#")
    return Log.open(path), int(partition)


def _log_schema(place: str) -> pa.Schema | None:
    log, partition = _log_parts(place)
    return next((stored.batch.schema for stored in log.reader(partition).read()), None)


def _log(place: str, wanted: Wanted, groups: object) -> Batches:
    log, partition = _log_parts(place)
    for stored in log.reader(partition).read():
        yield stored.batch.select(present(wanted.columns, stored.batch.schema))


def _generator(place: str) -> Any:
    """The generator that a place describes: where its class is, and the values of its fields."""
    path, fields = json.loads(place)
    return load_path(path)(**fields)


def _generated_schema(place: str) -> pa.Schema | None:
    return next((batch.schema for batch in _generator(place).batches(1)), None)


def _generated(place: str, wanted: Wanted, groups: object) -> Batches:
    for batch in _generator(place).batches(BATCH_EVENTS // 4):
        yield batch.select(list(wanted.columns))


LOG = Format((), _log_schema, _log)
GENERATED = Format((), _generated_schema, _generated)
