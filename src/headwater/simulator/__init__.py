"""A world for trees of nodes in which everything that can go wrong does, and one seed says what and when.

`simulate` runs one seed and `simulate_many` a range of them; `Run`, `World` and the rest are there to build other worlds from.
`InstantTree` is a tree without faults that is driven by hand; `Counting` says how it computes count windows.
"""

from __future__ import annotations

from headwater.protocols.count_windows import Counting
from headwater.simulator.checks.counts import FAULTS, Counts
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.instant import InstantTree
from headwater.simulator.plants.count_windows import COUNT_PLANTS
from headwater.simulator.plants.tree import PLANTS
from headwater.simulator.runner import Options, Run, RunVerdict, simulate
from headwater.simulator.seeds import Summary, parse_seeds, simulate_many
from headwater.simulator.transcript import Transcript
from headwater.simulator.workloads.workload import Workload, draw_workload
from headwater.simulator.world.topology import Topology, tree
from headwater.simulator.world.world import World

__all__ = [
    "COUNT_PLANTS",
    "FAULTS",
    "PLANTS",
    "Counting",
    "Counts",
    "InstantTree",
    "Options",
    "Run",
    "RunVerdict",
    "Summary",
    "Topology",
    "Transcript",
    "ViolationError",
    "Workload",
    "World",
    "draw_workload",
    "parse_seeds",
    "simulate",
    "simulate_many",
    "tree",
]
