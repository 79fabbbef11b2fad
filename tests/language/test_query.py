"""Queries: what is accepted, and that everything wrong is refused when it is written, with name, field, value and form."""

from __future__ import annotations

import pickle
import re
import tracemalloc
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import headwater.language.aggregations as hw
from headwater.errors import QueryError
from headwater.language.aggregations import Aggregation
from headwater.language.expressions import col
from headwater.language.query import Query, query
from headwater.language.user_code import Aggregate, Operator, aggregate_of
from headwater.language.windows import (
    Band,
    CountWindow,
    Custom,
    Sliding,
    band,
    between,
    count_sliding,
    count_tumbling,
    custom,
    punctuated,
    session,
    sliding,
    tumbling,
)
from language_strategies import LONGEST, cut_at_every_tenth, queries

N = hw.count()
WINDOW = tumbling("10 s")
MARK = col("kind") == "stop"


def test_the_example_of_the_documentation_reads_well_and_holds_what_it_says() -> None:
    load = query(
        "load",
        sliding("1 min", "5 s"),
        avg=hw.avg("load"),
        p99=hw.quantile("load", 0.99),
        keys=["house"],
        where=col("load") > 0,
    )
    assert load.name == "load"
    assert load.window.resolved("s") == Sliding(60, 5)
    assert dict(load.aggregates) == {
        "avg": Aggregation("avg", "load"),
        "p99": Aggregation("quantile", "load", (0.99, "linear")),
    }
    assert load.columns() == {"house", "load"}


@given(queries())
def test_equal_queries_are_equal_and_travel(found: Query) -> None:
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert hash(again) == hash(found)
    assert repr(again) == repr(found)


def test_columns_are_those_of_keys_aggregates_conditions_markers_and_distinct() -> None:
    found = query(
        "q",
        between(col("door") == "open", col("gate") == "shut"),
        keys="house",
        where=col("load") > col("limit"),
        distinct="id",
        total=hw.sum("value"),
        n=hw.count(),
    )
    assert found.columns() == {"door", "gate", "house", "load", "limit", "id", "value"}


def test_a_bare_column_is_a_condition() -> None:
    assert query("q", WINDOW, n=N, where=col("open")).where == (col("open") == True)  # noqa: E712
    assert query("q", punctuated(col("cut")), n=N).window == punctuated(col("cut") == True)  # noqa: E712


def test_a_function_with_a_path_is_the_path() -> None:
    assert custom(cut_at_every_tenth) == custom("language_strategies:cut_at_every_tenth")
    assert custom(cut_at_every_tenth).load() is cut_at_every_tenth


def test_a_local_function_is_fine_as_long_as_it_stays_in_this_process() -> None:
    def cuts(events: dict[str, np.ndarray], state: object) -> tuple[list[int], object]:
        return [], state

    window = query("q", custom(cuts), n=N).window
    assert isinstance(window, Custom)
    assert window.load() is cuts


@pytest.mark.parametrize(
    ("window", "measure", "context"),
    [
        (tumbling(10), "time", False),
        (band(0, 10), "time", False),
        (session(10), "time", True),
        (punctuated(MARK), "time", True),
        (between(MARK, MARK), "time", True),
        (custom(cut_at_every_tenth), "time", True),
        (count_tumbling(10), "count", True),
    ],
)
def test_measure_and_context(window: Sliding, measure: str, context: bool) -> None:
    assert (window.measure, window.is_context) == (measure, context)


def test_resolved_gives_ticks_everywhere_and_self_when_there_is_nothing_to_do() -> None:
    found = query("q", session("1.5 s", max_duration="1 min"), n=N, lateness="2 s").resolved("ms")
    assert (found.window, found.lateness) == (session(1500, 60_000), 2_000)
    assert type(found.lateness) is int
    assert found.resolved("us") is found
    mixed = query("q", tumbling("1 s", offset=3), n=N).resolved("us")
    assert mixed.window == Sliding(1_000_000, 1_000_000, 3)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (query("q", tumbling("1.5 s"), n=N), "query 'q': window.size is '1500 ms': the stream's times are in s"),
        (query("q", tumbling("1 s"), n=N, lateness="1 ms"), "query 'q': lateness is '1 ms'"),
        (query("q", session("1 s", max_duration="2500 ms"), n=N), "query 'q': window.max_duration is '2500 ms'"),
    ],
)
def test_a_duration_that_is_no_whole_number_of_ticks_is_refused(found: Query, message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(message)):
        found.resolved("s")


