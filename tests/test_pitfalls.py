"""What users run into: refused batches, wrong types, odd tables, times at the ends. Each of these was wrong once."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headwater as hw


def total(name="total", window=None, **options):
    return hw.query(name, window or hw.tumbling(10), total=hw.sum("v"), **options)


def counted(name="n", **options):
    return hw.query(name, hw.tumbling(10), n=hw.count(), **options)


def test_a_value_of_a_wrong_type_concerns_only_the_queries_that_read_it():
    engine = hw.Engine([total(where=hw.col("v").is_not_null()), counted()])
    engine.push({"time": [1, 2], "v": [1.0, 2.0]})
    engine.push({"time": [3, 4], "v": ["x", "5"]})
    engine.flush()
    results = engine.results()
    assert results["n"].column("n").to_pylist() == [4]
    assert results["total"].column("total").to_pylist() == [3.0]
    assert engine.counters()["total"]["malformed"] == 2
    assert engine.counters()["n"]["malformed"] == 0
    assert engine.side_output().num_rows == 2


def test_a_refused_batch_can_be_put_right_and_pushed_again():
    engine = hw.Engine([total()])
    with pytest.raises(hw.QueryError, match="'v'"):
        engine.push({"time": [1], "w": [1.0]}, offset=0)
    strict = hw.Engine([total()], strict=True)
    with pytest.raises(hw.DataError, match="offset 1"):
        strict.push({"time": [1, None], "v": [1.0, 1.0]}, offset=0)
    for one in (engine, strict):
        one.push({"time": [1], "v": [1.0]}, offset=0)
        one.flush()
        assert one.results()["total"].column("total").to_pylist() == [1.0]


def test_a_refused_query_leaves_no_trace():
    engine = hw.Engine([total("a")])
    engine.push({"time": [1], "v": [1.0]})
    with pytest.raises(hw.QueryError, match="another name"):
        engine.add_query(hw.query("b", hw.tumbling(10), total=hw.count()))
    assert list(engine.counters()) == ["a"]
    engine.push({"time": [2], "v": [1.0]})
    engine.flush()
    assert engine.results().num_rows == 1


def test_a_name_can_be_used_again_and_snapshots_still_work():
    engine = hw.Engine([total("a"), counted("b")])
    engine.push({"time": [1], "v": [1.0]})
    engine.remove_query("a")
    engine.add_query(total("a"))
    engine.push({"time": [11, 12], "v": [1.0, 2.0]})
    restored = hw.Engine.restore(engine.snapshot())
    for one in (engine, restored):
        one.flush()
    assert restored.results().table.equals(engine.results().table)


def test_rows_of_a_removed_query_can_still_be_taken_by_name():
    engine = hw.Engine([total("a"), counted("b")])
    engine.push({"time": [1, 15], "v": [1.0, 1.0]})
    engine.advance(10)
    engine.remove_query("a")
    assert engine.results()["a"].num_rows == 1


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame, dict, lambda data: pa.table(data).to_reader()])
def test_tables_of_every_maker_give_the_same(make):
    data = {"time": [1, 2, 11], "k": ["a", "b", "a"], "v": [1.0, 2.0, 4.0]}
    top = hw.query("q", hw.tumbling(10), keys="k", total=hw.sum("v"), first=hw.first("k"))
    rows = hw.run(make(data), [top]).table.to_pylist()
    assert [(row["k"], row["total"], row["first"]) for row in rows] == [
        ("a", 1.0, "a"),
        ("b", 2.0, "b"),
        ("a", 4.0, "a"),
    ]


def test_a_table_of_many_small_chunks_is_one_table():
    batch = pa.record_batch({"time": [1], "v": [1.0]})
    assert hw.run(pa.Table.from_batches([batch] * 3000), [total()]).table.column("total").to_pylist() == [3000.0]


@pytest.mark.parametrize(("unit", "given", "ticks"), [("us", "ns", -1), ("s", "ms", -1), ("ns", "us", -1000)])
def test_timestamps_are_rounded_down(unit, given, ticks):
    events = pa.table({"time": pa.array([-1], pa.timestamp(given)), "v": [1.0]})
    rows = hw.run(events, [hw.query("q", hw.tumbling(f"1 {unit}"), n=hw.count())], unit=unit)
    assert rows.table.column("window_start").cast(pa.timestamp(unit)).cast(pa.int64()).to_pylist() == [ticks]


def test_integers_that_pandas_made_floats_are_refused_with_the_reading_that_takes_them():
    frame = pd.DataFrame({"time": [1, None, 2.5, 3], "v": [1.0, 1.0, 1.0, 1.0]})
    with pytest.raises(hw.QueryError, match=r"the column holds double; write time=hw.epoch\('time', 's'\)"):
        hw.run(frame, [total()])
    results = hw.run(frame, [total(window=hw.tumbling("10 s"))], time=hw.epoch("time", "s"))
    assert results["total"].column("total").to_pylist() == [3.0]
    assert results.counters["total"]["malformed"] == 1


def test_a_timestamp_beyond_all_ticks_is_malformed():
    engine = hw.Engine([total(window=hw.tumbling("10 s"))])
    engine.push({"time": pa.array([2**60, 1], pa.timestamp("s")), "v": pa.array([1.0, 1.0])})
    assert engine.counters()["total"]["malformed"] == 1


@pytest.mark.parametrize("window", [hw.tumbling(1), hw.sliding(10, 3), hw.session(5), hw.count_tumbling(1)])
def test_times_at_both_ends_of_the_domain_are_taken(window):
    rows = hw.run({"time": [-(2**62), 2**62], "v": [1.0, 1.0]}, [total(window=window)]).table
    assert set(rows.column("total").to_pylist()) == {1.0}


def test_unsigned_integers_beyond_int64_are_kept():
    values = pa.array([2**64 - 1, 1], pa.uint64())
    query = hw.query("q", hw.tumbling(10), total=hw.sum("v"), top=hw.max("v"), mean=hw.avg("v"))
    (row,) = hw.run({"time": pa.array([1, 2]), "v": values}, [query]).table.to_pylist()
    assert (int(row["total"]), int(row["top"]), row["mean"]) == (2**64, 2**64 - 1, float(2**63))
    keyed = hw.run({"time": pa.array([1, 2]), "v": values}, [counted(keys="v")]).table
    assert keyed.column("v").to_pylist() == [1, 2**64 - 1]


def test_a_column_may_begin_without_values():
    engine = hw.Engine([total()])
    engine.push({"time": pa.array([1]), "v": pa.nulls(1)})
    engine.push({"time": pa.array([2]), "v": pa.array([5.0])})
    engine.flush()
    assert engine.results()["total"].column("total").to_pylist() == [5.0]


def test_an_alias_like_a_key_of_another_query_is_refused():
    clash = hw.query("a", hw.tumbling(10), k=hw.sum("v"))
    with pytest.raises(hw.QueryError, match="'k'"):
        hw.run({"time": [1], "v": [1.0], "k": ["x"]}, [clash, counted(keys="k")])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda e: e.advance(3.5), hw.QueryError, "3.5"),
        (lambda e: e.advance("10 s"), hw.QueryError, "'10 s'"),
        (lambda e: e.advance(2**64), hw.QueryError, "int64"),
        (lambda e: e.add_query(counted(), at=5.5), hw.QueryError, "5.5"),
        (lambda e: e.add_query("count"), hw.QueryError, "hw.query"),
        (lambda e: e.push({"time": [1], "v": [1.0]}, source=3), hw.DataError, "text"),
        (
            lambda e: e.push({"time": [1, 2], "v": [1.0, 1.0]}, offset=np.array([5])),
            hw.DataError,
            "1 offsets for 2 events",
        ),
        (
            lambda e: e.push({"time": [1, 2], "v": [1.0, 1.0]}, offset=np.array([5, 4])),
            hw.DataError,
            "above the one before",
        ),
        (lambda e: e.push(7), hw.DataError, "Arrow table"),
        (lambda e: hw.Engine(unit="m"), hw.QueryError, "'m'"),
        (lambda e: hw.Engine(disorder=-5), hw.QueryError, "-5"),
        (lambda e: hw.Engine(mode="fast"), hw.QueryError, "'fast'"),
        (lambda e: hw.run({"time": [1], "v": [1.0]}, ["x"]), hw.QueryError, "'x'"),
        (lambda e: e.results()["other"], hw.QueryError, "'other'"),
        (lambda e: e.remove_query("other"), hw.QueryError, "'other'"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(call, error, words):
    with pytest.raises(error) as refusal:
        call(hw.Engine([total()]))
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


DOUBLED = {
    "pandas": pd.DataFrame([[1, 1.0, 2.0]], columns=["time", "v", "v"]),
    "pandas, of one text": pd.DataFrame([[1, 1.0, 2.0]], columns=["time", 7, "7"]),
    "Arrow": pa.Table.from_arrays([pa.array([1])] * 3, names=["time", "v", "v"]),
    "a batch": pa.RecordBatch.from_arrays([pa.array([1])] * 3, names=["time", "v", "v"]),
}


@pytest.mark.parametrize("maker", DOUBLED)
def test_doubled_columns_are_refused_in_one_sentence(maker):
    engine = hw.Engine([counted()])
    for door in (engine.push, engine.push_all, engine.check, lambda data: hw.run(data, counted())):
        with pytest.raises(hw.DataError, match=r"^the data has 2 columns '[v7]': it is unclear which one is meant"):
            door(DOUBLED[maker])
    assert engine.counters()["n"]["in"] == 0


def test_one_query_needs_no_list():
    assert hw.run({"time": [1], "v": [1.0]}, total()).num_rows == 1


def test_a_time_that_is_read_as_a_value_keeps_its_type():
    engine = hw.Engine([hw.query("q", hw.tumbling(10), latest=hw.max("time"))])
    engine.push({"time": [1, 5]})
    engine.push({"time": pa.array([7], pa.int8())})
    engine.push({"time": [7.5]})
    engine.push({"time": pa.array([8], pa.timestamp("us"))})
    engine.flush()
    assert engine.results()["q"].column("latest").to_pylist() == [7]
    assert engine.counters()["q"]["malformed"] == 2


@pytest.mark.parametrize("values", [[-0.0], [-0.0, 5e-324], [5e-324, -0.0, -5e-324], [-0.0, 1e300, -1e300]])
def test_minus_zero_adds_nothing(values):
    by_value = hw.query("q", hw.tumbling(1), total=hw.sum("v"), mean=hw.avg("v"), low=hw.min("v"))
    for times in (range(len(values)), [0] * len(values)):
        rows = hw.run({"time": list(times), "v": values}, by_value).table.to_pylist()
        assert [row["total"] for row in rows] == (values if len(rows) > 1 else [sum(values)])
        assert all(str(row["low"]) != "-0.0" for row in rows)


def test_after_the_end_nothing_changes_and_nothing_disappears():
    engine = hw.Engine(
        [counted(emit_empty=True, lateness=100), hw.query("s", hw.session(5), lateness=100, m=hw.count())]
    )
    engine.push({"time": [1, 12]})
    engine.flush()
    assert engine.results().num_rows == 4
    engine.flush()
    engine.push({"time": [2, 50]})
    engine.push({"time": [3]}, source="new")
    engine.advance(100)
    engine.flush()
    assert engine.results().num_rows == 0
    assert {name: counts["dropped"] for name, counts in engine.counters().items()} == {"n": 3, "s": 3}
    assert engine.side_output().num_rows == 6


def test_a_watermark_before_all_times_says_nothing():
    engine = hw.Engine([counted(lateness=2**61), hw.query("s", hw.session(2**61), lateness=2**61, m=hw.count())])
    engine.push({"time": [-(2**62), 1]})
    for watermark in (-(2**63), -(2**63) + 5, -(2**62) - 1, -(2**62)):
        engine.advance(watermark)
    assert engine.results().num_rows == 0
    engine.flush()
    assert sorted(row["event_count"] for row in engine.results()) == [1, 1, 1, 1]


def test_markers_at_one_time_make_one_window_of_one_instant():
    flag = hw.col("v") == 1
    rows = hw.run({"time": [5] * 5, "v": [1] * 5}, hw.query("q", hw.between(flag, flag), n=hw.count())).table
    assert rows.select(["window_start", "window_end", "n"]).to_pylist() == [
        {"window_start": 5, "window_end": 5, "n": 5}
    ]


def test_a_late_copy_that_changes_no_value_is_no_revision():
    ids = hw.query("q", hw.tumbling(20), n=hw.count(), distinct="id", lateness=30)
    engine = hw.Engine(ids)
    engine.push({"time": [10, 12, 40], "id": [1, 2, 3]})
    engine.advance(40)
    assert [row["n"] for row in engine.results()] == [2]
    engine.push({"time": [9], "id": [1]})
    engine.advance(41)
    assert engine.results().num_rows == 0
    engine.push({"time": [15], "id": [4]})
    engine.advance(42)
    assert [(row["n"], row["revision"]) for row in engine.results()] == [(3, 1)]
