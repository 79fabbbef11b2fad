"""Windows: which events belong together, as small frozen descriptions.

`tumbling`, `sliding` and `band` know their ends in advance. `session`, `punctuated`, `between`, `custom` and the count
windows are context windows: other events decide where they end. A description keeps what it was given, even if that is
wrong; the query it becomes part of lists its `problems` under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Literal, TypeVar

from headwater.errors import Problem, QueryError
from headwater.language import checks
from headwater.language.expressions import Expr, condition_or_given
from headwater.language.times import Duration, Nanos, duration_or_given, in_ticks, ticks_problem
from headwater.language.user_code import code_problems, load_path, path_of

Measure = Literal["time", "count"]
Per = Literal["all", "key"]
Rule = Callable[[str, object], Iterable[Problem]]
Cuts = Callable[[dict[str, Any], Any], tuple[Any, Any]]
_W = TypeVar("_W", bound="Window")
DURATION_RULES: Final = (checks.positive, checks.positive_or_none, checks.not_negative, checks.duration)


class Window:
    """What all windows have: a measure, whether other events decide their ends, and their durations in ticks."""

    __slots__ = ()
    measure: ClassVar[Measure] = "time"
    #: Other events decide where the window ends.
    is_context: ClassVar[bool] = True
    #: What each field may hold.
    rules: ClassVar[Mapping[str, Rule]]
    #: The fields that are durations, and those that are conditions.
    durations: ClassVar[tuple[str, ...]]
    markers: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        cls.durations = tuple(field for field, rule in cls.rules.items() if rule in DURATION_RULES)
        cls.markers = tuple(field for field, rule in cls.rules.items() if rule is checks.condition)

    def problems(self) -> Iterator[Problem]:
        """Everything wrong with the window as it was written.

        >>> [problem.field for problem in sliding("10 s", 0).problems()]
        ['slide']
        """
        for field, rule in self.rules.items():
            yield from rule(field, getattr(self, field))

    def conditions(self) -> tuple[Expr, ...]:
        """The conditions that mark its bounds."""
        return tuple(getattr(self, field) for field in self.markers)

    def resolved(self: _W, unit: str, query: str | None = None) -> _W:
        """The same window with every duration in ticks of `unit`; itself if they are already.

        `query` is the name for the message if a duration is no whole number of ticks.

        >>> sliding("1 min", "5 s").resolved("ms")
        Sliding(size=60000, slide=5000, offset=0)
        """
        real = {field: value for field in self.durations if isinstance(value := getattr(self, field), Nanos)}
        for field, value in real.items():
            problem = ticks_problem(value, unit, f"window.{field}")
            if problem is not None:
                raise QueryError.of(problem, query)
        ticks = {field: in_ticks(value, unit) for field, value in real.items()}
        return replace(self, **ticks) if ticks else self  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Sliding(Window):
    """[k * slide + offset, k * slide + offset + size) for every k; tumbling when size and slide are equal."""

    size: Duration
    slide: Duration
    offset: Duration = 0
    is_context = False
    rules: ClassVar = {"size": checks.positive, "slide": checks.positive, "offset": checks.duration}

    @property
    def is_tumbling(self) -> bool:
        """The windows touch and do not overlap."""
        return self.size == self.slide


@dataclass(frozen=True, slots=True)
class Band(Window):
    """[start, start + size), once; start is a time in the stream's ticks."""

    start: int
    size: Duration
    is_context = False
    rules: ClassVar = {"start": checks.time, "size": checks.positive}


@dataclass(frozen=True, slots=True)
class Session(Window):
    """A chain of events whose neighbours are at most `gap` apart: [first, last + gap)."""

    gap: Duration
    max_duration: Duration | None = None
    rules: ClassVar = {"gap": checks.positive, "max_duration": checks.positive_or_none}


@dataclass(frozen=True, slots=True)
class Punctuated(Window):
    """[marker, next marker): every event that matches cuts time.

    With `include_markers=False` the markers are members of no window.
    """

    marker: Expr
    include_markers: bool = True
    max_duration: Duration | None = None
    rules: ClassVar = {
        "marker": checks.condition,
        "include_markers": checks.flag,
        "max_duration": checks.positive_or_none,
    }


@dataclass(frozen=True, slots=True)
class Between(Window):
    """[start marker, end marker], both included; events outside belong to no window."""

    start: Expr
    end: Expr
    max_duration: Duration | None = None
    rules: ClassVar = {"start": checks.condition, "end": checks.condition, "max_duration": checks.positive_or_none}


