"""The door to all operators: lifting by kind, and one byte form for partials of every kind."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.packing import Reader, Writer
from headwater.engine.operators.operator import Best
from headwater.engine.operators.partials import CLASSES, Op, lift, partials_from_bytes, partials_to_bytes
from headwater.errors import FormatError
from headwater.language.user_code import Operator
from partials import chunk_of, int32, int64


def how_many(values: Any) -> int:
    return len(values)


OWN = Operator("own", how_many, lambda a, b: a + b, 0)
NUMERIC = [Op("count"), *(Op(kind, "x") for kind in ("valid", "sum", "sumsq", "min", "max", "product"))]
GENERAL = [
    *(Op(kind, "x") for kind in ("run", "ordered", "first", "last")),
    Op("top", "x", Best(2, False, True, ("x",))),
    Op("top", "x", Best(0, False, True)),
    Op("hll", "x", 8),
    Op("user", "x", OWN),
]
SKETCH = Op("ddsketch", "x", 0.01)
DECIMALS = [Decimal("1.5"), None, Decimal("-2.0"), Decimal("4.0")]
COLUMNS: dict[str, tuple[Any, list[Op]]] = {
    "float": ([1.5, None, -2.0, 4.0], [*NUMERIC, *GENERAL, SKETCH]),
    "int": ([1, None, -2, 4], [*NUMERIC, *GENERAL, SKETCH, Op("product", "x", "float")]),
    "decimal": (DECIMALS, [*NUMERIC, *GENERAL, SKETCH]),
    "text": (["b", None, "a", "é"], [Op("count"), *(Op(kind, "x") for kind in ("valid", "min", "max")), *GENERAL]),
}
ROWS = int32(0, 0, 1, -1)


def lifted(name: str) -> dict[Op, Any]:
    values, ops = COLUMNS[name]
    return lift(ops, chunk_of(values), ROWS, 3)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_kind_has_one_partial_per_row(name: str) -> None:
    partials = lifted(name)
    assert list(partials) == COLUMNS[name][1]
    assert all(len(column) == 3 for column in partials.values())
    assert all(column.nbytes > 0 for column in partials.values())
    assert partials[Op("count")].counts.tolist() == [2, 1, 0]
    assert partials[Op("valid", "x")].counts.tolist() == [1, 1, 0]


def test_the_classes_cover_every_kind() -> None:
    seen = {type(column) for name in COLUMNS for column in lifted(name).values()}
    assert seen == set(CLASSES.values())


@pytest.mark.parametrize("name", COLUMNS)
def test_partials_of_every_kind_travel_together(name: str) -> None:
    partials = lifted(name)
    data = partials_to_bytes(partials)
    back = partials_from_bytes(data)
    assert set(back) == set(partials)
    assert partials_to_bytes(back) == data
    assert partials_to_bytes(dict(reversed(partials.items()))) == data
    for op, column in partials.items():
        assert back[op].to_bytes() == column.to_bytes(), op


@pytest.mark.parametrize("name", COLUMNS)
def test_bytes_do_not_depend_on_how_a_row_came_to_be(name: str) -> None:
    values, ops = COLUMNS[name]
    parts = lift(ops, chunk_of(values), int32(0, 1, 2, 3), 4)
    together = {op: column.combine_ranges(int64(0, 2, 0), int64(2, 3, 0)) for op, column in parts.items()}
    assert partials_to_bytes(together) == partials_to_bytes(lifted(name))


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_are_taken_and_joined(name: str) -> None:
    for op, column in lifted(name).items():
        turned = column.take(int64(2, 1, 0))
        joined = type(column).concat([turned, column.take(int64())])
        assert joined.take(int64(2, 1, 0)).to_bytes() == column.to_bytes(), op


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_without_rows_makes_identities(name: str) -> None:
    values, ops = COLUMNS[name]
    type_ = pa.array(values).type
    nothing = lift(ops, chunk_of([], type_), int32(), 0)
    empty = {op: column.take(int64(2)) for op, column in lifted(name).items()}
    for op, column in nothing.items():
        assert column.combine_ranges(int64(0), int64(0)).to_bytes() == empty[op].to_bytes(), op


@pytest.mark.parametrize("name", COLUMNS)
def test_damaged_bytes_are_refused(name: str) -> None:
    for op, column in lifted(name).items():
        data = column.to_bytes()
        for end in range(len(data)):
            with pytest.raises(FormatError):
                type(column).from_bytes(data[:end])
        with pytest.raises(FormatError):
            type(column).from_bytes(data + b"\0")
        with pytest.raises(FormatError):
            type(column).from_bytes(b"\x63" + data[1:])
        assert op.kind


def test_partials_of_another_version_are_refused() -> None:
    with pytest.raises(FormatError, match="version 99"):
        partials_from_bytes(b"\x63" + partials_to_bytes(lifted("int"))[1:])


def test_counting_rides_along_with_a_column() -> None:
    partials = lift([Op("count"), Op("sum", "x")], chunk_of([1, None, 3]), int32(0, 0, 1), 2)
    assert partials[Op("count")].counts.tolist() == [2, 1]
    assert lift([Op("count")], chunk_of([1, 2]), int32(0, -1), 1)[Op("count")].counts.tolist() == [1]


INTS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5) | st.sampled_from([10**12, 10**12 + 1]))


@given(INTS)
def test_integers_are_packed_without_loss(values: list[int]) -> None:
    writer = Writer()
    writer.ints(np.array(values, np.int64))
    reader = Reader(writer.finish())
    assert reader.ints().tolist() == values
    reader.finish()


@given(st.lists(st.floats()))
def test_floats_are_packed_to_the_last_bit(values: list[float]) -> None:
    array = np.array(values, np.float64)
    writer = Writer()
    writer.array(array)
    assert Reader(writer.finish()).array().view(np.int64).tolist() == array.view(np.int64).tolist()


@given(st.lists(st.none() | st.text() | st.binary() | st.integers() | st.decimals(allow_nan=False) | st.booleans()))
def test_objects_are_packed_as_they_are(values: list[Any]) -> None:
    writer = Writer()
    writer.objects(values)
    back = Reader(writer.finish()).objects()
    assert back == values
    assert list(map(type, back)) == list(map(type, values))


@pytest.mark.parametrize(
    ("values", "size_max"),
    [([7] * 1000, 6), (range(1000), 8), (range(10**12, 10**12 + 1000), 16), ([0, 255] * 500, 1010)],
)
def test_integers_take_few_bytes(values: Any, size_max: int) -> None:
    writer = Writer()
    writer.ints(np.array(values, np.int64))
    assert len(writer.finish()) <= size_max
