"""Limits a re-read to the offset ranges that contain the pieces the root asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.protocols.messages import Assign, SourceState
from headwater.protocols.rereading import Reread

#: By source: from which offset to which it is read again, in order.
Again = Mapping[str, Sequence[tuple[int, int]]]


def narrowed(assign: Assign, stretches: Sequence[Reread]) -> tuple[Assign, dict[str, list[tuple[int, int]]]]:
    """An assignment that begins at the first stretch and knows the watermarks at which the others begin; and where they are."""
    if not stretches:
        return assign, {}
    states, again = [], {}
    for place, source in enumerate(assign.sources):
        states.append(_beginning(source, [(int(s.begins[place]), int(s.watermarks[place])) for s in stretches]))
        # What lies behind them and was accepted is passed over as well.
        again[source.name] = [(int(s.begins[place]), int(s.ends[place])) for s in stretches]
    return replace(assign, sources=tuple(states)), again


def returning(assign: Assign, idle: Sequence[str], ends: Mapping[str, int]) -> tuple[Assign, Again] | None:
    """Only the first new events of idle sources, if a chain that counts has any: with them its sources return.

    Whatever else the leaf sent would be void. But what it sent before it came to them would not be, and in the middle of a batch
    nobody can tell events that were in pieces before from those that were not.
    """
    found = [s for s in assign.sources if s.name in idle and s.offset < ends.get(s.name, 0)]
    if not assign.covered or not found:
        return None
    states = tuple(replace(s, hold=s.offset, hold_watermark=s.watermark, floors=()) for s in assign.sources)
    return replace(assign, sources=states, looks=b""), {s.name: [(s.offset, s.offset + 1)] for s in found}


def _beginning(source: SourceState, begins: Sequence[tuple[int, int]]) -> SourceState:
    """What was decided about a source between stretches is part of the watermark at the next."""
    (hold, watermark), *others = begins
    floors = sorted({*others, *(floor for floor in source.floors if floor[0] >= hold)})
    return replace(source, hold=hold, hold_watermark=watermark, floors=tuple(floors))
