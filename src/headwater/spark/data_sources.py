"""headwater's data sources, made known to a Spark session: ``spark.read.format("headwater")``, and that of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from headwater.spark.doors import check_spark, serves

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Sessions that know them already.
_KNOWING: WeakSet[Any] = WeakSet()


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("headwater")`` known to a session; `read` and `stream` do it by themselves."""
    from headwater.spark.batch.source import HeadwaterSource

    # Once: Spark warns of a source that takes the place of another.
    if spark not in _KNOWING:
        check_spark(spark, "hw.read")
        spark.dataSource.register(HeadwaterSource)
        if serves(spark, "hw.stream"):
            from headwater.spark.streaming.source import StreamSource

            spark.dataSource.register(StreamSource)
        _KNOWING.add(spark)
