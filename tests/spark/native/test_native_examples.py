"""What Spark answers by itself, and in which SQL, by a few plain cases; no Spark runs."""

import pyarrow as pa
import pytest

import headwater as hw
from headwater import col
from headwater.spark.native.aggregates import Operators
from headwater.spark.native.choice import Asked, choice, has_positions
from headwater.spark.native.expressions import NotNativeError, sql_of
from headwater.spark.native.plan import grids, numbered
from headwater.spark.native.positions import families, over_positions, step_of
from headwater.spark.native.types import floor_div

SCHEMA = pa.schema([("time", pa.int64()), ("house", pa.string()), ("i", pa.int64()), ("x", pa.float64())])
ASKED = Asked(SCHEMA)


def counts(name: str, size: int, step: int, **more):
    return hw.query(name, hw.count_sliding(size, step), n=hw.count(), **more)


@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        (col("i") > 2.5, "(CAST(`i` AS BIGINT) > 2L)"),
        (col("i") == 2.5, "(CASE WHEN `i` IS NOT NULL THEN False END)"),
        (col("house") == "a", "(`house` = CAST(X'61' AS STRING))"),
        (col("i").isin([1, 1, 2]), "((CAST(`i` AS BIGINT) = 1L) OR (CAST(`i` AS BIGINT) = 2L))"),
        (col("x").is_null(), "(`x` IS NULL)"),
    ],
)
def test_a_condition_is_sql(condition, sql):
    assert sql_of(condition, SCHEMA) == sql


def test_a_pattern_is_left_to_python():
    with pytest.raises(NotNativeError, match="patterns are Python's"):
        sql_of(col("house").matches("a.*"), SCHEMA)


def test_windows_that_share_slices_share_a_grid():
    queries = [hw.query(str(size), hw.tumbling(size), n=hw.count()) for size in (60, 90)]
    (grid,) = grids(numbered(queries, "us"))
    assert (grid.slice, grid.is_regular, grid.is_window) == (30, True, False)
    assert grid.windows() == [(0, 60, 60, 0, 0), (1, 90, 90, 0, 0)]


def test_a_slice_of_a_sliding_window_lies_in_each_that_overlaps():
    (grid,) = grids(numbered([hw.query("q", hw.sliding(30, 10), n=hw.count())], "us"))
    assert grid.windows() == [(0, 30, 10, 0, 0), (0, 30, 10, 0, 10), (0, 30, 10, 0, 20)]


def test_a_tumbling_window_is_its_own_slice():
    (grid,) = grids(numbered([hw.query("q", hw.tumbling(10), n=hw.count())], "us"))
    assert grid.is_window


def test_sums_of_integers_are_kept_as_two_halves():
    operators = Operators(SCHEMA)
    operators.value(hw.sum("i"))
    assert list(operators.kept) == ["n", "high0", "low0"]


def test_sums_of_floats_are_sparks_only_where_asked():
    query = hw.query("q", hw.tumbling(10), total=hw.sum("x"))
    assert not choice(query, ASKED).is_native
    assert choice(query, Asked(SCHEMA, sums="native")).is_native


def test_sessions_go_through_python():
    assert "session windows end" in choice(hw.query("q", hw.session(5), n=hw.count()), ASKED).why


def test_a_count_window_becomes_a_fixed_window_over_positions():
    query = counts("q", 100, 20)
    assert has_positions(query, ASKED)
    assert over_positions(query).window == hw.sliding(100, 20)
    assert step_of([query, counts("r", 50, 50)]) == 10


def test_count_windows_of_other_events_have_positions_of_their_own():
    queries = [counts("a", 10, 10), counts("b", 20, 10), counts("c", 10, 10, where=col("i") > 0)]
    assert [[query.name for query in family] for family in families(queries)] == [["a", "b"], ["c"]]


def test_division_rounds_down_below_zero():
    assert floor_div("t", 1) == "t"
    assert floor_div("t", 10).endswith("ELSE (t + 1L) div 10L - 1L END")
