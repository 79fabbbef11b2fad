"""Generated sensor events: smart plugs in houses, as Arrow batches in the order of their arrival.

A stream is a pure function of its description, seed included: the same description gives the same events on every
machine, in batches of any size. A sensor is one plug of one house. Houses differ in how much they send (skew) and fall
silent for a while (gaps); some events arrive late (disorder); plugs announce when an appliance starts and ends (markers).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SECOND = 1_000_000
#: Events are generated minute by minute, each from random numbers of its own.
BLOCK_SECONDS = 60
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

    def __post_init__(self) -> None:
        for field in ("houses", "plugs", "rate", "seconds"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} is {getattr(self, field)}: give an integer of at least 1")
        for field in ("late_share", "silence", "marker_share", "missing_share"):
            if not 0 <= getattr(self, field) <= 1:
                raise ValueError(f"{field} is {getattr(self, field)}: give a share between 0 and 1")
        if not 0 <= self.delay_max <= BLOCK_SECONDS * SECOND:
            raise ValueError(f"delay_max is {self.delay_max}: give microseconds between 0 and one minute")

    def batches(self, batch_events: int = 65_536) -> Iterator[pa.RecordBatch]:
        """The whole stream in order of arrival; every batch has ``batch_events`` rows but the last.

        >>> home = SmartHome(seconds=60, rate=100)
        >>> pa.Table.from_batches(home.batches(7)) == pa.Table.from_batches(home.batches(1000))
        True
        """
        waiting: list[pa.RecordBatch] = []
        count = 0
        for arrived in self._arrivals():
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

    def table(self) -> pa.Table:
        """The whole stream at once."""
        return pa.Table.from_batches(self.batches(), SCHEMA)

    def _arrivals(self) -> Iterator[pa.RecordBatch]:
        """What arrives in each minute: its own events, but for those still on their way, and the stragglers of the last."""
        events, arrivals = self._minute(0)
        for minute in range(-(-self.seconds // BLOCK_SECONDS)):
            if minute:
                born, born_arrivals = self._minute(minute)
                events, arrivals = _joined([events, born]), np.concatenate([arrivals, born_arrivals])
            order = np.argsort(arrivals, kind="stable")
            here = int(np.searchsorted(arrivals[order], self._end_of(minute)))
            yield events.take(pa.array(order[:here]))
            events, arrivals = events.take(pa.array(order[here:])), arrivals[order[here:]]
        yield events

    def _minute(self, minute: int) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
        """The events born in one minute and when each arrives."""
        rng = np.random.default_rng([self.seed, 1, minute])
        begin = self.start + minute * BLOCK_SECONDS * SECOND
        end = self._end_of(minute)
        count = self.rate * (end - begin) // SECOND
        times = np.sort(rng.integers(begin, end, count))
        house = rng.choice(self.houses, count, p=self._shares())
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

    def _end_of(self, minute: int) -> int:
        return self.start + min((minute + 1) * BLOCK_SECONDS, self.seconds) * SECOND

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
        """Which events fall into a silence of their house, half a minute long."""
        half = BLOCK_SECONDS * SECOND // 2
        begins = np.where(rng.random(self.houses) < self.silence, rng.integers(0, half, self.houses), 2 * half)
        return np.asarray((into >= begins[house]) & (into < begins[house] + half))

    def _activities(self, draws: NDArray[np.float64]) -> pa.Array:
        codes = np.where(draws < self.marker_share, 0, 1).astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=draws >= 2 * self.marker_share), _ACTIVITIES)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
