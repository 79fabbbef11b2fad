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
#: Those of nodes without a root: links, nodes, clocks, storage, programs that take each other's place, and partitions that are
#: left out and return.
HOLON_FAULTS = (
    *LINK_FAULTS,
    *("one-way", "pause", "zombie", "crash", "everyone", "amnesia", "halfway", "slow", "drift", "jump"),
    *("stall", "full", "torn", "power", "program", "return"),
)
_FAULTS_OF = {"stream": STREAM_FAULTS, "holon": HOLON_FAULTS}


def faults_of(scenario: str) -> tuple[str, ...]:
    """Every fault of a scenario."""
    return _FAULTS_OF.get(scenario, FAULTS)


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
