"""The engine as a user meets it: push, advance, take results, change queries, stop and go on."""

import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def totals(name: str = "totals", window: Any = None, **options: Any) -> hw.Query:
    return hw.query(name, window or hw.tumbling(10), total=hw.sum("v"), **options)


def events(times: list[Any], values: list[Any] | None = None) -> dict[str, list[Any]]:
    return {"time": times, "v": [1] * len(times) if values is None else values}


def rows(engine: hw.Engine, name: str = "totals") -> list[tuple[Any, ...]]:
    """The rows that came out since the last call, as (start, end, total)."""
    return [(row["window_start"], row["window_end"], row["total"]) for row in engine.results()[name].to_pylist()]


def check_counters(engine: hw.Engine) -> dict[str, dict[str, int]]:
    """Every event of every query is accounted for, once."""
    counters = engine.counters()
    for counts in counters.values():
        assert counts["in"] == sum(count for name, count in counts.items() if name != "in"), counts
    return counters


# --- push, advance, results, flush ---


def test_results_come_out_when_the_watermark_passes_them():
    engine = hw.Engine([totals()])
    engine.push(events([1, 5, 12], [1, 2, 4]))
    assert rows(engine) == []
    engine.advance(9)
    assert rows(engine) == []
    engine.advance(10)
    assert rows(engine) == [(0, 10, 3)]
    assert rows(engine) == []
    engine.flush()
    assert rows(engine) == [(10, 20, 4)]


def test_results_wait_until_they_are_taken():
    engine = hw.Engine([totals()])
    engine.push(events([1, 12]))
    engine.advance(10)
    engine.advance(20)
    assert rows(engine) == [(0, 10, 1), (10, 20, 1)]


def test_a_watermark_never_goes_back():
    engine = hw.Engine([totals()])
    engine.push(events([1]))
    engine.advance(10)
    engine.advance(3)
    assert engine.watermark == 10


def test_disorder_moves_the_watermark_with_the_events():
    engine = hw.Engine([totals()], disorder=5)
    engine.push(events([1, 14]))
    assert rows(engine) == []
    engine.push(events([15]))
    assert rows(engine) == [(0, 10, 1)]


def test_the_group_waits_for_the_slowest_source_unless_it_is_idle():
    engine = hw.Engine([totals()])
    engine.push(events([1]), source="a")
    engine.push(events([2]), source="b")
    engine.advance(10, source="a")
    assert rows(engine) == []
    engine.idle("b")
    assert rows(engine) == [(0, 10, 1 + 1)]
    engine.resume("b")
    engine.push(events([3]), source="b")  # its watermark is now that of the group
    engine.advance(20, source="a")
    assert engine.watermark == 10
    assert check_counters(engine)["totals"]["dropped"] == 1
    assert [decision.what for decision in engine.decisions] == ["joined", "joined", "idle", "returned"]


def test_an_idle_source_returns_with_its_next_push():
    engine = hw.Engine([totals()])
    engine.join("a")
    engine.idle("a")
    engine.push(events([5]), source="a")
    assert engine.decisions[-1].what == "returned"


def test_a_query_has_its_own_columns():
    queries = [
        hw.query("plain", hw.tumbling(10), n=hw.count()),
        hw.query("keyed", hw.tumbling(10), total=hw.sum("v"), keys=["k"]),
        hw.query("home", hw.tumbling(10), n=hw.count(), scope="node"),
        hw.query("counted", hw.count_tumbling(2), n=hw.count()),
    ]
    results = hw.run({"time": [1, 2], "k": ["a", "b"], "v": [1, 2]}, queries, home="k")
    bounds, about = ["window_start", "window_end"], ["event_count", "revision"]
    assert results["plain"].column_names == [*bounds, "n", *about]
    assert results["keyed"].column_names == [*bounds, "k", "total", *about]
    assert results["home"].column_names == [*bounds, "n", *about, "node"]
    positions = ["position_start", "position_end"]
    assert results["counted"].column_names == [*bounds, *positions, "n", *about, "first_time", "last_time"]
    assert len(results) == results.num_rows == results.table.num_rows == 6
    assert [row["query"] for row in results] == results.table.column("query").to_pylist()
    assert len(results.to_pandas()) == 6


def test_run_says_what_push_and_flush_say():
    data = events([5, 1, 22, 13, 12], [1, 2, 4, 8, 16])
    engine = hw.Engine([totals()])
    engine.push(data)
    engine.flush()
    assert hw.run(data, [totals()]).table.equals(engine.results().table)


