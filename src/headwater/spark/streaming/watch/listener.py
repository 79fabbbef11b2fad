"""Spark's StreamingQueryListener for the status board: batch durations, input rows, watermark, state.

One listener serves any number of queries. Those of `hw.stream` bring their board, on which headwater's counts stand; any other
query gets one, on which Spark's counts stand for all there is to know.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql.streaming import listener as spark

from headwater.spark.streaming.watch.batch_log import log_event
from headwater.spark.streaming.watch.status import SparkProgress, StatusBoard, StreamStatus


class StatusListener(spark.StreamingQueryListener):
    """Add it with ``spark.streams.addListener(listener)``; `statuses` is what `metrics.serve` asks for.

    ``follows_all``: also queries that were not named by `follow`.
    """

    def __init__(self, *, follows_all: bool = True) -> None:
        self._lock = threading.RLock()
        self._follows_all = follows_all
        self._boards: dict[str, StatusBoard] = {}
        #: Queries whose rows are frames and not events.
        self._own: set[str] = set()
        self._names: dict[str, str] = {}

    def follow(self, query_id: object, board: StatusBoard) -> None:
        """Put what Spark says of this query on a board of headwater's; what was said before is not lost."""
        with self._lock:
            before = self._boards.get(str(query_id))
            self._boards[str(query_id)] = board
            self._own.add(str(query_id))
        if before is not None and (known := before.status().spark) is not None:
            board.spark_progressed(known)

    def statuses(self) -> list[StreamStatus]:
        """The statuses of all queries that are followed, in the order in which they began."""
        with self._lock:
            followed = [board for key, board in self._boards.items() if self._follows_all or key in self._own]
        return [board.status() for board in followed]

    # --- called by Spark, from threads of its own ---

    def onQueryStarted(self, event: spark.QueryStartedEvent) -> None:  # noqa: N802
        with self._lock:
            self._names[str(event.id)] = event.name or str(event.id)
        self._board(str(event.id))

    def onQueryProgress(self, event: spark.QueryProgressEvent) -> None:  # noqa: N802
        found = progress_of(event.progress)
        key = str(event.progress.id)
        self._board(key).spark_progressed(found, counts_events=key not in self._own)
        log_event(
            "spark batch",
            stream=self._names.get(key, key),
            batch=found.batch,
            rows=found.input_rows,
            seconds=found.seconds,
        )

    def onQueryTerminated(self, event: spark.QueryTerminatedEvent) -> None:  # noqa: N802
        key = str(event.id)
        board = self._board(key)
        board.ended()
        log_event("ended", stream=self._names.get(key, key), batch=board.status().batch, error=event.exception)

    def _board(self, key: str) -> StatusBoard:
        with self._lock:
            if key not in self._boards:
                self._boards[key] = StatusBoard(self._names.get(key, key))
            return self._boards[key]


def progress_of(progress: Mapping[str, Any]) -> SparkProgress:
    """A StreamingQueryProgress, or its JSON as a tree, as a value of ours.

    >>> progress_of({"batchId": 3, "numInputRows": 7, "durationMs": {"addBatch": 250}}).seconds
    {'addBatch': 0.25}
    """
    operators = progress.get("stateOperators") or ()
    return SparkProgress(
        batch=progress["batchId"],
        input_rows=progress.get("numInputRows") or 0,
        seconds={step: ms / 1000 for step, ms in (progress.get("durationMs") or {}).items()},
        input_rows_per_second=_finite(progress.get("inputRowsPerSecond")),
        processed_rows_per_second=_finite(progress.get("processedRowsPerSecond")),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        dropped_rows=sum(operator["numRowsDroppedByWatermark"] for operator in operators),
        watermark_us=_watermark((progress.get("eventTime") or {}).get("watermark")),
    )


def _finite(value: float | None) -> float:
    """Spark divides by the time passed, which may be nothing.

    >>> _finite(float("inf")), _finite(None), _finite(2.5)
    (0.0, 0.0, 2.5)
    """
    return float(value) if value is not None and abs(value) != float("inf") and value == value else 0.0


def _watermark(text: str | None) -> int | None:
    """Microseconds; None while there is none, for which Spark says 1970.

    >>> _watermark("2026-01-01T00:00:00.250Z"), _watermark("1970-01-01T00:00:00.000Z")
    (1767225600250000, None)
    """
    if text is None:
        return None
    passed = datetime.fromisoformat(text) - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds or None
