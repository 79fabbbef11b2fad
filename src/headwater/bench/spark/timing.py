"""How ways are compared on Spark: first their answers on a few events, then their times on many.

Every time is that of a whole job, from the call to the last row in the noop sink. The better of two runs counts; ways that
are compared take turns, so that a slow minute of the machine hits both.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from headwater.bench.common.report import Rate, Report
from headwater.bench.common.timing import in_turns
from headwater.bench.spark.data import EventFiles, Kind, Scale, SparkData
from headwater.bench.spark.ways import LENGTHS, Way
from headwater.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
DRIVER_MEMORY = "4g"
REPEATS = 2
#: A peer that would need longer for all events, which is 40 M at 5 M/s, runs once on a tenth of them.
PEER_SECONDS_MAX = 8.0


@contextmanager
def local_spark(report: Report) -> Iterator[tuple[SparkSession, Path]]:
    """Spark on two cores of this machine, and a folder for whatever a run leaves, as long as the block lasts."""
    with TemporaryDirectory(prefix="headwater-bench-") as folder:
        report.say("starting Spark")
        settings = {"spark.driver.memory": DRIVER_MEMORY, "spark.local.dir": f"{folder}/spark"}
        with local_session("headwater bench", master=f"local[{CORES}]", **settings) as spark:
            yield spark, Path(folder)


class Answer(NamedTuple):
    """Result rows, and the totals over them."""

    rows: int
    events: int
    total: float


@dataclass
class SparkBench:
    """One run: the session, the files, and the rates of peers that several figures compare with."""

    report: Report
    spark: SparkSession
    data: SparkData
    #: The lengths in seconds of the "hundred" queries, and the number of the "thousand".
    lengths: Sequence[int] = tuple(LENGTHS)
    thousand: int = 1_000
    peer_rates: dict[tuple[tuple[Way, ...], Kind], Rate] = field(default_factory=dict)

    def compare(self, figure: str, bound: float, ours: Way, peers: Sequence[Way], kind: Kind = "float") -> None:
        """Rate of ``ours`` / rate of the best peer."""
        self.check([*peers, ours], kind)
        theirs = self.peer_rate(peers, kind)
        (rate,) = self.rates([ours], self.data.events(kind, "all"))
        self.report.add_ratio(figure, bound, rate, theirs)
        self.report.add_rate(f"{figure}_rate", rate)

    def peer_rate(self, peers: Sequence[Way], kind: Kind) -> Rate:
        """The rate of the best peer, measured once for all figures that compare with it."""
        asked = tuple(peers), kind
        if asked not in self.peer_rates:
            best, rate = self.best_peer(peers, kind)
            events = self.data.events(kind, "all")
            # One that is too slow has had its run.
            if events.count / rate.events_per_second <= PEER_SECONDS_MAX:
                (rate,) = self.rates([best], events)
            self.peer_rates[asked] = rate
        return self.peer_rates[asked]

    def best_peer(self, peers: Sequence[Way], kind: Kind) -> tuple[Way, Rate]:
        """The peer that is fastest on a tenth of the events."""
        events = self.data.events(kind, "part")
        rates = []
        for peer in peers:
            rates.append((peer, Rate(peer.name, events.count / self.materialize(peer, events))))
            self.report.say(f"  {rates[-1][1]} on {events.count:,} {kind} events")
        return max(rates, key=lambda rate: rate[1].events_per_second)

    def rates(self, ways: Sequence[Way], events: EventFiles) -> list[Rate]:
        """The best rate of each over these events; they take turns."""
        times = self.best([partial(self.materialize, way, events) for way in ways])
        return [Rate(way.name, events.count / seconds) for way, seconds in zip(ways, times)]

    def best(self, works: Sequence[Callable[[], float]]) -> list[float]:
        """The best time of each; they take turns."""
        return [min(times) for times in in_turns(works, REPEATS)]

    def materialize(self, way: Way, events: EventFiles) -> float:
        """The seconds of a whole job over these events."""
        gc.collect()
        begin = time.perf_counter()
        noop(way.frame(self.spark, events))
        return time.perf_counter() - begin

    def check(self, ways: Sequence[Way], kind: Kind, scale: Scale = "check") -> Answer:
        """Run each way on a few events, which also warms it up; a comparison counts only if all give the same."""
        events = self.data.events(kind, scale)
        answers = [answer(way.frame(self.spark, events)) for way in ways]
        for way, found in zip(ways, answers):
            if found[:2] != answers[0][:2] or not math.isclose(found.total, answers[0].total, rel_tol=1e-9):
                raise RuntimeError(
                    f"{way.name} gives {found}, {ways[0].name} {answers[0]}: they did not answer the same question"
                )
        return answers[0]


def noop(frame: DataFrame) -> None:
    """Compute every row and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def answer(frame: DataFrame) -> Answer:
    """The totals of all result rows."""
    from pyspark.sql import functions as F

    total = F.sum(F.col("answer").cast("double"))
    row = frame.agg(F.count("*"), F.sum("event_count"), total).first()
    assert row is not None
    return Answer(row[0], row[1], row[2])
