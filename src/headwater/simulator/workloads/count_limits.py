"""Limits of count windows so low that small streams meet them all.

A piece has at least 32 events by default, and an answer to a look is raw up to 128: with a few hundred events in a run, hardly
anything would ever be looked into twice. Patched while a run lasts, like a planted mistake; results are the same with any.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from types import ModuleType
from typing import Any
from unittest import mock

from headwater.engine import placement
from headwater.engine.counting import leaf as count_leaf
from headwater.engine.counting import pieces, raw_cuts
from headwater.protocols import count_windows, membership

#: Limits as (where, name, value).
Limits = tuple[tuple[ModuleType, str, Any], ...]


def draw_limits(dice: Random) -> Limits:
    """Small ones."""
    smallest = dice.choice([1, 2, 5])
    return (
        (count_leaf, "PIECE_MIN", smallest),
        (count_leaf, "PIECE_MAX", dice.choice([8, 64])),
        (count_windows, "PIECE_MIN", smallest),
        (count_windows, "PIECE_MAX", dice.choice([16, 1 << 20])),
        (count_windows, "MONITOR_PIECES", dice.choice([1, 4])),
        (count_windows, "RAW_EVENTS_MAX", dice.choice([0, 4])),
        (count_windows, "RAW_ZONE_MAX", dice.choice([0.5, 100.0])),
        (placement, "SMALL_COUNT_MAX", 0 if smallest < 5 else 4),
        (count_windows, "RAW_ANSWER", dict.fromkeys(count_windows.PREFERENCES, dice.choice([1, 3, 10]))),
        (pieces, "PARTS", dice.choice([2, 5])),
        (pieces, "KEY_RAW_MAX", dice.choice([0, 1, 4])),
        (raw_cuts, "LOCAL_PARTS", dice.choice([2, 16])),
        (count_leaf, "EARLY_MIN", smallest),
        (count_leaf, "GATHERED_MAX", 10 * smallest),
        (membership, "SOURCES_MARKED_OFTEN", dice.choice([0, 8])),
        (membership, "DELTAS_PER_MARK", dice.choice([3, 16])),
    )


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """While this lasts, these hold."""
    with ExitStack() as stack:
        for module, name, value in limits:
            stack.enter_context(mock.patch.object(module, name, value))
        yield
