"""Row groups that nobody wants are not read, and nobody can tell: the same rows, the same accounts."""

import dataclasses
import io
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.engine.intake.predicates import mask
from headwater.language.expressions import Expr
from headwater.spark.batch.plan import ReadPlan, plan_events, plan_queries
from headwater.spark.batch.pruning import Bounds, may_hold
from headwater.spark.formats import Passed
from headwater.spark.formats.parquet import RowGroup, _places, bounds_of
from language_strategies import conditions_over_tables
from spark.answers import assert_same, expected, told, without_spark, write
from spark.batch.test_tasks import renamed, some_files
from strategies import SCHEMA, conditions, queries

SPARSE = pa.schema([("time", pa.int64()), ("load", pa.float64()), ("room", pa.string())])


def saved(table: pa.Table, **options) -> pq.ParquetFile:
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=3, **options)
    return pq.ParquetFile(file)


@given(conditions_over_tables(rows_max=9))
@example((hw.col("float") > 2, pa.table({"float": [1.0, float("nan")]})))
@example((~(hw.col("float") <= 2), pa.table({"float": [1.0, float("nan")]})))
@example((hw.col("float") == float("nan"), pa.table({"float": [1.0, float("nan")]})))
def test_what_is_passed_over_holds_nothing_that_is_wanted(drawn):
    condition, table = drawn
    if not table.num_columns or not table.num_rows:
        return
    with saved(table) as file:
        for group in range(file.num_row_groups):
            stretch = RowGroup(file, group, _places(file), {})
            rows = file.read_row_group(group)
            columns = {name: rows[name].combine_chunks() for name in rows.column_names}
            for truth, asked in ((True, condition), (False, ~condition)):
                if not may_hold(condition, stretch, truth):
                    assert not mask(asked, columns, len(rows)).any()


@dataclasses.dataclass
class Known:
    """A stretch of which a test says what is known."""

    known: dict[str, Bounds]
    count: int = 10

    def bounds(self, column):
        return self.known.get(column)


def between(low, high, nulls=0):
    return Bounds(pa.array([low, high]), nulls)


@pytest.mark.parametrize(
    ("condition", "known", "wanted"),
    [
        (hw.col("a") > 5, between(1, 5), False),
        (hw.col("a") >= 5, between(1, 5), True),
        (hw.col("a") > 5, Bounds(None, 0), True),
        (hw.col("a") > 5, None, True),
        (hw.col("a") > 5, between(1.0, 5.0), True),  # there may be NaN
        (hw.col("a") < 0, between(1.0, 5.0), False),
        (hw.col("a").between(6, 9), between(1.0, 5.0), True),
        (hw.col("a").between(-6, 0), between(1.0, 5.0), False),
        (hw.col("a") == "m", between("a", "k"), False),
        (hw.col("a").isin(["b", "z"]), between("c", "k"), False),
        (hw.col("a") != "x", between("x", "x"), False),
        (hw.col("a") != "x", between("x", "x", nulls=None), False),
        (hw.col("a").is_null(), between(1, 2), False),
        (hw.col("a").is_null(), between(1, 2, nulls=None), True),
        (hw.col("a").is_not_null(), Bounds(None, 10), False),
        (hw.col("a").matches("x.*"), Bounds(None, 10), False),
        ((hw.col("a") > 5) & (hw.col("b") > 5), between(1, 5), False),
        ((hw.col("a") > 5) | (hw.col("b") > 5), between(1, 5), True),
    ],
)
def test_statistics_decide_what_is_passed_over(condition: Expr, known, wanted):
    assert may_hold(condition, Known({} if known is None else {"a": known})) is wanted


def test_statistics_that_look_odd_are_unknown():
    with saved(pa.table({"x": [float("nan")] * 3, "n": pa.nulls(3)})) as file:
        column = file.metadata.row_group(0).column
        assert bounds_of(column(0).statistics, pa.float64()).ends is None
    with saved(pa.table({"x": [1, 2, 3]}), write_statistics=False) as file:
        assert bounds_of(file.metadata.row_group(0).column(0).statistics, pa.int64()) is None
    with saved(pa.table({"x": ["a" * 10_000, "b"]})) as file:
        bounds = bounds_of(file.metadata.row_group(0).column(0).statistics, pa.string())
        assert bounds.ends is None or bounds.ends[1].as_py() >= "b"


def unpruned(plan: ReadPlan) -> ReadPlan:
    return dataclasses.replace(plan, pruning=None)


@settings(max_examples=60)
@given(data=st.data())
def test_queries_with_conditions_say_the_same_without_reading_all(data):
    where = st.sampled_from([data.draw(conditions), hw.col("i") > 7, hw.col("mark") == "start", hw.col("time") > 40])
    asked = renamed(data.draw(st.lists(queries(where=where) | queries(kinds=("band",)), min_size=1, max_size=3)))
    events, disorder = data.draw(some_files(rows_min=2)), data.draw(st.sampled_from([None, None, 0, 5]))
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), events, SCHEMA)
        plan = plan_queries(folder, asked, None, 2, True, disorder=disorder)
        assert_same(expected(events, asked, disorder), without_spark(plan, asked))
        assert told(plan, "accounts") == told(unpruned(plan), "accounts")
        assert told(plan, "aside") == told(unpruned(plan), "aside")


