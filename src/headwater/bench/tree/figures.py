"""``headwater bench tree``: what a tree of nodes sends and costs, against one place that gets all events.

Bytes are those of real encoded frames over every link, up and down; times are processor times of the real nodes. *Central*
sends every event as an Arrow record batch over every link up to the root (see `stream.py`). `network.py` asks about
bytes, `rates.py` about speed, `papers.py` draws both as Disco and Desis do.
"""

from __future__ import annotations

from pathlib import Path

from headwater.bench.common.plots import write
from headwater.bench.common.report import Report
from headwater.bench.engine import one_core
from headwater.bench.tree import network, papers, rates


def run(report: Report, plots: Path | None = None) -> None:
    """Measure all figures of a tree into ``report``; draw the papers' figures into ``plots`` if it is given."""
    bytes_sent, speed = network.NetworkBench(report), rates.RateBench(report)
    with one_core():
        report.ask(network.QUESTIONS, bytes_sent)
        report.ask(rates.QUESTIONS, speed)
        if plots is not None:
            report.say("the rest of the papers' figures")
            central = papers.measure_rest(bytes_sent)
            write(report, papers.points(bytes_sent.cells, central, speed.root_rows), papers.TITLES, plots)