def test_a_duration_too_long_for_the_unit_is_refused_where_the_unit_is_known() -> None:
    century = query("q", tumbling("36500 d"), n=N)
    assert century.resolved("us").window == tumbling(36500 * 86_400_000_000)
    with pytest.raises(QueryError, match=r"window.size is '36500 d': give at most 2\*\*61 ticks"):
        century.resolved("ns")


# Each: what is written, the field and the value that the message must show, and a piece of the right form.
REFUSED: list[tuple[Callable[[], object], str, str, str]] = [
    (lambda: query("q", tumbling(0), n=N), "window.size", "0", "above 0"),
    (lambda: query("q", tumbling(-5), n=N), "window.size", "-5", "above 0"),
    (lambda: query("q", tumbling("-5 s"), n=N), "window.size", "'-5 s'", "above 0"),
    (lambda: query("q", tumbling(2.5), n=N), "window.size", "2.5", "'10 s'"),
    (lambda: query("q", tumbling(True), n=N), "window.size", "True", "'10 s'"),
    (lambda: query("q", tumbling(None), n=N), "window.size", "None", "'10 s'"),
    (lambda: query("q", tumbling("ten seconds"), n=N), "window.size", "'ten seconds'", "'10 s'"),
    (lambda: query("q", tumbling("10"), n=N), "window.size", "'10'", "'10 s'"),
    (lambda: query("q", tumbling(2**61 + 1), n=N), "window.size", str(2**61 + 1), "2**61"),
    (lambda: query("q", tumbling([1]), n=N), "window.size", "[1]", "'10 s'"),
    (lambda: query("q", sliding("10 s", 0), n=N), "window.slide", "0", "above 0"),
    (lambda: query("q", sliding("10 s", "-1 s"), n=N), "window.slide", "'-1 s'", "above 0"),
    (lambda: query("q", tumbling("10 s", offset="x"), n=N), "window.offset", "'x'", "'10 s'"),
    (lambda: query("q", band("1970", 10), n=N), "window.start", "'1970'", "integer"),  # type: ignore[arg-type]
    (lambda: query("q", band(2**62 + 1, 10), n=N), "window.start", str(2**62 + 1), "2**62"),
    (lambda: query("q", band(0, 0), n=N), "window.size", "0", "above 0"),
    (lambda: query("q", session(0), n=N), "window.gap", "0", "above 0"),
    (lambda: query("q", session(5, max_duration=0), n=N), "window.max_duration", "0", "above 0"),
    (lambda: query("q", punctuated("stop"), n=N), "window.marker", "'stop'", "col('kind')"),  # type: ignore[arg-type]
    (lambda: query("q", punctuated(col("x") == None), n=N), "window.marker", "col('x') == None", "is_null"),  # noqa: E711
    (lambda: query("q", punctuated(MARK, include_markers=1), n=N), "include_markers", "1", "True or False"),  # type: ignore[arg-type]
    (lambda: query("q", between(MARK, 5), n=N), "window.end", "5", "col('kind')"),  # type: ignore[arg-type]
    (lambda: query("q", custom("no path"), n=N), "window.function", "'no path'", "package.module:name"),
    (
        lambda: query("q", custom("no_such_module:f"), n=N),
        "window.function",
        "'no_such_module:f'",
        "cannot be imported",
    ),
    (lambda: query("q", custom("math:no_such"), n=N), "window.function", "'math:no_such'", "has no 'no_such'"),
    (lambda: query("q", custom("math:pi"), n=N), "window.function", "'math:pi'", "give a function"),
    (lambda: query("q", custom(5), n=N), "window.function", "5", "give a function"),  # type: ignore[arg-type]
    (lambda: query("q", custom("math:fsum", closes_after=-1), n=N), "window.closes_after", "-1", "0 or more"),
    (lambda: query("q", count_tumbling(0), n=N), "window.size", "0", "number of events"),
    (lambda: query("q", count_tumbling("10 s"), n=N), "window.size", "'10 s'", "number of events"),  # type: ignore[arg-type]
    (lambda: query("q", count_tumbling(True), n=N), "window.size", "True", "number of events"),
    (lambda: query("q", count_sliding(5, 0), n=N), "window.step", "0", "number of events"),
    (lambda: query("q", count_sliding(5, 1, per="house"), n=N), "window.per", "'house'", "'all', 'key'"),  # type: ignore[arg-type]
    (lambda: query("q", "tumbling", n=N), "window", "'tumbling'", "tumbling('10 s')"),  # type: ignore[arg-type]
    (lambda: query("q", tumbling, n=N), "window", "<function tumbling", "tumbling('10 s')"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, x=hw.quantile("v", 2)), "aggregate 'x'.q", "2.0", "from 0 to 1"),
    (lambda: query("q", WINDOW, x=hw.quantile("v", "a")), "aggregate 'x'.q", "'a'", "from 0 to 1"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, x=hw.quantile("v", float("nan"))), "aggregate 'x'.q", "nan", "from 0 to 1"),
    (lambda: query("q", WINDOW, x=hw.quantile("v", True)), "aggregate 'x'.q", "True", "from 0 to 1"),
    (lambda: query("q", WINDOW, x=hw.median("v", "middle")), "aggregate 'x'.method", "'middle'", "'upper'"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, x=hw.median("v", ["a"])), "aggregate 'x'.method", "['a']", "'upper'"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, x=hw.approx_distinct("v", 3)), "aggregate 'x'.precision", "3", "from 4 to 18"),
    (lambda: query("q", WINDOW, x=hw.approx_quantile("v", 0.5, 0)), "aggregate 'x'.error", "0.0", "0.01"),
    (lambda: query("q", WINDOW, x=hw.approx_quantile("v", -1)), "aggregate 'x'.q", "-1.0", "from 0 to 1"),
    (lambda: query("q", WINDOW, x=hw.sum(5)), "aggregate 'x'.column", "5", "name the column"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, x=hw.sum(None)), "aggregate 'x'.column", "None", "hw.sum('load')"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, x=hw.sum(["a"])), "aggregate 'x'.column", "['a']", "name the column"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, x=hw.sum(col("a"))), "aggregate 'x'.column", "col('a')", "name the column"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, x=hw.count("")), "aggregate 'x'.column", "''", "name the column"),
    (lambda: query("q", WINDOW, x=Aggregation("mean", "v")), "aggregate 'x'.function", "'mean'", "avg"),
    (lambda: query("q", WINDOW, x=Aggregation("sum", "v", 3)), "aggregate 'x'.parameter", "3", "sum takes none"),
    (lambda: query("q", WINDOW, x=Aggregation("quantile", "v", 3)), "aggregate 'x'.parameter", "3", "(q, method)"),
    (lambda: query("q", WINDOW, x=hw.apply("math:fsum", "v")), "aggregate 'x'.aggregate", "<built-in", "Aggregate"),
    (
        lambda: query("q", WINDOW, x=hw.apply("nowhere", "v")),
        "aggregate 'x'.aggregate",
        "'nowhere'",
        "package.module:name",
    ),
    (lambda: query("q", WINDOW, x=hw.avg), "aggregate 'x'", "<function avg", "x=hw.avg('load')"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, n=N, key=["a"]), "aggregate 'key'", "['a']", "did you mean keys=?"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, n=N, by=["a"]), "aggregate 'by'", "['a']", "did you mean keys=?"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW), "aggregates", "()", "n=hw.count()"),
    (lambda: query("q", WINDOW, window_end=N), "aggregate 'window_end'", "'window_end'", "take another"),
    (lambda: query("q", WINDOW, keys=["a"], a=N), "aggregate 'a'", "'a'", "a key column has this name"),
    (lambda: Query("q", WINDOW, (("a", N), ("a", N))), "aggregate 'a'", "'a'", "name each once"),
    (lambda: Query("q", WINDOW, (("", N),)), "aggregates", "''", "name the result column"),
    (lambda: query("q", WINDOW, n=N, keys=5), "keys", "5", "keys=['house'"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, n=N, keys=[5]), "keys", "5", "keys=['house'"),  # type: ignore[list-item]
    (lambda: query("q", WINDOW, n=N, keys=["a", "a"]), "keys", "'a'", "each key column once"),
    (lambda: query("q", WINDOW, n=N, keys=["query"]), "keys", "'query'", "rename={'query': 'own_query'}"),
    (lambda: query("q", WINDOW, n=N, where="load > 0"), "where", "'load > 0'", "col('kind')"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, n=N, where=True), "where", "True", "col('kind')"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, n=N, where=col("a").isin([])), "where.isin", "[]", "list values"),
    (lambda: Query("q", WINDOW, (("n", N),), where=col("open")), "where", "col('open')", "== True"),
    (lambda: query("q", WINDOW, n=N, distinct=["id"]), "distinct", "['id']", "distinct='id'"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, n=N, lateness=-1), "lateness", "-1", "0 or more"),
    (lambda: query("q", WINDOW, n=N, lateness="soon"), "lateness", "'soon'", "'10 s'"),
    (lambda: query("q", WINDOW, n=N, emit_empty="yes"), "emit_empty", "'yes'", "True or False"),  # type: ignore[arg-type]
    (lambda: query("q", session(5), n=N, emit_empty=True), "emit_empty", "True", "tumbling, sliding and band"),
    (lambda: query("q", WINDOW, n=N, scope="local"), "scope", "'local'", "'global', 'node'"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, n=N, scope="overlap"), "scope", "'overlap'", "'global' or 'node'"),
    (lambda: query("q", WINDOW, n=N, scope=["node"]), "scope", "['node']", "'global', 'node'"),  # type: ignore[arg-type]
    (lambda: query("q", WINDOW, n=N, sums="fast"), "sums", "'fast'", "'exact', 'native'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(
    ("write", "field", "value", "right"), REFUSED, ids=lambda part: part if isinstance(part, str) else ""
)
def test_what_is_wrong_is_refused_with_query_field_value_and_right_form(
    write: Callable[[], object], field: str, value: str, right: str
) -> None:
    with pytest.raises(QueryError) as caught:
        write()
    message = str(caught.value)
    assert message.startswith("query 'q': ")
    assert f"{field} is" in message.replace(".condition", "")
    assert value in message
    assert right in message
    assert caught.value.query == "q"


