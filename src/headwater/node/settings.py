"""The settings of nodes: how long they wait and how much they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any

from headwater.base.count_limits import CountLimits
from headwater.errors import Problem, QueryError
from headwater.protocols.frames import FRAME_BYTES_MAX

SECOND_NS = 1_000_000_000
#: Data that no window is waiting for is sent after `CALM` times ``linger_ns``, at least after `CALM_NS_MIN`.
CALM = 16
CALM_NS_MIN = SECOND_NS // 20
#: An owner is gone after this many times ``resend_ns``: frames may be lost, and what was not answered is sent every second time.
TAKEOVER = 5
#: A source may be silent for at least this many times ``linger_ns``: a leaf lingers, so does each relay above it, and what a
#: source sent while it was idle is sent once more.
IDLE_LINGERS = 4


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """How long a node waits and how much it holds, with what one of these says about another; times of the host's clock.

    >>> NodeSettings(pending_bytes_max=1 << 20, frame_bytes_max=1 << 21)
    Traceback (most recent call last):
    AssertionError: a leaf gathers 1048576 bytes, and may gather that once more before it sends: too much for a frame of 2097152
    >>> NodeSettings(linger_ns=100, idle_ns=50)
    Traceback (most recent call last):
    headwater.errors.QueryError: idle_ns is 50: nodes gather for linger_ns = 100 before they send, so every source would fall
        silent between two deltas; give at least 400
    """

    #: How long a node gathers before it sends: longer means fewer bytes, shorter means earlier results.
    linger_ns: int = SECOND_NS // 10
    #: How long to wait for an answer before sending again.
    resend_ns: int = SECOND_NS
    #: How long a leaf without a chain waits before it asks again.
    hello_ns: int = SECOND_NS
    #: How long a source may be silent before the root stops waiting for it; None: for ever.
    idle_ns: int | None = None
    #: A leaf stops reading while this many of its deltas are not accepted, or while this many events (``held_max``) wait for cuts
    #: although nothing can come before them.
    steps_max: int = 16
    held_max: int = 1 << 20
    #: A leaf does not wait to send once this many rows and events have come together.
    pending_max: int = 1 << 18
    #: The root writes a checkpoint after this many records.
    checkpoint_every: int = 256
    #: Frames that are longer are refused; relays combine up to half of it.
    frame_bytes_max: int = FRAME_BYTES_MAX
    #: A leaf does not wait to send either once its partials take about this many bytes.
    pending_bytes_max: int = FRAME_BYTES_MAX // 4
    #: Whether the root records what happens to it; a host that begins anew rather than restore it has no use for that.
    is_recorded: bool = True
    #: Whether a leaf lives for one batch only: what it kept would be lost, and a question costs another batch, so it says more.
    is_brief: bool = False
    #: Of count windows; the same on all nodes of a tree.
    counts: CountLimits = field(default_factory=CountLimits)

    def __post_init__(self) -> None:
        gathered, frame = self.pending_bytes_max, self.frame_bytes_max
        # Estimates are of memory, parts come on top of one another, and a relay combines up to half a frame.
        assert 4 * gathered <= frame, (
            f"a leaf gathers {gathered} bytes, and may gather that once more before it sends: too much for a frame of {frame}"
        )
        # Relays and roots linger, too: who asks again before they have had a chance to answer sends everything twice.
        assert 0 <= self.linger_ns < self.resend_ns, (
            f"sent again after {self.resend_ns} ns, gathered for {self.linger_ns}"
        )
        assert self.hello_ns > 0 and (self.idle_ns is None or self.idle_ns > 0), (
            "a timer that fires at once never rests"
        )
        if self.idle_ns is not None and self.idle_ns < IDLE_LINGERS * self.linger_ns:
            why = f"nodes gather for linger_ns = {self.linger_ns} before they send, so every source would fall silent between"
            right = f"{why} two deltas; give at least {IDLE_LINGERS * self.linger_ns}"
            raise QueryError.of(Problem("idle_ns", self.idle_ns, right))
        least = min(self.steps_max, self.held_max, self.pending_max, self.checkpoint_every)
        assert least >= 1, f"nothing could ever be held: {self}"

    def state(self) -> list[Any]:
        """As snapshots have it; limits of count windows only if they are not the usual ones."""
        *plain, counts = (getattr(self, one.name) for one in fields(self))
        return plain if counts == CountLimits() else [*plain, list(astuple(counts))]

    @classmethod
    def restored(cls, state: Sequence[Any]) -> NodeSettings:
        count = len(fields(cls)) - 1
        linger_ns, resend_ns, hello_ns, idle_ns, *others = state[:count]
        if idle_ns is not None:
            # An older release let it linger longer.
            linger_ns = min(linger_ns, idle_ns // IDLE_LINGERS)
        limits = (CountLimits(*limits) for limits in state[count:])
        return cls(linger_ns, resend_ns, hello_ns, idle_ns, *others, *limits)

    @property
    def takeover_ns(self) -> int:
        """After how much silence of its owner a chain may be another's: one that lives sends something every ``resend_ns``."""
        return TAKEOVER * self.resend_ns

    @property
    def calm_ns(self) -> int:
        """How long a leaf gathers what no window is waiting for: shorter than what would make its sources seem silent.

        >>> NodeSettings(linger_ns=10**8).calm_ns, NodeSettings(linger_ns=10**8, idle_ns=10**9).calm_ns
        (1600000000, 250000000)
        """
        calm_ns = max(CALM * self.linger_ns, CALM_NS_MIN)
        return calm_ns if self.idle_ns is None else min(calm_ns, self.idle_ns // 4)
