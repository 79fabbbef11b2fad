"""When an event was, by the time column of the stream, or that it cannot be said."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from headwater.language.time_columns import time_column
from headwater.language.times import TICK_NANOS, TIME_MAX
from headwater.reference.history import Arrived, StreamSettings

_ISO: Final = re.compile(
    r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]+))?)?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_BEGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)


def event_time(settings: StreamSettings, step: Arrived) -> int | None:
    """The time of an event in ticks; None if it has none, or one too far ahead of when it arrived.

    >>> from headwater.language.time_columns import epoch, iso
    >>> event_time(StreamSettings((), epoch("ts", "s")), Arrived("", 0, {"ts": 1715900000.1}))
    1715900000100000
    >>> event_time(StreamSettings((), iso("at")), Arrived("", 0, {"at": "1970-01-01T01:00:01+01:00"}))
    1000000
    """
    column = time_column(settings.time)
    value = step.row.get(column.name)
    match column.reading:
        case "epoch":
            time = _of_epoch(value, TICK_NANOS[column.unit])
        case "iso":
            time = _of_text(value)
        case "arrival":
            time = step.arrival
        case _:
            time = value if isinstance(value, int) and not isinstance(value, bool) else None
    if time is None or abs(time) > TIME_MAX:
        return None
    limit = None if step.arrival is None or settings.ahead_max is None else step.arrival + settings.ahead_max
    return None if limit is not None and time > limit else time


def _of_epoch(value: Any, tick: int) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value * tick // 1_000
    if not isinstance(value, float) or not math.isfinite(value) or abs(value) * (tick / 1_000) > 2**53:
        return None

    def written(micros: int) -> float:
        return micros * 1_000 / tick

    # The last microsecond that, written as a float of the unit, is not above the value.
    micros = math.floor(value * (tick / 1_000)) + 2
    while written(micros) > value:
        micros -= 1
    return micros


def _of_text(value: Any) -> int | None:
    found = _ISO.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    part, zone = (found[7] or "")[:6].ljust(6, "0"), (found[8] or "Z").upper()
    try:
        local = datetime(year, month, day, hour, minute, second, int(part), _zone(zone))
    except ValueError:
        return None
    return (local - _BEGIN) // timedelta(microseconds=1)


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    if int(digits[2:]) > 59:
        raise ValueError("no zone has so many minutes")
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-ahead if text[0] == "-" else ahead)
