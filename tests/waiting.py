"""The one way in which tests wait: until something is so, and never for ever."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

#: Far more than anything takes on two busy cores: whoever waits longer waits in vain.
SECONDS_MAX = 300.0

Found = TypeVar("Found")


def wait_until(
    is_so: Callable[[], Found],
    what: str | Callable[[], object],
    *,
    seconds: float = SECONDS_MAX,
    nap_seconds: float = 0.02,
) -> Found:
    """What ``is_so`` returns, as soon as that is true; an error that says ``what`` was waited for if it never is.

    >>> wait_until(lambda: 7, "there is a number")
    7
    >>> wait_until(lambda: None, "there is a number", seconds=0)
    Traceback (most recent call last):
    TimeoutError: waited 0 s in vain until there is a number
    """
    deadline = time.monotonic() + seconds
    while not (found := is_so()):
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain until {what if isinstance(what, str) else what()}")
        time.sleep(nap_seconds)
    return found


def wait_for_events(stream: Any, count: int, *, seconds: float = SECONDS_MAX) -> None:
    """Until a stream has done so many events; if it ends before, what it died of."""

    def are_done() -> bool:
        if stream.progress.get("events", 0) >= count:
            return True
        if not stream.is_active:
            stream.await_end(seconds)
            raise AssertionError(f"the stream has ended, and {count} events are not done: {stream.progress}")
        return False

    wait_until(are_done, lambda: f"{count} events are done: {stream.progress}", seconds=seconds)
