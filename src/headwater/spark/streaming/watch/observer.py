"""Everything that watches a stream while it runs: its status, a line in a terminal, metrics, logs. Nothing depends on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.errors import DataError, HeadwaterError
from headwater.spark.streaming.watch.batch_log import log_problem, log_standstill, log_status
from headwater.spark.streaming.watch.status import StatusBoard, StreamStatus, line, now_us
from headwater.spark.terminal import TERMINAL, Terminal, is_terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.spark.streaming.watch.listener import StatusListener
    from headwater.spark.streaming.watch.metrics import MetricsServer

#: How often it is looked whether a stream stands still: without events there are no batches that would say so.
LOOK_SECONDS = 1.0


def _nothing() -> None: ...


class StreamObserver:
    """Watches one stream. ``metrics_port``: where Prometheus may ask, 0 for any port that is free, None for nowhere.

    ``progress``: whether a line in the terminal shows how it is; by default if there is a terminal. ``problems``: source, path
    and reason of each file of which not all is read; they are counted, and each is logged once.
    """

    def __init__(
        self,
        name: str,
        unit: str,
        untimed: frozenset[str],
        *,
        metrics_port: int | None,
        progress: bool | None,
        terminal: Terminal = TERMINAL,
        clock: Callable[[], int] = now_us,
        problems: Callable[[], Iterable[tuple[str, str, str]]] = tuple,
    ) -> None:
        self._board = StatusBoard(name, unit=unit, untimed=untimed, clock=clock)
        self._problems = problems
        self._logged: set[tuple[str, str, str]] = set()
        self._listener: StatusListener | None = None
        self._spark: SparkSession | None = None
        self._closed = threading.Event()
        self._looks: Callable[[], None] = _nothing
        self.metrics: MetricsServer | None = None if metrics_port is None else _serve(self._board, metrics_port)
        self._terminal = terminal
        self._is_live = is_terminal() if progress is None else progress
        if self._is_live:
            terminal.show(self, lambda: line(self.status()))

    def status(self) -> StreamStatus:
        return replace(self._board.status(), files_with_problems=len(self._logged))

    def begin(self, spark: SparkSession, query_id: object, looks: Callable[[], None] = _nothing) -> None:
        """The stream has started: hear what Spark says of it, if anybody looks; to be told costs Spark some 20 ms a batch.

        ``looks``: what else looks after it, now and then.
        """
        self._looks = looks
        threading.Thread(target=self._look_on, name="headwater standstill", daemon=True).start()
        if self.metrics is None and not self._is_live:
            return
        from headwater.spark.streaming.watch.listener import StatusListener

        self._listener = StatusListener(follows_all=False)
        self._listener.follow(query_id, self._board)
        self._spark = spark
        spark.streams.addListener(self._listener)

    def rows_out(self, rows: pa.Table) -> None:
        """Rows have reached the sink."""
        if len(rows):
            self._board.rows_out(rows)

    def batch_done(self, status: Mapping[str, Any]) -> None:
        self._board.batch_done(status)
        log_status(self._board.status())
        self.look()

    def look(self) -> None:
        """Tell the log if the stream stands still, and of files of which not all is read."""
        # The planner stops the stream if it cannot list them; here nobody needs to.
        with suppress(HeadwaterError, OSError):
            found = {*self._problems()}
            news, self._logged = found - self._logged, found
            for source, path, reason in sorted(news):
                log_problem(self._board.status(), source, path, reason)
        if (standstill := self._board.standstill_to_log()) is not None:
            log_standstill(self._board.status(), standstill)

    def _look_on(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            self.look()
            self._looks()

    def close(self) -> None:
        self._closed.set()
        self._board.ended()
        self._terminal.clear(self)
        if self.metrics is not None:
            self.metrics.close()
        if self._spark is not None and self._listener is not None:
            # Spark may be gone before the stream's handle is.
            with suppress(Exception):
                self._spark.streams.removeListener(self._listener)


def _serve(board: StatusBoard, port: int) -> MetricsServer:
    try:
        from headwater.spark.streaming.watch.metrics import serve
    except ImportError:
        raise DataError(
            "metrics_port is given, but prometheus-client is not installed: pip install prometheus-client"
        ) from None
    return serve(board.status, port)
