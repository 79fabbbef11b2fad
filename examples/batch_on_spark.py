"""Batch on Spark: three window queries over one DataFrame, in one pass; and one of them by Spark alone, to compare."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headwater as hw

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 4).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.conf.set("spark.sql.session.timeZone", "UTC")

# Ten minutes of three houses, 20 readings a second, and half a minute of silence in the middle.
events = spark.range(12_000).selectExpr(
    "timestamp_millis(1767225600000 + id * 50 + if(id < 6000, 0, 30000)) AS at",
    "concat('house ', id % 3) AS house",
    "(id * 7919) % 1000 AS watt",
)

queries = [
    hw.query("minute", hw.sliding("1 min", "10 s"), keys=["house"], top=hw.max("watt"), middle=hw.median("watt")),
    hw.query("active", hw.session("5 s"), keys=["house"], readings=hw.count()),
    hw.query("thousand", hw.count_tumbling(1_000), total=hw.sum("watt")),
]
rows = hw.aggregate(events, queries, time="at").cache()  # of files: hw.read(spark, "events/", queries, time="at")

of = hw.by_query(rows, queries)  # one table each, with the query's own columns
minutes = of["minute"].select("window_start", "window_end", "house", "top", "middle")
minutes.orderBy("window_end", "house").show(3)
of["active"].select("window_start", "window_end", "house", "readings").orderBy("window_end").show(3, truncate=False)
of["thousand"].select("position_start", "position_end", "total").orderBy("position_end").show(3)

# The first query by Spark alone.
alone = (
    events.groupBy(F.window("at", "1 minute", "10 seconds"), "house")
    .agg(F.max("watt").alias("top"), F.percentile("watt", F.lit(0.5)).alias("middle"))
    .select("window.start", "window.end", "house", "top", "middle")
)
same = minutes.count() == alone.count() == alone.intersect(minutes).count()
print(f"Spark's window() gives the same {minutes.count()} rows: {'yes' if same else 'no'}")