def test_a_truth_value_is_no_quantile_though_it_equals_one_that_was_asked_before() -> None:
    query("q", WINDOW, x=hw.quantile("v", 1.0))
    with pytest.raises(QueryError, match="from 0 to 1"):
        query("q", WINDOW, x=hw.quantile("v", True))


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_query_needs_a_name(name: str) -> None:
    with pytest.raises(QueryError, match=r"name is .*: name the query with text"):
        query(name, WINDOW, n=N)


OPERATOR = Operator("total", np.sum, np.add, 0.0)


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (Aggregate("mean", (), np.mean), "operators is (): give a tuple of one or more Operators"),
        (Aggregate("mean", (5,), np.mean), "operators is (5,)"),  # type: ignore[arg-type]
        (Aggregate("mean", (OPERATOR,), 5), "lower is 5: give a function"),  # type: ignore[arg-type]
        (Aggregate("mean", (OPERATOR,), np.mean, "double"), "result_type is 'double': give an Arrow type"),
        (Aggregate("", (OPERATOR,), np.mean), "name is ''"),
        (aggregate_of("mean", 5, np.add, np.mean, 0), "operator 'mean'.lift is 5"),  # type: ignore[arg-type]
        (aggregate_of("mean", np.sum, None, np.mean, 0), "operator 'mean'.combine is None"),  # type: ignore[arg-type]
        (aggregate_of("mean", np.sum, np.add, np.mean, 0, commutative=1), "operator 'mean'.commutative is 1"),  # type: ignore[arg-type]
    ],
)
def test_an_aggregate_of_the_users_own_is_checked_too(aggregate: Aggregate, message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(f"query 'q': aggregate 'x'.{message}")):
        query("q", WINDOW, x=hw.apply(aggregate, "v"))


