"""Of what a leaf would read again, only the stretches that hold what it is asked for."""

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


def _beginning(source: SourceState, begins: Sequence[tuple[int, int]]) -> SourceState:
    """What was decided about a source between stretches is part of the watermark at the next."""
    (hold, watermark), *others = begins
    floors = sorted({*others, *(floor for floor in source.floors if floor[0] >= hold)})
    return replace(source, hold=hold, hold_watermark=watermark, floors=tuple(floors))