def test_run_without_flush_keeps_what_is_open():
    assert hw.run(events([1, 12]), [totals()], flush=False).num_rows == 0
    assert hw.run(events([1, 12]), [totals()], flush=False, disorder=0).num_rows == 1


# --- offsets ---


def test_events_that_were_accepted_before_are_passed_over():
    engine = hw.Engine([totals()])
    engine.push(events([1, 2, 3]), offset=0)
    engine.push(events([2, 3, 4]), offset=1)
    engine.push(events([1, 2]), offset=0)
    engine.push(events([5, 6], [10, 20]), offset=np.array([3, 9]))
    engine.push(events([7]), offset=np.int64(9))
    engine.flush()
    assert rows(engine) == [(0, 10, 4 + 20)]
    assert engine.statistics["repeated"] == 2 + 2 + 1 + 1


def test_offsets_belong_to_their_source():
    engine = hw.Engine([totals()])
    for source in ("a", "b", "a"):
        engine.push(events([1, 2]), source=source, offset=0)
    engine.flush()
    assert rows(engine) == [(0, 10, 4)]
    assert engine.statistics["repeated"] == 2


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 10)), max_size=8))
def test_pieces_sent_again_in_any_order_count_once(pieces: list[tuple[int, int]]):
    """A source that repeats itself as it likes but leaves no gap is as good as one that does not."""
    times = list(range(20))
    engine = hw.Engine([totals()])
    reached = 0
    for back, size in pieces:
        start = max(reached - back, 0)
        engine.push(events(times[start : start + size], times[start : start + size]), offset=start)
        reached = min(max(reached, start + size), len(times))
    engine.flush()
    assert sum(total for *_, total in rows(engine)) == sum(times[:reached])


# --- tables ---


@pytest.mark.parametrize(
    "make",
    [
        pa.table,
        lambda data: pa.table(data).to_batches()[0],
        lambda data: pa.concat_tables([pa.table(data)[:1], pa.table(data)[1:]]),
        pd.DataFrame,
        pl.DataFrame,
    ],
    ids=["arrow", "record batch", "chunks", "pandas", "polars"],
)
def test_tables_of_any_maker_give_equal_rows(make: Any):
    data = {"time": [1, 5, 12, 3], "k": ["a", "b", "a", "a"], "v": [1.0, 2.0, 4.0, 8.0], "i": [1, 2, 3, 4]}
    query = hw.query("q", hw.sliding(10, 5), keys=["k"], total=hw.sum("v"), first=hw.first("k"), middle=hw.median("i"))
    wanted = hw.run(data, [query]).table.to_pylist()
    assert len(wanted) == 6
    assert hw.run(make(data), [query]).table.to_pylist() == wanted


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_are_times_in_the_unit_of_the_stream(unit: str):
    data = pa.table({"time": pa.array([1, 5, 12], pa.timestamp(unit)), "v": [1, 2, 4]})
    found = hw.run(data, [totals(window=hw.tumbling(f"10 {unit}"))], unit=unit)["totals"]
    assert found.column("window_start").equals(pa.chunked_array([pa.array([0, 10], pa.timestamp(unit))]))
    assert found.column("total").to_pylist() == [3, 4]


EMPTY = pa.table({"time": pa.array([], pa.int64()), "v": pa.array([], pa.int64())})


@pytest.mark.parametrize("options", [{}, {"disorder": 5}, {"flush": False}], ids=str)
@pytest.mark.parametrize("table", [EMPTY, pa.Table.from_batches([], EMPTY.schema)], ids=["no rows", "no chunks"])
def test_an_empty_table_has_no_results(table: pa.Table, options: dict[str, Any]):
    results = hw.run(table, [totals()], **options)
    assert results["totals"].num_rows == 0
    assert "total" in results.table.column_names


def test_batches_without_rows_change_nothing():
    engine, without = hw.Engine([totals()]), hw.Engine([totals()])
    for number in range(3):
        engine.push(EMPTY)
        engine.push(EMPTY.to_batches()[0] if EMPTY.to_batches() else EMPTY, offset=5)
        engine.push({"time": [], "v": []})
        for one in (engine, without):
            one.push(events([number * 7]))
    for one in (engine, without):
        one.flush()
    assert engine.results().table.equals(without.results().table)
    assert check_counters(engine) == without.counters()