def test_own_operators_are_shared_when_equal_and_keep_numpy_partials() -> None:
    assert aggregate_of("a", np.sum, np.add, float, 0.0) == aggregate_of("a", np.sum, np.add, float, 0.0)
    assert aggregate_of("a", np.sum, np.add, float, 0.0) != aggregate_of("b", np.sum, np.add, float, 0.0)
    assert hash(OPERATOR) == hash(Operator("total", np.sum, np.add, []))
    assert OPERATOR.to_bytes([np.int64(1), np.float64(0.5), np.array([1, 2])]) == b"[1,0.5,[1,2]]"
    assert OPERATOR.from_bytes(b"[1,0.5]") == [1, 0.5]
    assert Operator("list", list, np.add, list).empty() == []
    with pytest.raises(TypeError, match="to_bytes and from_bytes"):
        OPERATOR.to_bytes({1, 2})


def test_own_code_is_copied_by_its_path_where_it_has_one() -> None:
    assert pickle.loads(pickle.dumps(LONGEST)) is LONGEST
    unnamed = aggregate_of("unnamed", np.sum, np.add, float, 0.0)
    assert pickle.loads(pickle.dumps(unnamed)) == unnamed


def test_a_column_where_its_name_is_meant_is_refused_every_time() -> None:
    for _ in range(2):
        with pytest.raises(QueryError, match=r"query 'q': aggregate 'x'.column is col\('a'\)"):
            query("q", WINDOW, x=hw.sum(col("a")))  # type: ignore[arg-type]
        with pytest.raises(QueryError, match=r"query 'q': sums is col\('a'\)"):
            query("q", WINDOW, x=N, sums=col("a"))  # type: ignore[arg-type]


