"""Time: the int64 domain of event times, and durations as a user writes them.

Event times are integers in any unit (ticks). A duration is either a plain integer, meant in the stream's own ticks, or
`Nanos`, a length of real time that becomes ticks once the unit of the stream is known.
"""

from __future__ import annotations

import operator
import re
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, SupportsIndex

from headwater.errors import Problem, QueryError

#: An event time outside [-TIME_MAX, TIME_MAX] is malformed, so that every window bound fits int64.
TIME_MAX: Final = 2**62
#: The longest duration in ticks; time plus duration stays far inside int64.
DURATION_MAX: Final = 2**61
#: The watermark before anything is known, and the one after the end of a stream.
NEVER: Final = -(2**63)
FOREVER: Final = 2**63 - 1

#: Units of a stream's ticks, in nanoseconds.
TICK_NANOS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

# From the longest to the shortest: the canonical text uses the longest unit that gives a whole number.
_UNITS: Final = {
    "w": 604_800_000_000_000,
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "min": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
_SPELLINGS: Final = {
    "w": ("week", "weeks"),
    "d": ("day", "days"),
    "h": ("hr", "hrs", "hour", "hours"),
    "min": ("m", "mins", "minute", "minutes"),
    "s": ("sec", "secs", "second", "seconds"),
    "ms": ("milli", "millis", "millisecond", "milliseconds"),
    # Two spellings of the micro sign look the same: U+00B5 and the Greek letter U+03BC.
    "us": ("\u00b5s", "\u03bcs", "micro", "micros", "microsecond", "microseconds"),
    "ns": ("nano", "nanos", "nanosecond", "nanoseconds"),
}
_NANOS_OF: Final = {word: _UNITS[unit] for unit, words in _SPELLINGS.items() for word in (unit, *words)}
_PART: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z\u00b5\u03bc]+)\s*", re.ASCII)

#: What to write instead of a duration that cannot be read.
DURATION_FORM: Final = "write a duration such as '10 s', '5 min', '250 ms', a timedelta, or an integer of ticks"


class Nanos(int):
    """A duration of real time, in nanoseconds; its text is the form a user writes.

    Ten nanoseconds are not ten ticks: a `Nanos` is equal only to another `Nanos`.

    >>> Nanos(10_000_000_000), str(Nanos(90_000_000_000)), Nanos(10) == 10
    ('10 s', '90 s', False)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nanos) and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Nanos, int(self)))

    def __str__(self) -> str:
        size = abs(int(self))
        for unit, nanos in _UNITS.items():
            if size % nanos == 0:
                return f"{'-' if int(self) < 0 else ''}{size // nanos} {unit}"
        raise AssertionError("every integer is a whole number of nanoseconds")

    def __repr__(self) -> str:
        return repr(str(self))


#: A checked duration: `Nanos` of real time, or an int of the stream's own ticks.
Duration = int


def duration(value: object) -> Duration:
    """Read a duration: text and timedelta give `Nanos`, an integer stays what it is (ticks of the stream).

    Zero needs no unit and is always the plain 0.

    >>> duration("10 s"), duration("1.5 ms"), duration("1 min 30 s"), duration(500), duration("0 s")
    ('10 s', '1500 us', '90 s', 500, 0)
    >>> duration("ten seconds")
    Traceback (most recent call last):
    headwater.errors.QueryError: duration is 'ten seconds': write a duration such as '10 s', '5 min', '250 ms',
        a timedelta, or an integer of ticks
    """
    read = try_duration(value)
    if read is None:
        raise QueryError.of(Problem("duration", value, DURATION_FORM))
    return read


def try_duration(value: object) -> Duration | None:
    """Like `duration`, with None for what cannot be read."""
    if type(value) is int or isinstance(value, Nanos):
        return value
    if isinstance(value, str):
        nanos = _nanos_of_text(value)
    elif isinstance(value, timedelta):
        nanos = (value // timedelta(microseconds=1)) * 1_000
    elif isinstance(value, SupportsIndex) and not isinstance(value, bool):
        return operator.index(value)
    else:
        return None
    return nanos if nanos is None or nanos == 0 else Nanos(nanos)


def duration_or_given(value: Any) -> Any:
    """A duration, or the value itself if it cannot be read: then the query says what is wrong, under its own name."""
    read = try_duration(value)
    return value if read is None else read


def in_ticks(value: Duration, unit: str) -> int:
    """A duration in ticks of `unit` ("ns", "us", "ms" or "s"), exactly; a plain integer is in ticks already.

    >>> in_ticks(duration("1.5 s"), "ms"), in_ticks(7, "ms")
    (1500, 7)
    >>> in_ticks(duration("1.5 s"), "s")
    Traceback (most recent call last):
    headwater.errors.QueryError: duration is '1500 ms': the stream's times are in s; give a whole number of s
    """
    problem = ticks_problem(value, unit)
    if problem is not None:
        raise QueryError.of(problem)
    return int(value) // TICK_NANOS[unit] if isinstance(value, Nanos) else value


def ticks_problem(value: Duration | None, unit: str, field: str = "duration") -> Problem | None:
    """What keeps a duration from being a whole number of ticks of `unit`, if anything does."""
    if unit not in TICK_NANOS:
        return Problem("unit", unit, "the unit of a stream's ticks is one of 'ns', 'us', 'ms', 's'")
    if not isinstance(value, Nanos):
        return None
    ticks, rest = divmod(int(value), TICK_NANOS[unit])
    if rest:
        return Problem(field, value, f"the stream's times are in {unit}; give a whole number of {unit}")
    if abs(ticks) > DURATION_MAX:
        return Problem(field, value, f"give at most 2**61 ticks ({unit})")
    return None


@lru_cache(maxsize=4096)
def _nanos_of_text(text: str) -> int | None:
    text = text.strip()
    sign = -1 if text.startswith("-") else 1
    rest = text.removeprefix("-").lower()
    total = Decimal(0)
    position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or part[2] not in _NANOS_OF:
            return None
        total += Decimal(part[1]) * _NANOS_OF[part[2]]
        position = part.end()
    if position == 0 or total != int(total):
        return None
    return sign * int(total)
