"""Forecast of rows and bytes that cross into Python workers, out of them, and through shuffles.

Bytes are what Spark's own metrics count: "data sent to Python workers", "data returned from Python workers", and the "data size"
of an exchange, which is that of its rows before they are compressed.

What leaves, relays and roots send is told from a sample: they run in the driver over a stretch of time of one partition (of all,
where rows are sorted first), so its slices are as full as all are. Two samples, the shorter a part of the longer, tell what grows
with the events or their groups from what each node sends anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headwater.base.arrow import schema_to_bytes
from headwater.engine.placement import placement
from headwater.language.query import Query
from headwater.language.windows import Band, Sliding
from headwater.spark.batch.initial_root import SETTINGS, initial_root_bytes, root_of
from headwater.spark.batch.leaf import FAN_IN, LeafTask, SourceFeed
from headwater.spark.batch.partition_leaves import partition_count
from headwater.spark.batch.root import merged, plain_rows, root_count, rows
from headwater.spark.explain import profile as profiles
from headwater.spark.explain.profile import FrameProfile, Grouping, is_text, row_bytes
from headwater.spark.native.aggregates import Operators
from headwater.spark.native.choice import Asked
from headwater.spark.native.types import quoted
from headwater.spark.types import spark_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Where = Literal["into Python", "out of Python", "shuffle"]
WHERES: Final[tuple[Where, ...]] = ("into Python", "out of Python", "shuffle")
#: Spark puts small partitions of a shuffle together until they have this many bytes.
SPARK_PARTITION_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Crossing:
    """Rows and bytes of one kind, ``what``, that cross at one place."""

    where: Where
    what: str
    rows: int
    bytes: int


#: Events of a sample, about; never more than twice as many.
SAMPLE_EVENTS: Final = 1 << 15
#: A stretch with fewer events than this is a gap; then any events have to do.
SAMPLE_LEAST: Final = 1 << 9
TIME: Final = "__sample_time"


@dataclass(frozen=True, slots=True)
class EventSample:
    """Events, a shorter stretch of them first, and how many groups each of the two has."""

    short: pa.Table
    long: pa.Table
    groups: tuple[int, int]


def sample(
    df: DataFrame,
    schema: pa.Schema,
    time: tuple[str, str] | None,
    asked: Sequence[Grouping],
    stretch: profiles.PartitionSpan,
) -> EventSample:
    """Events of some time in the middle of ``stretch``, with the columns of ``schema``."""
    extra = [f"{profiles.when(time)} AS {TIME}", *(f"{one.group} AS __group{i}" for i, one in enumerate(asked))]
    wanted = df.selectExpr(*map(quoted, schema.names), *extra, "spark_partition_id() AS __partition")
    if stretch.low is not None and stretch.high is not None:
        length = max(1, (stretch.high - stretch.low + 1) * SAMPLE_EVENTS // max(1, stretch.events))
        begin = max(stretch.low, (stretch.low + stretch.high) // 2 - length // 2)
        inside = wanted.where(f"{TIME} >= {begin}L AND {TIME} < {begin + length}L")
        if stretch.partition is not None:
            inside = inside.where(f"__partition = {stretch.partition}")
        table = inside.limit(2 * SAMPLE_EVENTS).toArrow()
        if len(table) >= min(SAMPLE_LEAST, stretch.events):
            table = table.sort_by(TIME) if stretch.partition is None else table
            return _halved(table, schema, begin + length // 4, len(asked))
    return _halved(wanted.limit(SAMPLE_EVENTS).toArrow(), schema, None, len(asked))


def _halved(table: pa.Table, schema: pa.Schema, until: int | None, group_count: int) -> EventSample:
    """``until``: where the shorter stretch ends; None if it is the first rows."""
    part = table.slice(0, len(table) // 4) if until is None else table.filter(pc.less(table.column(TIME), until))
    counts = [
        sum(pc.count_distinct(one.column(f"__group{i}")).as_py() for i in range(group_count)) for one in (part, table)
    ]
    short, long = (one.select(schema.names).cast(schema) for one in (part, table))
    return EventSample(short, long, (counts[0], counts[1]))


class Sent(NamedTuple):
    """Size of a node's output: rows, their bytes as Arrow, and their bytes in a shuffle."""

    rows: int
    arrow: int
    shuffled: int


def run_nodes(root: bytes, roots: int, events: pa.Table) -> dict[str, Sent]:
    """What one leaf, its relays (one for each root) and all roots send over these events; "hello" is what the leaf says first."""
    name = "0" * 10
    feed = SourceFeed(name, "", events.to_batches())
    from_leaf = list(LeafTask(root, 0, [(name, "")], roots).run([feed], flush=True))
    schema = spark_types(plain_rows(root_of(root).result_schema))[0]
    from_relays: list[pa.RecordBatch] = []
    from_roots: list[pa.RecordBatch] = []
    for bucket in range(roots):
        relay = list(merged(batch.slice(bucket, 1) for batch in from_leaf))
        from_relays += relay
        from_roots += rows(root, relay, schema_to_bytes(schema), flush=True)
    around = roots * _message_bytes([pa.RecordBatch.from_pylist([], schema)])
    results = Sent(sum(map(len, from_roots)), around + sum(batch.nbytes for batch in from_roots), 0)
    sent = {"hello": from_leaf[:1], "leaf": from_leaf, "relay": from_relays}
    return {node: _frames(batches) for node, batches in sent.items()} | {"root": results}


