"""Snapshots as bytes: everything comes back as it was, and damage is found."""

import json
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import read_values
from headwater.engine.wire.snapshot_bytes import VERSION, from_bytes, to_bytes
from headwater.errors import FormatError

HEADER_SIZE = 18

arrays = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4).map(lambda values: np.array(values, np.int64)),
    st.lists(st.floats(), max_size=4).map(lambda values: np.array(values, np.float64)),
    st.lists(st.booleans(), max_size=4).map(lambda values: np.array(values, bool)),
    st.integers(0, 3).map(lambda rows: np.arange(2 * rows, dtype=np.uint64).reshape(rows, 2)),
)
types = st.sampled_from(
    [pa.int8(), pa.string(), pa.timestamp("ns", "UTC"), pa.decimal128(20, 3), pa.dictionary(pa.int32(), pa.string())]
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    arrays,
    types,
)
trees = st.recursive(
    leaves, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4))
)


def same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(trees)
def test_a_tree_comes_back_as_it_was(tree: object):
    assert same(from_bytes(to_bytes(tree)), tree)


def test_what_comes_back_can_be_written_to():
    from_bytes(to_bytes(np.arange(3)))[0] = 5


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 3]),
        pa.array([1.5, 2.5, -0.0]),
        pa.array(["a", None, "é"]),
        pa.array([Decimal("1.50"), None, Decimal("-2.25")]),
        pa.array([b"\0", b"", None]),
    ],
    ids=lambda column: str(column.type),
)
def test_events_come_back_as_they_were(column: pa.Array):
    chunk = Chunk(np.array([5, 3, 4]), 7, 1, ["a", "b"], {"x": read_values(column)})
    back = from_bytes(to_bytes({"events": chunk}))["events"]
    assert back.times.tolist() == [5, 3, 4]
    assert back.offsets.tolist() == [7, 8, 9]
    assert back.source_ids.tolist() == [1, 1, 1]
    assert back.source_names == ["a", "b"]
    values, kept = chunk.columns["x"], back.columns["x"]
    assert kept.data.tolist() == values.data.tolist()
    assert kept.data.dtype == values.data.dtype
    assert kept.type == values.type
    assert same(kept.valid, values.valid)


SNAPSHOT = to_bytes({"a": [1, None, "x"], "b": np.arange(3), "c": b"bytes", "d": pa.int32()})


@pytest.mark.parametrize("place", [*range(HEADER_SIZE), *range(HEADER_SIZE, len(SNAPSHOT), 7)])
def test_a_flipped_bit_is_found(place: int):
    for bit in range(8):
        damaged = bytearray(SNAPSHOT)
        damaged[place] ^= 1 << bit
        with pytest.raises(FormatError):
            from_bytes(bytes(damaged))


@pytest.mark.parametrize("size", [0, 1, HEADER_SIZE - 1, HEADER_SIZE, len(SNAPSHOT) - 1])
def test_a_snapshot_cut_short_is_found(size: int):
    with pytest.raises(FormatError):
        from_bytes(SNAPSHOT[:size])


def test_bytes_behind_the_end_are_found():
    with pytest.raises(FormatError):
        from_bytes(SNAPSHOT + b"\0")


def test_another_version_is_named():
    changed = bytearray(SNAPSHOT)
    struct.pack_into("<H", changed, 4, VERSION + 1)
    with pytest.raises(FormatError, match=f"version {VERSION + 1}"):
        from_bytes(bytes(changed))


def test_other_bytes_are_no_snapshot():
    with pytest.raises(FormatError, match="not a headwater snapshot"):
        from_bytes(json.dumps({"a": "some other file, long enough"}).encode())


@pytest.mark.parametrize("node", [{1, 2}, 1j, np.array(["a"], object)], ids=["set", "complex", "objects"])
def test_what_a_snapshot_cannot_hold_is_refused(node: object):
    with pytest.raises(TypeError):
        to_bytes([node])
