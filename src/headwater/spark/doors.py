"""What is given at a door of Spark, checked by what it is: whoever comes to the wrong one is told the right one."""

from __future__ import annotations

import os
from typing import Any

from headwater.errors import DataError, shown
from headwater.language.arguments import data_kind
from headwater.language.query import Query

_AGGREGATE = "hw.aggregate(df, queries) answers queries over a DataFrame of Spark"
_RUN = "hw.run(table, queries) answers queries over a table in this process"


def check_session(spark: Any, door: str) -> None:
    """Refuse anything but a session in front."""
    if hasattr(type(spark), "readStream"):
        return
    given = data_kind(spark) or shown(spark)
    raise DataError(f"spark is {given}: {door} takes the SparkSession first, {door}(spark, source, queries)")


def check_source_kind(source: Any, door: str) -> None:
    """Refuse tables and queries where files or streams are meant."""
    given = data_kind(source)
    if given is not None:
        right = "give it first" if given == "a SparkSession" else _AGGREGATE if "Spark" in given else _RUN
        raise DataError(f"source is {given}: {door}(spark, source, queries) reads files, logs and generators; {right}")
    if isinstance(source, Query) or source is None:
        raise DataError(f"source is {shown(source)}: say what to read, {door}(spark, source, queries)")


def check_frame(df: Any) -> None:
    """Refuse anything but a DataFrame of Spark."""
    if type(df).__module__.startswith("pyspark.") and hasattr(type(df), "isStreaming"):
        return
    given = data_kind(df)
    if given == "a SparkSession":
        right = "it takes a DataFrame first; hw.read(spark, path, queries) reads files"
    elif given is not None:
        right = f"{_RUN}; spark.createDataFrame makes it a DataFrame of Spark"
    elif isinstance(df, str | os.PathLike):
        right = "hw.read(spark, path, queries) reads files; spark.table(name) and spark.read give DataFrames"
    else:
        right = "it takes a DataFrame of Spark first, hw.aggregate(df, queries)"
    raise DataError(f"df is {given or shown(df)}: hw.aggregate answers queries over DataFrames of Spark; {right}")