def test_equal_aggregates_are_one_object() -> None:
    assert hw.avg("load") is hw.avg("load")
    assert hw.quantile("load", 1) == hw.quantile("load", 1.0)
    assert hw.median("load") is hw.quantile("load", 0.5)
    assert hw.apply("language_strategies:LONGEST", "v").parameter is LONGEST
    assert hw.range_("v").function == "range"


def test_windows_given_in_numpy_integers_are_plain() -> None:
    assert tumbling(np.int64(5)) == Sliding(5, 5)
    assert band(np.int64(5), np.int32(1)) == Band(5, 1)
    assert count_tumbling(np.int64(5)) == CountWindow(5, 5)


def test_ten_nanoseconds_are_not_ten_ticks() -> None:
    assert tumbling(10) != tumbling("10 ns")
    assert query("q", tumbling(10), n=N) != query("q", tumbling("10 ns"), n=N)


def test_many_queries_take_little_memory() -> None:
    # A million take about 1 GB.
    count = 5_000
    tracemalloc.start()
    kept = [
        query(
            f"q{i}",
            sliding(i % 600 + 1, i % 60 + 1, offset=i),
            keys=["key"],
            where=col("v") > 0,
            total=hw.sum(f"v{i % 9}"),
        )
        for i in range(count)
    ]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept) == count
    assert size / count < 1_500


def test_result_type_of_an_own_aggregate_is_an_arrow_type() -> None:
    assert LONGEST.result_type == pa.int64()
