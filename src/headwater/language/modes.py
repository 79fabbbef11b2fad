"""The ways to compute: headwater's own, and the baselines of the papers, to show what sharing brings."""

from __future__ import annotations

from typing import Final

from headwater.errors import QueryError

#: cebuffer: a buffer per window, aggregated when it ends. debucket: each window for itself, incrementally. desw, scotty:
#: slices shared by queries of the same function and measure. desis: everything shared (the default).
MODES: Final = ("cebuffer", "debucket", "desw", "scotty", "desis")
#: The two halves of an engine over a tree; no user asks for these.
LEAF, ROOT = "leaf", "root"
#: The same where the root has no way back down, as within one batch job: nothing may wait for its word.
LEAF_ONE_WAY, ROOT_ONE_WAY = "leaf_one_way", "root_one_way"
#: The same where leaves cut events into pieces for count windows; in the others, events of count windows travel.
LEAF_COUNTING, ROOT_COUNTING = "leaf_counting", "root_counting"
#: The same, but not for windows of few events.
LEAF_COUNTING_LARGE, ROOT_COUNTING_LARGE = "leaf_counting_large", "root_counting_large"
LEAVES: Final = frozenset({LEAF, LEAF_ONE_WAY, LEAF_COUNTING, LEAF_COUNTING_LARGE})
LARGE_ONLY: Final = frozenset({LEAF_COUNTING_LARGE, ROOT_COUNTING_LARGE})
COUNTING: Final = frozenset({LEAF_COUNTING, ROOT_COUNTING}) | LARGE_ONLY
ONE_WAY: Final = frozenset({LEAF_ONE_WAY, ROOT_ONE_WAY})
HALVES: Final = frozenset({LEAF, ROOT}) | ONE_WAY | COUNTING


def check_mode(mode: str) -> str:
    """
    >>> check_mode("desis")
    'desis'
    """
    if mode not in MODES and mode not in HALVES:
        raise QueryError(f"mode is {mode!r}: give one of {', '.join(map(repr, MODES))}")
    return mode