def sparse(folder: Path, **options) -> Path:
    """Three row groups: each hour in a room of its own."""
    rooms = ["hall", "kitchen", "loft"]
    rows = [{"time": hour * 3600 + i, "load": i / 8, "room": room} for hour, room in enumerate(rooms) for i in range(8)]
    pq.write_table(pa.Table.from_pylist(rows, schema=SPARSE), folder / "a.parquet", row_group_size=8, **options)
    return folder


def passed(plan: ReadPlan) -> list[bool]:
    return [isinstance(batch, Passed) for feed in plan.feeds(0) for batch in feed.batches]


@pytest.mark.parametrize(
    ("asked", "skipped"),
    [
        ([hw.query("a", hw.tumbling(10), where=hw.col("room") == "loft", n=hw.count())], [True, True, False]),
        ([hw.query("a", hw.tumbling(10), where=hw.col("load") < 0, n=hw.count())], [True, True, True]),
        ([hw.query("a", hw.session(10), where=hw.col("time") < 9, n=hw.count())], [False, True, True]),
        ([hw.query("a", hw.count_tumbling(3), where=hw.col("time") < 9, n=hw.count())], [False, True, True]),
        ([hw.query("a", hw.band(3600, 3600), n=hw.count())], [True, False, True]),
        (
            [
                hw.query("a", hw.band(0, 10), n=hw.count()),
                hw.query("b", hw.tumbling(10), where=hw.col("room") == "loft", n=hw.count()),
            ],
            [False, True, False],
        ),
        ([hw.query("a", hw.tumbling(10), n=hw.count())], [False] * 3),
    ],
)
def test_whole_row_groups_are_passed_over_and_accounted_for(asked, skipped, tmp_path):
    plan = plan_queries(sparse(tmp_path), asked, None, 1, True)
    assert passed(plan) == skipped
    assert told(plan, "accounts") == told(unpruned(plan), "accounts")
    assert_same(without_spark(unpruned(plan), asked), without_spark(plan, asked))


def test_what_is_passed_over_still_moves_the_watermark(tmp_path):
    """The loud event in the last hour makes no difference to what is late, whether its row group is read or not."""
    loud = [
        {"time": time, "load": load, "room": "hall"} for time, load in [(1, 9.0), (5000, 0.5), (2, 9.0), (6000, 9.0)]
    ]
    pq.write_table(pa.Table.from_pylist(loud, schema=SPARSE), tmp_path / "a.parquet", row_group_size=1)
    asked = [hw.query("a", hw.tumbling(10), where=hw.col("load").isin([9.0]), n=hw.count())]
    plan = plan_queries(tmp_path, asked, None, 1, True, disorder=5)
    assert passed(plan) == [False, True, False, False]
    assert [row.start for row in without_spark(plan, asked)] == [0, 6000]
    assert told(plan, "accounts")[0]["dropped"] == 1
    assert_same(expected({"a.parquet": loud}, asked, 5), without_spark(plan, asked))


def test_malformed_events_are_never_passed_over(tmp_path):
    rows = [{"time": None, "load": 1.0, "room": "hall"}, {"time": 7, "load": 1.0, "room": "hall"}]
    pq.write_table(pa.Table.from_pylist(rows, schema=SPARSE), tmp_path / "a.parquet", row_group_size=1)
    asked = [hw.query("a", hw.tumbling(10), where=hw.col("room") == "loft", n=hw.count())]
    plan = plan_queries(tmp_path, asked, None, 1, True)
    assert passed(plan) == [False, True]
    assert told(plan, "accounts") == [
        {"query": "a", "in": 2, "filtered": 1, "outside": 0, "member": 0, "late": 0, "dropped": 0, "malformed": 1}
    ]


@given(conditions)
def test_events_themselves_are_filtered_as_the_engine_does(where):
    rows = [dict.fromkeys(SCHEMA.names) | {"time": i, "i": i - 3, "x": i / 4, "s": "ab"[: i % 3]} for i in range(9)]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), {"a.parquet": rows}, SCHEMA)
        plan = plan_events(folder, None, ["time"], 1, where=where)
        found = [row["time"] for batch in ReadPlan.from_text(plan.to_text()).events(0) for row in batch.to_pylist()]
    assert found == [row["time"] for row in rows if where.evaluate(row) is True]


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        (hw.col("lod") > 1, "where is 'lod': the data has no such column"),
        (hw.col("load") == "x", "compare it with a value of its own kind"),
        ("load > 1", "combine conditions with"),
    ],
)
def test_a_condition_that_does_not_fit_is_refused(where, sentence, tmp_path):
    with pytest.raises(hw.QueryError, match=sentence):
        plan_events(sparse(tmp_path), None, None, 1, where=where)


@pytest.mark.spark
def test_conditions_on_spark_say_what_the_reference_says(session, tmp_path):
    folder = sparse(tmp_path)
    assert hw.read(session, folder, where=hw.col("room") == "loft", columns=["time"]).count() == 8
    # One query of a DataFrame says nothing about the next, whatever Spark may push.
    hw.register(session)
    events = session.read.format("headwater").load(str(folder))
    assert [events.where("room = 'loft'").count(), events.count(), events.where("time = 1").count()] == [8, 24, 1]
    asked = [hw.query("a", hw.tumbling(10), where=hw.col("room") == "loft", n=hw.count())]
    assert sum(row.n for row in hw.read(session, folder, asked).collect()) == 8
