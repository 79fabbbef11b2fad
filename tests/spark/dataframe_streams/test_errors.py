"""What users do wrong with streaming DataFrames is said in one sentence, before anything starts; and what is set for them."""

import logging
import re

import numpy as np
import pytest

import headwater as hw
from headwater.spark import aggregate
from headwater.spark.dataframe_streams.plan import prepare
from headwater.spark.shuffles import TASKS, bucket_labels, murmur

pytestmark = pytest.mark.spark

MEAN = hw.query("mean", hw.tumbling("10 s"), keys=["value"], n=hw.count())
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.fixture(scope="module")
def ticks(spark):
    return spark.readStream.format("rate").load().selectExpr("timestamp", "value", "'noon' at")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"time": "at"}, "event times are integers, timestamps or dates, the column holds string"),
        ({"time": "when"}, "the data has no such column"),
        ({"disorder": None}, "disorder is missing, so no window of this stream would ever close"),
        ({"disorder": "-1 s"}, "disorder"),
        ({"output": "errors"}, "output is 'errors': give one of 'results', 'aside', 'accounts', 'all'"),
        ({"sums": "native"}, "sums is 'native': streams have exact sums"),
        ({"source": "house"}, "source is 'house': there is no such column"),
        ({"idle": "1 min"}, "idle is for streams of several sources"),
        ({"idle": 5, "source": "at"}, "idle is 5: give a duration of real time"),
        ({"flush_after": 0}, "flush_after is 0: give a duration of real time"),
        ({"flush_when": "value"}, "flush_when is 'value': give a condition"),
        ({"buckets": 0}, "buckets is 0: give a whole number"),
        ({"order": "place"}, "order is 'place': there is no such column"),
    ],
)
def test_wrong_options_of_a_streaming_dataframe_are_refused_before_anything_starts(ticks, options, sentence):
    given = {"time": "timestamp", "disorder": "1 s"} | options
    with pytest.raises(hw.HeadwaterError, match=re.escape(sentence)) as caught:
        aggregate(ticks, MEAN, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", [{"disorder": "1 s"}, {"live": True}, {"flush_when": "true"}, {"source": "id"}])
def test_options_of_streams_are_refused_for_a_batch(spark, option):
    query = hw.query("n", hw.tumbling(10), n=hw.count())
    with pytest.raises(hw.DataError, match="is for streaming DataFrames, and this is a batch DataFrame"):
        aggregate(spark.range(3), query, time="id", **option)
    with pytest.raises(hw.QueryError, match="output='all' is for streaming DataFrames"):
        aggregate(spark.range(3), query, time="id", output="all")


def test_a_column_named_like_one_of_headwaters_own_is_refused(ticks):
    query = hw.query("q", hw.tumbling("1 s"), kind=hw.count())
    with pytest.raises(hw.QueryError, match="has a column 'kind' of its own"):
        aggregate(ticks, query, time="timestamp", disorder="1 s", output="all")


def test_complete_mode_is_refused(ticks, tmp_path):
    rows = aggregate(ticks, MEAN, time="timestamp", disorder="1 s")
    writer = rows.writeStream.format("noop").outputMode("complete").option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match=r"[Cc]omplete"):
        writer.start()


def test_the_state_store_is_set_for_the_user(spark, caplog):
    session = spark.newSession()
    for name in (PROVIDER, "spark.sql.streaming.stateStore.checkpointFormatVersion"):
        session.conf.unset(name)
    session.conf.set("spark.sql.shuffle.partitions", "200")
    with caplog.at_level(logging.WARNING, "headwater"):
        prepare(session, 8)
    assert "RocksDB" in session.conf.get(PROVIDER)
    assert session.conf.get("spark.sql.streaming.stateStore.checkpointFormatVersion") == "2"
    assert "spark.sql.shuffle.partitions is 200 for 8 buckets" in caplog.text
    session.conf.set(PROVIDER, "org.example.Store")
    with pytest.raises(hw.DataError, match="transformWithState cannot use"):
        prepare(session, 8)


def test_buckets_are_spread_over_tasks(spark):
    labels = bucket_labels(16)
    hashes = murmur(np.array(labels, np.uint32)).view(np.int32)
    said = spark.range(1).selectExpr(f"transform(array{labels}, x -> hash(x)) h").first().h
    assert hashes.tolist() == said
    for tasks in (2, 4, 8, 16, 200):
        assert TASKS % tasks == 0
        assert len({number % tasks for number in said}) == min(tasks, 16)


def test_explain_says_what_travels(ticks):
    asked = [MEAN, hw.query("all", hw.count_tumbling(3), first=hw.first("at"))]
    said = hw.explain(ticks, asked, time="timestamp", disorder="1 s")
    assert said["mean"].plan == "stream, keys on 8 roots"
    assert said["all"].plan == "stream, one root" and "within a batch" in said["all"].warning
    assert [travel.note for travel in said.travels] == [
        "of each event: timestamp, limit, value",
        "of each event: timestamp, limit, at, value",
    ]
    with pytest.raises(hw.QueryError, match="disorder is missing"):
        hw.explain(ticks, asked, time="timestamp")
