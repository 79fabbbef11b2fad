"""Root nodes inside Spark tasks: all frames of all leaves in, result rows out; relays between them when leaves are many.

Each root has some keys, so several share the work; what has no keys is on one of them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.base.packing import Bytes
from headwater.engine.results.side_output import SCHEMA as ASIDE
from headwater.engine.results.side_output import malformed_warning
from headwater.errors import QueryError
from headwater.language.query import Query
from headwater.language.times import FOREVER
from headwater.node import RelayNode
from headwater.protocols.actions import Action, EmitAside, EmitRows, Noted, SendMessage
from headwater.protocols.events import IdleAsked, MessageReceived, TimerFired
from headwater.protocols.messages import Hello, encode
from headwater.spark.batch.initial_root import SETTINGS, root_of
from headwater.spark.batch.leaf import CONTROL, FAN_IN, FRAMES, ROOT
from headwater.spark.native.types import functions_of, quoted
from headwater.spark.shuffles import by_number
from headwater.spark.tasks import bug, in_tasks
from headwater.spark.types import spark_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

#: A source without events that the root waits for until all frames are there: then windows close once, whatever order and
#: whatever sizes the frames came in. No file has this name.
GATE = "\0gate"
#: Rows of one batch that goes back to Spark.
ROWS_MAX = 1 << 16
#: The number of cores that is assumed where it is unknown.
PARALLELISM = 8
#: More roots than this are more work for leaves than they take from each other.
ROOTS_MAX = 32

Output = Literal["results", "aside", "accounts"]
Settle: TypeAlias = "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
#: What a root counts for each query; `in` is the sum of the others.
COUNTS = ("in", "filtered", "outside", "member", "late", "dropped", "malformed")
ACCOUNTS = pa.schema([("query", pa.string()), *((name, pa.int64()) for name in COUNTS)])


def root_count(queries: Iterable[Query], parallelism: int) -> int:
    """How many roots share the keys; without keys there is nothing to share."""
    return max(1, min(parallelism, ROOTS_MAX)) if any(query.keys for query in queries) else 1


def results(
    frames: DataFrame,
    root: bytes,
    flush: bool = True,
    *,
    roots: int = 1,
    leaves: int | None = None,
    output: Output = "results",
    columns: pa.Schema | None = None,
    settle: Settle | None = None,
) -> DataFrame:
    """Rows of roots that begin as the initial ``root``, from the frames of all leaves.

    ``leaves``: how many there are at most, None if that is unknown. ``columns``: those of result rows, where they are known.
    ``settle``: what makes frames of all that comes, if that is not frames only.
    """
    if output not in ("results", "aside", "accounts"):
        raise QueryError(f"output is {output!r}: give 'results', 'aside' or 'accounts'")
    schema = _schema(root, output, columns)
    if leaves is None or leaves > FAN_IN:
        frames = relayed(frames, roots, leaves)
    by_root = by_number(frames, roots, "bucket")
    found = in_tasks(
        by_root,
        schema,
        rows,
        root,
        schema=schema_to_bytes(spark_types(schema)[0]),
        flush=flush,
        output=output,
        settle=settle,
    )
    return _summed(found) if output == "accounts" else found


def _schema(root: bytes, output: Output, columns: pa.Schema | None = None) -> pa.Schema:
    if output == "results":
        return plain_rows(root_of(root).result_schema if columns is None else columns)
    return ASIDE if output == "aside" else ACCOUNTS


def row_type(columns: pa.Schema) -> StructType:
    """The columns of result rows as they leave a task, as Spark calls them."""
    return spark_types(plain_rows(columns))[1]


def fitted_rows(rows: DataFrame, wanted: StructType) -> DataFrame:
    """Rows of some queries with the columns of the whole call, null where none of these queries has one."""
    null, have = functions_of(rows).lit(None), set(rows.columns)
    picked = [
        (rows[quoted(field.name)] if field.name in have else null.cast(field.dataType)).alias(field.name)
        for field in wanted.fields
    ]
    return rows.select(*picked)


def plain_rows(schema: pa.Schema) -> pa.Schema:
    """Result rows as they leave a task: names of queries as text, for dictionaries of two tasks may differ."""
    return schema.set(schema.get_field_index("query"), pa.field("query", pa.string(), nullable=False))


def _summed(accounts: DataFrame) -> DataFrame:
    """The accounts of all roots added up: each has counted its own share of the keys."""
    total = functions_of(accounts).sum
    return accounts.groupBy("query").agg(*(total(name).alias(name) for name in COUNTS))


def relayed(frames: DataFrame, roots: int, leaves: int | None) -> DataFrame:
    """The frames of some leaves merged into fewer, for each root apart."""
    count = None if leaves is None else -(-leaves // FAN_IN) * roots
    parted = frames.repartition("relay", "bucket") if count is None else frames.repartition(count, "relay", "bucket")
    return in_tasks(parted, FRAMES, merged)


def parts_of(table: pa.Table) -> Iterator[pa.Table]:
    """Rows as many at a time as may go back to Spark."""
    return (table.slice(start, ROWS_MAX) for start in range(0, len(table), ROWS_MAX))


def rows(
    root: bytes,
    frames: Iterable[pa.RecordBatch],
    schema: bytes,
    flush: bool,
    output: Output = "results",
    settle: Settle | None = None,
) -> Iterator[pa.RecordBatch]:
    """Result rows of one root, from all its frames; ``schema`` is that of the rows."""
    wanted = schema_from_bytes(schema)
    for table in closed(root, frames if settle is None else settle(frames), flush, output):
        if output == "results":
            table = table.set_column(0, "query", table.column("query").cast(pa.string()))
        yield from table.select(wanted.names).cast(wanted).combine_chunks().to_batches(max_chunksize=ROWS_MAX)


def closed(
    root: bytes, frames: Iterable[pa.RecordBatch], flush: bool, output: Output = "results"
) -> Iterator[pa.Table]:
    """Tables of what is asked for, after the last frame."""
    node = root_of(root)
    # As if it had the queries: the root need not serialize them for it.
    gate = Hello(GATE, GATE, version=node.assignments.version, sources=((GATE, ""),))
    node.handle(MessageReceived(GATE, encode(gate)), 0)
    has_sources = False
    wanted: type[EmitRows | EmitAside] = EmitRows if output == "results" else EmitAside
    aside: list[pa.Table] = []
    for _, _, chain, frame in in_order(frames):
        has_sources = True
        actions = node.handle(MessageReceived(chain, frame), 0)
        _check(actions, chain)
        aside += (action.rows for action in actions if isinstance(action, EmitAside))
        yield from (action.rows for action in actions if isinstance(action, wanted) and output != "accounts")
    actions = node.handle(IdleAsked(GATE), 0)
    aside += (action.rows for action in actions if isinstance(action, EmitAside))
    if (found := malformed_warning(aside)) is not None:
        # In the log of the task: nothing that a task says reaches whoever asked for its rows.
        logging.getLogger("headwater").warning("%s", found)
    if flush and has_sources and node.watermark != FOREVER:
        raise bug("some leaves have not sent all they have")
    if output == "accounts":
        counted = [{"query": name, **counts} for name, counts in node.counters().items()]
        yield pa.Table.from_pylist(counted, schema=ACCOUNTS)
        return
    yield from (action.rows for action in actions if isinstance(action, wanted))


def merged(frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Frames merged by relay nodes, one for each relay and bucket."""
    nodes: dict[tuple[int, int], RelayNode] = {}
    sent: Counter[tuple[int, int]] = Counter()

    def passed(place: tuple[int, int], actions: list[Action]) -> Iterator[pa.RecordBatch]:
        node = nodes[place]
        _check(actions, node.name)
        for action in actions:
            if isinstance(action, SendMessage) and action.target == ROOT:
                relay, bucket = place
                row = [[relay], [bucket], [node.name], [sent[place]], [action.frame]]
                sent[place] += 1
                yield pa.record_batch(row, schema=FRAMES)

    # Chain after chain: run again, tasks may end in another order, and what comes out is to be the same.
    for relay, bucket, chain, frame in sorted(in_order(frames), key=lambda each: each[:3]):
        place = relay, bucket
        if chain == CONTROL:
            yield pa.record_batch([[relay], [bucket], [chain], [0], [frame]], schema=FRAMES)
            continue
        if place not in nodes:
            nodes[place] = RelayNode(f"relay-{relay:06d}", ROOT, settings=SETTINGS, modules=None)
        yield from passed(place, nodes[place].handle(MessageReceived(chain, frame), 0))
    for place, node in nodes.items():
        yield from passed(place, node.handle(TimerFired("send"), 0))


