"""Many runs: seeds from a range, on several processes, as long as asked."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import islice

from headwater.simulator.counts import FAULTS, Counts, chosen_faults
from headwater.simulator.runner import Options, Outcome, simulate

#: Paths of the protocols that the default seeds have to take.
PATHS: tuple[str, ...] = (
    *(f"leaf {what}" for what in ("began", "rewound", "superseded", "resent", "paused", "resumed", "flushed")),
    *(f"leaf {what}" for what in ("cut", "late travels", "markers travel", "raw travels", "raw instead")),
    *(f"relay {what}" for what in ("combined", "recombined", "rejected", "resent")),
    *(f"root {what}" for what in ("accepted", "assigned", "flushed", "cut announced", "cut done")),
    *(f"root {what}" for what in ("query added", "query removed")),
    *(f"root decided {what}" for what in ("joined", "idle", "returned")),
    *(f"root rejected: {why}" for why in ("duplicate", "gap", "overlap", "old epoch", "idle", "finished")),
)


@dataclass
class Summary:
    """What many runs came to."""

    run_count: int = 0
    failures: list[Outcome] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    steps: int = 0
    rows: int = 0

    def add(self, outcome: Outcome) -> None:
        """One more run."""
        self.run_count += 1
        self.counts.update(outcome.counts)
        self.steps += outcome.steps
        self.rows += outcome.rows
        if outcome.failure is not None:
            self.failures.append(outcome)

    def missing(self, faults: str) -> list[str]:
        """The faults that were asked for, and the paths, that never occurred; paths only matter with all faults."""
        chosen = chosen_faults(faults)
        wanted = [f"fault: {fault}" for fault in FAULTS if fault in chosen]
        return self.counts.missing(wanted + [f"path: {path}" for path in PATHS if faults == "all"])


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


def simulate_many(options: Options, seeds: range, jobs: int, seconds: float | None = None) -> Iterator[Outcome]:
    """Run every seed, as they come out; after ``seconds`` no new one begins."""
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
        pending: set[Future[Outcome]] = {pool.submit(simulate, one) for one in islice(runs, 3 * jobs)}
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda future: future.result().options.seed):
                yield future.result()
            if deadline is None or time.monotonic() < deadline:
                pending |= {pool.submit(simulate, one) for one in islice(runs, len(done))}
