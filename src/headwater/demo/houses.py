"""Streets of smart homes: each is a stream of its own, made where it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.generator import SCHEMA, SmartHome

HOUSES, PLUGS = 5, 8
#: Bytes of one event as Arrow lays it out; names and markers as numbers.
EVENT_BYTES = (
    sum(type_.index_type.bit_width if pa.types.is_dictionary(type_) else type_.bit_width for type_ in SCHEMA.types) // 8
)


@dataclass(frozen=True, slots=True)
class Street:
    """Some houses and their plugs, as one source. Spark's tasks are told its name and numbers, never its events.

    >>> next(Street("elm", seconds=60, rate=10, seed=7).batches(3)).column("house").dictionary.to_pylist()[:2]
    ['elm 0', 'elm 1']
    """

    name: str
    seconds: int
    rate: int
    seed: int
    first_sensor: int = 0

    def batches(self, batch_events: int) -> Iterator[pa.RecordBatch]:
        """The events in the order of their arrival."""
        home = SmartHome(houses=HOUSES, plugs=PLUGS, seconds=self.seconds, rate=self.rate, seed=self.seed)
        names = pa.array([f"{self.name} {house}" for house in range(HOUSES)])
        for batch in home.batches(batch_events):
            columns = dict(zip(SCHEMA.names, batch.columns))
            columns["house"] = pa.DictionaryArray.from_arrays(columns["house"].indices, names)
            columns["sensor"] = pc.add(columns["sensor"], self.first_sensor)
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=SCHEMA)


def streets(events: int, seed: int, rate: int) -> list[Street]:
    """Streets that send about ``events`` events together, ``rate`` per second and street."""
    names = ("acacia", "birch", "cedar", "elm", "larch", "maple", "oak", "willow")
    seconds = max(1, round(events / rate / len(names)))
    sensors = HOUSES * PLUGS
    return [Street(name, seconds, rate, seed + i, i * sensors) for i, name in enumerate(names)]
