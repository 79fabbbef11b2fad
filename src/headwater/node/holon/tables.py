"""Tables: what a program without a root aggregates, each with its own columns and queries, and the halves of its engine."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from headwater.base.count_limits import CountLimits
from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.tree.leaf_sources import Standing
from headwater.engine.tree.roles import Role
from headwater.engine.tree.root import RootHalf
from headwater.engine.wire.query_set import QuerySet
from headwater.language.query import Query
from headwater.language.times import NEVER

#: Nobody answers while events come: what is not decided by a partition alone travels as events.
ONE_WAY = Role(is_leaf=False, round_trips=False)
LIMITS = CountLimits()


@dataclass(frozen=True, slots=True)
class SharedTable:
    """Queries over events of the same columns. ``disorder``: None where watermarks are told, as those of inserted events are.

    >>> import headwater as hw
    >>> table = SharedTable(0, (hw.query("q", hw.tumbling(10), n=hw.count()),), pa.schema({"time": pa.int64()}), disorder=0)
    >>> table.root_half(["p"]).time
    'time'
    """

    number: int
    queries: tuple[Query, ...]
    schema: pa.Schema
    time: str = "time"
    unit: str = "us"
    disorder: int | None = None
    strict: bool = False
    #: The queries as leaves need them.
    query_set: QuerySet = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "query_set", self._half().query_set())

    def _half(self) -> RootHalf:
        settings = {"time": self.time, "unit": self.unit, "disorder": self.disorder, "strict": self.strict}
        half = RootHalf(self.queries, ONE_WAY, **settings)
        half.check(self.schema)
        return half

    def root_half(self, sources: list[str], homes: list[str] | None = None) -> RootHalf:
        """The half that makes windows of what these sources add."""
        return named(self._half(), sources, homes or sources)

    def leaf_half(
        self, source: str, home: str, offset: int = 0, watermark: int = NEVER, latest: int = NEVER
    ) -> LeafHalf:
        """The half that cuts the events of a source from this offset on."""
        standing = Standing(source, home, offset, watermark, offset, watermark)
        return LeafHalf(self.query_set, source, [standing], latest, NEVER, LIMITS)


def named(half: RootHalf, sources: list[str], homes: list[str]) -> RootHalf:
    """The half, with these sources by number."""
    half.names, half.homes = list(sources), list(homes)
    return half
