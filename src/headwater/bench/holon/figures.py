"""``headwater bench holon``: what it costs that no node is the root, and what nodes tell each other.

``core`` asks about one process: `rates.py` how fast partitions are run, `shares.py` how many bytes nodes tell each other,
`tops.py` about the best events of each key against Polars, `gaps.py` about event time that jumps. Rates and ratios are medians
of runs that take turns, in processor time of one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headwater.bench.common.report import Report
from headwater.bench.engine import one_core
from headwater.bench.holon import gaps, rates, shares, tops

Question = Callable[[Report], object]
PARTS: Final[dict[str, tuple[Question, ...]]] = {
    "core": (
        rates.declared,
        rates.batches,
        rates.events,
        shares.touched_keys,
        shares.gossip,
        tops.against_polars,
        gaps.year,
    ),
}


def run(report: Report, part: str) -> None:
    """Measure the figures of a part into ``report``."""
    with one_core():
        report.ask(PARTS[part], report)
