"""What travels between nodes, by example: parts merged and split, and the bytes of parts, looks and query sets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.operator import COUNT
from headwater.engine.windows.registered import Registered
from headwater.engine.wire.looks import Look, looks_from_bytes, looks_to_bytes
from headwater.engine.wire.merge import merge_parts
from headwater.engine.wire.part_bytes import part_from_bytes, part_to_bytes
from headwater.engine.wire.parts import AccountsPart, EventsPart, RowsPart, listed_keys
from headwater.engine.wire.query_set import QuerySet, query_set_text, read_query_set
from headwater.engine.wire.split import split_part
from headwater.errors import FormatError
from partials import int32, int64


def rows_part(keys: list[str], slices: list[int], counts: list[int]) -> RowsPart:
    columns, key = listed_keys([pa.array(sorted(set(keys)))], int32(*(sorted(set(keys)).index(k) for k in keys)))
    return RowsPart(0, columns, key, int64(*slices), {COUNT: CountColumn(int64(*counts))})


def plain(part: RowsPart) -> list[tuple[str, int, int]]:
    names = part.key_columns[0].to_pylist()
    counts = part.partials[COUNT].counts.tolist()  # type: ignore[attr-defined]
    return sorted((names[k], s, n) for k, s, n in zip(part.key.tolist(), part.slices.tolist(), counts, strict=True))


def test_rows_of_one_slice_and_key_become_one_row():
    (merged,) = merge_parts([rows_part(["a", "b"], [0, 0], [1, 2]), rows_part(["a", "a"], [0, 10], [4, 8])])
    assert isinstance(merged, RowsPart)
    assert plain(merged) == [("a", 0, 5), ("a", 10, 8), ("b", 0, 2)]


def test_accounts_are_added_up_by_family():
    one, two = AccountsPart(np.array([[0, 5, 1, 0, 0]]), timeless=1), AccountsPart(np.array([[0, 2, 0, 0, 1]]))
    (merged,) = merge_parts([one, two])
    assert isinstance(merged, AccountsPart)
    assert (merged.rows.tolist(), merged.timeless) == ([[0, 7, 1, 0, 1]], 1)


def test_a_part_is_split_into_buckets_by_its_keys():
    part = rows_part(["a", "b", "c", "d"], [0, 0, 0, 0], [1, 2, 3, 4])
    split = split_part(part, 2, {0: ["house"]})
    assert sorted(row for one in split.values() for row in plain(one)) == plain(part)  # type: ignore[arg-type]
    assert list(split_part(part, 2, {})) == [0], "a family without keys stays together"


def test_rows_come_back_from_their_bytes():
    read = part_from_bytes(part_to_bytes(rows_part(["a", "b"], [0, 10], [1, 2])))
    assert isinstance(read, RowsPart) and plain(read) == [("a", 0, 1), ("b", 10, 2)]


def test_events_come_back_with_their_columns():
    columns = {"load": pa.array([1.5, None])}
    part = EventsPart(3, "leaf", int64(5, 6), int64(0, 1), int64(0, 0), int64(5, 5), columns, {"load": [1]})
    read = part_from_bytes(part_to_bytes(part))
    assert isinstance(read, EventsPart)
    assert (read.times.tolist(), read.columns["load"].to_pylist(), read.misfits) == ([5, 6], [1.5, None], {"load": [1]})


def test_bytes_that_are_no_part_are_refused():
    with pytest.raises(FormatError, match="version 9"):
        part_from_bytes(b"\x09\x01")
    with pytest.raises(FormatError, match="kind that this release does not know"):
        part_from_bytes(b"\x01\x63")


def test_looks_come_back_from_their_bytes():
    look = Look(4, 32, int64(1, 0, 2), int64(9, 0, 8), 3, 7, [pa.array(["a"])])
    (read,) = looks_from_bytes(looks_to_bytes({2: [look]}))[2]
    assert (read.number, read.count, read.first.tolist(), read.last.tolist()) == (4, 32, [1, 0, 2], [9, 0, 8])
    assert (read.low, read.high, read.key_columns[0].to_pylist()) == (3, 7, ["a"])


def test_a_query_set_comes_back_from_its_text():
    query = hw.query("load", hw.tumbling(10), total=hw.sum("load"))
    queries = QuerySet("time", "ms", 5, True, [Registered(query, 0, 100)], ["load"], {"load": pa.int64()})
    assert read_query_set(query_set_text(queries)) == queries
