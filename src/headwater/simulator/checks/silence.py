"""When a source may be called idle: known from the root's notes and its clock, not from the root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.simulator.checks.truth import ViolationError


class Silence:
    """Since when nothing was accepted of each source, by the clock of the root's machine.

    >>> silence = Silence(idle_ns=100)
    >>> silence.note("decided", {"what": "joined", "source": "a"}, now_ns=5)
    >>> silence.note("accepted", {"sources": {"a": [0, 1, 7]}}, now_ns=40)
    >>> silence.note("decided", {"what": "idle", "source": "a"}, now_ns=110)
    Traceback (most recent call last):
    headwater.simulator.checks.truth.ViolationError: a was called idle after a silence of 70 ns; it may be after 100
    """

    def __init__(self, idle_ns: int | None) -> None:
        self._idle_ns = idle_ns
        self._heard: dict[str, int] = {}
        self._now_ns = 0

    def look(self, now_ns: int) -> None:
        """The root's clock shows this. If it began anew with its machine nobody knows for how long: silence counts from now."""
        if now_ns < self._now_ns:
            self._heard = {source: min(at_ns, now_ns) for source, at_ns in self._heard.items()}
        self._now_ns = now_ns

    def note(self, what: str, detail: Mapping[str, Any], now_ns: int) -> None:
        """Take a note of the root, made at a time of its clock."""
        self.look(now_ns)
        if what == "accepted":
            self._heard |= dict.fromkeys(detail["sources"], now_ns)
        elif what == "decided" and detail["what"] == "idle":
            self._check(detail["source"], now_ns)
        elif what == "decided":
            self._heard[detail["source"]] = now_ns

    def _check(self, source: str, now_ns: int) -> None:
        silent_ns = now_ns - self._heard[source]
        if self._idle_ns is not None and silent_ns < self._idle_ns:
            raise ViolationError(
                f"{source} was called idle after a silence of {silent_ns:,} ns; it may be after {self._idle_ns:,}"
            )
