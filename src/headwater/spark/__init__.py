"""The host Spark: leaves run where events are read, the root behind them. Here is only translation.

For users: `read`, `aggregate` and `stream` (as ``hw.read`` and so on), and what they are given and give back. Rooms: `batch/` is
what `read` does, `formats/` reads its files, `counts/` finds count windows in them; `native/` plans in Spark's own operators for
`aggregate`, `dataframe_streams/` is `aggregate` of a streaming DataFrame, `explain/` says what it would do; `streaming/` is
`stream`. PySpark is imported only when one of these is called, libraries for Kafka only when they are.
"""

from typing import TYPE_CHECKING, Any

from headwater.spark.aggregate import aggregate
from headwater.spark.data_sources import register
from headwater.spark.dataframe_streams.aggregate import split_output
from headwater.spark.read import read
from headwater.spark.result_rows import by_query

if TYPE_CHECKING:
    from headwater.spark.streaming.kafka.input import KafkaInput
    from headwater.spark.streaming.kafka.sink import KafkaSink
    from headwater.spark.streaming.sinks import FolderSink, LogSink, SinkError
    from headwater.spark.streaming.start.handle import Stream, StreamError
    from headwater.spark.streaming.watch.status import StreamStatus

__all__ = [
    "FolderSink",
    "KafkaInput",
    "KafkaSink",
    "LogSink",
    "SinkError",
    "Stream",
    "StreamError",
    "StreamStatus",
    "aggregate",
    "by_query",
    "read",
    "register",
    "split_output",
]

#: What is imported when it is first used: not everyone has streams.
_LATER = {
    "FolderSink": "sinks",
    "KafkaInput": "kafka.input",
    "KafkaSink": "kafka.sink",
    "LogSink": "sinks",
    "SinkError": "sinks",
    "Stream": "start.handle",
    "StreamError": "start.handle",
    "StreamStatus": "watch.status",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'headwater.spark' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"headwater.spark.streaming.{_LATER[name]}"), name)
