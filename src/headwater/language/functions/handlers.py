"""Handlers: methods that are called when a window of their states is final on all partitions.

``@hw.when_final(total, mine)`` names the states. The method is called with the window and one value for each state, in their
order: a plain value, or a dict of them if the state has several; an Arrow table, a row for each key, if it has keys. It may
yield rows, as dicts. An ``async def`` may also await windows of earlier stages.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headwater.errors import QueryError, shown

_MARK: Final = "__headwater_when_final__"
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class WindowRead:
    """The window that a handler is called with. Bounds are what rows show; ``position`` are those of a count window.

    ``revision`` counts how often the window was final before: late members of a state with lateness change windows.

    >>> WindowRead(10, 20)
    WindowRead(start=10, end=20, revision=0, position=None)
    """

    start: Any
    end: Any
    revision: int = 0
    position: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WhenFinal:
    """What a decorator said of a method: the states that it reads, as they were named, and whether it runs once for all."""

    states: tuple[Any, ...]
    once: bool


def when_final(*states: Any, once: bool = False) -> Callable[[_F], _F]:
    """Call the method below once for each window of these states, when it is final on all partitions.

    Each partition calls it. With ``once`` one does for all, so that rows about the whole are there once; it may then read
    nothing of one partition.

    >>> import headwater as hw
    >>> class Bids(hw.ProcessingFunction):
    ...     total = hw.WindowedCRDT(hw.count(), hw.tumbling("1 s"))
    ...
    ...     @hw.when_final(total, once=True)
    ...     def report(self, w, total):
    ...         yield {"window_end": w.end, "bids": total}
    >>> list(Bids().report(WindowRead(0, 1), 7))
    [{'window_end': 1, 'bids': 7}]
    """
    if len(states) == 1 and inspect.isfunction(states[0]):
        name = states[0].__name__
        raise QueryError(f"handler {name!r}: when_final names no state: write @hw.when_final(total) above it")

    def marked(method: _F) -> _F:
        if not inspect.isfunction(method):
            raise QueryError(
                f"when_final stands above {shown(method)}: write it above a method, def report(self, w, total)"
            )
        if mark_of(method) is not None:
            name = method.__name__
            raise QueryError(f"handler {name!r}: when_final stands above it twice: name all states in one")
        setattr(method, _MARK, WhenFinal(states, once))
        return method

    return marked


def mark_of(value: object) -> WhenFinal | None:
    """What `when_final` said of a method; None: it is no handler."""
    return getattr(value, _MARK, None) if inspect.isfunction(value) else None


def is_async(method: object) -> bool:
    """Whether a method may wait."""
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def takes(method: Callable[..., Any], count: int) -> bool:
    """Whether a method can be called with so many arguments, itself the first.

    >>> takes(lambda self, w, *values: None, 4), takes(lambda self, w: None, 3)
    (True, False)
    """
    try:
        inspect.signature(method).bind(*[None] * count)
    except TypeError:
        return False
    return True
