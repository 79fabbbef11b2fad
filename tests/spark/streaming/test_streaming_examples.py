"""The loop of a stream by a few plain cases: which batch comes next, what a checkpoint keeps, where rows go."""

from dataclasses import replace

import pyarrow as pa
import pytest

import headwater as hw
from headwater.language.times import NEVER
from headwater.protocols.messages import Assign, SourceState
from headwater.spark.streaming.checkpoint import KEPT, CheckpointError, StreamCheckpoint, checkpoint_folder
from headwater.spark.streaming.directives import Directive
from headwater.spark.streaming.inputs.input import Extent
from headwater.spark.streaming.planning import Offset, PlannerView, joining, next_offset
from headwater.spark.streaming.sinks import FolderSink, LogSink, MemorySink, sink_of
from headwater.spark.streaming.states import StateFolder

ROWS = pa.table({"query": ["load"], "total": [3]})


def directive(**more) -> Directive:
    """One chain with one source, `a`, of which nothing was read."""
    assign = Assign("00000", "00000", 1, 0, 0, NEVER, (SourceState("a", 0, NEVER, 0, NEVER),), version=1)
    return Directive(-1, "", ["time"], {"00000": assign}, **more)


def view(end: int, commands: int = 0, **more) -> PlannerView:
    return PlannerView({"a": Extent(end, **more)}, commands, False, clock_ns=7, passed_ns=7)


def test_new_events_are_a_reason_for_a_batch():
    offset = next_offset(Offset(), directive(), view(5), 1, None)
    assert (offset.batch, dict(offset.ends), offset.now_ns) == (0, {"a": 5}, 7)


def test_without_news_there_is_no_batch():
    start = Offset(batch=3, ends={"a": 5})
    assert next_offset(start, directive(), view(5), 1, None) is start
    assert next_offset(start, directive(wants_batch=True), view(5), 1, None).batch == 4
    assert next_offset(start, directive(), view(5, commands=1), 1, None).batch == 4


def test_a_batch_has_as_many_events_as_it_may():
    assert next_offset(Offset(), directive(), view(100), 1, 30).ends == {"a": 30}


def test_a_stream_that_is_over_has_no_next_batch():
    start = Offset(batch=3)
    assert next_offset(start, directive(is_finished=True), view(9), 1, None) is start


def test_new_sources_go_to_the_chain_that_has_fewest():
    assert joining({}, {"a": Extent(0, "n"), "b": Extent(0), "c": Extent(0)}, 2) == {
        "00000": {"a": "n", "c": "c"},
        "00001": {"b": "b"},
    }


def test_a_checkpoint_keeps_snapshots_and_what_came_since(tmp_path):
    states = StateFolder(tmp_path)
    first = states.write_snapshot(0, 1, b"full")
    second = states.write_records(1, 1, first, [b"one"])
    third = states.write_records(2, 2, second, [b"two", b"three"])
    assert [state.name for state in (first, second, third)] == ["0.1.full", "1.1.part", "2.2.part"]
    saved = states.saved(third)
    assert (saved.since, saved.snapshot, saved.records) == (0, b"full", (b"one", b"two", b"three"))
    with pytest.raises(CheckpointError, match=r"-5\.part: this part of the checkpoint is missing"):
        states.saved(states.former(-5))


def test_old_directives_and_states_are_forgotten_but_for_those_that_others_build_on(tmp_path):
    checkpoint = StreamCheckpoint(tmp_path)
    checkpoint.prepare()
    states = checkpoint.states()
    base = states.write_snapshot(5, 1, b"full")
    # A driver that was replaced had written a snapshot; nobody builds on it.
    states.write_snapshot(KEPT - 1, 1, b"litter")
    for batch in range(6, 2 * KEPT + 1):
        state = states.write_records(batch, 2, base, [])
        assert checkpoint.commit(replace(directive(), batch=batch, owner=2, states=(state,)))
    assert checkpoint.directive(KEPT - 1) is None
    assert checkpoint.said(KEPT).owner == 2
    assert checkpoint.last_batch() == 2 * KEPT
    assert states.saved(checkpoint.state(checkpoint.said(KEPT))).snapshot == b"full"
    states.write_snapshot(4, 1, b"older")
    states.forget(5)
    assert "4.1.full" not in {place.name for place in states.path.iterdir()}


def test_a_directive_that_is_missing_is_said(tmp_path):
    with pytest.raises(CheckpointError, match="what the root said after batch 4 is missing"):
        StreamCheckpoint(tmp_path).said(4)


def test_commands_are_numbered_and_may_be_refused(tmp_path):
    checkpoint = StreamCheckpoint(tmp_path)
    checkpoint.prepare()
    assert [checkpoint.ask({"what": "flush"}), checkpoint.ask({"what": "flush"})] == [0, 1]
    checkpoint.refuse(1, "it is over")
    assert [checkpoint.refused(number) for number in (0, 1)] == [None, "it is over"]


def test_a_checkpoint_is_a_folder_that_is_seen_as_files():
    assert str(checkpoint_folder("file:///tmp/x")) == "/tmp/x"
    with pytest.raises(hw.DataError, match="give a folder that the driver and all workers can see"):
        checkpoint_folder("s3://bucket/x")


@pytest.mark.parametrize("make", [FolderSink, LogSink])
def test_a_batch_that_is_written_again_is_there_once(make, tmp_path):
    sink = make(tmp_path / "out")
    for batch in (0, 1, 1):
        sink.write(batch, ROWS)
    sink.close()
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    if make is FolderSink:
        assert files == ["batch-000000000000.parquet", "batch-000000000001.parquet"]
    else:
        assert sink._log.reader(0).refresh() == 2


def test_a_sink_is_known_by_what_is_given():
    assert isinstance(sink_of("memory"), MemorySink)
    with pytest.raises(hw.DataError, match="sink is 3: give a folder"):
        sink_of(3)
