"""Generated sensor events: smart plugs in houses, as Arrow batches in the order of their arrival.

A stream is a pure function of its description, seed included: the same description gives the same events on every
machine, in batches of any size. A sensor is one plug of one house. Houses differ in how much they send (skew) and fall
silent for a while (gaps); some events arrive late (disorder); plugs announce when an appliance starts and ends (markers). The
rate may change on the way. One description can be shared out among several sources, each with some of the houses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SECOND = 1_000_000
#: Events are generated minute by minute, each from random numbers of its own; in shorter blocks where a minute has very many.
BLOCK_SECONDS = 60
BLOCK_EVENTS = 6_000_000
#: 2026-01-01 06:00 UTC.
MORNING = 1_767_247_200 * SECOND
#: Events per second over all houses, unless a stream is described otherwise.
RATE = 2_000
DAY = 24 * 3600 * SECOND

SCHEMA = pa.schema(
    [
        ("time", pa.int64()),
        ("house", pa.dictionary(pa.int32(), pa.string())),
        ("plug", pa.int64()),
        ("sensor", pa.int64()),
        ("load", pa.float64()),
        ("activity", pa.dictionary(pa.int32(), pa.string())),
    ]
)
_ACTIVITIES = pa.array(["start", "end"])

#: Events and when each arrives.
Arriving: TypeAlias = tuple[pa.RecordBatch, NDArray[np.int64]]
#: By the block in which they were born, those that arrive in later ones.
Stragglers: TypeAlias = dict[int, Arriving]


@dataclass(frozen=True, slots=True)
class SmartHome:
    """What a stream of smart-home events is like; every field has a useful default.

    >>> home = SmartHome(seconds=60, rate=1000)
    >>> first = next(home.batches(100))
    >>> first.num_rows, first.schema.names
    (100, ['time', 'house', 'plug', 'sensor', 'load', 'activity'])
    """

    houses: int = 40
    plugs: int = 8
    #: Events per second over all houses, before silences are taken out.
    rate: int = RATE
    seconds: int = 1_500
    #: 0: all houses send equally much; 1: the busiest sends `houses` times as much as the quietest (Zipf).
    skew: float = 0.5
    #: The share of events that arrive late, and by how much at most.
    late_share: float = 0.02
    delay_max: int = 8 * SECOND
    #: How likely a house is silent for half of a minute.
    silence: float = 0.15
    #: The share of events that announce the start of an appliance; as many announce an end.
    marker_share: float = 0.002
    #: The share of events whose load is missing.
    missing_share: float = 0.001
    start: int = MORNING
    seed: int = 7
    #: Other rates from some second on: pairs (second, rate), by second.
    changes: tuple[tuple[int, int], ...] = ()
    #: Every ``drift_seconds`` the rate is drawn anew, up to this share below or above what it is said to be.
    drift: float = 0.0
    drift_seconds: int = 60
    #: Only the houses of source ``share``, of ``shares`` that have them together: see `sources`.
    share: int = 0
    shares: int = 1

    def __post_init__(self) -> None:
        for field in ("houses", "plugs", "rate", "seconds", "drift_seconds", "shares"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} is {getattr(self, field)}: give an integer of at least 1")
        for field in ("late_share", "silence", "marker_share", "missing_share", "drift"):
            if not 0 <= getattr(self, field) <= 1:
                raise ValueError(f"{field} is {getattr(self, field)}: give a share between 0 and 1")
        if not 0 <= self.delay_max <= BLOCK_SECONDS * SECOND:
            raise ValueError(f"delay_max is {self.delay_max}: give microseconds between 0 and one minute")
        # As lists they come out of JSON.
        object.__setattr__(self, "changes", tuple((second, rate) for second, rate in self.changes))
        seconds = [second for second, _ in self.changes]
        if seconds != sorted(set(seconds)) or any(second < 0 or rate < 0 for second, rate in self.changes):
            raise ValueError(f"changes is {self.changes}: give pairs (second, rate), each second above the one before")
        if not 0 <= self.share < self.shares <= self.houses:
            raise ValueError(
                f"share is {self.share} of {self.shares}: give one below it, of no more than there are houses"
            )

    def batches(self, batch_events: int = 65_536) -> Iterator[pa.RecordBatch]:
        """The whole stream in order of arrival; every batch has ``batch_events`` rows but the last.

        >>> home = SmartHome(seconds=60, rate=100)
        >>> pa.Table.from_batches(home.batches(7)) == pa.Table.from_batches(home.batches(1000))
        True
        """
        waiting: list[pa.RecordBatch] = []
        count = 0
        stragglers: Stragglers = {}
        for block in range(self.block_count):
            arrived = self.arrivals_in(block, stragglers)
            waiting.append(arrived)
            count += arrived.num_rows
            if count >= batch_events:
                ready = _joined(waiting)
                whole = count - count % batch_events
                for first in range(0, whole, batch_events):
                    yield ready.slice(first, batch_events)
                waiting, count = [ready.slice(whole)], count - whole
        if count:
            yield _joined(waiting)

    def sources(self, count: int) -> list[SmartHome]:
        """As many streams that share the houses among them; together they send about what this one does.

        >>> [home.share for home in SmartHome(houses=10).sources(3)]
        [0, 1, 2]
        """
        return [replace(self, share=share, shares=count) for share in range(count)]

    def table(self) -> pa.Table:
        """The whole stream at once."""
        return pa.Table.from_batches(self.batches(), SCHEMA)

    @property
    def block_count(self) -> int:
        """How many blocks of arrivals there are; in the last one only stragglers arrive."""
        return self._born_count + 1

    def arrivals_in(self, block: int, stragglers: Stragglers | None = None) -> pa.RecordBatch:
        """What arrives in one block: all blocks, one after the other, are the stream.

        ``stragglers``: what an earlier call has left there is not generated again, so going on to the next block costs one block.

        >>> home = SmartHome(seconds=200, rate=100)
        >>> blocks = [home.arrivals_in(block) for block in range(home.block_count)]
        >>> pa.Table.from_batches(blocks) == home.table()
        True
        """
        kept = {} if stragglers is None else stragglers
        begin, end = self._begin_of(block), self._end_of(block)
        back = -(-self.delay_max // (self._block_seconds * SECOND)) + 1
        arriving = [
            self._stragglers_of(born, kept) for born in range(max(block - back, 0), min(block, self._born_count))
        ]
        if block < self._born_count:
            events, arrivals = born = self._block(block)
            kept[block] = _chosen(events, arrivals, arrivals >= end)
            arriving.append(born)
        for passed in [passed for passed in kept if not block - back <= passed <= block]:
            del kept[passed]
        arrivals = np.concatenate([arrivals for _, arrivals in arriving])
        here = np.flatnonzero((arrivals >= begin) & ((block == self._born_count) | (arrivals < end)))
        # Events that arrive at one time do so in the order of their birth.
        order = here[np.argsort(arrivals[here], kind="stable")]
        return _joined([events for events, _ in arriving]).take(pa.array(order))

    def _stragglers_of(self, block: int, kept: Stragglers) -> Arriving:
        """Those born in a block who arrive in later ones."""
        if block not in kept:
            events, arrivals = self._block(block)
            kept[block] = _chosen(events, arrivals, arrivals >= self._end_of(block))
        return kept[block]

    @property
    def _born_count(self) -> int:
        return -(-self.seconds // self._block_seconds)

    def _begin_of(self, block: int) -> int:
        return self.start if block == 0 else self._end_of(block - 1)

    @property
    def _block_seconds(self) -> int:
        busiest = max(self.rate, *(rate for _, rate in self.changes), 1) * (1 + self.drift) * self._own_share()
        return min(BLOCK_SECONDS, max(1, int(BLOCK_EVENTS / busiest)))

    def _block(self, block: int) -> Arriving:
        """The events born in one block and when each arrives."""
        rng = np.random.default_rng([self.seed, 1, block, *([self.share, self.shares] if self.shares > 1 else [])])
        begin = self.start + block * self._block_seconds * SECOND
        stretches = self._stretches(begin, self._end_of(block))
        times = np.concatenate([np.sort(rng.integers(first, end, count)) for first, end, count in stretches])
        count = len(times)
        own = np.arange(self.share, self.houses, self.shares)
        house = own[rng.choice(len(own), count, p=self._shares()[own] / self._own_share())]
        load = self._loads(house, times, rng)
        missing = rng.random(count) < self.missing_share
        activity = rng.random(count)
        late = rng.random(count) < self.late_share
        arrivals = times + np.where(late, rng.integers(0, self.delay_max, count, endpoint=True), 0)
        plug = rng.integers(0, self.plugs, count)
        heard = ~self._silent(house, times - begin, rng)
        columns = [
            pa.array(times[heard]),
            pa.DictionaryArray.from_arrays(pa.array(house[heard].astype(np.int32)), self._names()),
            pa.array(plug[heard]),
            pa.array((house * self.plugs + plug)[heard]),
            pa.array(load[heard], mask=missing[heard]),
            self._activities(activity[heard]),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), arrivals[heard]

    def _end_of(self, block: int) -> int:
        return self.start + min((block + 1) * self._block_seconds, self.seconds) * SECOND

    def _stretches(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Stretches of time in which the rate is one, with the number of events born in each."""
        points = {begin, *(self.start + second * SECOND for second, _ in self.changes)}
        if self.drift:
            step = self.drift_seconds * SECOND
            first = begin - (begin - self.start) % step
            points |= set(range(first, end, step))
        starts = sorted(point for point in points if begin <= point < end)
        return [
            (first, last, int(self._rate_at(first) * self._own_share() * (last - first) / SECOND))
            for first, last in zip(starts, [*starts[1:], end], strict=True)
        ]

    def _rate_at(self, time: int) -> float:
        second = (time - self.start) // SECOND
        rate = next((rate for since, rate in reversed(self.changes) if since <= second), self.rate)
        if not self.drift:
            return rate
        # All sources of one description drift together: the draw does not depend on the share.
        draw = np.random.default_rng([self.seed, 2, second // self.drift_seconds]).uniform(-self.drift, self.drift)
        return float(rate * (1 + draw))

    def _own_share(self) -> float:
        """How much of all that is sent comes from the houses of this source."""
        return 1.0 if self.shares == 1 else float(self._shares()[self.share :: self.shares].sum())

    def _shares(self) -> NDArray[np.float64]:
        weights = np.arange(1, self.houses + 1) ** -self.skew
        return np.asarray(weights / weights.sum())

    def _names(self) -> pa.Array:
        digits = len(str(self.houses - 1))
        return pa.array([f"house-{number:0{digits}}" for number in range(self.houses)])

    def _loads(
        self, house: NDArray[np.int64], times: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Watts: a level per house, a swing over the day, and the noise of appliances."""
        level = np.random.default_rng([self.seed, 0]).uniform(50, 400, self.houses)
        swing = 1 + 0.5 * np.sin(2 * np.pi * (times % DAY) / DAY)
        return np.asarray(np.round(level[house] * swing * rng.lognormal(0, 0.6, len(times)), 3))

    def _silent(self, house: NDArray[np.int64], into: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
        """Which events fall into a silence of their house, half a block long."""
        half = self._block_seconds * SECOND // 2
        begins = np.where(rng.random(self.houses) < self.silence, rng.integers(0, half, self.houses), 2 * half)
        return np.asarray((into >= begins[house]) & (into < begins[house] + half))

    def _activities(self, draws: NDArray[np.float64]) -> pa.Array:
        codes = np.where(draws < self.marker_share, 0, 1).astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=draws >= 2 * self.marker_share), _ACTIVITIES)


def _chosen(events: pa.RecordBatch, arrivals: NDArray[np.int64], chosen: NDArray[np.bool_]) -> Arriving:
    return events.filter(pa.array(chosen)), arrivals[chosen]


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
