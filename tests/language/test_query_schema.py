"""Queries against the columns of their data: what is refused before anything runs, and what is not."""

from __future__ import annotations

import datetime
import re

import pyarrow as pa
import pytest

import headwater.language.aggregations as hw
from headwater.errors import QueryError
from headwater.language.aggregations import Aggregation
from headwater.language.expressions import Expr, col
from headwater.language.query import check_schema, check_schemas, query
from headwater.language.windows import between, punctuated, tumbling

SCHEMA = pa.schema(
    [
        ("time", pa.int64()),
        ("int", pa.int32()),
        ("float", pa.float32()),
        ("decimal", pa.decimal128(10, 2)),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("code", pa.dictionary(pa.int32(), pa.int64())),
        ("moment", pa.timestamp("ms", tz="UTC")),
        ("day", pa.date32()),
        ("clock", pa.time64("us")),
        ("list", pa.list_(pa.int64())),
        ("nothing", pa.null()),
    ]
)
WINDOW = tumbling("1 s")


@pytest.mark.parametrize(
    "aggregation",
    [
        *(
            make(name)
            for make in (hw.sum, hw.avg, hw.stddev, hw.median)
            for name in ("int", "float", "decimal", "nothing")
        ),
        *(
            make(name)
            for make in (hw.min, hw.max, hw.mode)
            for name in ("text", "word", "moment", "day", "flag", "int")
        ),
        *(make(name) for make in (hw.first, hw.collect, hw.count_distinct) for name in ("text", "clock", "flag")),
        hw.count("list"),
        hw.count(),
    ],
)
def test_aggregates_that_fit_the_schema_are_taken(aggregation: Aggregation) -> None:
    check_schema(query("q", WINDOW, x=aggregation), SCHEMA, "time")


@pytest.mark.parametrize(
    "condition",
    [
        col("int") > 0.5,
        col("flag") == True,  # noqa: E712
        col("flag") == 1,
        col("word") == "a",
        col("text") < col("word"),
        col("moment") > datetime.datetime(2024, 1, 1),
        col("day").isin([datetime.date(2024, 1, 1)]),
        col("nothing") == 5,
        col("list").is_null(),
        col("moment").matches("2024.*"),
    ],
)
def test_conditions_that_fit_the_schema_are_taken(condition: Expr) -> None:
    check_schema(query("q", WINDOW, n=hw.count(), where=condition), SCHEMA, "time")


@pytest.mark.parametrize(
    ("time", "options", "message"),
    [
        ("ts", {}, "time is 'ts': the data has no such column; its columns are 'time', 'int'"),
        ("time", {"keys": ["house"]}, "keys is 'house': the data has no such column"),
        (
            "time",
            {"keys": ["float"]},
            "keys is 'float': keys are text, integers, bools, dates, times, decimals or bytes, the column holds float; cast",
        ),
        ("time", {"keys": ["list"]}, "keys is 'list': keys are text, integers, bools, dates, times, decimals or bytes"),
        ("time", {"distinct": "id"}, "distinct is 'id': the data has no such column"),
        ("time", {"distinct": "list"}, "distinct is 'list': an id is a plain value"),
        ("time", {"x": hw.sum("text")}, "aggregate 'x'.column is 'text': sum needs numbers, the column holds string"),
        ("time", {"x": hw.sum("flag")}, "aggregate 'x'.column is 'flag': sum needs numbers, the column holds bool"),
        ("time", {"x": hw.avg("moment")}, "aggregate 'x'.column is 'moment': avg needs numbers"),
        ("time", {"x": hw.max("list")}, "aggregate 'x'.column is 'list': max needs plain values"),
        ("time", {"x": hw.min("lod")}, "aggregate 'x'.column is 'lod': the data has no such column"),
        ("time", {"where": col("lod") > 0}, "where is 'lod': the data has no such column"),
        ("time", {"where": col("text") > 0}, "where is (col('text') > 0): column 'text' holds string: compare it"),
        ("time", {"where": ~(col("int").isin(["a"]) | (col("int") > 0))}, "where is col('int').isin(['a'])"),
        ("time", {"where": col("int").between("a", "b")}, "where is col('int').between('a', 'b')"),
        (
            "time",
            {"where": col("int") == col("text")},
            "where is (col('int') == col('text')): column 'int' holds int32, 'text' holds string",
        ),
        (
            "time",
            {"where": col("clock") == col("clock")},
            "where is (col('clock') == col('clock')): column 'clock' holds time64[us]",
        ),
        (
            "time",
            {"where": col("list").matches("a")},
            "where is col('list').matches('a'): column 'list' holds list<item: int64>, which",
        ),
    ],
)
def test_what_does_not_fit_the_schema_is_refused(time: str, options: dict[str, object], message: str) -> None:
    found = query("q", WINDOW, n=hw.count(), **options)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=re.escape(f"query 'q': {message}")):
        check_schema(found, SCHEMA, time)


def test_markers_are_checked_under_their_own_names() -> None:
    start = query("q", between(col("text") == 1, col("text") == "b"), n=hw.count())
    with pytest.raises(QueryError, match=re.escape("query 'q': window.start is (col('text') == 1)")):
        check_schema(start, SCHEMA, "time")
    marker = query("q", punctuated(col("kind") == "stop"), n=hw.count())
    with pytest.raises(QueryError, match=re.escape("query 'q': window.marker is 'kind': the data has no such column")):
        check_schema(marker, SCHEMA, "time")


def test_of_many_queries_the_first_wrong_one_is_named() -> None:
    good, bad = query("good", WINDOW, n=hw.count()), query("bad", WINDOW, n=hw.sum("text"))
    with pytest.raises(QueryError, match="query 'bad'"):
        check_schemas([good, bad], SCHEMA, "time")
