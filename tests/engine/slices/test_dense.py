"""The straight way from sorted integers to partials gives the very bytes of the general way."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import read_values
from headwater.engine.intake.keys import KeyTable
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import lift
from headwater.engine.slices.dense import STRETCH_BITS, VALUE_BITS, lift_slices
from headwater.engine.slices.edges import EARLIEST, LATEST, Edges, fixed_spec
from headwater.engine.slices.slicer import cut_by_arrival
from headwater.language.windows import Sliding

OPS = (Op("count"), Op("valid", "x"), Op("sum", "x"), Op("min", "x"), Op("max", "x"))
EDGES = Edges([fixed_spec(Sliding(50, 50), EARLIEST, LATEST)])
LARGEST = 2**VALUE_BITS - 1
values_of = st.one_of(st.integers(-5, 5), st.integers(-LARGEST - 1, LARGEST), st.just(LARGEST), st.just(-LARGEST - 1))


def compare(times: np.ndarray, keys: np.ndarray, values: np.ndarray) -> None:
    """Rows and partials both ways, brought into one order."""
    chunk = Chunk(times, 0, 0, ["a"], {"x": read_values(pa.array(values))})
    table, slices, arrays = KeyTable(["k"]), EDGES.slices(times), [pa.array(keys)]
    numbers = table.encode(arrays, len(keys))
    found = lift_slices(OPS, chunk, table.direct(arrays), slices)
    assert found is not None
    rows, partials = found
    general = cut_by_arrival(times, numbers, len(table), slices, None, None, True)
    lifted = lift(OPS, chunk, general.of_event, len(general))
    order, general_order = np.lexsort((rows.first, rows.key)), np.lexsort((general.first, general.key))
    assert rows.key[order].tolist() == general.key[general_order].tolist()
    assert rows.first[order].tolist() == general.first[general_order].tolist()
    for op in OPS:
        assert partials[op].take(order).to_bytes() == lifted[op].take(general_order).to_bytes(), op


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(-1, 1), values_of), min_size=24, max_size=60))
def test_the_straight_way_and_the_general_one_agree(events: list[tuple[int, int, int]]):
    times, keys, values = (np.array(column, np.int64) for column in zip(*sorted(events)))
    compare(times, keys, values)


@pytest.mark.parametrize("value", [LARGEST, -LARGEST - 1])
def test_the_largest_values_fill_more_than_a_stretch(value: int):
    size = (1 << STRETCH_BITS) * 2 + 5
    compare(np.arange(size) * 99 // size, np.zeros(size, np.int64), np.full(size, value))


def tried(values: pa.Array, ops: tuple[Op, ...] = OPS, known: int = 1) -> object:
    """Whether the straight way takes these values, all at one time; keys 0 to ``known`` - 1 are known, events have key 0."""
    chunk = Chunk(np.zeros(len(values), np.int64), 0, 0, ["a"], {"x": read_values(values), "y": read_values(values)})
    table = KeyTable(["k"])
    table.encode([pa.array(range(known))], known)
    return lift_slices(ops, chunk, table.direct([pa.array([0] * len(values))]), EDGES.slices(chunk.times))


def test_what_is_not_simple_takes_the_general_way():
    assert tried(pa.array([1] * 8)) is not None
    assert tried(pa.array([1] * 7 + [LARGEST + 1])) is None
    assert tried(pa.array([1] * 7 + [-LARGEST - 2])) is None
    assert tried(pa.array([1] * 7 + [None])) is None
    assert tried(pa.array([1.0] * 8)) is None
    assert tried(pa.array([1] * 8), (Op("sum", "x"), Op("sum", "y"))) is None
    assert tried(pa.array([1] * 8), (Op("sum", "x"), Op("run", "x"))) is None
    assert tried(pa.array([1] * 8), known=3) is None  # more cells than events to fill them


@pytest.mark.parametrize("key", [7, 1, -5])
def test_a_key_that_has_no_number_yet_takes_the_general_way(key: int):
    table = KeyTable(["k"])
    table.encode([pa.array([0, 2])], 2)
    times = np.zeros(16, np.int64)
    chunk = Chunk(times, 0, 0, ["a"], {"x": read_values(pa.array([1] * 16))})
    assert lift_slices(OPS, chunk, table.direct([pa.array([0] * 15 + [key])]), EDGES.slices(times)) is None
