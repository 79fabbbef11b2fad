"""What each scheme sends and holds: bytes on all links, corrections, messages, raw events, and events in a leaf's memory.

Bytes are those of real frames in both directions, with the learning of the first windows. *Central* is whatever is less: its own
frames, or an Arrow record batch for each slice of time.
"""

from __future__ import annotations

from headwater.bench.common.report import Report, at_most
from headwater.bench.deco.run import SchemeRun, central_bytes, run_together
from headwater.bench.deco.schemes import EXACT, FRUGAL, SCHEMES, plain_query
from headwater.bench.deco.workload import PLAIN, DecoWorkload

CENTRAL = "central"
#: All but central, of which a few windows show what the others are like.
MEASURED = (*(scheme for scheme in SCHEMES if scheme != CENTRAL), FRUGAL)
FULL = DecoWorkload(windows=110)
QUICK = DecoWorkload(window=100_000, windows=20)
CENTRAL_WINDOWS = 8
BOUNDS = {"async": 0.02, "auto": 0.02, FRUGAL: 0.005}


def network(report: Report, workload: DecoWorkload | None = None) -> dict[str, SchemeRun]:
    """Run all schemes over the same events, and report what they cost but for time."""
    workload = workload or (QUICK if report.quick else FULL)
    runs = runs_of(workload, MEASURED)
    shares = bytes_shares(runs, workload)
    for scheme, run in runs.items():
        bound = BOUNDS.get(scheme)
        note = f"of central's bytes, {workload.windows} windows; {costs(run)}"
        report.add(f"network_{scheme}", shares[scheme], "ratio", None if bound is None else at_most(bound), note)
        add_costs(report, scheme, run)
    add_corrections(report, runs)
    return runs


def runs_of(workload: DecoWorkload, schemes: tuple[str, ...]) -> dict[str, SchemeRun]:
    """Of a plain sum, over events that are times and values."""
    return run_together(workload, plain_query(workload.window), schemes, PLAIN)


def bytes_shares(runs: dict[str, SchemeRun], workload: DecoWorkload) -> dict[str, float]:
    """The bytes of each run / those of central over as many events: if it is not among them, some windows of it are enough."""
    few = DecoWorkload(workload.leaves, workload.window, min(CENTRAL_WINDOWS, workload.windows), workload.change)
    central = runs.get(CENTRAL) or runs_of(few, (CENTRAL,))[CENTRAL]
    own = central.total_bytes / central.workload.events
    plain = central_bytes(few, PLAIN) / few.events
    return {scheme: run.total_bytes / (min(own, plain) * workload.events) for scheme, run in runs.items()}


def add_corrections(report: Report, runs: dict[str, SchemeRun]) -> None:
    """How many of a hundred windows a leaf had to be asked about."""
    found = {scheme: 100 * run.per_window("corrections") for scheme, run in runs.items() if scheme in (*EXACT, FRUGAL)}
    note = ", ".join(f"{scheme} {count:.1f}" for scheme, count in found.items())
    windows = runs["auto"].rows.num_rows
    report.add("corrections_auto", found["auto"], "per 100 windows", at_most(10), f"{windows} windows: {note}")


def add_costs(report: Report, scheme: str, run: SchemeRun) -> None:
    """One figure for each of what `costs` tells."""
    leaves = run.workload.leaves
    for way in ("up", "down"):
        flows = run.per_window(f"{way}_flows") / leaves
        report.add(f"flows_{way}_{scheme}", flows, "per window and leaf")
    report.add(f"raw_events_{scheme}", run.per_window("leaf_raw_events"), "per window", None, "of the leaf with most")
    report.add(f"held_events_{scheme}", run.report.get("leaf_held", 0), "events", None, "of the leaf with most")


def costs(run: SchemeRun) -> str:
    """Messages per window, events that travelled, events held."""
    leaves = run.workload.leaves
    return (
        f"messages per window and leaf {run.per_window('up_flows') / leaves:.1f} up, "
        f"{run.per_window('down_flows') / leaves:.1f} down; "
        f"raw events {run.report.get('raw_events', 0) / run.workload.events:.2%}, "
        f"held by a leaf at most {run.report.get('leaf_held', 0):,.0f}"
    )
