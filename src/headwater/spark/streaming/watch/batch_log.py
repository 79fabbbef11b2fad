"""Structured logs: one JSON object per line, with the stream and the batch, through the standard library's logging.

The logger `headwater.stream` writes plain lines; `json_lines` makes them machine-readable:

    {"time": "2026-05-01T12:00:00.250Z", "level": "info", "event": "batch done", "stream": "load", "batch": 7, "events": 250000}
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from headwater.spark.streaming.watch.standstill import Standstill
from headwater.spark.streaming.watch.status import FATES, StreamStatus

LOGGER = logging.getLogger("headwater.stream")
#: The attribute of a log record that holds the fields.
_FIELDS = "headwater"


def log_event(event: str, *, stream: str, batch: int, level: int = logging.INFO, **fields: Any) -> None:
    """Log what happened in a batch; fields that are None are left out. An error makes it a line of level error."""
    known = {name: value for name, value in fields.items() if value is not None}
    if known.get("error"):
        level = logging.ERROR
    if LOGGER.isEnabledFor(level):
        details = "".join(f" {name}={value}" for name, value in known.items())
        # `%s`: a value may hold a percent sign.
        LOGGER.log(
            level, "%s", f"{stream} batch {batch}: {event}{details}", extra={_FIELDS: (event, stream, batch, known)}
        )


def log_status(status: StreamStatus) -> None:
    """One line per batch that is done: everything by which two batches are compared."""
    log_event("batch done", stream=status.stream, batch=status.batch, **status_fields(status))


def log_problem(status: StreamStatus, source: str, path: str, reason: str) -> None:
    """Log, as a warning, that not all of a file is read."""
    fields: dict[str, Any] = {"source": source, "path": path, "reason": reason}
    log_event("not all of a file is read", stream=status.stream, batch=status.batch, **fields, level=logging.WARNING)


def log_standstill(status: StreamStatus, standstill: Standstill) -> None:
    """One line for a stream that stands still: whom it waits for, and what ``idle`` would do."""
    log_event(
        "no progress",
        stream=status.stream,
        batch=status.batch,
        level=logging.WARNING,
        seconds=round(standstill.seconds),
        waits_for=list(standstill.sources),
        why=standstill.why,
    )


def status_fields(status: StreamStatus) -> dict[str, Any]:
    """What is logged of a status.

    >>> fields = status_fields(StreamStatus(events=5, batch_seconds=0.25))
    >>> fields["events"], fields["batch_seconds"], fields["late"]
    (5, 0.25, 0)
    """
    lag = status.watermark_lag_s
    return {
        "events": status.events,
        "events_per_second": round(status.events_per_second),
        "rows": status.rows,
        "watermark_us": status.watermark_us,
        "watermark_lag_seconds": None if lag is None else round(lag, 3),
        **{fate: status.fate(fate) for fate in FATES},
        "open_windows": status.open_windows,
        "state_bytes": status.state_bytes,
        "link_bytes": sum(status.link_bytes.values()),
        "batch_seconds": round(status.batch_seconds, 4),
        "sources_active": status.sources_active,
        "sources_idle": status.sources_idle,
    }


class JsonFormatter(logging.Formatter):
    """A log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, Any] = {"time": when, "level": record.levelname.lower()}
        if (held := getattr(record, _FIELDS, None)) is not None:
            event, stream, batch, fields = held
            # The fields last, and never in the place of another's name.
            line |= {"event": event, "stream": stream, "batch": batch}
            line |= {name: value for name, value in fields.items() if name not in line}
        else:
            line["event"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


@contextmanager
def json_lines(out: TextIO | None = None, level: int = logging.INFO) -> Iterator[logging.Handler]:
    """Log streams to ``out`` (default: stderr) as JSON lines, as long as the `with` lasts.

    >>> with json_lines(sys.stdout):
    ...     log_event("batch done", stream="load", batch=7, events=250_000)  # doctest: +ELLIPSIS
    {"time": "...Z", "level": "info", "event": "batch done", "stream": "load", "batch": 7, "events": 250000}
    """
    handler = logging.StreamHandler(out or sys.stderr)
    handler.setFormatter(JsonFormatter())
    before = LOGGER.level
    LOGGER.addHandler(handler)
    # The least of both: another handler may want more.
    LOGGER.setLevel(min(level, before) if before else level)
    try:
        yield handler
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)