@dataclass(frozen=True, slots=True)
class Custom(Window):
    """[cut, next cut), the cuts given by a user's function of the ordered events.

    It is called as `function(events, state) -> (cut_times, state)` with the next events of one key as a dict of arrays
    ("time", the columns the query reads and those named in `columns`); the first call gets the state None.
    """

    function: str | Cuts
    closes_after: Duration = 0
    columns: tuple[str, ...] = ()
    rules: ClassVar = {"function": code_problems, "closes_after": checks.not_negative, "columns": checks.names}

    def load(self) -> Cuts:
        """The function itself, imported if it was named by path."""
        loaded: Cuts = load_path(self.function) if isinstance(self.function, str) else self.function
        return loaded


@dataclass(frozen=True, slots=True)
class CountWindow(Window):
    """Positions [k * step, k * step + size) of the order, over all events or per key."""

    size: int
    step: int
    per: Per = "all"
    measure = "count"
    rules: ClassVar = {
        "size": checks.event_count,
        "step": checks.event_count,
        "per": partial(checks.one_of, allowed=("all", "key")),
    }

    @property
    def is_tumbling(self) -> bool:
        """The windows touch and do not overlap."""
        return self.size == self.step


def tumbling(size: object, offset: object = 0) -> Sliding:
    """Windows of one size, side by side, aligned to time 0 plus `offset`.

    >>> tumbling("10 s")
    Sliding(size='10 s', slide='10 s', offset=0)
    """
    length = duration_or_given(size)
    return Sliding(length, length, duration_or_given(offset))


def sliding(size: object, slide: object, offset: object = 0) -> Sliding:
    """Windows of one size, a new one every `slide`, aligned to time 0 plus `offset`.

    >>> sliding("1 min", "5 s")
    Sliding(size='1 min', slide='5 s', offset=0)
    """
    return Sliding(duration_or_given(size), duration_or_given(slide), duration_or_given(offset))


def band(start: int, size: object) -> Band:
    """One window, [start, start + size); `start` is a time in the stream's ticks.

    >>> band(1_000, 500)
    Band(start=1000, size=500)
    """
    return Band(_index(start), duration_or_given(size))


def session(gap: object, max_duration: object = None) -> Session:
    """Events that follow each other within `gap`; cut at first + max_duration if that is given.

    >>> session("30 s", max_duration="1 h")
    Session(gap='30 s', max_duration='1 h')
    """
    return Session(duration_or_given(gap), duration_or_given(max_duration))


def punctuated(marker: Expr, include_markers: bool = True, max_duration: object = None) -> Punctuated:
    """From one marker to the next; with `include_markers=False` the markers are members of no window.

    >>> from headwater.language.expressions import col
    >>> punctuated(col("kind") == "stop")
    Punctuated(marker=(col('kind') == 'stop'), include_markers=True, max_duration=None)
    """
    return Punctuated(condition_or_given(marker), include_markers, duration_or_given(max_duration))


def between(start: Expr, end: Expr, max_duration: object = None) -> Between:
    """From an event that matches `start` to the next that matches `end`, both included.

    >>> from headwater.language.expressions import col
    >>> between(col("door") == "open", col("door") == "shut").max_duration is None
    True
    """
    return Between(condition_or_given(start), condition_or_given(end), duration_or_given(max_duration))


def custom(function: str | Cuts, closes_after: object = 0, columns: Iterable[str] = ()) -> Custom:
    """Windows cut by a user's function, named by import path or given as a function that has one.

    It is given the columns that the query reads; `columns` names more.

    >>> custom("package.module:cuts", closes_after="5 s", columns=["door"])
    Custom(function='package.module:cuts', closes_after='5 s', columns=('door',))
    """
    # A function that has a path is kept as its path: the window then equals the one read back from JSON.
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    return Custom(path_of(function) or function, duration_or_given(closes_after), names)


def count_tumbling(size: int, per: Per = "all") -> CountWindow:
    """Windows of `size` events, side by side, over all events or per key.

    >>> count_tumbling(100, per="key")
    CountWindow(size=100, step=100, per='key')
    """
    return CountWindow(_index(size), _index(size), per)


def count_sliding(size: int, step: int, per: Per = "all") -> CountWindow:
    """Windows of `size` events, a new one every `step` events.

    >>> count_sliding(100, 10)
    CountWindow(size=100, step=10, per='all')
    """
    return CountWindow(_index(size), _index(step), per)


def _index(value: Any) -> Any:
    return int(value) if hasattr(value, "__index__") and not isinstance(value, bool) else value
