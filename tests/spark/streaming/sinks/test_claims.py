"""A sink belongs to one stream and one past of it; what is refused stays as it was."""

from copy import deepcopy

import pyarrow as pa
import pytest

from headwater.logs import Log
from headwater.spark.streaming.sinks import FolderSink, LogSink, SinkError
from spark.streaming.sinks.streams import History, table


@pytest.fixture(params=[FolderSink, LogSink])
def make(request, tmp_path):
    return lambda: request.param(tmp_path / "out")


def held(sink) -> list[int]:
    """All rows of a sink, in order."""
    sink.close()
    if isinstance(sink, FolderSink):
        return [n for path in sorted(sink.path.glob("*.parquet")) for n in pa.parquet.read_table(path)["n"].to_pylist()]
    return [n for stored in Log.open(sink.path).reader(0).read() for n in stored.batch.column("n").to_pylist()]


def opened(make, history: History, life: str):
    sink = make()
    sink.open(history.start(life))
    return sink


def test_another_stream_is_refused_before_it_writes_anything(make):
    first = opened(make, one := History("one"), "a")
    one.run(first.write, table(1), table(2))
    with pytest.raises(SinkError, match=r"belongs to another stream, one \(this one is two\); give another"):
        opened(make, History("two"), "b")
    one.run(first.write, table(3))
    assert held(first) == [1, 2, 3]


def test_a_stream_that_begins_anew_is_refused_where_its_old_checkpoint_wrote(make):
    """Found as lost and stale rows: the checkpoint was deleted, the folder was not."""
    first = opened(make, old := History("old"), "a")
    old.run(first.write, table(1), table(2), table(3))
    first.close()
    with pytest.raises(SinkError, match="another stream"):
        opened(make, History("new"), "b")


def test_rows_and_events_set_aside_do_not_share_a_sink(make):
    opened(make, History("one"), "a")
    with pytest.raises(SinkError, match="another stream, one"):
        opened(make, History("one-aside"), "a")


def test_a_batch_that_was_not_finished_is_taken_again_if_it_is_the_same(make):
    first = opened(make, history := History(), "a")
    history.run(first.write, table(1))
    first.write(1, table(2, 3))
    first.close()
    again = opened(make, history, "b")
    history.run(again.write, table(2, 3), table(4))
    assert held(again) == [1, 2, 3, 4]


@pytest.mark.parametrize("other", [table(2, 4), table(2), table(2, 3, 4), table(), table(2, 3, column="m")])
def test_a_batch_that_comes_again_with_other_rows_is_refused(make, other):
    first = opened(make, history := History(), "a")
    history.run(first.write, table(1))
    first.write(1, table(2, 3))
    first.close()
    again = opened(make, history, "b")
    with pytest.raises(
        SinkError, match=r"batch 1 is here with other rows \(.*go on with the newest checkpoint, or give another"
    ):
        again.write(1, other)
    assert held(again)[:3] == [1, 2, 3]


def test_an_older_checkpoint_is_refused_though_it_is_of_the_same_stream(make):
    first = opened(make, history := History(), "a")
    history.run(first.write, table(1), table(2))
    backup = deepcopy(history)
    history.run(first.write, table(3), table(4))
    first.close()
    with pytest.raises(
        SinkError, match=r"rows up to batch 3 that are not of this checkpoint, which goes on with batch 2"
    ):
        opened(make, backup, "b")
    last = opened(make, history, "c")
    history.run(last.write, table(5))
    assert held(last) == [1, 2, 3, 4, 5]


def test_a_checkpoint_that_ran_elsewhere_meanwhile_is_refused(make, tmp_path):
    """By number it has gone further than the sink; but the sink's last batches are of the other timeline."""
    first = opened(make, history := History(), "a")
    history.run(first.write, table(1))
    backup = deepcopy(history)
    history.run(first.write, table(2), table(3))
    first.close()
    elsewhere = FolderSink(tmp_path / "elsewhere")
    elsewhere.open(backup.start("b"))
    backup.run(elsewhere.write, *[table(9)] * 5)
    with pytest.raises(SinkError, match="not of this checkpoint"):
        opened(make, backup, "c")


