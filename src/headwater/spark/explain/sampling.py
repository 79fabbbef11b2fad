"""Forecast of what leaves, relays and roots send: they run in the driver over a bounded sample of the events.

The sample is a stretch of time of one partition (of all, where rows are sorted first), so its slices are as full as all are. Two
samples, the shorter a part of the longer, tell what grows with the events or their groups from what each node sends anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headwater.base.arrow import schema_to_bytes
from headwater.base.packing import Bytes
from headwater.spark.batch.initial_root import SETTINGS, root_of
from headwater.spark.batch.leaf import LeafTask, SourceFeed
from headwater.spark.batch.root import merged, plain_rows, rows
from headwater.spark.explain.profile import Grouping, PartitionSpan, when
from headwater.spark.native.types import quoted
from headwater.spark.types import spark_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: So many events are about right; never more than twice of them.
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
    df: DataFrame, schema: pa.Schema, time: tuple[str, str] | None, asked: Sequence[Grouping], stretch: PartitionSpan
) -> EventSample:
    """Events of some time in the middle of ``stretch``, with the columns of ``schema``."""
    extra = [f"{when(time)} AS {TIME}", *(f"{one.group} AS __group{i}" for i, one in enumerate(asked))]
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


@dataclass(frozen=True, slots=True)
class Sent:
    """What a node gave back to Spark: how many rows, their bytes as Arrow, and as rows of a shuffle."""

    rows: int
    arrow: int
    shuffled: int


@dataclass(frozen=True, slots=True)
class Nodes:
    """What one leaf, its relays (one for each root) and all roots sent; ``hello`` is what the leaf says first."""

    hello: Sent
    leaf: Sent
    relay: Sent
    root: Sent


def run_nodes(root: bytes, roots: int, events: pa.Table) -> Nodes:
    """The real nodes, over these events."""
    name = "0" * 10
    from_leaf = list(
        LeafTask(root, 0, [(name, "")], roots).run([SourceFeed(name, "", events.to_batches())], flush=True)
    )
    schema = spark_types(plain_rows(root_of(root).result_schema))[0]
    from_relays: list[pa.RecordBatch] = []
    from_roots: list[pa.RecordBatch] = []
    for bucket in range(roots):
        relay = list(merged(batch.slice(bucket, 1) for batch in from_leaf))
        from_relays += relay
        from_roots += rows(root, relay, schema_to_bytes(schema), flush=True)
    around = roots * _message_bytes([pa.RecordBatch.from_pylist([], schema)])
    results = Sent(sum(map(len, from_roots)), around + sum(batch.nbytes for batch in from_roots), 0)
    return Nodes(_frames(from_leaf[:1]), _frames(from_leaf), _frames(from_relays), results)


def _frames(batches: Sequence[pa.RecordBatch]) -> Sent:
    texts = [text for batch in batches for name in ("chain", "frame") for text in _values(batch.column(name))]
    count = sum(map(len, batches))
    # Five columns of eight bytes and a word of their null bits; texts in whole words beside them.
    return Sent(count, _message_bytes(batches), count * 48 + sum(-(-len(text) // 8) * 8 for text in texts))


def _values(column: pa.Array) -> Iterable[Bytes]:
    return (memoryview(value.as_buffer()) for value in column)


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


@dataclass(frozen=True, slots=True)
class SizeLines:
    """How what one kind of node sends grows."""

    rows: SizeLine
    arrow: SizeLine
    shuffled: SizeLine

    def at(self, nodes: float, count: float) -> Sent:
        arrow, shuffled = self.arrow.at(nodes, count), self.shuffled.at(nodes, count)
        return Sent(round(self.rows.at(nodes, count)), round(arrow), round(shuffled))


def lines(root: bytes, roots: int, found: EventSample, by_groups: bool) -> dict[str, SizeLines]:
    """For each kind of node; ``by_groups``: sizes grow with groups, not with events."""
    counts = found.groups if by_groups else (len(found.short), len(found.long))
    ran = [run_nodes(root, roots, table) for table in (found.long.slice(0, 0), found.short, found.long)]
    made = {}
    for name in ("hello", "leaf", "relay", "root"):
        sent: list[Sent] = [getattr(nodes, name) for nodes in ran]
        sizes = zip(*((one.rows, one.arrow, one.shuffled) for one in sent))
        made[name] = SizeLines(*(_line(of_three, counts) for of_three in sizes))
    # Bytes of results grow with their rows.
    rows = [nodes.root.rows for nodes in ran]
    by_rows = _line([nodes.root.arrow for nodes in ran], (rows[1], rows[2]))
    return made | {"root": replace(made["root"], arrow=by_rows)}


def _line(sizes: Sequence[int], counts: tuple[int, int]) -> SizeLine:
    return SizeLine.through(sizes[0], counts, (sizes[1], sizes[2]))


def more_frames(node_bytes: float) -> int:
    """Frames beyond the first that a node sends because of their size."""
    return int(node_bytes // SETTINGS.pending_bytes_max)
