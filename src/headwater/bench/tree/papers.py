"""Our numbers in the axes of the papers: Disco's figures 28 to 34 (28 to 33 of a tree, 34 of the root), Desis' 7 and 11.

The papers' machines and ours differ; what carries over is how the lines bend. Nodes share one processor here, so a node's
throughput is the events below it / its own processor time, and a tree's that of its busiest node, as if each had its own.
*Central* is one engine that reads all events out of the frames that leaves would have sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import headwater as hw
from headwater.base.arrow import table_from_bytes
from headwater.bench.common.plots import Point
from headwater.bench.tree.cells import Cell, average, medians
from headwater.bench.tree.network import QUERY_COUNTS, NetworkBench
from headwater.bench.tree.stream import DISORDER, Shape, central_frame
from headwater.protocols.frames import open_frame

KEY_COUNTS = (1, 10, 100, 1_000, 10_000, 100_000)
LEAF_COUNTS = (1, 2, 4, 8, 16)
FUNCTIONS = {"avg": average, "median": medians}
#: Disco sends a hundred million events.
DISCO_EVENTS = 100_000_000
TITLES = {
    "disco_28": ("Disco, figure 28: bytes above the leaves, brought to 100 M events", "height of the tree"),
    "disco_29": ("Disco, figure 29: throughput with concurrent windows", "concurrent windows"),
    "disco_30": ("Disco, figure 30: throughput with many keys", "keys"),
    "disco_31": ("Disco, figure 31: from the end of a second to its rows, without network", "leaves"),
    "disco_32": ("Disco, figure 32: what a leaf does", "keys"),
    "disco_33": ("Disco, figure 33: throughput of a leaf with many input streams", "sources of a leaf"),
    "disco_34": ("Disco, figure 34: windows per second at the root", "children of the root"),
    "desis_7_nodes": ("Desis, figures 7a to 7d: throughput with more leaves", "leaves"),
    "desis_7_keys": ("Desis, figure 7e: throughput of nodes with many keys", "keys"),
    "desis_7_windows": ("Desis, figure 7f: throughput of nodes with concurrent windows", "concurrent windows"),
    "desis_11_nodes": ("Desis, figures 11a and 11b: network overhead", "leaves"),
    "desis_11_keys": ("Desis, figure 11c: network overhead with many keys", "keys"),
    "desis_11_windows": ("Desis, figure 11d: network overhead with concurrent windows", "concurrent windows"),
}
#: What each experiment is called in the figures of Desis.
SWEEPS = {"leaves": "nodes", "keys": "keys", "windows": "windows"}


def measure_rest(bench: NetworkBench) -> dict[tuple[str, str, int], float]:
    """Measure what the bounds did not need, and return the processor seconds of central for each cell that is compared."""
    for height in range(2, 6):
        relays = (2, 1, 1)[: height - 2]
        bench.cell("height", "median", height, medians(), leaves=4, relays=relays, keys=100, seconds=3)
    for count in QUERY_COUNTS:
        bench.cell("windows", "median", count, medians(count), keys=100, seconds=bench.seconds(10))
    for name, queries in FUNCTIONS.items():
        for keys in KEY_COUNTS:
            bench.cell("keys", name, keys, queries(), keys=keys, seconds=3)
        for leaves in LEAF_COUNTS:
            bench.cell("leaves", name, leaves, queries(), leaves=leaves, relays=(max(1, leaves // 4),), seconds=3)
    central = {}
    for (experiment, name, x), cell in bench.cells.items():
        if experiment in SWEEPS:
            asked = FUNCTIONS[name](x if experiment == "windows" else 1)
            central[experiment, name, x] = central_seconds(cell.shape, asked)
            bench.report.say(f"  central: {experiment}, {name}, {x:,}: {central[experiment, name, x]:.2f} s")
    return central


def central_seconds(shape: Shape, queries: list[hw.Query]) -> float:
    """Processor time of one engine that reads everything from central's frames."""
    engine = hw.Engine(queries, time="time", unit="us", disorder=DISORDER)
    used = 0.0
    for second in range(shape.seconds):
        for leaf in range(shape.leaves):
            data = central_frame(shape.arrivals()[leaf][second].batch)
            start = time.process_time()
            for batch in table_from_bytes(open_frame(data)[1]).to_batches():
                engine.push(batch, source=str(leaf))
            engine.results()
            used += time.process_time() - start
    return used


def points(
    cells: dict[tuple[str, str, int], Cell], central: dict[tuple[str, str, int], float], root_rows: dict[int, float]
) -> list[Point]:
    """Every line of every figure."""
    made = [Point("disco_34", "windows", "1/s", "root", count, rate) for count, rate in root_rows.items()]
    for (experiment, name, x), cell in cells.items():
        if experiment == "height":
            made.extend(_height(name, x, cell))
        elif experiment in SWEEPS:
            made.extend(_sweep(experiment, name, x, cell, cell.events / central[experiment, name, x]))
        elif experiment.startswith("sources_") and x == 100:
            rate = cell.events / cell.seconds_of("leaf")
            made.append(Point("disco_33", "throughput", "events/s", name, cell.shape.sources, rate))
    return sorted(made, key=lambda point: (list(TITLES).index(point.experiment), point.metric, point.mode, point.x))


def _height(name: str, height: int, cell: Cell) -> Iterator[Point]:
    scale = DISCO_EVENTS / cell.events / 1e9
    yield Point("disco_28", name, "GB", "distributed", height, cell.total_bytes * scale)
    yield Point("disco_28", name, "GB", "centralized", height, cell.central_bytes * cell.shape.levels * scale)


def _sweep(experiment: str, name: str, x: int, cell: Cell, central: float) -> Iterator[Point]:
    shape = cell.shape
    rates = {role: cell.events / cell.seconds_of(role) for role in ("leaf", "relay", "root")}
    # The leaves run side by side, and so do the relays of a level.
    busiest = max(
        cell.seconds_of("leaf") / shape.leaves, cell.seconds_of("relay") / shape.relays[0], cell.seconds_of("root")
    )
    whole = cell.events / busiest
    disco = {"windows": "disco_29", "keys": "disco_30"}.get(experiment)
    if disco is not None:
        yield Point(disco, name, "events/s", "distributed", x, whole)
        yield Point(disco, name, "events/s", "centralized", x, central)
    if experiment == "leaves":
        yield Point("disco_31", "latency", "ms", name, x, cell.latency * 1e3)
        yield Point("desis_7_nodes", name, "events/s", "whole tree", x, whole)
        yield Point("desis_7_nodes", name, "events/s", "central", x, central)
    if experiment == "keys":
        for done in ("take in", "send"):
            seconds = cell.work["leaf", done]
            yield Point("disco_32", name, "ns per event", done, x, seconds / cell.events * 1e9)
    for role, rate in rates.items():
        yield Point(f"desis_7_{SWEEPS[experiment]}", name, "events/s", role, x, rate)
    network = f"desis_11_{SWEEPS[experiment]}"
    for level, sizes in zip(("leaves", "relays"), zip(cell.begin_bytes, cell.level_bytes)):
        yield Point(network, name, "bytes per event", f"above {level}", x, sum(sizes) / cell.events)
    yield Point(network, name, "bytes per event", "central", x, cell.central_bytes / cell.events)
