"""What a checkpoint refuses: damage, a second driver, a stream that has ended; and what a batch costs it."""

import pickle
import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

import headwater as hw
from golden import write
from headwater.logs import files
from headwater.simulator.stream import CrashError, ListedInput, LocalFrame, Loop
from headwater.spark.stream import begin
from headwater.spark.streaming.checkpoint import StreamCheckpoint, refuse_ended
from headwater.spark.streaming.errors import CheckpointError, EndedError, ReplacedError, RunningError
from headwater.spark.streaming.owners import Ownership, holder
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.sinks import FolderSink
from headwater.spark.streaming.start.driver_lock import DriverLock, refuse_running
from headwater.spark.streaming.start.handle import Stream, StreamError
from spark.streaming.plain_stream import QUERY, SCHEMA, SETTINGS, one_source

GOLDEN = StreamCheckpoint(write.PLACE / "stream" / "headwater")


def loop_of(place, roots=1, times=range(100)) -> Loop:
    return Loop(place, one_source(times), [QUERY], SETTINGS, 1, roots, seed=0)


# --- damage ---


def read_all(checkpoint: StreamCheckpoint) -> object:
    """Everything that a start reads."""
    directive = checkpoint.said(2)
    saved = checkpoint.states().saved(checkpoint.state(directive))
    return checkpoint.begun(), directive.to_data(), checkpoint.queries(directive.queries), saved, checkpoint.fixed(2)


PARTS = ["about.json", "directives/2.json", "offsets/2.json", "states/2.1.part", "states/-1.1.full"]
PARTS.append(f"queries/{GOLDEN.said(2).queries}.json")


