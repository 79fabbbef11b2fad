"""What `headwater simulate` and `headwater replay` show."""

from __future__ import annotations

import sys
from collections import deque

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headwater.simulator.runner import Options, simulate
from headwater.simulator.seeds import Summary, simulate_many
from headwater.simulator.transcript import Transcript

#: Failures beyond these are only counted: one is enough to work on.
FAILURES_SHOWN = 5
#: Where there is no bar to see, a line tells after so many runs how far it is.
LINE_EVERY = 50


def show_seeds(options: Options, seeds: range, jobs: int, seconds: float | None = None) -> int:
    """Run the seeds, show how it went, and return the exit code: 1 if a run failed or something never occurred."""
    summary = Summary()
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(seeds))
        for outcome in simulate_many(options, seeds, jobs, seconds):
            summary.add(outcome)
            progress.advance(task)
            if not console.is_terminal and summary.run_count % LINE_EVERY == 0:
                print(f"{summary.run_count} of {len(seeds)} runs", file=sys.stderr, flush=True)
            if outcome.failure is not None and len(summary.failures) <= FAILURES_SHOWN:
                progress.stop()
                print(outcome.text(), flush=True)
                progress.start()
    print("\n".join(summary.counts.lines()))
    print(f"{summary.run_count} runs, {summary.steps:,} steps, {summary.rows:,} rows, {len(summary.failures)} failed")
    # A few seeds need not meet everything.
    missing = (
        summary.missing(options.faults, options.scenario) if summary.run_count >= 100 and options.plant is None else []
    )
    if missing:
        print(f"never occurred: {', '.join(missing)}")
    return 1 if summary.failures or missing else 0


def show_run(options: Options, node: str | None = None, last: int | None = None) -> int:
    """Replay a run step by step (or only the steps of a node, or the last ones); the exit code says how it went."""
    kept: deque[str] = deque(maxlen=last)
    transcript = Transcript(kept.append if last is not None else _print_line, node)
    outcome = simulate(options, [transcript])
    for line in kept:
        _print_line(line)
    if outcome.failure is not None:
        print(f"FAILED {outcome.failure}")
        return 1
    print(f"passed: {outcome.steps:,} steps, {outcome.rows:,} rows, {outcome.time_ns / 1e9:.3f} virtual seconds")
    if options.scenario == "count-windows":
        print("\n".join(outcome.counts.lines()))
    return 0


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
