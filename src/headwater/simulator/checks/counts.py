"""How often each fault and each path of the protocols occurred.

A fault that had no effect proves nothing, so it counts only once a later step has read what it changed: a lost message whose
receiver was there to take it, a pause in which something came, a crash after which the node was spoken to again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

LINK_FAULTS = ("delay", "loss", "duplication", "reordering", "partition")
MACHINE_FAULTS = ("pause", "crash", "amnesia", "halfway", "replacement", "drift", "root", "slow")
#: Drawn apart: a seed keeps its other faults if these are left out.
BORDER_FAULTS = ("one-way", "torn", "flip", "full", "stall", "jump", "gone")
#: Every fault that a plan can hold; also the words of ``--faults``.
FAULTS = LINK_FAULTS + MACHINE_FAULTS + BORDER_FAULTS
#: Those of streams in micro-batches: drivers and their disk, clocks, sources and sinks, and what has to be refused.
STREAM_FAULTS = (
    *("crash", "torn", "power", "offsets", "full", "error", "flip", "pause", "jump", "late", "read", "sink"),
    *("restored", "stranger", "log-back"),
)


def faults_of(scenario: str) -> tuple[str, ...]:
    """Every fault of a scenario."""
    return STREAM_FAULTS if scenario == "stream" else FAULTS


def chosen_faults(text: str, scenario: str = "tree") -> frozenset[str]:
    """The faults that a user names: all, none, or some of them.

    >>> sorted(chosen_faults("loss,crash"))
    ['crash', 'loss']
    >>> chosen_faults("looss")
    Traceback (most recent call last):
    ValueError: there is no fault 'looss'; there are delay, loss, duplication, reordering, partition, pause, crash, amnesia,
        halfway, replacement, drift, root, slow, one-way, torn, flip, full, stall, jump, gone
    """
    known = faults_of(scenario)
    if text in ("all", "none"):
        return frozenset(known if text == "all" else ())
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(f"there is no fault {name!r}; there are {', '.join(known)}")
    return frozenset(names)


class Counts(Counter[str]):
    """Names begin with ``fault:`` or ``path:``; those of count windows also with ``drawn:`` (the number of runs) and ``count:``.

    >>> counts = Counts({"fault: loss": 2})
    >>> counts.missing(["fault: loss", "fault: pause"])
    ['fault: pause']
    """

    def missing(self, wanted: Iterable[str]) -> list[str]:
        """Those that never occurred."""
        return [name for name in wanted if not self[name]]

    def lines(self) -> list[str]:
        """One line per name, in their order."""
        return [f"{count:8,}  {name}" for name, count in sorted(self.items())]
