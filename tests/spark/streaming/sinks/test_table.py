"""A table of Spark's catalog as a sink, as far as it is said without Spark: the MERGE, its rows, and notes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import DataError
from headwater.spark.streaming.sinks.noted import Note
from headwater.spark.streaming.sinks.table import HOLDS, append_options, merge_rows, merge_sql, note_of
from headwater.spark.streaming.sinks.upsert import upsert_of
from spark.streaming.sinks.test_upsert import NAMES, SCHEMA, STREAM, History, Table, slow


@given(st.data())
def test_a_merge_does_what_one_row_after_the_other_does_also_twice(data):
    history = History(data.draw)
    merged: Table = {}
    one_by_one: Table = {}
    for _ in range(data.draw(st.integers(1, 3))):
        rows = [history.row() for _ in range(data.draw(st.integers(1, 6)))]
        source = merge_rows(upsert_of(pa.Table.from_pylist(rows, SCHEMA), STREAM))
        slow(one_by_one, rows, NAMES)
        for _ in range(data.draw(st.integers(1, 2))):
            merge(merged, source)
        assert merged == one_by_one


def merge(table: Table, source: pa.Table) -> None:
    """What MERGE INTO does with `merge_sql`."""
    seen = set()
    for row in source.to_pylist():
        window = tuple(row[name] for name in NAMES if name in row)
        assert window not in seen, "two rows of the source match one of the table"
        seen.add(window)
        window = tuple(row.get(name) for name in NAMES)
        holds = row.pop(HOLDS)
        if window not in table:
            if holds:
                table[window] = row
        elif row["revision"] >= table[window]["revision"]:
            del table[window]
            if holds:
                table[window] = row


def test_the_merge_compares_nulls_as_equal_and_quotes_names():
    sql = merge_sql("main.iot.w", ["query", "my house"], ["query", "my house", "n", "revision"])
    assert sql.startswith(
        "MERGE INTO main.iot.w t USING headwater_upsert s ON t.`query` <=> s.`query` AND t.`my house` <=> s.`my house`"
    )
    assert "WHEN MATCHED AND NOT s.headwater_holds AND s.revision >= t.revision THEN DELETE" in sql
    assert sql.endswith(
        "THEN INSERT (`query`, `my house`, `n`, `revision`) VALUES (s.`query`, s.`my house`, s.`n`, s.`revision`)"
    )


def test_delta_and_iceberg_keep_the_batch_with_its_rows():
    note = Note(7, "stream", "life")
    options = append_options(note)
    assert (options["txnAppId"], options["txnVersion"]) == ("headwater-stream", 7)
    assert note_of(options["userMetadata"]) == note_of(options["snapshot-property.headwater.batch"]) == note
    assert note_of("by hand: 1:x") is None


@pytest.mark.parametrize(
    ("arguments", "says"), [(("",), "table is ''"), ((5,), "table is 5"), (("t", "replace"), "mode is 'replace'")]
)
def test_wrong_arguments_are_said(arguments, says):
    with pytest.raises(DataError, match=says):
        hw.to_table(*arguments)


def test_foreach_batch_takes_a_function():
    with pytest.raises(DataError, match="foreach_batch of 'rows': give a function"):
        hw.foreach_batch("rows")
    with pytest.raises(DataError, match=r"it is for hw.stream, which opens it"):
        hw.foreach_batch(print).write(0, pa.table({"a": [1]}))