def _frames(batches: Sequence[pa.RecordBatch]) -> Sent:
    count = sum(map(len, batches))
    texts = (text.as_buffer().size for batch in batches for name in ("chain", "frame") for text in batch.column(name))
    # Five columns of eight bytes and a word of their null bits; texts in whole words beside them.
    return Sent(count, _message_bytes(batches), count * 48 + sum(-(-size // 8) * 8 for size in texts))


def _message_bytes(batches: Iterable[pa.RecordBatch]) -> int:
    """Batches as they are written for Spark; the schema in front of them it does not count."""
    return sum(pa.ipc.get_record_batch_size(batch) for batch in batches)


@dataclass(frozen=True, slots=True)
class SizeLine:
    """``anyway`` for each node, and ``each`` for whatever is counted: events or groups."""

    anyway: float
    each: float

    def at(self, nodes: float, count: float) -> float:
        return max(0.0, nodes * self.anyway + self.each * count)

    @classmethod
    def through(cls, empty: float, counts: tuple[int, int], sizes: tuple[float, float]) -> SizeLine:
        """Through two samples; through the longer and nothing at all, if the shorter is not shorter.

        >>> SizeLine.through(5, (10, 20), (27, 47))
        SizeLine(anyway=7.0, each=2.0)
        >>> SizeLine.through(5, (20, 20), (40, 45))
        SizeLine(anyway=5, each=2.0)
        """
        (few, many), (small, large) = counts, sizes
        if many < 1.5 * few or few == 0 or large < small:
            return cls(empty, max(0.0, large - empty) / max(1, many))
        each = (large - small) / (many - few)
        return cls(large - each * many, each)


class SizeLines(NamedTuple):
    """How the output of one kind of node grows: rows, Arrow bytes and bytes of a shuffle."""

    rows: SizeLine
    arrow: SizeLine
    shuffled: SizeLine

    def at(self, nodes: float, count: float) -> Sent:
        return Sent(*(round(line.at(nodes, count)) for line in self))


def lines(root: bytes, roots: int, found: EventSample, by_groups: bool) -> dict[str, SizeLines]:
    """How the output of each kind of node grows; ``by_groups``: with groups of slice and key, not with events."""
    counts = found.groups if by_groups else (len(found.short), len(found.long))
    empty, short, long = (run_nodes(root, roots, table) for table in (found.long.slice(0, 0), found.short, found.long))
    made = {}
    for node in empty:
        sizes = zip(empty[node], short[node], long[node])
        made[node] = SizeLines(*(SizeLine.through(none, counts, (few, many)) for none, few, many in sizes))
    # Bytes of results grow with their rows.
    few, many = short["root"], long["root"]
    by_rows = SizeLine.through(empty["root"].arrow, (few.rows, many.rows), (few.arrow, many.arrow))
    return made | {"root": made["root"]._replace(arrow=by_rows)}


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
    bytes_ = round(profile.events * profiles.arrow_bytes(profile, asked.schema, columns))
    yield Crossing("into Python", "events, to leaves", profile.events, bytes_)
    found = profiles.groupings(queries, asked)
    read = pa.schema([asked.schema.field(name) for name in columns])
    events = sample(df, read, asked.ticks, found, profile.all if sort else profile.largest)
    are_fixed = bool(found) and all(isinstance(q.window, Sliding | Band) and not q.emit_empty for q in queries)
    by_groups = are_fixed and all(map(_sends_slices_only, queries))
    relays = -(-leaves // FAN_IN) if planned is None or planned > FAN_IN else 0
    at_leaves, at_relays = _counts(found if by_groups else [], profile, relays, bool(sort))
    windows = sum(profile.windows(one, member.window) for one in found for member in one.grid.members)
    roots = root_count(queries, cores)
    sizes = lines(initial_root_bytes(root), roots, events, by_groups)
    yield from _sent("leaves", _framed(sizes["leaf"], leaves, at_leaves, roots), "relays" if relays else "roots")
    if relays:
        # A relay passes on what each of its leaves asks; that of one is in what it sends anyway.
        asking = sizes["hello"].at(leaves - relays, 0)
        yield from _sent("relays", Sent(*map(add, _framed(sizes["relay"], relays, at_relays, roots), asking)), "roots")
    rows = windows if are_fixed else sizes["root"].rows.at(1, at_relays)
    yield Crossing("out of Python", "result rows", round(rows), round(sizes["root"].arrow.at(1, rows)))


def _sends_slices_only(query: Query) -> bool:
    """Whether what a leaf sends grows with slices and keys, and not with the events in them."""
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


def _sent(nodes: str, sent: Sent, to: str) -> Iterator[Crossing]:
    yield Crossing("out of Python", f"frames of {nodes}", sent.rows, sent.arrow)
    yield Crossing("shuffle", f"frames, to {to}", sent.rows, sent.shuffled)
    yield Crossing("into Python", f"frames, to {to}", sent.rows, sent.shuffled)


def _framed(line: SizeLines, nodes: int, count: int, roots: int) -> Sent:
    """Size of the frames of all nodes: large deltas are several frames, each with a share for every root."""
    sent = line.at(nodes, count)
    more = nodes * roots * int(sent.shuffled / max(1, nodes) // SETTINGS.pending_bytes_max)
    return sent._replace(rows=sent.rows + more)
