"""Count windows over many nodes: how leaves are told where windows will end, and which scheme suits the streams.

A scheme decides what leaves send before anybody asks. None of them decides where a window ends: the root proves that from keys
(`engine/counting/search.py`), and where it cannot, leaves look into their pieces. Only ``approx`` believes what it forecast.

- ``central``: all events.
- ``monitor``: small pieces, a number and partials each. Leaves look into those in which a window ends: every window costs a
  question and an answer, or two, and few bytes.
- ``sync``, ``async``: large pieces, and raw events around the times at which windows are expected to end. Whoever is right about
  that is not asked. With ``sync`` a leaf waits behind each expected end until it is told of the next, with ``async`` it goes on.
- ``monitor_local``: as ``async``, but leaves tell each other their rates and forecast by themselves; the paper's way to show that
  this costs more than it saves.
- ``auto``: whichever of these the measured changes of rates and the sizes of windows suggest.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headwater.base.count_limits import CountLimits
from headwater.errors import QueryError, shown
from headwater.language.times import FOREVER
from headwater.protocols.local_sizes import LocalSizes, timeout

SCHEMES = ("central", "approx", "monitor", "monitor_local", "sync", "async", "auto")
PREFERENCES = ("speed", "bytes")
FORECASTS = ("times", "sizes")
#: Pieces that are needed only where a forecast is wrong: as many as the root of a leaf's events by this. About one window in
#: fifteen ends there, and a piece costs as much as five events that are looked into: then both together cost least.
EVENTS_BY_SPARE_PIECE = 64
#: If a larger share of a window would travel raw around its end, looking into small pieces is cheaper.
RAW_SHARE_MAX = 0.35
#: A plan that says nothing new is said at every so many-th cut.
REPEATED_MAX = 16


@dataclass(frozen=True, slots=True)
class Counting:
    """How count windows are computed over many nodes.

    ``changes``: so many of the last changes say how far a forecast may be off; ``margin``: in multiples of their mean.
    ``prefer``: what ``auto`` saves, time ("speed") or bytes. ``forecast``: of the "times" at which windows end, or of the "sizes"
    of each leaf's part, as in the paper (``sync`` and ``async``).
    """

    scheme: str = "auto"
    prefer: str = "speed"
    changes: int = 8
    margin: float = 3.0
    forecast: str = "times"

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise QueryError(f"count_scheme is {shown(self.scheme)}: give one of {', '.join(map(repr, SCHEMES))}")
        if self.prefer not in PREFERENCES:
            raise QueryError(f"prefer is {shown(self.prefer)}: give 'speed' or 'bytes'")
        if self.forecast not in FORECASTS:
            raise QueryError(f"forecast is {shown(self.forecast)}: give 'times' or 'sizes'")
        if self.changes < 1 or not self.margin > 0:
            raise QueryError(f"changes is {shown(self.changes)}, margin {shown(self.margin)}: give numbers above 0")

    @property
    def is_distributed(self) -> bool:
        return self.scheme != "central"

    @property
    def leaves_small_ones(self) -> bool:
        """Whether events of small windows travel as they do with ``central``: that is faster, and takes more bytes."""
        return self.scheme == "auto" and self.prefer == "speed"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What leaves of a family are told; see `engine/counting/forecast_zones.py`."""

    position: int
    time: int
    per_event: float
    #: How far times may be off, per square root of events; None: nothing is expected.
    spread: float | None
    piece_max: int
    horizon: int | None = None
    is_raw: bool = False
    #: By chain: from which of its events on each window has how many of them, and how many more or fewer.
    shares: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    #: So many leaves tell each other their rates, and go by those instead of ``per_event``; 0 if they do not.
    peers: int = 0
    #: For how much event time a leaf waits at the horizon.
    patience: int = 0
    #: Looked into, a piece is answered with its events if it is about so many at most.
    raw_max: int = CountLimits().raw_answer_bytes


