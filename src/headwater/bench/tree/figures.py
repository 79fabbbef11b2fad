"""``headwater bench tree``: what a tree of nodes sends and costs, against one place that gets all events.

Bytes are those of real encoded frames over every link, up and down; times are processor times of the real nodes. *Central*
sends every event as an Arrow record batch over every link up to the root (see `tree_stream`). ``tree_network`` asks about
bytes, ``tree_rates`` about speed, ``tree_papers`` draws both as Disco and Desis do.
"""

from __future__ import annotations

from pathlib import Path

from headwater.bench.common.report import Report
from headwater.bench.common.timing import StepLog
from headwater.bench.engine import one_core
from headwater.bench.tree import network as tree_network
from headwater.bench.tree import papers as tree_papers
from headwater.bench.tree import rates as tree_rates
from headwater.bench.tree.network import NetworkBench
from headwater.bench.tree.rates import RateBench

NETWORK = (
    tree_network.decomposable,
    tree_network.heights,
    tree_network.concurrent_windows,
    tree_network.holistic,
    tree_network.many_keys,
)
RATES = (tree_rates.relay, tree_rates.root, tree_rates.leaf, tree_rates.growing_tree, tree_rates.simulated)


def run(report: Report, progress: StepLog, plots: Path | None = None) -> None:
    """Measure all figures of a tree into ``report``; draw the papers' figures into ``plots`` if it is given."""
    network, rates = NetworkBench(report, progress), RateBench(report, progress)
    with one_core():
        for question in NETWORK:
            progress.say(f"network: {question.__name__.replace('_', ' ')}")
            question(network)
        for rate in RATES:
            progress.say(f"rates: {rate.__name__.replace('_', ' ')}")
            rate(rates)
        if plots is not None:
            progress.say("the rest of the papers' figures")
            central = tree_papers.measure_rest(network)
            written = tree_papers.write(tree_papers.points(network.cells, central, rates.root_rows), plots)
            progress.say(f"{len(written)} files in {plots}")
