"""A stream on Spark: files come to a folder, rows leave for another; stopped and started again, it goes on where it was.

`hw.stream` aggregates in the tasks that read the files, so that only partial results travel. Everything it knows is in
its checkpoint: kill it at any moment, start it again, and each row is in the sink exactly once.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import headwater as hw

SECOND = 1_000_000

queries = [
    hw.query("load", hw.tumbling("10 s"), keys=["house"], lateness="30 s", total=hw.sum("load")),
    hw.query("hundred", hw.count_tumbling(100), highest=hw.max("load")),
]


def put(folder, name, seconds, loads):
    """One more file. It has to appear whole: written under a name that begins with `_`, then renamed."""
    house = folder / "ash"  # each folder is a source, in the order in which its files come
    house.mkdir(parents=True, exist_ok=True)
    times = [round(second * SECOND) for second in seconds]
    pq.write_table(pa.table({"time": times, "house": ["ash"] * len(times), "load": loads}), house / f"_{name}")
    (house / f"_{name}").rename(house / f"{name}.parquet")


def show(rows):
    """What the sink holds, in order."""
    order = ("query", "window_start", "position_start", "revision")
    for row in rows.sort_by([(name, "ascending") for name in order]).to_pylist():
        value = f"total {row['total']:g}" if row["query"] == "load" else f"highest {row['highest']}"
        if row["query"] == "load":
            start, end = row["window_start"] // SECOND, row["window_end"] // SECOND
        else:
            start, end = row["position_start"], row["position_end"]  # a count window has no bounds in time
        print(f"  {row['query']:<8} {start:>3} .. {end:<3} {value:<11} revision {row['revision']}")


spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 4).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
with TemporaryDirectory() as name:
    place = Path(name)
    settings = {"checkpoint": place / "checkpoint", "sink": place / "windows", "disorder": "1 s", "progress": False}
    put(place / "in", "first", [i / 10 for i in range(250)], [i % 7 for i in range(250)])
    hw.stream(spark, place / "in", queries, trigger="available now", **settings).await_end()  # reads what is there
    print("after the first file; what is still open waits in the checkpoint:")
    show(pq.read_table(place / "windows"))

    put(place / "in", "second", [3.0, *(25 + i / 10 for i in range(150))], [1_000, *range(150)])  # 3 s comes late
    hw.stream(spark, place / "in", queries, trigger="available now", **settings).await_end()
    stream = hw.stream(spark, place / "in", queries, **settings)  # and a third time, until it is told to end
    stream.flush()
    print("after the second file and the end of the stream:")
    show(pq.read_table(place / "windows"))
