"""Which peers are silent for too long: phi accrual over the arrivals of heartbeats.

phi is how sure one may be that a peer is gone: at phi 8, one in 10^8 beats of a peer that lives would come so late. It follows
Hayashibara et al., The phi accrual failure detector (2004), with three differences.

- Silence is not negative, so the normal distribution of intervals is taken above 0 only: phi is exactly 0 at each beat, however
  irregular a peer is.
- An interval counts as no longer than what is suspected for sure. A peer that comes back after an hour has not learned to beat
  once in an hour; one that has become slower is known to be so after some beats.
- Time passes for the detector only while it is asked. A process that was paused (stopped, collecting garbage, moved to another
  machine) has heard nobody meanwhile, and that is not their silence. Clocks that are set back or ahead are of no matter either.

To suspect a peer that lives is never unsafe here: what it costs is work that is done twice.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

#: From here on erfc comes close to the smallest float, and its asymptotic series is exact to the last bits of a logarithm.
SERIES_FROM = 25.0
#: Beyond this a square would be more than a float can hold; nobody is silent for so many deviations.
X_MAX = 1e150


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """When a peer is suspected. All times in nanoseconds.

    With the defaults a peer that beats each 100 ms is suspected after 0.58 s of silence.

    >>> DetectorSettings(window=0)
    Traceback (most recent call last):
    ValueError: failure detector: window is 0: give at least 1
    """

    threshold: float = 8.0
    #: So many intervals of a peer are remembered.
    window: int = 100
    #: What an interval differs from the mean at least: a perfectly regular past promises nothing.
    deviation_ns_min: int = 50_000_000
    #: A pause of a peer that is nothing to worry about, on top of the mean interval.
    pause_ns: int = 200_000_000
    #: How long the first interval of a peer is taken to be; the detector is to be asked about as often.
    first_interval_ns: int = 100_000_000

    def __post_init__(self) -> None:
        if not 0 < self.threshold < math.inf:
            raise ValueError(f"failure detector: threshold is {self.threshold}: give a number above 0, such as 8.0")
        for name, least in (("window", 1), ("deviation_ns_min", 1), ("pause_ns", 0), ("first_interval_ns", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"failure detector: {name} is {getattr(self, name)}: give at least {least}")

    @property
    def step_ns_max(self) -> int:
        """Time between two questions that counts; if there was more, the process that asks was paused itself."""
        return self.first_interval_ns + self.deviation_ns_min


@dataclass(slots=True)
class Heartbeats:
    """The beats of one peer, in the detector's own time.

    ``total`` and ``squares`` are the sums over ``intervals``: whole numbers, so they stay exact however many come and go.
    """

    heard_at: int
    intervals: deque[int]
    total: int = 0
    squares: int = 0
    #: Its connection was refused since it was last heard.
    is_refused: bool = False

    def add(self, interval_ns: int) -> None:
        """One interval more; the oldest goes if the window is full."""
        if len(self.intervals) == self.intervals.maxlen:
            oldest = self.intervals.popleft()
            self.total -= oldest
            self.squares -= oldest * oldest
        self.intervals.append(interval_ns)
        self.total += interval_ns
        self.squares += interval_ns * interval_ns

    @property
    def mean(self) -> float:
        return self.total / len(self.intervals)

    @property
    def deviation(self) -> float:
        count = len(self.intervals)
        return math.sqrt(count * self.squares - self.total * self.total) / count


@dataclass(slots=True)
class FailureDetector:
    """Who is suspected to be gone, by when they were last heard.

    It is told the time and never asks for it; each call may be such a telling, and at least one is to come in
    ``settings.first_interval_ns``. Who was never heard of, or was forgotten, is not suspected.

    >>> detector = FailureDetector()
    >>> for beat in range(5):
    ...     detector.heard("b", now_ns=beat * 100_000_000)
    >>> detector.phi("b", now_ns=400_000_000)
    0.0
    >>> [detector.suspects(now_ns=ms * 1_000_000) for ms in (500, 600, 700, 800, 900, 990)]
    [[], [], [], [], [], ['b']]
    """

    settings: DetectorSettings = field(default_factory=DetectorSettings)
    _peers: dict[str, Heartbeats] = field(default_factory=dict)
    #: The detector's own time, and the latest that it was told.
    _own_ns: int = 0
    _told_ns: int | None = None

    def expect(self, peer: str, now_ns: int) -> None:
        """Wait for a peer of which is known that it should be there: unless it is heard, its silence begins now."""
        self._pass(now_ns)
        if peer not in self._peers:
            beats = Heartbeats(self._own_ns, deque(maxlen=self.settings.window))
            beats.add(self.settings.first_interval_ns)
            self._peers[peer] = beats

    def heard(self, peer: str, now_ns: int) -> None:
        """A heartbeat has come: phi is 0, whatever was said of the peer before."""
        self._pass(now_ns)
        beats = self._peers.get(peer)
        if beats is None:
            self.expect(peer, now_ns)
            return
        beats.add(min(self._own_ns - beats.heard_at, self._interval_max(beats)))
        beats.heard_at, beats.is_refused = self._own_ns, False

    def refused(self, peer: str, now_ns: int) -> None:
        """A connection to the peer was refused, as when its process is gone: it is suspected at once, until it is heard."""
        self.expect(peer, now_ns)
        self._peers[peer].is_refused = True

    def forget(self, peer: str) -> None:
        """The peer is none of ours any more."""
        self._peers.pop(peer, None)

    def phi(self, peer: str, now_ns: int) -> float:
        """How sure one may be that the peer is gone: 0 at a beat, never less while it is silent, without a bound."""
        self._pass(now_ns)
        beats = self._peers.get(peer)
        return 0.0 if beats is None else self._phi_now(beats)

    def suspects(self, now_ns: int) -> list[str]:
        """The peers whose phi has reached the threshold, by name."""
        self._pass(now_ns)
        return sorted(peer for peer, beats in self._peers.items() if self._phi_now(beats) >= self.settings.threshold)

    def _phi_now(self, beats: Heartbeats) -> float:
        mean = beats.mean + self.settings.pause_ns
        phi = phi_of(self._own_ns - beats.heard_at, mean, self._deviation(beats))
        return max(phi, self.settings.threshold) if beats.is_refused else phi

    def _deviation(self, beats: Heartbeats) -> float:
        return max(beats.deviation, float(self.settings.deviation_ns_min))

    def _interval_max(self, beats: Heartbeats) -> int:
        """A silence that is suspected for sure: less than exp(-z*z/2) of a normal distribution lie above z deviations."""
        sure = math.sqrt(2 * math.log(10) * self.settings.threshold)
        return math.ceil(beats.mean + self.settings.pause_ns + sure * self._deviation(beats))

    def _pass(self, now_ns: int) -> None:
        """Own time goes on as far as the clock did, by no more than a step.

        A moment a little before the latest is one that is told late (a frame that was stamped when it came); far before it
        lies only what a clock says that was set back, and time goes on from there.
        """
        longest = self.settings.step_ns_max
        step = 0 if self._told_ns is None else now_ns - self._told_ns
        self._own_ns += min(max(step, 0), longest)
        if self._told_ns is None or not -longest <= step <= 0:
            self._told_ns = now_ns


def phi_of(silence_ns: float, mean_ns: float, deviation_ns: float) -> float:
    """-log10 of the share of intervals that are longer than this silence, of a normal distribution above 0.

    In logarithms throughout: such shares are soon too small for a float, and phi would be infinite.

    >>> round(phi_of(580.6, 300, 50), 2), phi_of(0, 300, 50)
    (8.0, 0.0)
    >>> f"{phi_of(1e12, 300, 50):.3g}"
    '8.69e+19'
    """
    longer = log_share_above((silence_ns - mean_ns) / deviation_ns)
    return max(0.0, (log_share_above(-mean_ns / deviation_ns) - longer) / math.log(10))


def log_share_above(z: float) -> float:
    """The logarithm of the share of a normal distribution that lies more than ``z`` deviations above its mean.

    >>> round(math.exp(log_share_above(0)), 12), round(log_share_above(100), 3)
    (0.5, -5005.524)
    """
    x = min(z / math.sqrt(2), X_MAX)
    if x < 0:
        # The share below is small, and 1 minus it would have lost it.
        return math.log1p(-math.erfc(-x) / 2)
    if x < SERIES_FROM:
        return math.log(math.erfc(x) / 2)
    t = 1 / (2 * x * x)
    series = -t * (1 - 3 * t * (1 - 5 * t * (1 - 7 * t * (1 - 9 * t))))
    return math.log1p(series) - x * x - math.log(2 * math.sqrt(math.pi) * x)
