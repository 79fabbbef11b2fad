"""A sink for each query: ``sink={"load": "load/", "active": hw.postgres(...), "*": "others/"}``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import QueryError
from headwater.language.query import Query
from headwater.spark.streaming.sinks.gathered import GatheredRows
from headwater.spark.streaming.sinks.sink import Sink
from headwater.spark.streaming.sinks.timeline import Claimant
from headwater.spark.tasks import bug

#: Under this name stands the sink of all queries that have none of their own, those among them that are added later.
REST = "*"


class SinkPart(NamedTuple):
    """One of the sinks that make one. ``name``: under which directives speak of it; ``tag``: "" if it is the only one.

    ``only``: the query whose rows it gets; None if they are of several, and say themselves of which.
    """

    name: str
    sink: Sink
    tag: str = ""
    only: str | None = None

    def claimant(self, stream: Claimant, gathered: GatheredRows | None = None) -> Claimant:
        """As whose it is opened."""
        return replace(stream.part(self.tag, self.only) if self.tag else stream, gathered=gathered)


class SinkPerQuery(Sink):
    """A sink for each query, which gets the query's own columns, as `hw.by_query` gives them.

    The sink of the rest gets rows as a single sink would, with the name of the query in each. Every sink is told of every batch.
    Whoever writes gives each its share (`shares_of`).
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._sinks = dict(sinks)

    def __getitem__(self, query: str) -> Sink:
        """The sink of one query."""
        return self._sinks[query]

    @property
    def names(self) -> list[str]:
        return list(self._sinks)

    def parts(self, what: str) -> Iterator[SinkPart]:
        """Each sink, under a name that begins with that of all."""
        for name, sink in self._sinks.items():
            # By a hash: a query may be called anything, and this becomes the name of a folder.
            tag = "rest" if name == REST else hashlib.sha256(name.encode()).hexdigest()[:12]
            yield SinkPart(f"{what}-{tag}", sink, tag, None if name == REST else name)

    def check_taken(self, names: Iterable[str]) -> None:
        """QueryError if there is no sink for one of these queries."""
        for name in names:
            if name not in self._sinks and REST not in self._sinks:
                raise QueryError(
                    f"query {name!r} has no sink: sink is given for {_listed(self._sinks)}; start the stream with one for it too,"
                    f" or with {REST!r} for all that have none of their own, sink={{..., {REST!r}: 'others/'}}"
                )

    def check_known(self, names: Iterable[str]) -> None:
        """QueryError if a sink is for none of these queries."""
        known = list(names)
        for name in self._sinks:
            if name not in known and name != REST:
                raise QueryError(
                    f"sink is given for query {name!r}, but there is no such query; there is {_listed(known)}, and {REST!r}"
                    " stands for all without a sink of their own"
                )

    def write(self, batch: int, rows: pa.Table) -> None:
        raise bug("rows of several queries were given to their sinks as one")

    def shares(self, rows: pa.Table, query_of: Callable[[str], Query]) -> dict[str | None, pa.Table]:
        """The rows of each sink that gets any, by its query; those of the rest by None."""
        if not len(rows):
            return {}
        names = rows.column("query")
        present = pc.unique(names).to_pylist()
        self.check_taken(present)
        own = [name for name in present if name in self._sinks and name != REST]
        found: dict[str | None, pa.Table] = {name: query_rows(rows, query_of(name)) for name in own}
        rest = rows.filter(pc.invert(pc.is_in(names, value_set=pa.array(own, names.type))))
        return {**found, None: rest} if len(rest) else found


def query_rows(rows: pa.Table, query: Query) -> pa.Table:
    """The rows of one query with its own columns."""
    own = query.own_columns(may_revise="replaces" in rows.column_names)
    # Streams that an earlier release began have no columns for positions.
    columns = [name for name in own if name in rows.column_names]
    return rows.filter(pc.equal(rows.column("query"), query.name)).select(columns)


def parts_of(what: str, sink: Sink) -> Iterator[SinkPart]:
    """The sinks that a sink is made of; ``what`` it is for: "sink" or "aside"."""
    if isinstance(sink, SinkPerQuery):
        yield from sink.parts(what)
    else:
        yield SinkPart(what, sink)


def shares_of(
    what: str, sink: Sink, rows: pa.Table, query_of: Callable[[str], Query]
) -> Iterator[tuple[str, Sink, pa.Table]]:
    """Each sink that a sink is made of, by its name, with its share of the rows of a batch."""
    if not isinstance(sink, SinkPerQuery):
        yield what, sink, rows
        return
    shares = sink.shares(rows, query_of)
    for part in sink.parts(what):
        yield part.name, part.sink, shares.get(part.only, pa.table({}))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
