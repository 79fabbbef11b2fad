"""A sink for each query: ``sink={"load": "load/", "active": hw.postgres(...), "*": "others/"}``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import QueryError
from headwater.language.query import Query
from headwater.spark.streaming.sinks.sink import Sink, write_to
from headwater.spark.streaming.sinks.timeline import Claimant

#: Under this name stands the sink of all queries that have none of their own, those among them that are added later.
REST = "*"


class SinkPerQuery(Sink):
    """Hands the rows of each query to its own sink, with the query's own columns, as `hw.by_query` gives them.

    The sink of the rest gets rows as a single sink would, with the name of the query in each. Every sink is told of every batch.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._sinks = dict(sinks)
        self._stream: Claimant | None = None

    def __getitem__(self, query: str) -> Sink:
        """The sink of one query."""
        return self._sinks[query]

    @property
    def names(self) -> list[str]:
        return list(self._sinks)

    def parts(self, stream: Claimant) -> Iterator[tuple[Sink, Claimant]]:
        """Each sink, and as whose it is opened."""
        for name, sink in self._sinks.items():
            yield sink, stream.part(None if name == REST else name)

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

    def open(self, stream: Claimant) -> None:
        self._stream = stream
        for sink, part in self.parts(stream):
            open_sink(sink, part)

    def write(self, batch: int, rows: pa.Table) -> None:
        self.write_at(batch, rows, 0)

    def write_at(self, batch: int, rows: pa.Table, planned_ns: int) -> int | None:
        found = self._by_name(rows)
        due = [write_to(sink, batch, found.get(name, pa.table({})), planned_ns) for name, sink in self._sinks.items()]
        return min((at for at in due if at is not None), default=None)

    def close(self) -> None:
        for sink in self._sinks.values():
            sink.close()

    def _by_name(self, rows: pa.Table) -> dict[str, pa.Table]:
        """The rows of each sink that gets any."""
        if not len(rows):
            return {}
        assert self._stream is not None, "a sink is opened before it is written to"
        names = rows.column("query")
        present = pc.unique(names).to_pylist()
        self.check_taken(present)
        own = [name for name in present if name in self._sinks and name != REST]
        found = {name: query_rows(rows, self._stream.query_of(name)) for name in own}
        rest = rows.filter(pc.invert(pc.is_in(names, value_set=pa.array(own, names.type))))
        return {**found, REST: rest} if len(rest) else found


def query_rows(rows: pa.Table, query: Query) -> pa.Table:
    """The rows of one query with its own columns."""
    own = query.own_columns(may_revise="replaces" in rows.column_names)
    # Streams that an earlier release began have no columns for positions.
    columns = [name for name in own if name in rows.column_names]
    return rows.filter(pc.equal(rows.column("query"), query.name)).select(columns)


def open_sink(sink: Sink, stream: Claimant) -> None:
    """Tell a sink whose rows it gets; users' own sinks need not want to know."""
    if hasattr(sink, "open"):
        sink.open(stream)


def parts_of(sink: Sink, stream: Claimant) -> Iterator[tuple[Sink, Claimant]]:
    """The sinks that a sink is made of, and as whose each is opened."""
    if isinstance(sink, SinkPerQuery):
        yield from sink.parts(stream)
    else:
        yield sink, stream


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