@given(part=st.sampled_from(PARTS), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_in_a_checkpoint_is_refused(tmp_path_factory, part, place, bit):
    copy = tmp_path_factory.mktemp("flipped") / "headwater"
    shutil.copytree(GOLDEN.path, copy)
    data = bytearray((copy / part).read_bytes())
    data[int(place * len(data))] ^= 1 << bit
    (copy / part).write_bytes(data)
    with pytest.raises(CheckpointError, match=str(copy)):
        read_all(StreamCheckpoint(copy))


def test_no_bit_of_a_directive_can_be_flipped_unseen(tmp_path):
    shutil.copytree(GOLDEN.path, tmp_path / "headwater")
    checkpoint = StreamCheckpoint(tmp_path / "headwater")
    place = checkpoint.path / "directives" / "2.json"
    data = place.read_bytes()
    for byte in range(len(data)):
        flipped = bytearray(data)
        flipped[byte] ^= 1 << byte % 8
        place.write_bytes(flipped)
        with pytest.raises(CheckpointError, match="damaged"):
            checkpoint.said(2)
    place.write_bytes(data)
    assert read_all(checkpoint) == read_all(GOLDEN)


def test_a_checkpoint_of_a_later_release_is_refused(tmp_path):
    (tmp_path / "about.json").write_text('{"headwater_stream":5}')
    with pytest.raises(CheckpointError, match="has version 5, this release reads versions 2 to 4"):
        StreamCheckpoint(tmp_path).about()


# --- owners ---


def test_each_driver_takes_the_next_number_and_the_highest_is_the_one(tmp_path):
    first = Ownership.taken(tmp_path, "the first")
    first.check()
    second = Ownership.taken(tmp_path, "the second")
    second.check()
    assert (first.number, second.number, holder(tmp_path)) == (1, 2, "the second")
    with pytest.raises(
        ReplacedError, match=r"\(owner 1\) was replaced and stops: the stream is run by the second \(own"
    ):
        first.check()
    # Stale numbers are not kept: a stream may be started every minute for years.
    assert [place.name for place in (tmp_path / "owners").iterdir()] == ["2"]


def test_a_number_that_was_free_because_it_was_removed_is_not_taken(tmp_path, monkeypatch):
    inner, others = files.create, [2, 3]

    def create(path, data):
        # Others come, and go, between the look at the numbers and the creation.
        if others:
            number = others.pop()
            for place in (tmp_path / "owners").iterdir():
                place.unlink()
            inner(tmp_path / "owners" / str(number), b"another")
        inner(path, data)

    monkeypatch.setattr(files, "create", create)
    assert Ownership.taken(tmp_path, "this").number == 4


def test_a_beginning_that_died_is_begun_anew(tmp_path):
    opened = ListedInput(SCHEMA, {"a": 0})
    begin(StreamCheckpoint(tmp_path), opened, [QUERY], SETTINGS, 1)
    (tmp_path / "about.json").unlink()
    checkpoint = StreamCheckpoint(tmp_path)
    begin(checkpoint, opened, [QUERY], SETTINGS, 1)
    assert (checkpoint.begun().owner, checkpoint.said(-1).owner) == (2, 2)


# --- the lock ---


def test_a_second_start_is_refused_with_who_and_since_when(tmp_path):
    lock = DriverLock(tmp_path)
    Ownership.taken(tmp_path)
    for start in (DriverLock, partial(refuse_running, wait_seconds=0)):
        with pytest.raises(
            RunningError, match=r"is being run by process \d+ on .+ since \d{4}-.* UTC; stop it there"
        ) as error:
            start(tmp_path)
        assert error.value.__cause__ is not None
    lock.release()
    refuse_running(tmp_path)
    DriverLock(tmp_path).release()


def test_a_stream_that_has_ended_by_itself_does_not_keep_the_lock(tmp_path):
    ended = DriverLock(tmp_path)
    ended.is_active = lambda: False
    again = DriverLock(tmp_path)
    ended.release()
    with pytest.raises(RunningError):
        DriverLock(tmp_path)
    again.release()


def test_a_runner_that_travels_to_a_server_takes_the_lock_there(tmp_path):
    loop = loop_of(tmp_path)
    sink = FolderSink(tmp_path / "rows")
    runner = BatchRunner(loop.checkpoint, sink, owner=loop.driver.owner, lock=DriverLock(tmp_path))
    sink.query_of = runner.queries.query_of  # as sinks hold it that have to know
    there = pickle.loads(cloudpickle.dumps(runner))
    runner.close()
    refuse_running(tmp_path)
    with pytest.raises(CheckpointError, match="after batch 6 is missing"):
        there(LocalFrame(lambda: pa.table({})), 7)
    # Spark ends the stream, and nobody is kept from starting it again.
    refuse_running(tmp_path, wait_seconds=0)
    directive = replace(loop.checkpoint.said(-1), batch=0)
    loop.checkpoint.commit(directive)
    there(LocalFrame(lambda: pa.table({})), 0)
    with pytest.raises(RunningError):
        refuse_running(tmp_path, wait_seconds=0)
    there.close()


# --- the end ---


def test_a_flushed_stream_that_is_started_again_says_that_it_has_ended(tmp_path):
    loop = loop_of(tmp_path)
    loop.opened.ends["a"] = 50
    loop.step()
    refuse_ended(loop.checkpoint)
    loop.checkpoint.ask({"what": "flush"})
    while loop.step():
        pass
    with pytest.raises(
        EndedError, match=r"was flushed after batch \d+ and has ended.+begin it with another checkpoint"
    ):
        refuse_ended(loop.checkpoint)


@pytest.mark.parametrize("news", ["flush", "remove", "events", "nothing"])
def test_what_was_planned_in_the_place_of_an_offset_that_spark_lost_reaches_the_root(news, tmp_path):
    loop = loop_of(tmp_path)
    loop.opened.ends["a"] = 50
    loop.step()
    # Spark's files are not synced: after a loss of power the batch is done, and Spark does not know of it.
    loop.planned.clear()
    loop.committed = 0
    if news in ("flush", "remove"):
        loop.checkpoint.ask(
            {"flush": {"what": "flush"}, "remove": {"what": "remove", "name": "load", "drain": False}}[news]
        )
    elif news == "events":
        loop.opened.ends["a"] = 70
    loop.now_ns += 1
    loop.restart()
    for _ in range(20):
        if not loop.step():
            break
    else:
        raise AssertionError("there is always another batch")
    directive = loop.directive()
    assert directive["is_finished"] is (news == "flush")
    assert directive["commands"] == (news in ("flush", "remove"))
    assert directive["status"]["events"] == (70 if news == "events" else 50)


# --- errors ---


class ForeignError(Exception):
    """Not one of headwater's."""


def failed(error, owner=None, **spark):
    still = SimpleNamespace(check=lambda: None, replaced=lambda: None)
    runner = SimpleNamespace(error=error, observer=None, owner=owner or still)
    query = SimpleNamespace(isActive=False, exception=lambda: ForeignError("Spark's"), **spark)
    return Stream(query, None, None, runner)


def test_an_error_of_a_sink_is_said_and_is_the_cause():
    cause = KeyError("q")
    with pytest.raises(StreamError, match="the stream was stopped by KeyError: 'q'") as error:
        failed(cause).remove_query("any")
    assert error.value.__cause__ is cause


def test_an_error_in_a_task_is_said_as_it_was_said_there():
    trace = "Traceback (most recent call last):\n  File 'x', line 3\nheadwater.errors.DataError: a line is broken\n\tat java"
    with pytest.raises(StreamError, match=r"^a line is broken$") as error:
        failed(ForeignError(f"Job aborted: {trace}")).remove_query("any")
    assert isinstance(error.value.__cause__, ForeignError)


def test_an_error_of_headwater_keeps_its_cause():
    known = hw.HeadwaterError("the sentence")
    known.__cause__ = ForeignError("why")

    def ends(timeout):
        raise RuntimeError("Spark's")

    with pytest.raises(hw.HeadwaterError, match="the sentence") as error:
        failed(known, awaitTermination=ends).await_end()
    assert error.value is known and isinstance(known.__cause__, ForeignError)


def test_a_driver_that_met_its_successor_in_sparks_log_says_that_it_was_replaced(tmp_path):
    """Seed 13 of `make chaos`: Spark saw it first, and said something else."""
    stream = failed(None, owner=Ownership.taken(tmp_path, "the first"))
    with pytest.raises(StreamError, match="Spark's"):
        stream.remove_query("any")
    Ownership.taken(tmp_path, "the second")
    assert "(owner 1) was replaced and stops: the stream is run by the second (owner 2)" in stream.end()
    with pytest.raises(ReplacedError):
        stream.remove_query("any")


# --- what it costs ---


@pytest.mark.parametrize("roots", [1, 2])
def test_a_batch_writes_its_offset_a_state_for_each_root_and_a_directive_and_syncs_each_once(
    roots, tmp_path, monkeypatch
):
    loop = loop_of(tmp_path, roots)
    loop.opened.ends["a"] = 25
    loop.step()
    done = Counter()
    for name in ("sync", "sync_directory", "make"):
        monkeypatch.setattr(files, name, _counted(name, getattr(files, name), done))
    loop.opened.ends["a"] = 50
    loop.step()
    # Before there were owners it was 4 syncs for one root, and 2 + 4 for each of several.
    assert done == {"make": roots + 2, "sync": roots + 2, "sync_directory": roots + 2}


def _counted(name, inner, done):
    def counted(*args):
        done[name] += 1
        return inner(*args)

    return counted


# --- offsets that were begun with ---


def test_a_batch_is_begun_with_one_offset_and_no_other(tmp_path):
    checkpoint = loop_of(tmp_path).checkpoint
    assert checkpoint.fixed(7) is None
    checkpoint.fix(7, 1, {"batch": 7})
    checkpoint.fix(7, 2, {"batch": 7})
    assert checkpoint.fixed(7) == {"batch": 7}
    with pytest.raises(CheckpointError, match="another driver has begun batch 7 with another offset"):
        checkpoint.fix(7, 2, {"batch": 7, "flush": True})


def test_rows_that_are_out_come_again_though_spark_lost_the_offset(tmp_path):
    """Found by the simulator: another offset was planned in its place, and the sink refused its rows for ever."""
    loop = loop_of(tmp_path)
    loop.opened.ends["a"] = 50
    loop.crash_at = "rows"
    with pytest.raises(CrashError):
        loop.step()
    loop.planned.clear()
    loop.opened.ends["a"] = 70
    loop.restart()
    while loop.step():
        pass
    assert loop.planned[0]["ends"] == {"a": 50}
    assert loop.planned[1]["ends"] == {"a": 70}


def test_a_command_that_is_damaged_is_refused(tmp_path):
    checkpoint = loop_of(tmp_path).checkpoint
    number = checkpoint.ask({"what": "remove", "name": "q", "drain": False})
    place = tmp_path / "commands" / f"{number}.json"
    data = place.read_bytes()
    for position in range(len(data)):
        place.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(CheckpointError, match="damaged"):
            checkpoint.command(number)
    place.write_bytes(b'{"what":"flush"}')  # of a release that knew no checksums
    assert checkpoint.command(number) == {"what": "flush"}