def test_an_engine_without_queries_takes_everything():
    engine = hw.Engine()
    engine.push(events([1, 2]))
    engine.advance(10)
    engine.flush()
    assert engine.results().num_rows == 0
    assert engine.counters() == {}


# --- queries that come and go ---


def test_an_added_query_has_only_windows_that_begin_after_it():
    engine = hw.Engine([totals()])
    engine.push(events([1, 13]))
    begin = engine.add_query(totals("late"))
    assert begin == 14
    engine.push(events([14, 21, 25]))
    engine.flush()
    results = engine.results()
    assert results["late"].column("window_start").to_pylist() == [20]
    assert results["totals"].column("window_start").to_pylist() == [0, 10, 20]
    assert check_counters(engine)["late"]["in"] == 3


def test_a_query_can_be_asked_for_from_a_time_on():
    engine = hw.Engine()
    engine.push(events([1]))
    assert engine.add_query(totals(), at=30) == 30
    engine.push(events([22, 35]))
    engine.flush()
    assert rows(engine) == [(30, 40, 1)]
    with pytest.raises(hw.QueryError, match="'again': at is 3"):
        engine.add_query(totals("again"), at=3)


def test_a_removed_query_says_nothing_more():
    engine = hw.Engine([totals(), totals("other")])
    engine.push(events([1]))
    engine.remove_query("other")
    engine.flush()
    results = engine.results()
    assert results.table.column("query").to_pylist() == ["totals"]
    assert list(engine.counters()) == ["totals"]


def test_a_drained_query_finishes_the_windows_that_are_open():
    engine = hw.Engine([totals("sliding", hw.sliding(10, 5)), totals()])
    engine.push(events([1, 12]))
    engine.remove_query("sliding", drain=True)
    engine.push(events([14, 17, 26]))
    engine.flush()
    found = rows_by_query(engine)
    assert found["sliding"] == [(-5, 5, 1), (0, 10, 1), (5, 15, 2), (10, 20, 3)]
    assert found["totals"] == [(0, 10, 1), (10, 20, 3), (20, 30, 1)]


def rows_by_query(engine: hw.Engine) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in engine.results():
        found.setdefault(row["query"], []).append((row["window_start"], row["window_end"], row["total"]))
    return found


# --- snapshots ---

MIXED = [
    totals("tumbling", lateness=5),
    totals("session", hw.session(6), keys=["k"], lateness=10),
    totals("positions", hw.count_tumbling(3)),
    totals("between", hw.between(hw.col("v") == 1, hw.col("v") == 3)),
    totals("marked", hw.punctuated(hw.col("v") == 2, max_duration=20)),
    totals("once", hw.sliding(20, 10), distinct="v"),
]
STEPS = [
    lambda e: e.push({"time": [1, 5, 3], "v": [1, 2, 3], "k": ["a", "b", None]}, source="x"),
    lambda e: e.push({"time": [2, 14, 8], "v": [4, 1, 2], "k": ["a", "b", "a"]}, source="y", node="attic"),
    lambda e: e.advance(12),
    lambda e: e.push({"time": [4, None, 9], "v": [2, 2, 3], "k": ["b", "b", "a"]}, source="x"),
    lambda e: e.add_query(totals("added", hw.sliding(8, 4))),
    lambda e: e.push({"time": [19, 23], "v": [3, 1], "k": ["c", "a"]}, source="y", offset=2),
    lambda e: e.idle("y"),
    lambda e: e.advance(22, source="x"),
    lambda e: e.remove_query("once", drain=True),
    lambda e: e.push({"time": [30, 31, 18], "v": [2, 3, 9], "k": ["a", "b", "c"]}, source="x"),
    lambda e: e.advance(30),
    lambda e: e.flush(),
]


def outcome(stops: set[int], takes: set[int]) -> list[Any]:
    """Everything an engine says in the story above, when it is stopped and restored before some of the steps."""
    engine, said = hw.Engine(MIXED), []
    for number, step in enumerate(STEPS):
        if number in stops:
            engine = hw.Engine.restore(engine.snapshot())
        step(engine)
        if number in takes:
            said += [engine.results().table.to_pylist(), engine.side_output().to_pylist()]
    counts = check_counters(engine)
    return [*said, engine.results().table.to_pylist(), engine.side_output().to_pylist(), counts, engine.statistics]


@given(st.sets(st.integers(0, len(STEPS) - 1)), st.sets(st.integers(0, len(STEPS) - 1)))
def test_an_engine_restored_says_what_one_that_never_stopped_says(stops: set[int], takes: set[int]):
    assert outcome(stops, takes) == outcome(set(), takes)


