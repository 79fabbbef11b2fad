"""Which Spark serves which door.

What a door needs: data sources in Python that give Arrow batches (4.0), `transformWithState` in Python (4.1), and limits of what
a streaming source in Python reads in one batch (4.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

from headwater.spark.setup import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Version = tuple[int, ...]
#: The oldest Spark of each door.
DOORS: dict[str, Version] = {
    "hw.read": (4, 0),
    "hw.aggregate": (4, 0),
    "hw.aggregate of a streaming DataFrame": (4, 1),
    "hw.stream": (4, 2),
}


def check_spark(spark: SparkSession, door: str) -> None:
    """Refuse a Spark that is too old for a door, and say which doors it has. Through Connect the server counts as well."""
    import pyspark

    refuse_old(pyspark.__version__, door)
    refuse_old(str(spark.version), door)


def serves(spark: SparkSession, door: str) -> bool:
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
    version = _numbers(found)
    if version >= least:
        return
    served = [each for each, needed in DOORS.items() if version >= needed]
    there = f"this one serves {', '.join(served[:-1])} and {served[-1]}" if served else ""
    instead = there or "without Spark hw.run and hw.Engine answer the same queries"
    raise SetupError(f"this is Spark {found}, and {door} needs Spark {'.'.join(map(str, least))} or newer; {instead}")


def in_utc(function: Callable[..., Any]) -> dict[str, str]:
    """How a function of PySpark that makes Arrow types is told that timestamps are in UTC; before 4.2 it knows nothing else."""
    return {"timezone": "UTC"} if "timezone" in signature(function).parameters else {}


def _numbers(text: str) -> Version:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])
