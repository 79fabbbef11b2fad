"""Limits of count windows so low that small streams meet them all.

A piece has at least 32 events by default, and an answer to a look is raw up to 128: with a few hundred events in a run, hardly
anything would ever be looked into twice.
"""

from __future__ import annotations

from random import Random

from headwater.base.count_limits import CountLimits


def draw_limits(dice: Random) -> CountLimits:
    """Small ones."""
    smallest = dice.choice([1, 2, 5])
    return CountLimits(
        piece_min=smallest,
        unplanned_piece_max=dice.choice([8, 64]),
        piece_max=dice.choice([16, 1 << 20]),
        monitor_pieces=dice.choice([1, 4]),
        raw_events_max=dice.choice([0, 4]),
        raw_zone_max=dice.choice([0.5, 100.0]),
        small_max=0 if smallest < 5 else 4,
        raw_answer_speed=(answer := dice.choice([1, 3, 10])),
        raw_answer_bytes=answer,
        look_parts=dice.choice([2, 5]),
        key_raw_max=dice.choice([0, 1, 4]),
        local_parts=dice.choice([2, 16]),
        early_min=smallest,
        gathered_max=10 * smallest,
        sources_marked_often=dice.choice([0, 8]),
        deltas_per_mark=dice.choice([3, 16]),
    )
