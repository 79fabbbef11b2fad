"""The tree benchmark measures what it says: the tree gives the engine's rows, and every byte and event is counted."""

import io
import json

import pyarrow as pa
import pytest

import headwater as hw
from headwater.bench.common.plots import write
from headwater.bench.common.report import Report
from headwater.bench.tree import rates as tree_rates
from headwater.bench.tree.cells import MeasuredTree, average, measure, medians
from headwater.bench.tree.network import NetworkBench, holistic
from headwater.bench.tree.papers import TITLES, points
from headwater.bench.tree.rates import RateBench, children, relay_merges, root_closes
from headwater.bench.tree.stream import DISORDER, ROOT, Shape, central_frame
from headwater.node import RootNode
from headwater.protocols.frames import open_frame

SMALL = {"seconds": 3, "rate": 1_000}


@pytest.mark.parametrize("sources", [1, 20])
def test_the_measured_tree_gives_the_rows_of_one_engine(sources):
    shape = Shape(leaves=2, sources=sources, keys=3, **SMALL)
    tree = MeasuredTree(shape.parents(), average(), disorder=DISORDER)
    engine = hw.Engine(average(), time="time", unit="us", disorder=DISORDER)
    names = [[f"{leaf}/{number}" for number in range(sources)] for leaf in range(2)]
    for leaf in range(2):
        tree.open_all(f"leaf-{leaf}", names[leaf])
    tree.settle()
    for second in range(3):
        for leaf in range(2):
            arrived = shape.arrivals()[leaf][second]
            tree.read(names[leaf], arrived)
            for number in range(sources):
                mine = pa.array(arrived.sources == number)
                engine.push(arrived.batch.filter(mine), source=names[leaf][number])
        tree.settle()
    tree.flush()
    engine.flush()
    order = [("window_start", "ascending"), ("key", "ascending")]
    expected = engine.results().table
    rows = tree.take_rows().select(expected.schema.names)
    assert rows.sort_by(order).equals(expected.sort_by(order))
    assert rows.num_rows >= 9


def test_no_event_of_the_stream_is_late():
    shape = Shape(leaves=1, sources=5, keys=3, **SMALL)
    latest = dict.fromkeys(range(5), 0)
    offsets = dict.fromkeys(range(5), 0)
    for second in shape.arrivals()[0]:
        for time, source, offset in zip(second.batch["time"].to_pylist(), second.sources, second.offsets):
            assert time > latest[source] - DISORDER
            assert offset == offsets[source]
            latest[source] = max(latest[source], time)
            offsets[source] += 1


def test_central_sends_every_event_as_it_is():
    second = Shape(leaves=1, sources=5, keys=3, **SMALL).arrivals()[0][1]
    data = central_frame(second.batch, second.sources, second.offsets)
    assert len(data) == second.central_bytes
    (batch,) = pa.ipc.open_stream(pa.py_buffer(open_frame(data)[1]))
    assert batch.select(["time", "key", "value"]).equals(second.batch)
    assert batch["source"].to_pylist() == second.sources.tolist()
    assert batch["offset"].to_pylist() == second.offsets.tolist()


def test_a_cell_counts_every_level():
    cell = measure(Shape(leaves=4, relays=(2, 1), keys=3, **SMALL), average())
    assert len(cell.level_bytes) == len(cell.begin_bytes) == cell.shape.levels == 3
    assert all(size > 0 for size in (*cell.level_bytes, *cell.begin_bytes))
    assert cell.level_bytes[0] > cell.level_bytes[1] > cell.level_bytes[2], "relays merge"
    assert cell.events == 12_000
    assert cell.central_bytes > 24 * cell.events
    assert {role for role, _ in cell.work} == {"leaf", "relay", "root"}


def test_a_relay_and_the_root_are_timed_on_all_rows():
    made = children(3, keys=50, rounds=4)
    assert relay_merges(made) == 3 * 50 * 4
    assert root_closes(RootNode.restore(made.root), made) == 50 * 4


def test_a_simulated_world_reads_everything():
    batches = tree_rates.second_batches(200_000)
    world = tree_rates.plain_world(4, batches)
    rows = []
    world.observers.append(_Rows(rows))
    tree_rates._run(world, 0)
    # Each leaf reads the same events: every count is four times that of one.
    assert sum(sum(table["count"].to_pylist()) for table in rows) == 4 * 200_000


class _Rows:
    """Keeps the rows that the root gives."""

    def __init__(self, rows):
        self.rows = rows

    def after(self, time_ns, machine, event, actions, done):
        self.rows += [action.rows for action in actions if machine.name == ROOT and hasattr(action, "rows")]

    def happened(self, time_ns, machine, what):
        pass


def test_figures_are_lines_of_json_and_have_bounds():
    out = io.StringIO()
    report = Report("tree", quick=True, as_json=True, out=out)
    holistic(NetworkBench(report))
    tree_rates.leaf(RateBench(report))
    assert [json.loads(line)["figure"] for line in out.getvalue().splitlines()] == ["network_median", "leaf_overhead"]
    assert all(figure.bound is not None for figure in report.figures)


def test_every_figure_of_the_papers_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    small = {"keys": 3, **SMALL}
    cells = {("sources_1", "avg", 100): measure(Shape(**small), average())}
    for name, queries in (("avg", average()), ("median", medians())):
        cells |= {("height", name, 2 + i): measure(Shape(relays=(1,) * i, **small), queries) for i in range(2)}
        cells |= {(sweep, name, 1): measure(Shape(**small), queries) for sweep in ("windows", "keys", "leaves")}
    made = points(cells, dict.fromkeys(cells, 1.0), {1: 5.0, 4: 7.0})
    assert {point.experiment for point in made} == set(TITLES)
    write(Report("tree"), made, TITLES, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*(f"{name}.png" for name in TITLES), "tree.csv"}
    assert len((tmp_path / "tree.csv").read_text().splitlines()) == 1 + len(made)
