"""Sinks: where result rows go. A sink gets each batch at least once, and knows by its number whether it has it already.

Folders, segment logs and memory hold each row exactly once, whatever is run again; folders and logs belong to one stream
(`claim.py`) and one past of it (`timeline.py`). Console and callables see a batch again after a crash, with the same number.
Kafka is in the room `kafka/`, PostgreSQL in `postgres/`.
"""

from headwater.spark.streaming.sinks.folder import FolderSink
from headwater.spark.streaming.sinks.given import sink_of
from headwater.spark.streaming.sinks.log import LogSink
from headwater.spark.streaming.sinks.per_query import SinkPerQuery
from headwater.spark.streaming.sinks.sink import CallableSink, ConsoleSink, MemorySink, Sink
from headwater.spark.streaming.sinks.timeline import SinkError

__all__ = [
    "CallableSink",
    "ConsoleSink",
    "FolderSink",
    "LogSink",
    "MemorySink",
    "Sink",
    "SinkError",
    "SinkPerQuery",
    "sink_of",
]
