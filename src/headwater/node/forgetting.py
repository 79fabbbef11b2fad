"""Forgetting sources that are done, so that what a root knows is bounded by what is open and not by what was.

A root that forgets is made again from its snapshot, without them: nothing can be left over that still knows their numbers. So it
is done where a snapshot is taken anyway, and where nothing is on its way from the leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from headwater.engine.intake.chunk import Chunk
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.node.root import RootNode


def without_sources(root: RootNode, names: Collection[str]) -> tuple[RootNode, list[str]]:
    """A root that does not know these sources any more, and which they are: all that are idle and have no event left in an open
    window. They bring nothing any more, or are new sources then.

    Windows that may need events read again, those cut by markers and count windows in pieces, keep all of them.
    """
    members = root.members
    idle = {name for name in names if name in members.numbers and not members.active[members.numbers[name]]}
    if not idle or root.reads_again:
        return root, []
    state = from_bytes(root.snapshot())
    half = from_bytes(state["half"])
    gone = idle - {name for chunk in _chunks(half) for name in _held(chunk)}
    if not gone:
        return root, []
    changed = _forget(state["members"], gone)
    for chunk in _chunks(half):
        _renumber(chunk, state["members"]["names"])
    made = RootNode.restore(to_bytes({**state, "half": to_bytes(half)}))
    made.begin_epochs(changed)
    return made, sorted(gone)


def _forget(members: dict[str, Any], gone: Collection[str]) -> list[str]:
    """Take sources out of the state of a `Membership`; the chains that had any of them."""
    kept = np.array([name not in gone for name in members["names"]], np.bool_)
    numbers = np.where(kept, np.cumsum(kept) - 1, -1)
    members["forgotten"] = members.get("forgotten", 0) + int(members["arrays"][0][~kept].sum())
    for column in ("names", "homes"):
        members[column] = [each for each, is_kept in zip(members[column], kept.tolist(), strict=True) if is_kept]
    members["arrays"] = [array[kept] for array in members["arrays"]]
    members["floors"] = []
    changed = []
    for chain in members["chains"]:
        name, sources = chain[0], chain[2]
        chain[2] = numbers[sources[kept[sources]]]
        changed += [name] if len(chain[2]) < len(sources) else []
    return changed


def _chunks(state: Any) -> Iterator[Chunk]:
    """All events that a state holds as themselves."""
    if isinstance(state, Chunk):
        yield state
    elif isinstance(state, dict | list):
        for each in state.values() if isinstance(state, dict) else state:
            yield from _chunks(each)


def _held(chunk: Chunk) -> list[str]:
    return [chunk.source_names[number] for number in np.unique(chunk.source_ids).tolist()]


def _renumber(chunk: Chunk, names: list[str]) -> None:
    """Let a chunk refer to another list of sources, which has all of its own."""
    places = {name: number for number, name in enumerate(names)}
    numbers = np.array([places.get(name, -1) for name in chunk.source_names], np.int32)
    chunk.refer(numbers[chunk.source_ids], names)