def test_a_removed_query_with_results_not_taken_is_restored_with_them():
    engine = hw.Engine([totals(), totals("other")])
    engine.push(events([1]))
    engine.advance(10)
    engine.remove_query("other")
    assert hw.Engine.restore(engine.snapshot()).results()["other"].num_rows == 1


@pytest.mark.parametrize("damage", ["first byte", "middle", "last byte", "cut", "nothing"])
def test_a_damaged_snapshot_is_refused(damage: str):
    engine = hw.Engine([totals()])
    engine.push(events([1, 2]))
    data = bytearray(engine.snapshot())
    if damage == "cut":
        data = data[:-3]
    elif damage == "nothing":
        data = bytearray()
    else:
        data[{"first byte": 0, "middle": len(data) // 2, "last byte": -1}[damage]] ^= 0x10
    with pytest.raises(hw.FormatError):
        hw.Engine.restore(bytes(data))


# --- what is wrong is named ---


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        ([hw.query("q", hw.tumbling(10), x=hw.sum("w"))], ["'q'", "'x'", "'w'", "no such column", "'time', 'v', 's'"]),
        ([hw.query("q", hw.tumbling(10), x=hw.sum("s"))], ["'q'", "'x'", "'s'", "sum needs numbers", "string"]),
        ([totals(), totals()], ["'totals'", "there already"]),
        (
            [hw.query("a", hw.tumbling(10), x=hw.sum("v")), hw.query("b", hw.tumbling(10), x=hw.max("s"))],
            ["'b'", "'x'", "string", "int64", "another name"],
        ),
        ([hw.query("q", hw.tumbling(10), x=hw.count(), keys=["w"])], ["'q'", "'w'", "no such column"]),
        ([hw.query("q", hw.tumbling(10), x=hw.count(), where=hw.col("w") > 1)], ["'q'", "'w'", "no such column"]),
    ],
    ids=[
        "unknown column",
        "sum of strings",
        "one name twice",
        "one alias of two types",
        "unknown key",
        "unknown in where",
    ],
)
def test_a_query_that_cannot_be_is_refused_before_anything_runs(queries: list[hw.Query], words: list[str]):
    data = {"time": [1], "v": [1], "s": ["a"]}
    with pytest.raises(hw.QueryError) as refusal:
        hw.run(data, queries)
    assert [word for word in words if word not in str(refusal.value)] == []


def test_unknown_modes_and_names_are_told_what_there_is():
    with pytest.raises(hw.QueryError, match=r"mode is 'fast': give one of .*'desis'"):
        hw.Engine(mode="fast")
    with pytest.raises(hw.QueryError, match="no query 'other'; there is 'totals'"):
        hw.run(events([1]), [totals()])["other"]
    with pytest.raises(hw.QueryError, match=r"'other'.*totals"):
        hw.Engine([totals()]).remove_query("other")
    with pytest.raises(hw.DataError, match="give an Arrow table"):
        hw.run([1, 2], [totals()])


def test_data_without_its_time_is_refused_at_first():
    with pytest.raises(hw.QueryError, match="'time'"):
        hw.run({"v": [1]}, [totals()])
    with pytest.raises(hw.QueryError, match=r"time is 'time'.*string"):
        hw.run(events(["noon"]), [totals()])


# --- malformed events ---

