"""How a run is doing while it runs: a table in a terminal that is drawn again and again, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.spark.streaming.watch.status import StreamStatus, scaled

REDRAWS_PER_SECOND: Final = 4
#: Seconds between two lines where there is no terminal.
LINE_SECONDS: Final = 5.0
#: What is further behind than this is not late, but old: then the time itself says more.
LAG_MAX_S: Final = 7 * 86_400.0

StatusSource = Callable[[], StreamStatus]


class Show:
    """Shows a run on standard error, which leaves standard output to rows and to the summary."""

    def __init__(
        self, out: TextIO | None = None, *, is_live: bool | None = None, seconds: float = LINE_SECONDS
    ) -> None:
        self._out = sys.stderr if out is None else out
        self._is_live = self._out.isatty() if is_live is None else is_live
        self._seconds = seconds
        self._source: StatusSource | None = None
        self._told_at = 0.0
        self._told = -1

    @classmethod
    def nobody(cls) -> Show:
        """For what nobody looks at."""
        return cls(is_live=False, seconds=float("inf"))

    @contextmanager
    def of(self, source: StatusSource) -> Iterator[None]:
        """In this ``with`` the run is shown."""
        self._source, self._told_at = source, time.monotonic()
        if not self._is_live:
            yield
            return
        console = Console(file=self._out, highlight=False)
        with Live(
            console=console,
            get_renderable=lambda: picture(source()),
            refresh_per_second=REDRAWS_PER_SECOND,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        ):
            yield

    def tick(self) -> None:
        """Called now and then: where there is no terminal a line is due every few seconds, if there is news."""
        if self._source is None or self._is_live or time.monotonic() - self._told_at < self._seconds:
            return
        self._told_at = time.monotonic()
        status = self._source()
        if status.batch != self._told:
            self._told = status.batch
            print(plain_line(status), file=self._out, flush=True)

    def say(self, *sentences: str) -> None:
        for sentence in sentences:
            print(sentence, file=self._out, flush=True)


def plain_line(status: StreamStatus) -> str:
    """One line for a file of logs.

    >>> plain_line(StreamStatus("load", 3, 1_500_000, 250_000.0, rows=7))
    'load: 1,500,000 events, 250.0 k events/s; 7 rows, 0 late, 0 malformed'
    """
    late = status.fate("late") + status.fate("dropped")
    return f"{heading(status)}; {status.rows:,} rows, {late:,} late, {status.fate('malformed'):,} malformed"


def picture(status: StreamStatus) -> Group:
    """The table of a run."""
    return Group(Text(heading(status), no_wrap=True, overflow="ellipsis"), _queries(status))


def heading(status: StreamStatus) -> str:
    """What holds for all queries.

    >>> heading(StreamStatus("load", 3, 1_500_000, 250_000.0, watermark_us=0, watermark_lag_s=2.5))
    'load: 1,500,000 events, 250.0 k events/s, 2.5 s behind'
    """
    if status.batch < 0:
        return f"{status.stream}: waiting for the first events"
    parts = [f"{status.events:,} events", f"{scaled(status.events_per_second).rstrip()} events/s"]
    if status.watermark_us is not None:
        lag = status.watermark_lag_s
        parts.append(
            f"{lag:.1f} s behind" if lag is not None and 0 <= lag < LAG_MAX_S else f"at {_moment(status.watermark_us)}"
        )
    if status.sources_idle:
        parts.append(f"{status.sources_idle} of {status.sources_active + status.sources_idle} sources idle")
    if status.standstill is not None:
        parts.append(status.standstill.line())
    return f"{status.stream}: {', '.join(parts)}"


def _moment(micros: int) -> str:
    try:
        return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return str(micros)


def _queries(status: StreamStatus) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("query")
    for name in ("events", "rows", "late", "malformed"):
        table.add_column(name, justify="right")
    for name, query in status.queries.items():
        late = query.fates.get("late", 0) + query.fates.get("dropped", 0)
        counts = (query.events_in, query.rows, late, query.fates.get("malformed", 0))
        table.add_row(name, *(f"{count:,}" for count in counts))
    return table
