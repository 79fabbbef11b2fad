"""The initial root, serialized: the snapshot that root tasks restore, and the assignment every leaf starts with.

Before anything is accepted a root answers every leaf in the same way. So its answer is asked for once, on the driver, and no leaf
has to make a root for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.node import RootNode
from headwater.protocols.messages import Assign, SourceState, decode, encode


def initial_root_bytes(root: RootNode) -> bytes:
    """Such a root."""
    return to_bytes([root.snapshot(), encode(root.first_assignment()), root.query_text])


def root_of(data: bytes) -> RootNode:
    """The root itself."""
    return RootNode.restore(from_bytes(data)[0])


def assignment(data: bytes, chain: str, sources: Sequence[tuple[str, str]]) -> Assign:
    """What it answers the leaf of a chain that has these sources."""
    _, frame, text = from_bytes(data)
    first = decode(frame)
    assert isinstance(first, Assign)
    (unknown,) = first.sources
    states: list[SourceState] = [replace(unknown, name=name, home=home) for name, home in sources]
    return replace(first, chain=chain, node=chain, sources=tuple(states), queries=text)
