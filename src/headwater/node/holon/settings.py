"""The settings of nodes without a root: how long they wait and how much they hold."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import Problem, QueryError
from headwater.protocols.peers.failure_detector import DetectorSettings
from headwater.protocols.peers.ownership import LAG_HELD_NS_MIN, LAG_NS_MIN

#: What is silent for less than so many beats may only have been asked at the wrong moment.
IDLE_BEATS = 2


@dataclass(frozen=True, slots=True)
class HolonSettings:
    """How long a node waits and how much it holds; times of the host's clock, in nanoseconds.

    >>> HolonSettings(idle_ns=1)
    Traceback (most recent call last):
    headwater.errors.QueryError: idle_ns is 1: nodes look around with each beat, of 100000000 ns; give at least 200000000
    """

    #: How often a node tells where it stands.
    beat_ns: int = 100_000_000
    #: So long what a partition adds within a step waits for the end of the step; who takes it over may read as much again.
    open_ns: int = 2_000_000_000
    #: phi, and what else says that a peer is gone.
    phi: float = 8.0
    deviation_ns_min: int = 50_000_000
    pause_ns: int = 200_000_000
    #: How long a partition may be silent before no step waits for it; None: for ever.
    idle_ns: int | None = None
    #: From which lag on, after how long, a partition is taken from its owner.
    lag_ns_min: int = LAG_NS_MIN
    lag_held_ns_min: int = LAG_HELD_NS_MIN
    #: There is no more than one checkpoint in so long.
    checkpoint_ns: int = 1_000_000_000
    #: So many deltas of a chain, and so many bytes of them, are held for those who lack them; others get the prefix.
    deltas_held_max: int = 64
    delta_bytes_held_max: int = 1 << 20
    #: So many parts of executed steps are held by chain for those who are behind; others get the world.
    parts_held_max: int = 256

    def __post_init__(self) -> None:
        for name in ("beat_ns", "lag_held_ns_min", "checkpoint_ns", "parts_held_max"):
            if getattr(self, name) < 1:
                raise QueryError.of(Problem(name, getattr(self, name), "give at least 1"))
        for name in ("open_ns", "lag_ns_min", "deltas_held_max", "delta_bytes_held_max"):
            if getattr(self, name) < 0:
                raise QueryError.of(Problem(name, getattr(self, name), "give at least 0"))
        if self.idle_ns is not None and self.idle_ns < IDLE_BEATS * self.beat_ns:
            right = f"nodes look around with each beat, of {self.beat_ns} ns; give at least {IDLE_BEATS * self.beat_ns}"
            raise QueryError.of(Problem("idle_ns", self.idle_ns, right))
        assert self.detector.threshold > 0

    @property
    def detector(self) -> DetectorSettings:
        """When a peer is suspected."""
        return DetectorSettings(
            threshold=self.phi,
            deviation_ns_min=self.deviation_ns_min,
            pause_ns=self.pause_ns,
            first_interval_ns=self.beat_ns,
        )
