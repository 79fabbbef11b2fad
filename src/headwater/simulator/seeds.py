"""Many runs: seeds from a range, on several processes, as long as asked."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import islice

from headwater.simulator.checks.counts import Counts, chosen_faults, faults_of
from headwater.simulator.runner import Options, RunVerdict, simulate
from headwater.simulator.scenarios import EXACT_SCHEMES

#: Paths of the protocols that the default seeds of either scenario have to take.
PATHS: tuple[str, ...] = (
    *(f"path: leaf {what}" for what in ("began", "rewound", "superseded", "resent", "paused", "resumed", "flushed")),
    *(f"path: relay {what}" for what in ("combined", "recombined", "rejected", "resent")),
    *(f"path: root {what}" for what in ("accepted", "assigned", "flushed", "query added", "query removed")),
    *(f"path: root decided {what}" for what in ("joined", "idle", "returned")),
    *(f"path: root rejected: {why}" for why in ("duplicate", "gap", "overlap", "old epoch", "idle", "finished")),
    "drawn: streams that go on while the world heals",
)
#: By scenario, what must not be missing: paths, what was drawn, and what was counted.
WANTED: dict[str, tuple[str, ...]] = {
    "tree": (
        *PATHS,
        *(f"path: leaf {what}" for what in ("cut", "late travels", "markers travel", "raw travels", "raw instead")),
        *(f"path: root {what}" for what in ("cut announced", "cut done")),
    ),
    "count-windows": (
        *PATHS,
        *(f"path: leaf {what}" for what in ("looked", "looked into", "looked too far back", "raw travels")),
        "path: root look",
        *(f"count: {what}" for what in ("windows", "corrections", "up_flows", "down_flows", "raw_events")),
        *(f"drawn: scheme {scheme}" for scheme in EXACT_SCHEMES),
        *(f"drawn: windows {which}" for which in ("of one event", "larger than the stream")),
        "drawn: windows smaller than the number of leaves",
        *(f"drawn: {what}" for what in ("sliding", "tumbling", "gaps between windows", "several sizes at once")),
        *(f"drawn: {what}" for what in ("positions per key", "positions over all, rows by key", "a condition")),
        *(f"drawn: a source that {does}" for does in ("joins late", "ends")),
        *(f"drawn: {what}" for what in ("a leaf without events", "several sources of a leaf", "relays")),
        *(f"drawn: {what}" for what in ("times that sources share", "disorder within a source", "rates that change")),
    ),
    "stream": (
        *(f"drawn: sink {kind}" for kind in ("memory", "folder", "gathering", "log")),
        *(f"drawn: {what}" for what in ("input log", "input listed", "roots in tasks", "root on the driver", "idle")),
        *(f"drawn: {what}" for what in ("count windows", "windows of every kind")),
        *(f"path: root {what}" for what in ("accepted", "flushed", "query added", "query removed")),
        *(f"path: root decided {what}" for what in ("joined", "idle", "returned")),
        *(f"path: {what}" for what in ("driver stopped and started again", "source forgotten", "limit of events")),
    ),
    "holon": (
        *(
            f"drawn: a partition that {what}"
            for what in ("is late to speak", "ends early", "falls silent", "never speaks")
        ),
        *(f"drawn: {what}" for what in ("idle", "no idle", "a gap in event time", "an end while things go wrong")),
    ),
}


@dataclass
class Summary:
    """The counts and failures of many runs."""

    run_count: int = 0
    failures: list[RunVerdict] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    steps: int = 0
    rows: int = 0

    def add(self, outcome: RunVerdict) -> None:
        """One more run."""
        self.run_count += 1
        self.counts.update(outcome.counts)
        self.steps += outcome.steps
        self.rows += outcome.rows
        if outcome.failure is not None:
            self.failures.append(outcome)

    def missing(self, faults: str, scenario: str = "tree") -> list[str]:
        """The faults that were asked for, and the paths, that never occurred; paths only matter with all faults."""
        chosen = chosen_faults(faults, scenario)
        wanted = [f"fault: {fault}" for fault in faults_of(scenario) if fault in chosen]
        return self.counts.missing([*wanted, *(WANTED[scenario] if faults == "all" else ())])


def parse_seeds(text: str) -> range:
    """A range of seeds, or one.

    >>> parse_seeds("0..500"), parse_seeds("17")
    (range(0, 500), range(17, 18))
    """
    first, dots, last = text.partition("..")
    try:
        return range(int(first), int(last)) if dots else range(int(first), int(first) + 1)
    except ValueError as error:
        raise ValueError(f"seeds are {text!r}: write a range such as 0..500, or one number") from error


def simulate_many(options: Options, seeds: range, jobs: int, seconds: float | None = None) -> Iterator[RunVerdict]:
    """Run every seed and yield verdicts as they come; after ``seconds`` no new run begins."""
    runs = (replace(options, seed=seed) for seed in seeds)
    deadline = None if seconds is None else time.monotonic() + seconds
    if jobs == 1:
        for one in runs:
            if deadline is not None and time.monotonic() > deadline:
                return
            yield simulate(one)
        return
    # Not fork: Arrow and numba have threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        pending: set[Future[RunVerdict]] = {pool.submit(simulate, one) for one in islice(runs, 3 * jobs)}
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda future: future.result().options.seed):
                yield future.result()
            if deadline is None or time.monotonic() < deadline:
                pending |= {pool.submit(simulate, one) for one in islice(runs, len(done))}
