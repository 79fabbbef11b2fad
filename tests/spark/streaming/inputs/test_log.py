"""A segment log as the input of a stream: what is published is read, and a log that is no longer the same is noticed."""

import json
import shutil
from types import SimpleNamespace

import pyarrow as pa
import pytest

from headwater.errors import DataError
from headwater.language.time_columns import ARRIVAL
from headwater.logs import FsyncPolicy, Log, RegressError
from headwater.protocols.messages import Assign, SourceState
from headwater.spark.formats import Wanted
from headwater.spark.streaming.directives import Directive
from headwater.spark.streaming.inputs.input import Extent, LogInput, stores_arrivals
from headwater.spark.streaming.planning import Offset, PlannerView, next_offset
from headwater.spark.streaming.start.prepare import check_same

ROWS = pa.record_batch({"time": [1, 2, 3]})
WANTED = Wanted(["time"], ROWS.schema)


@pytest.fixture
def log(tmp_path):
    log = Log.create(tmp_path / "log", time="time")
    with log.writer(0) as writer:
        writer.append(ROWS)
    return log


def test_rows_bring_when_they_were_appended_if_that_is_asked_for(tmp_path):
    log = Log.create(tmp_path / "log", time="time")
    with log.writer(0) as writer:
        writer.append(ROWS, arrival_ns=5_000)
        writer.append(ROWS, arrival_ns=7_999)
    given = again(LogInput(log.path))
    assert stores_arrivals(given.kind, given.to_data())
    stretch = given.stretches("00000", 0, 6)[0]
    found = pa.Table.from_batches(given.read(stretch, Wanted(["time", ARRIVAL], ROWS.schema)))
    assert found[ARRIVAL].to_pylist() == [5, 5, 5, 7, 7, 7]


def again(given: LogInput) -> LogInput:
    """As a planner makes it from the checkpoint."""
    return LogInput.from_data(json.loads(json.dumps(given.to_data())))


def test_a_stream_takes_only_rows_that_cannot_vanish(log):
    given = again(LogInput(log.path))
    with log.writer(0, fsync=FsyncPolicy("batch")) as writer:
        writer.append(ROWS)
        assert given.extents()["00000"].end == 3
        writer.sync()
        assert given.extents()["00000"].end == 6
    (stretch,) = given.stretches("00000", 2, 5)
    assert [time for batch in given.read(stretch, WANTED) for time in batch["time"].to_pylist()] == [3, 1, 2]


def test_a_log_that_was_made_again_in_the_place_of_the_one_that_was_read_is_refused(log):
    """Finding B4: it was read from the old offset on, and its first rows never."""
    given = LogInput(log.path)
    (stretch,) = given.stretches("00000", 0, 3)
    shutil.rmtree(log.path)
    with Log.create(log.path, time="time").writer(0) as writer:
        for _ in range(3):
            writer.append(ROWS)
    for each in (given, again(given)):
        with pytest.raises(DataError, match=r"another log than the one that was read so far .* begin a new stream"):
            each.extents()
    with pytest.raises(DataError, match="another log"):
        list(given.read(stretch, WANTED))
    about = SimpleNamespace(kind="log", input=given.to_data(), settings={})
    with pytest.raises(DataError, match="another log"):  # When the stream is started again, before anything runs.
        check_same(about, LogInput(log.path), {}, log.path)


def test_a_stream_of_an_earlier_build_does_not_know_which_log_it_reads(log):
    given = LogInput.from_data({"path": str(log.path)})
    assert given.extents()["00000"].end == 3
    assert len(list(given.read({"path": str(log.path), "partition": 0, "start": 0, "end": 3}, WANTED))) == 1


def test_a_planner_that_lives_on_notices_that_the_log_went_back(log):
    before = log.path.with_name("before")
    shutil.copytree(log.path, before)
    given = LogInput(log.path)
    with log.writer(0) as writer:
        writer.append(ROWS)
    assert given.extents()["00000"].end == 6
    shutil.rmtree(log.path)
    shutil.copytree(before, log.path)
    with pytest.raises(RegressError, match="rows up to offset 6 were seen, but only those below 3 are left"):
        given.extents()


def test_a_stream_that_has_read_further_than_its_log_goes_stops_with_a_sentence(log):
    """Finding B4: the rows that got these offsets later were never read; meanwhile there were "0 batches" and no word."""
    directive = Directive(7, "q", ["time"], {"c": Assign("c", "c", 1, 3, 0, 0, (SourceState("00000", 5, 3, 0, 0),), 1)})
    start = Offset(batch=7, ends={"00000": 5})
    found = PlannerView(again(LogInput(log.path)).extents(), 0, False, 1)
    with pytest.raises(
        DataError, match="source '00000' ends at 3 now, but its first 5 events were read already: it went back"
    ):
        next_offset(start, directive, found, 1, None)
    # Kafka tells the end that a new leader knows of, which may be behind for a while.
    assert next_offset(start, directive, PlannerView({"00000": Extent(3)}, 0, False, 1), 1, None) == start
