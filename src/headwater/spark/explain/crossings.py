"""Forecast of rows and bytes that cross into Python workers, out of them, and through shuffles.

Bytes are what Spark's own metrics count: "data sent to Python workers", "data returned from Python workers", and the "data size"
of an exchange, which is that of its rows before they are compressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from headwater.engine.placement import placement
from headwater.language.query import Query
from headwater.language.windows import Band, Sliding
from headwater.spark.batch.initial_root import initial_root_bytes
from headwater.spark.batch.leaf import FAN_IN
from headwater.spark.batch.partition_leaves import partition_count
from headwater.spark.batch.root import root_count
from headwater.spark.explain.profile import FrameProfile, Grouping, arrow_bytes, groupings, is_text, row_bytes
from headwater.spark.explain.sampling import Sent, SizeLines, lines, more_frames, sample
from headwater.spark.native.aggregates import Operators
from headwater.spark.native.choice import Asked
from headwater.spark.native.types import quoted

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


# --- Spark's own operators ---


def native_crossings(grouping: Grouping, profile: FrameProfile, schema: pa.Schema, cores: int) -> Iterator[Crossing]:
    """Slices of all partitions meet; where they are not windows themselves, slices or windows move once more."""
    grid, groups = grouping.grid, profile.groups[grouping.group]
    queries = [member.query for member in grid.members]
    operators = Operators(schema)
    for query in queries:
        for _, aggregation in query.aggregates:
            operators.value(aggregation)
    texts = _least_texts(queries, schema)
    width = row_bytes(profile, schema, [*grouping.keys, *texts], 1 + len(operators.kept) - len(texts))
    yield _shuffle("slices of each partition", groups.in_partitions, width)
    if grid.is_window:
        return
    if grouping.keys:
        yield _shuffle("slices, to their keys", groups.in_all, width)
        return
    parts = max(1, min(cores, _partitions(groups.in_partitions * width)))
    has_names = 8 if len(queries) > 1 else 0
    yield _shuffle("windows", _window_rows(grouping, profile, parts), width + has_names)


def _least_texts(queries: Iterable[Query], schema: pa.Schema) -> list[str]:
    """Columns of text of which the smallest or the largest is kept, once for each."""
    kept = {(a.function, a.column) for query in queries for _, a in query.aggregates if a.function in ("min", "max")}
    columns = sorted(column for _, column in kept if column is not None)
    return [column for column in columns if is_text(schema.field(column).type)]


def _shuffle(what: str, rows: float, width: float) -> Crossing:
    return Crossing("shuffle", what, round(rows), round(rows * width))


def _partitions(size: float) -> int:
    return -(-int(size) // SPARK_PARTITION_BYTES)


def _window_rows(grouping: Grouping, profile: FrameProfile, parts: int) -> float:
    """Windows without keys, each once for every part of the slices in which some of its own are."""
    total = 0.0
    for member in grouping.grid.members:
        own = member.window.size // grouping.grid.slice
        total += profile.windows(grouping, member.window) * parts * (1 - (1 - 1 / parts) ** own)
    return total


# --- leaves, relays and a root in Python ---


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """Nodes, what they see of what sizes grow with, and the rows of results if they are known. Relays: how many for each root."""

    leaves: int
    relays: int
    roots: int
    at_leaves: int
    at_relays: int
    results: int | None


def python_crossings(
    df: DataFrame,
    queries: Sequence[Query],
    profile: FrameProfile,
    asked: Asked,
    sort: Sequence[str],
    cores: int,
) -> Iterator[Crossing]:
    """``sort``: the columns by which all events are sorted first, if they are."""
    root = asked.root(queries)
    columns = list(root.columns)
    leaves, planned = profile.partitions, partition_count(df.orderBy(*map(quoted, sort)) if sort else df)
    if sort:
        width = row_bytes(profile, asked.schema, dict.fromkeys([*columns, *sort]))
        partitions = int(str(df.sparkSession.conf.get("spark.sql.shuffle.partitions")))
        leaves = max(1, min(partitions, _partitions(profile.events * width)))
        yield _shuffle("events, to be sorted", profile.events, width)
    bytes_ = round(profile.events * arrow_bytes(profile, asked.schema, columns))
    yield Crossing("into Python", "events, to leaves", profile.events, bytes_)
    found = groupings(queries, asked)
    read = pa.schema([asked.schema.field(name) for name in columns])
    events = sample(df, read, asked.ticks, found, profile.all if sort else profile.largest)
    are_fixed = bool(found) and all(isinstance(q.window, Sliding | Band) and not q.emit_empty for q in queries)
    by_groups = are_fixed and all(map(_sends_slices_only, queries))
    relays = -(-leaves // FAN_IN) if planned is None or planned > FAN_IN else 0
    at_leaves, at_relays = _counts(found if by_groups else [], profile, relays, bool(sort))
    windows = sum(profile.windows(one, member.window) for one in found for member in one.grid.members)
    roots = root_count(queries, cores)
    counted = NodeLoad(leaves, relays, roots, at_leaves, at_relays, windows if are_fixed else None)
    yield from _through_nodes(lines(initial_root_bytes(root), roots, events, by_groups), counted)


def _sends_slices_only(query: Query) -> bool:
    """A leaf sends so much for each slice and key, however many events are in it."""
    place = placement(query, round_trips=False)
    return place.way == "slices" and place.travels == "partials"


def _counts(found: Sequence[Grouping], profile: FrameProfile, relays: int, is_sorted: bool) -> tuple[int, int]:
    """The groups that leaves see and that relays do; without any, events."""
    if not found:
        return profile.events, profile.events
    groups = [profile.groups[one.group] for one in found]
    in_all = sum(one.in_all for one in groups)
    # Sorted partitions are ranges of time: they have next to no slices in common.
    in_partitions = in_all if is_sorted else sum(one.in_partitions for one in groups)
    return in_partitions, min(in_partitions, max(1, relays) * in_all)


def _through_nodes(sizes: dict[str, SizeLines], counted: NodeLoad) -> Iterator[Crossing]:
    leaf = _framed(sizes["leaf"], counted.leaves, counted.at_leaves, counted.roots)
    yield from _sent("leaves", leaf, "relays" if counted.relays else "roots")
    if counted.relays:
        relay = _framed(sizes["relay"], counted.relays, counted.at_relays, counted.roots)
        # A relay passes on what each of its leaves asks; that of one is in what it sends anyway.
        asking = sizes["hello"].at(counted.leaves - counted.relays, 0)
        relay = Sent(relay.rows + asking.rows, relay.arrow + asking.arrow, relay.shuffled + asking.shuffled)
        yield from _sent("relays", relay, "roots")
    root = sizes["root"]
    rows = root.rows.at(1, counted.at_relays) if counted.results is None else counted.results
    yield Crossing("out of Python", "result rows", round(rows), round(root.arrow.at(1, rows)))


def _sent(nodes: str, sent: Sent, to: str) -> Iterator[Crossing]:
    yield Crossing("out of Python", f"frames of {nodes}", sent.rows, sent.arrow)
    yield Crossing("shuffle", f"frames, to {to}", sent.rows, sent.shuffled)
    yield Crossing("into Python", f"frames, to {to}", sent.rows, sent.shuffled)


def _framed(line: SizeLines, nodes: int, count: int, roots: int) -> Sent:
    """What nodes send: large deltas are several frames, each with a share for every root."""
    sent = line.at(nodes, count)
    more = nodes * roots * more_frames(sent.shuffled / max(1, nodes))
    return Sent(sent.rows + more, sent.arrow, sent.shuffled)
