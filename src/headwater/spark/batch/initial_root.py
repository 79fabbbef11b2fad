"""The initial root, and the same serialized: the snapshot that root tasks restore, and the assignment every leaf starts with.

Before anything is accepted a root answers every leaf in the same way. So its answer is asked for once, on the driver, and no leaf
has to make a root for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.language.query import Query
from headwater.node import NodeSettings, RootNode
from headwater.protocols.messages import Assign, SourceState, decode, encode

#: Nothing in tasks waits for a clock, and no task restores a root. Frames of a few megabytes pass through Spark best.
SETTINGS = NodeSettings(pending_bytes_max=1 << 23, is_recorded=False)


def initial_root(queries: Iterable[Query], schema: pa.Schema, **settings: Any) -> RootNode:
    """A root that no leaf has met; queries that do not fit the columns are refused."""
    return RootNode("root", queries, schema=schema, settings=SETTINGS, round_trips=False, **settings)


def initial_root_bytes(root: RootNode) -> bytes:
    """An initial root as bytes, with its answer to every leaf and the text of its queries."""
    return to_bytes([root.snapshot(), encode(root.assignments.first()), root.assignments.query_text])


def root_of(data: bytes) -> RootNode:
    """The root of which these are the bytes."""
    return RootNode.restore(from_bytes(data)[0])


def assignment(data: bytes, chain: str, sources: Sequence[tuple[str, str]]) -> Assign:
    """What the root answers the leaf of a chain that has these sources."""
    _, frame, text = from_bytes(data)
    first = decode(frame)
    assert isinstance(first, Assign)
    (unknown,) = first.sources
    states: list[SourceState] = [replace(unknown, name=name, home=home) for name, home in sources]
    return replace(first, chain=chain, node=chain, sources=tuple(states), queries=text)
