"""What is given at a door of Spark, checked by what it is: whoever comes to the wrong one is told the right one.

And whether this Spark has the door. What each needs: data sources in Python that give Arrow batches (4.0), `transformWithState`
in Python (4.1), and limits of what a streaming source in Python reads in one batch (4.2).
"""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from headwater.errors import DataError, shown
from headwater.language.arguments import data_kind
from headwater.language.query import Query
from headwater.spark.setup import SetupError

Version = tuple[int, ...]
#: The oldest Spark of each door.
DOORS: dict[str, Version] = {
    "hw.read": (4, 0),
    "hw.aggregate": (4, 0),
    "hw.aggregate of a streaming DataFrame": (4, 1),
    "hw.stream": (4, 2),
}
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


def check_spark(spark: Any, door: str) -> None:
    """Refuse a Spark that is too old for a door, and say which doors it has. Through Connect the server counts as well."""
    import pyspark

    refuse_old(pyspark.__version__, door)
    refuse_old(str(spark.version), door)


def check_installed(door: str) -> None:
    """The same before there is a session, of the PySpark that is installed. One that does not say its version is let in."""
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return
    refuse_old(found, door)


def serves(spark: Any, door: str) -> bool:
    """Whether a door can be used."""
    try:
        check_spark(spark, door)
    except SetupError:
        return False
    return True


def refuse_old(found: str, door: str) -> None:
    """SetupError if this version of Spark is too old for a door.

    >>> refuse_old("4.1.4", "hw.read")
    >>> refuse_old("4.1.4", "hw.stream")
    Traceback (most recent call last):
    headwater.spark.setup.SetupError: this is Spark 4.1.4, and hw.stream needs Spark 4.2 or newer; this one serves hw.read,
        hw.aggregate and hw.aggregate of a streaming DataFrame
    >>> refuse_old("3.5.5", "hw.aggregate")
    Traceback (most recent call last):
    headwater.spark.setup.SetupError: this is Spark 3.5.5, and hw.aggregate needs Spark 4.0 or newer; without Spark hw.run and
        hw.Engine answer the same queries
    """
    least = DOORS[door]
    numbers = _numbers(found)
    if numbers >= least:
        return
    served = [each for each, needed in DOORS.items() if numbers >= needed]
    there = f"this one serves {', '.join(served[:-1])} and {served[-1]}" if served else ""
    instead = there or "without Spark hw.run and hw.Engine answer the same queries"
    raise SetupError(f"this is Spark {found}, and {door} needs Spark {'.'.join(map(str, least))} or newer; {instead}")


def _numbers(text: str) -> Version:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])
