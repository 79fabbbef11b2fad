"""`headwater.aggregate` on streaming DataFrames: the rows of the reference, batch by batch, also after a restart."""

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import headwater as hw
from headwater.cases.hosts import result_rows
from headwater.spark import aggregate, split_output
from node.batches import MicroBatch, reference
from spark.answers import assert_same, found
from spark.batch.test_tasks import renamed
from spark.streams import LAST, Folder, run
from strategies import SCHEMA, SQUARES, WINDOWS, drawn, queries, rows
from waiting import wait_until

pytestmark = pytest.mark.spark

WITH_LAST = SCHEMA.append(LAST)
SMALL = pa.schema([("time", pa.int64()), ("k", pa.string()), ("v", pa.float64()), ("at", pa.string())])


def all_rows(played):
    return [row for _, emitted in played.emitted for row in emitted]


def event(time, **values):
    return dict.fromkeys(SMALL.names) | {"time": time, **values}


def test_a_streaming_dataframe_agrees_with_the_reference_after_a_restart(spark, tmp_path):
    every_kind = st.tuples(*(queries(kinds=(kind,), scopes=("global",)) for kind in WINDOWS)).map(renamed)
    some_rows = st.tuples(*(st.lists(rows(base), min_size=8, max_size=16) for base in (-5, 17, 42)))
    ((asked, listed),) = drawn(st.tuples(every_kind, some_rows))
    batches = [*map(MicroBatch, listed), MicroBatch([], is_last=True)]
    folder = Folder(tmp_path, WITH_LAST)
    frame = folder.stream(spark).repartition(2)
    results = aggregate(frame, asked, disorder=5, flush_when="last", buckets=3)
    for portion in (batches[:2], batches[2:]):
        folder.put(*([*batch.rows, *([{"last": True}] if batch.is_last else [])] for batch in portion))
        run(results, tmp_path / "checkpoint", path=tmp_path / "out")
    assert_same(all_rows(reference(batches, asked, 5)), found(spark.read.parquet(str(tmp_path / "out")), asked))


def test_windows_that_spark_refuses_on_streams_agree_with_the_reference(spark, tmp_path):
    """Unkeyed sessions, counts per key and over all, medians, own aggregates, late members, the last window, late events."""
    asked = renamed(
        [
            hw.query("q", hw.session(5), n=hw.count(), mid=hw.median("i")),
            hw.query("q", hw.count_tumbling(3, per="key"), keys=["k"], i=hw.collect("i")),
            hw.query("q", hw.count_sliding(4, 2, per="all"), last=hw.last("i")),
            hw.query("q", hw.sliding(10, 4), keys=["k"], lateness=20, squares=hw.apply(SQUARES, "i"), x=hw.sum("x")),
            hw.query("q", hw.tumbling(7), keys=["g"], n=hw.count_distinct("id"), wide=hw.stddev("x")),
        ]
    )
    batches = [MicroBatch([_row(17 * n + i * 3 % 13 - 24 * (i == 7), i) for i in range(8)]) for n in range(3)]
    batches.append(MicroBatch([_row(None, 1)], is_last=True))
    folder = Folder(tmp_path, WITH_LAST)
    folder.put(*(batch.rows for batch in batches[:-1]), [*batches[-1].rows, {"last": True}])
    kept: dict = {}

    def keep(frame, number):
        kept[number] = frame.toArrow()

    stream = aggregate(folder.stream(spark), asked, disorder=2, flush_when="last", output="all")
    run(stream, tmp_path / "checkpoint", each=keep)
    played = reference(batches, asked, 2)
    everything = spark.createDataFrame(pa.concat_tables(kept.values()))
    results, aside, accounts = split_output(everything)
    assert_same(all_rows(played), result_rows(results.toArrow(), {query.name: query for query in asked}))
    totals = accounts.groupBy("query").sum().toArrow().rename_columns(["query", *accounts.columns[1:]]).to_pylist()
    assert {row.pop("query"): row for row in totals} == played.counters
    assert played.counters["q0"]["dropped"] > 0 < played.counters["q3"]["late"]
    late = aside.where("reason = 'too late'").count()
    assert late == sum(counts["dropped"] for counts in played.counters.values())
    assert aside.where("query is null").count() == 1  # the event without a time, whatever queries there are