class Forecaster:
    """Told where windows ended, it says where the next will end, and how sure that is.

    Two ways are tried all the time, and the one that was nearer lately is believed: an event takes as long as in the last
    window (the paper's way, good if rates drift), or as long as in the mean of the last few (good if they fluctuate).

    >>> forecaster = Forecaster(Counting("async"), size=100, leaves=2)
    >>> forecaster.told([(100 * k, 1000 * k + k % 2) for k in range(1, 12)])
    >>> forecast = forecaster.forecast()
    >>> forecast.position, round(forecast.per_event), forecast.spread < 1
    (1100, 10, True)
    """

    def __init__(self, counting: Counting, size: int, leaves: int = 1, limits: CountLimits | None = None) -> None:
        self.counting = counting
        self.limits = CountLimits() if limits is None else limits
        self.size = size
        self.leaves = leaves
        self._cuts: deque[tuple[int, int]] = deque(maxlen=counting.changes + 1)
        # How far each way to forecast was off, the last few times: time per square root of events.
        self._errors: list[deque[float]] = [deque(maxlen=2 * counting.changes) for _ in range(2)]

    def told(self, cuts: Sequence[tuple[int, int]]) -> None:
        """Proven cuts, ascending: behind how many events, at which time."""
        for cut in cuts:
            if self._cuts and cut[0] <= self._cuts[-1][0]:
                continue
            for way, per_event in enumerate(self._ways()):
                (position, time) = self._cuts[-1]
                distance = cut[0] - position
                self._errors[way].append(abs(cut[1] - time - distance * per_event) / math.sqrt(distance))
            self._cuts.append(cut)

    def guessing(self, cuts: Sequence[tuple[int, int]]) -> Forecaster:
        """One that was told these cuts as well, which nobody has proven yet."""
        if not cuts:
            return self
        other = Forecaster.restored(self.counting, self.state(), self.limits)
        times = np.maximum.accumulate([other._cuts[-1][1] if other._cuts else cuts[0][1], *(time for _, time in cuts)])
        other.told([(position, int(time)) for (position, _), time in zip(cuts, times[1:])])
        return other

    def _ways(self) -> list[float]:
        """The time that an event takes: as in the last stretch, as in all that are remembered."""
        if len(self._cuts) < 2:
            return []
        (p0, t0), (p1, t1), (p2, t2) = self._cuts[0], self._cuts[-2], self._cuts[-1]
        return [(t2 - t1) / (p2 - p1), (t2 - t0) / (p2 - p0)]

    @property
    def has_forecast(self) -> bool:
        return len(self._errors[0]) >= 2

    def forecast(self) -> Forecast:
        """What to tell leaves."""
        limits = self.limits
        per_leaf = self.size / max(self.leaves, 1)
        scheme = self._scheme(per_leaf)
        if scheme in ("raw", "approx"):
            return Forecast(0, 0, 0.0, None, limits.piece_max, is_raw=True)
        if scheme == "monitor" or not self.has_forecast:
            pieces = limits.monitor_pieces * (1 if self.counting.prefer == "bytes" else 4)
            # While nothing is known, a piece that is looked into is answered as it is: one question is enough.
            most = limits.piece_max if self.has_forecast else max(limits.raw_answer_speed // 2, limits.piece_min)
            piece_max = min(max(int(per_leaf) // pieces, limits.piece_min), most)
            return Forecast(0, 0, 0.0, None, piece_max)
        position, time = self._cuts[-1]
        per_event, spread = self._best()
        # Behind the zone, pieces are small enough to look into if the forecast is wrong.
        pieces = min(max(math.isqrt(int(per_leaf) // EVENTS_BY_SPARE_PIECE), 1), limits.monitor_pieces)
        piece_max = min(max(int(per_leaf) // pieces, limits.piece_min), limits.piece_max)
        peers = self.leaves if scheme == "monitor_local" else 0
        return Forecast(position, time, per_event, spread, piece_max, peers=peers)

    def horizon(self) -> int | None:
        """Where a leaf waits for another plan; None if it does not."""
        if self.counting.scheme != "sync" or not self.has_forecast:
            return None
        per_event, spread = self._best()
        return self._cuts[-1][1] + math.ceil(self.size * per_event + spread * math.sqrt(self.size)) + 1

    def patience(self) -> int:
        """How much further leaves go when all have come to where the window was expected to end, and it did not."""
        return max(1, math.ceil(self.size * self._best()[0] / 4))

    def timeout(self) -> int:
        """After so much event time a leaf goes on without a plan: as long as a window takes, and what it may take longer."""
        per_event, spread = self._best()
        per_event = max(per_event, 1e-9)  # all of them may share a time
        return max(1, math.ceil(timeout(self.size, spread * math.sqrt(self.size) / per_event, 1 / per_event)))

    def _best(self) -> tuple[float, float]:
        means = [sum(errors) / len(errors) if errors else math.inf for errors in self._errors]
        way = means.index(min(means))
        # One tick more on either side, for times are whole.
        return self._ways()[way], self.counting.margin * means[way] + 1 / math.sqrt(self.size)

    def _scheme(self, per_leaf: float) -> str:
        counting = self.counting
        if counting.scheme != "auto":
            return counting.scheme
        if per_leaf < self.limits.raw_events_max:
            return "raw"
        if counting.prefer == "bytes" or not self.has_forecast:
            return "monitor"
        per_event, spread = self._best()
        zone = 2 * spread * math.sqrt(self.size) / max(per_event, 1e-9)
        most = min(self.limits.raw_zone_max * max(self.leaves, 1), RAW_SHARE_MAX * self.size)
        return "monitor" if zone > most else "async"

    def state(self) -> list[Any]:
        return [self.size, self.leaves, [list(cut) for cut in self._cuts], list(map(list, self._errors))]

    @classmethod
    def restored(cls, counting: Counting, state: Sequence[Any], limits: CountLimits) -> Forecaster:
        forecaster = cls(counting, state[0], state[1], limits)
        forecaster._cuts.extend((position, time) for position, time in state[2])
        for errors, kept in zip(forecaster._errors, state[3], strict=True):
            errors.extend(kept)
        return forecaster


#: The begin and the size of each chain's share, and by how much it may differ.
Shares = Mapping[str, tuple[int, int, int]]
#: Cuts that are nearly known: behind how many events, at about which time.
Guesses = Sequence[tuple[int, int]]


@dataclass(slots=True)
class CountPlans:
    """The forecasts of all families at a root, and what leaves were told last."""

    counting: Counting
    limits: CountLimits = field(default_factory=CountLimits)
    forecasters: dict[int, Forecaster] = field(default_factory=dict)
    number: int = 0
    #: How many messages about count windows went up and down so far.
    up_flows: int = 0
    down_flows: int = 0
    sizes: dict[int, LocalSizes] = field(default_factory=dict)
    #: What leaves were told last, and how often that would have been the same since. Who has lost it says it once more.
    last: dict[int, Forecast] = field(default_factory=dict)
    repeated: int = 0

    def told(self, family: int, size: int, cuts: Sequence[tuple[int, int, Mapping[str, int]]]) -> None:
        """Proven cuts of a family whose largest window has ``size`` events; each with the events of chains since the last."""
        leaves = sum(count > 0 for count in cuts[-1][2].values())
        self.know(family, size, leaves).told([(position, time) for position, time, _ in cuts])
        if self.counting.forecast == "sizes":
            sizes = self.sizes.setdefault(family, LocalSizes(self.counting.changes))
            for _, _, counts in cuts:
                sizes.told(dict(counts))

    def know(self, family: int, size: int, leaves: int) -> Forecaster:
        """A family whose largest window has ``size`` events of so many leaves."""
        forecaster = self.forecasters.setdefault(family, Forecaster(self.counting, size, leaves, self.limits))
        forecaster.size, forecaster.leaves = size, leaves
        return forecaster

    def is_known(self, forecasts: Mapping[int, Forecast]) -> bool:
        """Whether leaves have heard these forecasts: small windows end often, and mostly nothing is new but their ends.

        Now and then they are told all the same, for then they may forget events.
        """
        self.repeated += 1
        if forecasts == self.last and self.repeated < REPEATED_MAX:
            return True
        self.last, self.repeated = dict(forecasts), 0
        return False

    def forecasts(
        self, horizons: Mapping[int, int], shares: Mapping[int, Shares], guesses: Mapping[int, Guesses]
    ) -> dict[int, Forecast]:
        """What leaves are told of each family: where to wait if they have to, and what is believed of them."""
        found = {}
        for family, known_so_far in self.forecasters.items():
            forecaster = known_so_far.guessing(guesses.get(family, ()))
            forecast = forecaster.forecast()
            known = shares.get(family, {})
            if family in self.sizes and forecaster.has_forecast and not forecast.is_raw:
                known = self.sizes[family].shares()
            horizon = horizons.get(family)
            patience = 0 if horizon is None else forecaster.timeout()
            raw_max = self.limits.raw_answer(self.counting.prefer)
            found[family] = replace(forecast, horizon=horizon, patience=patience, shares=known, raw_max=raw_max)
        return found

    def next_horizons(self, frontiers: Mapping[int, int]) -> dict[int, int]:
        """Up to where leaves go without another plan; further than ``frontiers``, which they have all reached."""
        found = {}
        for family, forecaster in self.forecasters.items():
            horizon = forecaster.horizon()
            if horizon is not None:
                found[family] = min(max(horizon, frontiers.get(family, horizon) + forecaster.patience()), FOREVER)
        return found

    def state(self) -> list[Any]:
        c = self.counting
        known = [[family, forecaster.state()] for family, forecaster in self.forecasters.items()]
        sizes = [[family, sizes.state()] for family, sizes in self.sizes.items()]
        return [
            [c.scheme, c.prefer, c.changes, c.margin, c.forecast],
            self.number,
            [self.up_flows, self.down_flows],
            known,
            sizes,
        ]

    @classmethod
    def restored(cls, state: Sequence[Any], limits: CountLimits) -> CountPlans:
        counting = Counting(*state[0])
        known = {family: Forecaster.restored(counting, kept, limits) for family, kept in state[3]}
        sizes = {family: LocalSizes.restored(counting.changes, kept) for family, kept in state[4]}
        up, down = state[2]
        return cls(counting, limits, known, state[1], up, down, sizes)
