"""Checks of a stream through Spark Connect: its batches run at the server, so some sinks and metrics cannot work."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

from headwater.errors import DataError
from headwater.spark.streaming.sinks import CallableSink, ConsoleSink, MemorySink

_NAMES = {MemorySink: "'memory'", ConsoleSink: "'console'", CallableSink: "a function"}
_THERE = "through Spark Connect batches run at the server"
_FORM = "give a folder, a LogSink or a KafkaSink"


def check_remote(sinks: Mapping[str, Any], metrics_port: int | None, progress: bool | None) -> None:
    """Refuse what would be lost without a word."""
    for what, sink in sinks.items():
        if type(sink) in _NAMES:
            raise DataError(
                f"{what} is {_NAMES[type(sink)]}: {_THERE}, and nothing of them would be seen here; {_FORM}"
            )
        _check_travels(what, sink)
    for name, value in (("metrics_port", metrics_port), ("progress", progress or None)):
        if value is not None:
            raise DataError(
                f"{name} is {value!r}: {_THERE}, and only stream.progress tells of them here; leave {name} out"
            )


def _check_travels(what: str, sink: Any) -> None:
    from pyspark import cloudpickle

    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    try:
        dumps(sink)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise DataError(f"{what} is {sink!r}: {_THERE}, and it cannot travel there ({error}); {_FORM}") from None