def test_an_older_checkpoint_goes_on_where_nothing_was_written_since(make):
    first = opened(make, history := History(), "a")
    history.run(first.write, table(1))
    backup = deepcopy(history)
    history.run(first.write, table(), table())
    first.close()
    opened(make, history, "b").close()
    again = opened(make, backup, "c")
    backup.run(again.write, table(2))
    assert held(again) == [1, 2]


def test_a_run_that_was_followed_by_another_writes_no_more(make):
    old = opened(make, history := History(), "a")
    history.run(old.write, table(1))
    copy = deepcopy(history)
    new = opened(make, copy, "b")
    copy.run(new.write, table(2))
    with pytest.raises(
        SinkError, match=r"_headwater\.s\.a is gone, so another run of this stream has taken the sink over"
    ):
        old.write(2, table(7))
    copy.run(new.write, table(3))
    assert held(new) == [1, 2, 3]


def test_rows_of_a_release_that_signed_nothing_are_adopted_by_the_stream_that_wrote_them(make):
    unsigned, history = make(), History()
    history.run(unsigned.write, table(1), table(), table(2, 3))
    unsigned.write(3, table(4))  # it was killed before this one was done
    unsigned.close()
    now = opened(make, history, "a")
    history.run(now.write, table(4), table(5))
    assert held(now) == [1, 2, 3, 4, 5]


def test_rows_that_nobody_signed_are_not_adopted_by_a_stream_that_did_not_write_them(make):
    unsigned, history = make(), History()
    history.run(unsigned.write, table(1), table(2, 3), table(4))
    unsigned.close()
    with pytest.raises(
        SinkError, match="rows up to batch 2 that are not of this checkpoint, which goes on with batch 0"
    ):
        opened(make, History("new"), "a")
    other = History("other")
    other.run(lambda batch, rows: None, table(1), table(2), table(3), table(4))
    with pytest.raises(SinkError, match="the rows in it, up to batch 2, are not of this stream; give another"):
        opened(make, other, "a")
    history.run(opened(make, history, "a").write, table(5))


def test_nobody_stays_in_a_sink_that_two_streams_claim_at_once(make, monkeypatch):
    from headwater.spark.streaming.sinks import claim

    sink, inner = make(), claim._signed
    looks = []

    def slow(folder):
        found = inner(folder)
        if not looks:
            looks.append(folder)
            other = make()
            other.open(History("two").start("b"))
            other.write(0, table(1))
        return found

    monkeypatch.setattr(claim, "_signed", slow)
    with pytest.raises(SinkError, match="another stream, two"):
        sink.open(History("one").start("a"))
    assert [path.name for path in sink.path.glob("_headwater*")] == ["_headwater.two.b"]


def test_a_log_whose_rows_no_stream_wrote_is_no_sink(tmp_path):
    with Log.create(tmp_path / "out").writer(0) as writer:
        writer.append(pa.record_batch({"n": [1]}))
    with pytest.raises(SinkError, match="this log has rows that no stream wrote, without a column 'batch'"):
        LogSink(tmp_path / "out").open(History().start("a"))


def test_a_sleeper_that_writes_the_rest_of_its_batch_does_not_stop_its_successor(make):
    """Found by the simulator: the mark that the successor knew was gone, though nobody newer had come."""
    first = opened(make, history := History(), "a")
    history.run(first.write, table(1))
    first.close()
    sleeper = opened(make, history, "b")
    successor = opened(make, history, "c")
    sleeper.write(1, table(2))
    sleeper.close()
    history.run(successor.write, table(2), table(3))
    with pytest.raises(SinkError, match="another run of this stream has taken the sink over"):
        sleeper.write(3, table(4))
    assert held(successor) == [1, 2, 3]
