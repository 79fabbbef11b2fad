"""Functions of headwater's modules, run inside Spark tasks, and the error for what cannot happen there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.spark.shipped import carried, install
from headwater.spark.types import spark_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def bug(what: str) -> HeadwaterError:
    """The error for what cannot happen: Spark loses nothing and doubles nothing."""
    return HeadwaterError(f"{what}; this is a bug in headwater; please report it with the queries and this message")


def in_tasks(
    frame: DataFrame, schema: pa.Schema, function: Callable[..., Iterator[pa.RecordBatch]], /, *given: Any, **named: Any
) -> DataFrame:
    """Run ``function(*given, batches, **named)`` over the batches of each partition: rows with the columns of ``schema``.

    It is a function of a module: workers import it by its name, and only the arguments travel; with what was shipped.
    """
    task = partial(function, *given, **named)
    code = carried()
    return frame.mapInArrow(partial(_with_code, code, task) if code else task, spark_types(schema)[1])


def _with_code(
    code: Mapping[str, bytes],
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    install(code)
    return task(batches)
