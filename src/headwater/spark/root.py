"""The root inside a Spark task: all frames of all leaves in, result rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.node import RootNode
from headwater.protocols.actions import Action, EmitRows, Noted
from headwater.protocols.events import IdleAsked, MessageReceived
from headwater.protocols.messages import Hello, encode
from headwater.times import FOREVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A source without events that the root waits for until all frames are there: then windows close once, whatever order and
#: whatever sizes the frames came in. No file has this name.
GATE = "\0gate"
#: Rows of one batch that goes back to Spark.
ROWS_MAX = 1 << 16


def results(frames: DataFrame, root: bytes, flush: bool = True) -> DataFrame:
    """The result rows of all queries of ``root``, which is a snapshot taken before any leaf came."""
    from headwater.spark.types import spark_types

    wanted, struct = spark_types(plain_rows(RootNode.restore(root).result_schema))
    schema = wanted.serialize().to_pybytes()

    def assemble(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headwater.spark.root import rows

        yield from rows(root, batches, schema, flush)

    together = frames.repartition(1).sortWithinPartitions("position", "chain")
    return together.mapInArrow(assemble, struct)


def plain_rows(schema: pa.Schema) -> pa.Schema:
    """Result rows as they leave a task: names of queries as text, for dictionaries of two tasks may differ."""
    return schema.set(schema.get_field_index("query"), pa.field("query", pa.string(), nullable=False))


def rows(root: bytes, frames: Iterable[pa.RecordBatch], schema: bytes, flush: bool) -> Iterator[pa.RecordBatch]:
    """What the root makes of all frames, sorted by position; ``schema`` is that of the rows."""
    wanted = pa.ipc.read_schema(pa.py_buffer(schema))
    for table in closed(root, frames, flush):
        plain = table.set_column(0, "query", table.column("query").cast(pa.string()))
        yield from plain.select(wanted.names).cast(wanted).combine_chunks().to_batches(max_chunksize=ROWS_MAX)


def closed(root: bytes, frames: Iterable[pa.RecordBatch], flush: bool) -> Iterator[pa.Table]:
    """Tables of result rows, after the last frame."""
    node = RootNode.restore(root)
    node.handle(MessageReceived(GATE, encode(Hello(GATE, GATE, sources=((GATE, ""),)))), 0)
    has_sources = False
    for batch in frames:
        for chain, frame in zip(batch.column("chain").to_pylist(), batch.column("frame")):
            has_sources = True
            _check(node.handle(MessageReceived(chain, memoryview(frame.as_buffer())), 0), chain)
    for action in node.handle(IdleAsked(GATE), 0):
        if isinstance(action, EmitRows):
            yield action.rows
    if flush and has_sources and node.watermark != FOREVER:
        raise HeadwaterError("some leaves have not sent all they have; this is a mistake in headwater")


def _check(actions: Iterable[Action], chain: str) -> None:
    """Spark loses nothing and doubles nothing, so every frame is accepted."""
    for action in actions:
        if isinstance(action, Noted) and action.what in ("rejected", "refused", "damaged frame", "damaged delta"):
            raise HeadwaterError(f"leaf {chain!r}: {action.what}, {action.detail}; this is a mistake in headwater")
