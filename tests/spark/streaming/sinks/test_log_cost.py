"""What a batch costs a segment log as a sink, counted in files that are opened."""

import os

import pyarrow as pa

from headwater.logs import Log
from headwater.spark.streaming.sinks import LogSink
from spark.streaming.sinks.streams import History, table


def opens_of(call, monkeypatch) -> int:
    count, inner = 0, os.open

    def counted(*args, **named):
        nonlocal count
        count += 1
        return inner(*args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", counted)
        call()
    return count


def test_a_batch_opens_no_more_files_after_hundreds_of_segments_than_after_one(tmp_path, monkeypatch):
    """Each batch opened every segment twice: 1.3 s a batch at 2,000 segments."""
    log = Log.create(tmp_path / "out")
    monkeypatch.setattr("headwater.logs.files.sync", lambda descriptor: None)
    sink, history = LogSink(tmp_path / "out"), History()
    sink.open(history.start("a"))
    history.run(sink.write, table(0), table(1))
    after_one = opens_of(lambda: history.run(sink.write, table(2)), monkeypatch)
    sink.close()
    with log.writer(0, segment_bytes=1) as writer:
        for batch in range(3, 300):
            writer.append(pa.record_batch({"n": [batch], "batch": [batch]}))
    history.done = 299
    sink.open(history.start("b"))
    history.run(sink.write, table(300))
    assert len(list((tmp_path / "out" / "00000").glob("*.segment"))) > 290
    assert opens_of(lambda: history.run(sink.write, table(301)), monkeypatch) == after_one
    assert opens_of(lambda: history.run(sink.write, table()), monkeypatch) == 0
    sink.close()
    assert log.reader(0).refresh() == 302


def test_a_sink_that_was_left_open_in_this_process_makes_room_for_the_next(tmp_path):
    """Spark ends a stream without closing its sink, if it fails or has read what was available."""
    left, history = LogSink(tmp_path / "out"), History()
    left.open(history.start("a"))
    history.run(left.write, table(1))
    again = LogSink(tmp_path / "out")
    again.open(history.start("b"))
    history.run(again.write, table(2))
    again.close()
    assert Log.open(tmp_path / "out").reader(0).refresh() == 2
