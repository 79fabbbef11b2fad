"""The roots of a streaming DataFrame in Spark's own stateful operator, without a Spark: who calls them says what time it is."""

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.cases.hosts import result_rows
from headwater.node.micro_batches.frames import BatchSettings, EventGroup, Frame, Heard
from headwater.node.micro_batches.root import BatchRoot
from headwater.spark.dataframe_streams.plan import StreamOptions, StreamPlan, output_schema, stream_settings
from headwater.spark.native.choice import Asked
from headwater.spark.types import spark_types
from node.batches import MicroBatch, reference
from spark.answers import assert_same
from spark.batch.test_tasks import renamed
from strategies import SCHEMA, WINDOWS, queries, rows

pytest.importorskip("pyspark", reason="PySpark is not installed")
pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="Spark has its tester of stateful operators from 4.2 on")

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from headwater.spark.dataframe_streams.aggregate import sent_frames
from headwater.spark.dataframe_streams.state import BucketProcessor, unpacked, watch_progress

SOURCE, LAST = "source", "last"
SMALL = pa.schema([("time", pa.int64()), ("v", pa.float64())])


class Operator:
    """What partitions send, and the stateful operator behind the shuffle; its clock only moves when it is told to."""

    def __init__(self, asked: list[hw.Query], schema: pa.Schema, partitions: int = 1, **options: Any) -> None:
        told = Asked(schema)
        ties = [name for name in schema.names if name != "time"]
        given_options = StreamOptions(source=SOURCE, flush_when=LAST, **options)
        self._settings = stream_settings(asked, told, ties, given_options)
        result, _ = spark_types(output_schema(told.root(asked).result_schema, "results"))
        groups = self._settings.groups
        self._columns = tuple(dict.fromkeys(name for group in groups for name in group.travelling))
        plan = StreamPlan(self._settings, self._columns, result, "results", has_source=True, has_last=True)
        self._plan, self._schema, self._partitions = plan.to_text(), schema, partitions
        self._mode = "ProcessingTime" if plan.uses_clock else "None"
        self._operator = TwsTester(BucketProcessor(self._plan), timeMode=self._mode)

    def frames(self, events: list[dict[str, Any]], is_last: bool = False) -> list[dict[str, Any]]:
        """What the partitions of a batch send."""
        ends = [{SOURCE: "the end", LAST: True}] if is_last else []
        shares = [[*events, *ends][number :: self._partitions] for number in range(self._partitions)]
        return [row for share in shares for row in self._share(share)]

    def _share(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        columns = {
            f"c{number}": pa.array([row.get(name) for row in events], self._schema.field(name).type)
            for number, name in enumerate(self._columns)
        }
        columns[SOURCE] = pa.array([row.get(SOURCE, "") for row in events], pa.string())
        columns[LAST] = pa.array([row.get(LAST, False) for row in events], pa.bool_())
        return [row for batch in sent_frames(self._plan, [pa.record_batch(columns)]) for row in batch.to_pylist()]

    def take(self, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A batch comes, now."""
        by_bucket: dict[int, list[Row]] = {}
        for row in sent:
            by_bucket.setdefault(row["bucket"], []).append(Row(**row))
        return [row for bucket, some in by_bucket.items() for row in _rows(self._operator.test(bucket, some))]

    def pass_until(self, now_ms: int) -> list[dict[str, Any]]:
        """Nobody speaks until then."""
        return _rows(self._operator.setProcessingTime(now_ms))

    def go_on(self) -> None:
        """A new operator, with the state of the old one."""
        old = self._operator.handle
        self._operator = TwsTester(BucketProcessor(self._plan), timeMode=self._mode)
        for bucket in list(old.value_states["root"].state):
            old.setGroupingKey(bucket)
            self._operator.updateValueState("root", bucket, old.value_states["root"].get())


def _rows(packed: list[Row]) -> list[dict[str, Any]]:
    batches = [pa.record_batch({"data": [row["data"]]}) for row in packed]
    return [row for batch in unpacked(batches) for row in batch.to_pylist()]


@settings(max_examples=12)
@given(data=st.data())
def test_the_stateful_operator_agrees_with_the_reference_and_goes_on_from_its_state(data):
    kinds = data.draw(st.lists(st.sampled_from(sorted(WINDOWS)), min_size=1, max_size=3))
    asked = renamed([data.draw(queries(kinds=(kind,), scopes=("global",))) for kind in kinds])
    bases = [20 * n + data.draw(st.integers(-8, 8)) for n in range(3)]
    batches = [MicroBatch(data.draw(st.lists(rows(base), max_size=10))) for base in bases]
    batches.append(MicroBatch([], is_last=True))
    partitions, buckets = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    stream = Operator(asked, SCHEMA, partitions, disorder=5, buckets=buckets)
    schema = Asked(SCHEMA).root(asked).result_schema
    found = []
    for batch in batches:
        found += stream.take(stream.frames(list(batch.rows), batch.is_last))
        stream.go_on()
    wanted = [row for _, emitted in reference(batches, asked, 5).emitted for row in emitted]
    table = pa.Table.from_pylist(found, schema=spark_types(schema)[0])
    assert_same(wanted, result_rows(table, {query.name: query for query in asked}))


def test_a_batch_that_is_run_again_says_the_same_in_whatever_order_frames_come():
    asked = [hw.query("q", hw.count_tumbling(2), order=hw.collect("v"))]
    one, other = (Operator(asked, SMALL, partitions=3, disorder=1) for _ in range(2))
    dice = random.Random(1)
    for n in range(3):
        sent = one.frames([{"time": 10 * n + i % 3, "v": i / 2} for i in range(7)])
        assert len(sent) == 3
        assert one.take(sent) == other.take(dice.sample(sent, len(sent)))
        other.go_on()


def test_open_sessions_are_shown_when_they_change():
    stream = Operator([hw.query("s", hw.session(5), total=hw.sum("v"))], SMALL, disorder=0, live=True)
    shown = [
        (row["window_start"], row["window_end"], row["revision"], row["total"], row["replaces"] or [])
        for time, value in ((1, 1.0), (4, 2.0), (20, 4.0))
        for row in stream.take(stream.frames([{"time": time, "v": value}]))
    ]
    assert [row[:4] for row in shown] == [(1, 6, -1, 1.0), (1, 9, -1, 3.0), (1, 9, 0, 3.0), (20, 25, -1, 4.0)]
    assert [[(r["window_start"], r["window_end"]) for r in row[4]] for row in shown] == [[], [(1, 6)], [], []]


class Silence:
    """A stream of several sources that may fall silent; what comes out is the start and the count of windows."""

    def __init__(self, **options: str) -> None:
        self._stream = Operator([hw.query("n", hw.tumbling(10), n=hw.count())], SMALL, disorder=0, **options)

    def take(self, *events: tuple[int, str]) -> list[tuple[int, int]]:
        return self._shown(self._stream.take(self._stream.frames([{"time": t, SOURCE: name} for t, name in events])))

    def pass_until(self, now_ms: int) -> list[tuple[int, int]]:
        return self._shown(self._stream.pass_until(now_ms))

    def _shown(self, found: list[dict[str, Any]]) -> list[tuple[int, int]]:
        return [(row["window_start"], row["n"]) for row in found]


def test_a_root_says_in_its_log_which_source_the_others_wait_for_and_what_idle_would_do(caplog):
    load = hw.query("load", hw.tumbling(10), n=hw.count())
    root = BatchRoot(BatchSettings((EventGroup("", (load,), ("time",)),), disorder=0))
    for second in range(0, 75, 5):
        root.take([Frame({"quick": Heard(1, 100 + second), "slow": Heard(1, 3)}, False, {})])
        watch_progress("a plan of this test", root, second * 1_000_000)
    # After ten seconds, and again a minute later.
    told = [record.getMessage() for record in caplog.records]
    assert [message.partition(": ")[0] for message in told] == ["no progress for 10 s", "no progress for 70 s"]
    assert "before 'slow' sends a later event; idle is not set" in told[0]
    assert root.holding_up() == ["slow"]
    root.take([Frame({}, True, {})])
    assert root.holding_up() == []


def test_a_source_that_is_silent_for_as_long_as_idle_is_not_waited_for():
    stream = Silence(idle="200 ms")
    assert stream.pass_until(1_000) == stream.take((1, "a"), (2, "b")) == []
    assert stream.pass_until(1_150) == stream.take((15, "a")) == []
    assert stream.pass_until(1_199) == []
    assert stream.pass_until(1_200) == [(0, 2)]
    assert stream.pass_until(9_999) == []


def test_a_stream_ends_when_all_were_silent_for_as_long_as_flush_after():
    stream = Silence(idle="200 ms", flush_after="2 s")
    assert stream.pass_until(1_000) == stream.take((1, "a"), (2, "b")) == []
    assert stream.pass_until(1_100) == stream.take((15, "a")) == []
    assert stream.pass_until(1_200) == [(0, 2)]
    assert stream.pass_until(3_099) == []
    assert stream.pass_until(3_100) == [(10, 1)]
    assert stream.take((16, "a")) == [] == stream.pass_until(9_999)


def test_a_source_that_speaks_in_time_is_waited_for():
    stream = Silence(idle="200 ms", flush_after="2 s")
    assert stream.pass_until(1_000) == stream.take((1, "a"), (2, "b")) == []
    for step in range(1, 50):
        assert stream.pass_until(1_000 + 199 * step) == stream.take((15, "a"), (3, "b")) == []
    assert stream.take((15, "b")) == [(0, 51)]