def _row(time, i):
    values = {"k": "uv"[i % 2], "g": i % 3, "i": i, "x": i / 7, "id": i % 4}
    return dict.fromkeys(SCHEMA.names) | {"time": time} | values


@pytest.mark.slow(
    reason="what is shown of open windows is in test_state.py; an output mode of Spark's is all that is new here"
)
def test_open_sessions_without_keys_are_shown_live(spark, tmp_path):
    folder = Folder(tmp_path, SMALL)
    query = hw.query("s", hw.session(5), total=hw.sum("v"))
    live = aggregate(folder.stream(spark), query, disorder=0, live=True)
    folder.put([event(1, v=1.0)], [event(4, v=2.0)], [event(20, v=4.0)])
    run(live, tmp_path / "checkpoint", mode="update", name="live")
    shown = {(r.window_start, r.window_end, r.revision): (r.total, r.replaces) for r in spark.table("live").collect()}
    assert shown == {
        (1, 6, -1): (1.0, None),
        (1, 9, -1): (3.0, [(1, 6, -1)]),
        (1, 9, 0): (3.0, None),
        (20, 25, -1): (4.0, None),
    }


@pytest.mark.slow(reason="that a batch says the same again in any order of frames is in test_state.py")
def test_a_batch_that_fails_says_the_same_again(spark, tmp_path):
    asked = [hw.query("q", hw.count_tumbling(2, per="key"), keys=["k"], order=hw.collect("x"))]
    batches = [MicroBatch([_row(10 * n + i % 3, i) for i in range(7)]) for n in range(3)]
    folder = Folder(tmp_path, SCHEMA)
    folder.put(*(batch.rows for batch in batches))
    stream = aggregate(folder.stream(spark).repartition(3), asked, disorder=1)
    kept: list = []

    def keep(frame, number):
        kept.append((number, frame.toArrow().sort_by([("k", "ascending"), ("window_start", "ascending")])))
        if number == 1 and len(kept) == 2:
            raise RuntimeError("the sink breaks")

    with pytest.raises(Exception, match="the sink breaks"):
        run(stream, tmp_path / "checkpoint", each=keep)
    run(stream, tmp_path / "checkpoint", each=keep)
    assert [number for number, _ in kept] == [0, 1, 1, 2]
    assert kept[1][1] == kept[2][1]
    once = pa.concat_tables([table for _, table in [*kept[:1], *kept[2:]]])
    assert_same(all_rows(reference(batches, asked, 1)), result_rows(once, {"q": asked[0]}))


def test_silence_is_noticed_without_a_new_event(spark, tmp_path):
    """What it decides, and when, is in `test_state.py`; here only that Spark calls and says what time it is."""
    folder = Folder(tmp_path, SMALL)
    query = hw.query("n", hw.tumbling(10), n=hw.count())
    # Only a timer can close the first window: b is beyond it, a is not, and neither is heard of again.
    stream = aggregate(folder.stream(spark), query, disorder=0, source="at", idle="1 ms")
    folder.put([event(1, at="a"), event(2, at="b"), event(15, at="b")])
    writer = stream.writeStream.format("memory").queryName("silent")
    running = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_until(lambda: spark.table("silent").count() or not running.isActive, "a window has closed")
    finally:
        running.stop()
    assert running.exception() is None
    assert [(row.window_start, row.n) for row in spark.table("silent").collect()] == [(0, 2)]


def test_a_streaming_dataframe_of_connect_is_aggregated(connect, tmp_path):
    folder = Folder(tmp_path, SMALL)
    folder.put([event(1, k="u", v=1.0), event(12, k="u", v=2.0)], [event(25, k="u", v=3.0)])
    query = hw.query("n", hw.tumbling(10), keys=["k"], total=hw.sum("v"))
    stream = aggregate(folder.stream(connect), query, disorder=0)
    run(stream, tmp_path / "checkpoint", path=tmp_path / "out")
    shown = connect.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.window_start, row.total) for row in shown) == [(0, 1.0), (10, 2.0)]