def in_order(frames: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, str, Bytes]]:
    """Relay, bucket, sender and frame: those of one sender to one bucket in the order of their positions.

    Mostly they come so. One that comes early is kept until it is its turn: to let Spark sort them would copy them all.
    """
    due: Counter[tuple[int, str]] = Counter()
    early: dict[tuple[int, str, int], tuple[int, Bytes]] = {}
    for batch in frames:
        columns = [batch.column(name).to_pylist() for name in ("relay", "bucket", "chain", "position")]
        for relay, bucket, chain, position, frame in zip(*columns, batch.column("frame")):
            early[bucket, chain, position] = relay, memoryview(frame.as_buffer())
            while (waiting := early.pop((bucket, chain, due[bucket, chain]), None)) is not None:
                due[bucket, chain] += 1
                yield waiting[0], bucket, chain, waiting[1]
    if early:
        raise bug(f"{len(early)} frames have no predecessor")


def _check(actions: Iterable[Action], chain: str) -> None:
    """Spark loses nothing and doubles nothing, so every frame is accepted."""
    for action in actions:
        if isinstance(action, Noted) and action.what in ("rejected", "refused", "damaged frame", "damaged delta"):
            raise bug(f"leaf {chain!r}: {action.what}, {action.detail}")


def cores_of(spark: Any) -> int:
    """The number of cores; through Spark Connect it is unknown, and assumed."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:
        return PARALLELISM
