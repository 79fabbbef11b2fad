"""Rows as a DataFrame of Spark, for a user's function: whatever Spark writes to is a sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.errors import DataError
from headwater.spark.streaming.sinks.sink import Sink
from headwater.spark.streaming.sinks.timeline import Claimant
from headwater.spark.types import spark_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def foreach_batch(function: Callable[[DataFrame, int], Any]) -> ForeachBatchSink:
    """A sink that calls ``function(rows, batch)`` on the driver for each batch that has rows, with a DataFrame of Spark.

    At least once: after a crash a batch comes again, with the same number and the same rows.
    """
    return ForeachBatchSink(function)


class ForeachBatchSink(Sink):
    """Hands each batch that has rows to a function of (DataFrame, batch). Write it with `foreach_batch(...)`."""

    def __init__(self, function: Callable[[DataFrame, int], Any]) -> None:
        if not callable(function):
            raise DataError(f"foreach_batch of {function!r}: give a function of (rows, batch), rows being a DataFrame")
        self._function = function
        self._stream: Claimant | None = None

    def open(self, stream: Claimant) -> None:
        self._stream = stream

    def write(self, batch: int, rows: pa.Table) -> None:
        if len(rows):
            self._function(frame_of(rows, session_of(self._stream)), batch)


def session_of(stream: Claimant | None) -> SparkSession:
    """Spark's session of the batch that is being written."""
    session = None if stream is None else stream.session()
    if session is None:
        raise DataError("this sink writes through Spark: it is for hw.stream, which opens it")
    found: SparkSession = session
    return found


def frame_of(rows: pa.Table, spark: SparkSession) -> DataFrame:
    """Rows as a DataFrame."""
    wanted, schema = spark_types(rows.schema)
    return spark.createDataFrame(rows.cast(wanted), schema=schema)