GOOD = events([1, 2])
MALFORMED = {
    "null time": (pa.table({"time": pa.array([None, 3], pa.int64()), "v": [1, 1]}), {0: "time is null"}),
    "text as time": (events(["noon", "4"]), {0: "time is of type string", 1: "time is of type string"}),
    "ends of int64": (events([INT64_MIN, INT64_MAX, 5]), {0: f"time {INT64_MIN} is outside", 1: "is outside -2**62"}),
    "floats": (events([1.5, 3.0]), {0: "time is of type double, not an integer", 1: "time is of type double"}),
    "wrong type": (events([3, 4], ["one", "2"]), {0: "column 'v' is 'one', not int64", 1: "column 'v' is '2', not"}),
    "truth as a number": (events([3], [True]), {0: "column 'v' is True, not int64"}),
    "no such column": ({"time": [3, 4]}, {0: "column 'v' is missing", 1: "column 'v' is missing"}),
    "no time": ({"v": [3]}, {0: "time column 'time' is missing"}),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_events_are_set_aside_with_the_reason(name: str):
    batch, reasons = MALFORMED[name]
    table = pa.table(batch)
    engine = hw.Engine([totals()])
    engine.push(GOOD, source="meter")
    engine.push(batch, source="meter")
    engine.flush()
    counts = check_counters(engine)["totals"]
    assert counts["malformed"] == engine.statistics["malformed"] == len(reasons)
    assert counts["in"] == 2 + len(table)
    aside = engine.side_output().to_pylist()
    assert [(row["source"], row["offset"], row["query"]) for row in aside] == [
        ("meter", 2 + row, None) for row in reasons
    ]
    for row, reason in zip(aside, reasons.values()):
        assert reason in row["reason"]
        assert json.loads(row["event"]).keys() == set(table.column_names)
    assert sum(total for *_, total in rows(engine)) == 2 + sum(
        value
        for i, value in enumerate(table.column("v").to_pylist() if "v" in table.column_names else [])
        if i not in reasons
    )
    assert engine.side_output().num_rows == 0


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_events_are_an_error_with_strict(name: str):
    batch, reasons = MALFORMED[name]
    engine = hw.Engine([totals()], strict=True)
    engine.push(GOOD, source="meter")
    with pytest.raises(hw.DataError, match=f"source 'meter', offset {2 + min(reasons)}: ") as refusal:
        engine.push(batch, source="meter")
    assert reasons[min(reasons)] in str(refusal.value)


def test_malformed_events_of_different_shapes_stand_side_by_side():
    engine = hw.Engine([totals()])
    engine.push(GOOD)
    for batch, _ in MALFORMED.values():
        engine.push(batch)
    assert engine.side_output().num_rows == sum(len(reasons) for _, reasons in MALFORMED.values())


def test_events_that_are_too_late_are_told_with_query_and_watermark():
    engine = hw.Engine([totals(), totals("patient", lateness=20)])
    engine.push(events([1, 12]), source="meter")
    engine.advance(15)
    engine.push(events([3], [7]), source="meter")
    (late,) = engine.side_output().to_pylist()
    assert json.loads(late.pop("event")) == {"time": 3, "v": 7}
    assert late == {
        "query": "totals", "reason": "too late", "source": "meter", "offset": 2, "time": 3, "watermark": 15,
    }  # fmt: skip
    counters = check_counters(engine)
    assert (counters["totals"]["dropped"], counters["patient"]["late"]) == (1, 1)


any_time = st.one_of(st.none(), st.integers(-20, 60), st.sampled_from([INT64_MIN, INT64_MAX, 2**62, 2**62 + 1]))


@given(
    st.lists(st.lists(st.tuples(any_time, st.one_of(st.none(), st.integers(0, 3))), max_size=6), max_size=5),
    st.integers(0, 10),
)
def test_counters_always_add_up(batches: list[list[tuple[int | None, int | None]]], disorder: int):
    queries = [
        totals(lateness=3),
        totals("some", hw.sliding(10, 3), where=hw.col("v") > 1),
        totals("band", hw.band(10, 5)),
        totals("session", hw.session(4), lateness=2),
        totals("counted", hw.count_sliding(3, 2)),
    ]
    engine = hw.Engine(queries, disorder=disorder)
    for batch in batches:
        times, values = [time for time, _ in batch], [value for _, value in batch]
        engine.push(pa.table({"time": pa.array(times, pa.int64()), "v": pa.array(values, pa.int64())}))
        check_counters(engine)
    engine.flush()
    for counts in check_counters(engine).values():
        assert counts["in"] == sum(map(len, batches))
    dropped = sum(counts["dropped"] for counts in engine.counters().values())
    assert engine.side_output().num_rows == dropped + engine.statistics["malformed"]


# --- numbers beyond their type ---


def test_a_sum_beyond_int64_is_null_and_counted():
    data = events([1, 2, 11, 12], [2**62, 2**62, INT64_MAX, 0])
    engine = hw.Engine([totals()])
    engine.push(data)
    engine.flush()
    assert rows(engine) == [(0, 10, None), (10, 20, INT64_MAX)]
    assert engine.statistics["overflows"] == 1
    with pytest.raises(hw.DataError, match="beyond the type"):
        hw.run(data, [totals()], strict=True)


def test_a_sum_may_leave_int64_on_the_way():
    assert [row["total"] for row in hw.run(events([1, 2, 3], [2**62, 2**62, -(2**62)]), [totals()])] == [2**62]
