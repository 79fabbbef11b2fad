"""What crosses for queries that travel together: into Python workers, out of them, and through shuffles.

Bytes are what Spark's own metrics count: "data sent to Python workers", "data returned from Python workers", and the "data size"
of an exchange, which is that of its rows before they are compressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from headwater.engine.placement import placement
from headwater.query import Query
from headwater.spark.leaf import FAN_IN
from headwater.spark.looking import Grouping, Look, arrow_bytes, event_time, groupings, is_text, row_bytes
from headwater.spark.native_aggregates import Operators
from headwater.spark.native_choice import Asked
from headwater.spark.plan import fresh_root
from headwater.spark.sampling import Lines, Sent, lines, more_frames, sample
from headwater.windows import Band, Sliding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Where = Literal["into Python", "out of Python", "shuffle"]
WHERES: Final[tuple[Where, ...]] = ("into Python", "out of Python", "shuffle")
#: Spark puts small partitions of a shuffle together until they have so many bytes.
SPARK_PARTITION_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Crossing:
    """Rows and bytes of one kind, ``what``, that cross at one place."""

    where: Where
    what: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Session:
    """What Spark has: cores, and how many partitions a shuffle has at most."""

    cores: int
    partitions: int


# --- Spark's own operators ---


def native_crossings(grouping: Grouping, look: Look, schema: pa.Schema, session: Session) -> Iterator[Crossing]:
    """Slices of all partitions meet; where they are not windows themselves, slices or windows move once more."""
    grid, groups = grouping.grid, look.groups[grouping.group]
    queries = [member.query for member in grid.members]
    operators = Operators(schema)
    for query in queries:
        for _, aggregation in query.aggregates:
            operators.value(aggregation)
    texts = _least_texts(queries, schema)
    width = row_bytes(look, schema, [*grouping.keys, *texts], 1 + len(operators.kept) - len(texts))
    yield _shuffle("slices of each partition", groups.in_partitions, width)
    if grid.is_window:
        return
    if grouping.keys:
        yield _shuffle("slices, to their keys", groups.in_all, width)
        return
    parts = max(1, min(session.cores, _partitions(groups.in_partitions * width)))
    has_names = 8 if len(queries) > 1 else 0
    yield _shuffle("windows", _window_rows(grouping, groups.in_all, look, parts), width + has_names)


def _least_texts(queries: Iterable[Query], schema: pa.Schema) -> list[str]:
    """Columns of text of which the smallest or the largest is kept, once for each."""
    kept = {(a.function, a.column) for query in queries for _, a in query.aggregates if a.function in ("min", "max")}
    columns = sorted(column for _, column in kept if column is not None)
    return [column for column in columns if is_text(schema.field(column).type)]


def _shuffle(what: str, rows: float, width: float) -> Crossing:
    return Crossing("shuffle", what, round(rows), round(rows * width))


def _partitions(size: float) -> int:
    return -(-int(size) // SPARK_PARTITION_BYTES)


def _window_rows(grouping: Grouping, slices: int, look: Look, parts: int) -> float:
    """Windows without keys, each once for every part of the slices in which some of its own are."""
    total = 0.0
    span = 0 if look.all.low is None or look.all.high is None else look.all.high - look.all.low + 1
    for member in grouping.grid.members:
        window = member.window
        windows = 1
        if isinstance(window, Sliding):
            overlap = -(-window.size // window.slide)
            windows = min(slices * overlap, span // window.slide + overlap)
        own = window.size // grouping.grid.slice
        total += windows * parts * (1 - (1 - 1 / parts) ** own)
    return total


# --- leaves, relays and a root in Python ---


@dataclass(frozen=True, slots=True)
class Counted:
    """What sizes grow with, as many as leaves, relays and the root see of it, and how many leaves and relays there are."""

    leaves: int
    relays: int
    at_leaves: int
    at_relays: int
    at_root: int


def python_crossings(
    df: DataFrame, queries: Sequence[Query], look: Look, asked: Asked, sort: Sequence[str], session: Session
) -> Iterator[Crossing]:
    """``sort``: the columns by which all events are sorted first, if they are."""
    root = fresh_root(queries, asked.schema, time=asked.time, unit=asked.unit, strict=asked.strict)
    columns = list(root.columns)
    leaves = look.partitions
    if sort:
        width = row_bytes(look, asked.schema, dict.fromkeys([*columns, *sort]))
        leaves = max(1, min(session.partitions, _partitions(look.events * width)))
        yield _shuffle("events, to be sorted", look.events, width)
    bytes_ = round(look.events * arrow_bytes(look, asked.schema, columns))
    yield Crossing("into Python", "events, to leaves", look.events, bytes_)
    found = groupings(queries, asked.schema, asked.time, asked.unit)
    by_groups = bool(found) and all(map(_sends_slices_only, queries))
    time = event_time(asked.schema, asked.time, asked.unit)
    read = pa.schema([asked.schema.field(name) for name in columns])
    events = sample(df, read, time, found, look.all if sort else look.largest)
    counted = _counted(found if by_groups else [], look, leaves, bool(sort))
    yield from _through_nodes(lines(root.snapshot(), events, by_groups), counted)


def _sends_slices_only(query: Query) -> bool:
    """A leaf sends so much for each slice and key, however many events are in it."""
    if not isinstance(query.window, Sliding | Band):
        return False
    place = placement(query, round_trips=False)
    return place.way == "slices" and place.travels == "partials"


def _counted(found: Sequence[Grouping], look: Look, leaves: int, is_sorted: bool) -> Counted:
    relays = -(-leaves // FAN_IN)
    if not found:
        return Counted(leaves, relays, look.events, look.events, look.events)
    groups = [look.groups[one.group] for one in found]
    in_all = sum(one.in_all for one in groups)
    # Sorted partitions are ranges of time: they have next to no slices in common.
    in_partitions = in_all if is_sorted else sum(one.in_partitions for one in groups)
    return Counted(leaves, relays, in_partitions, min(in_partitions, relays * in_all), in_all)


def _through_nodes(sizes: dict[str, Lines], counted: Counted) -> Iterator[Crossing]:
    leaf = _framed(sizes["leaf"], counted.leaves, counted.at_leaves)
    yield Crossing("out of Python", "frames of leaves", leaf.rows, leaf.arrow)
    yield Crossing("shuffle", "frames, to relays", leaf.rows, leaf.shuffled)
    yield Crossing("into Python", "frames, to relays", leaf.rows, leaf.shuffled)
    relay = _framed(sizes["relay"], counted.relays, counted.at_relays)
    # Each leaf asks for its place through its relay.
    yield Crossing("out of Python", "frames of relays", relay.rows, relay.arrow)
    yield Crossing("shuffle", "frames, to the root", relay.rows, relay.shuffled)
    yield Crossing("into Python", "frames, to the root", relay.rows, relay.shuffled)
    root = sizes["root"].at(1, counted.at_root)
    yield Crossing("out of Python", "result rows", root.rows, root.arrow)


def _framed(line: Lines, nodes: int, count: int) -> Sent:
    """What nodes send: large deltas are several frames."""
    sent = line.at(nodes, count)
    more = nodes * more_frames(sent.shuffled / max(1, nodes))
    return Sent(sent.rows + more, sent.arrow, sent.shuffled)
