"""Everything that watches a stream while it runs: its status, a line in a terminal, metrics, logs. Nothing depends on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.errors import DataError, HeadwaterError
from headwater.language.query import Query
from headwater.protocols.actions import Noted
from headwater.spark.streaming.watch.batch_log import log_problem, log_standstill, log_status
from headwater.spark.streaming.watch.page_board import PageStart, StreamPageBoard
from headwater.spark.streaming.watch.status import StatusBoard, StreamStatus, line, now_us
from headwater.spark.terminal import TERMINAL, Terminal, is_terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.page.server import PageServer
    from headwater.spark.streaming.watch.listener import StatusListener
    from headwater.spark.streaming.watch.metrics import MetricsServer

#: How often it is looked whether a stream stands still: without events there are no batches that would say so.
LOOK_SECONDS = 1.0


def _nothing() -> None: ...


class StreamObserver:
    """Watches one stream. ``metrics_port``: where Prometheus may ask, 0 for any port that is free, None for nowhere.

    ``metrics_host``: who may ask there; by default this machine. ``page``: what the live page needs, if there is one.
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
        metrics_host: str = "127.0.0.1",
        page: PageStart | None = None,
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
        self._end: Callable[[], str | None] = lambda: None
        self.metrics: MetricsServer | None = None
        if metrics_port is not None:
            self.metrics = _metrics().serve(self._board.status, metrics_port, metrics_host)
        self._page_board: StreamPageBoard | None = None
        self.page: PageServer | None = None
        if page is not None:
            self._page_board, self.page = _open(page, self.status, unit, clock)
        self._terminal = terminal
        self._is_live = is_terminal() if progress is None else progress
        if self._is_live:
            terminal.show(self, lambda: line(self.status()))

    def status(self) -> StreamStatus:
        return replace(self._board.status(), files_with_problems=len(self._logged))

    def begin(
        self,
        spark: SparkSession,
        query_id: object,
        looks: Callable[[], None] = _nothing,
        end: Callable[[], str | None] = lambda: None,
    ) -> None:
        """The stream has started: hear what Spark says of it, if anybody looks; to be told costs Spark some 20 ms a batch.

        ``looks``: what else looks after it, now and then. ``end``: None while it runs, then what stopped it, or nothing. A page
        asks for it, and does without Spark's own account.
        """
        self._looks, self._end = looks, end
        threading.Thread(target=self._look_on, name="headwater standstill", daemon=True).start()
        if self.metrics is None and not self._is_live:
            return
        from headwater.spark.streaming.watch.listener import StatusListener

        self._listener = StatusListener(follows_all=False)
        self._listener.follow(query_id, self._board)
        self._spark = spark
        spark.streams.addListener(self._listener)

    def rows_out(self, rows: pa.Table, queries: Mapping[str, Query] | None = None) -> None:
        """Rows of these queries have reached the sink."""
        if len(rows):
            self._board.rows_out(rows)
        if self._page_board is not None:
            self._page_board.rows_out(rows, queries or {})

    def aside_out(self, tables: Sequence[pa.Table]) -> None:
        """Events have been set aside."""
        if self._page_board is not None:
            self._page_board.aside_out(tables)

    def batch_done(self, status: Mapping[str, Any], notes: Sequence[Noted] = ()) -> None:
        self._board.batch_done(status)
        if self._page_board is not None:
            self._page_board.batch_done(status, notes)
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
                if self._page_board is not None:
                    self._page_board.happened("problem", f"not all of {path} is read: {reason}")
        if (standstill := self._board.standstill_to_log()) is not None:
            log_standstill(self._board.status(), standstill)
        if self._page_board is not None:
            self._page_board.look()

    def _look_on(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            self.look()
            self._looks()
            self._look_for_the_end()

    def _look_for_the_end(self) -> None:
        # Spark may be gone before the stream's handle is.
        with suppress(Exception):
            if self._page_board is not None and (end := self._end()) is not None:
                self._board.ended()
                self._page_board.ended(end)

    def close(self) -> None:
        self._closed.set()
        self._board.ended()
        self._terminal.clear(self)
        if self.metrics is not None:
            self.metrics.close()
        if self._page_board is not None and self.page is not None:
            self._page_board.ended()
            self.page.close()
        if self._spark is not None and self._listener is not None:
            # Spark may be gone before the stream's handle is.
            with suppress(Exception):
                self._spark.streams.removeListener(self._listener)


def _metrics() -> ModuleType:
    try:
        from headwater.spark.streaming.watch import metrics
    except ImportError:
        raise DataError(
            "metrics_port is given, but prometheus-client is not installed: pip install prometheus-client"
        ) from None
    return metrics


def _open(
    page: PageStart, status: Callable[[], StreamStatus], unit: str, clock: Callable[[], int]
) -> tuple[StreamPageBoard, PageServer]:
    """The board of a page, and who shows it. Metrics are there too if Prometheus' library is."""
    from headwater.page.server import PageServer

    board = StreamPageBoard(status, unit, event_bytes=page.event_bytes, events_before=page.events_before, clock=clock)
    board.happened("start", page.began)
    scraped = None
    with suppress(DataError):
        scraped = _metrics().exposition(status)
    return board, PageServer(board, page.listening, metrics=scraped)
