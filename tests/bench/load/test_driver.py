"""The process of the load driver: everything that was due arrives once, in order, with the times of the schedule."""

import multiprocessing

import pyarrow as pa
import pytest

from headwater.bench.load.driver import LoadError, LoadRun, RunningLoad, start_load
from headwater.bench.load.schedule import Content, Schedule, events_of
from headwater.logs import Log

SMALL = Schedule(rate=20_000, seconds=0.6)


def new_log(tmp_path, partition_count: int = 1) -> Log:
    return Log.create(tmp_path / "log", partition_count=partition_count, time="time")


def sent(log: Log, done=lambda: 0) -> LoadRun:
    with start_load(SMALL, log.path) as running:
        return running.wait(done)


def log_rows(log: Log) -> list[pa.Table]:
    return [
        pa.Table.from_batches([stored.batch for stored in log.reader(number).read()])
        for number in range(log.partition_count)
    ]


def test_a_log_holds_every_event_with_the_time_at_which_it_was_due(tmp_path):
    log = new_log(tmp_path, partition_count=2)
    run = sent(log)
    assert run.schedule.events == 12_000
    partitions = log_rows(log)
    for partition in partitions:
        times = partition["time"].to_pylist()
        assert times == sorted(times) and len(times) == 6_000
    whole = pa.concat_tables(partitions).sort_by("time")
    expected = pa.Table.from_batches([events_of(run.schedule, Content(), 0, run.schedule.events)])
    assert whole.equals(expected.cast(whole.schema))
    # Samples were taken all along, each with what was due at its moment.
    assert all(sample.due == run.schedule.due(sample.at_us) and sample.queued >= 0 for sample in run.samples)
    assert run.cpu_seconds >= 0


def test_the_queue_is_what_is_not_done(tmp_path):
    run = sent(new_log(tmp_path))
    assert run.samples and all(sample.queued == sample.due for sample in run.samples)
    assert run.samples[-1].due == 12_000


def test_the_error_of_a_log_is_told(tmp_path):
    log = new_log(tmp_path)
    with (
        log.writer(0),
        pytest.raises(LoadError, match=r"could not be sent: .*LockedError: .*the partition is being written"),
    ):
        sent(log)


def test_a_load_that_cannot_begin_leaves_nothing_behind(tmp_path):
    started: list[RunningLoad] = []
    with (
        pytest.raises(LoadError, match=r"could not be sent: .*no log"),
        start_load(SMALL, tmp_path / "missing") as running,
    ):
        started.append(running)
    assert not started and not multiprocessing.active_children()


def test_a_load_can_be_stopped_before_its_end(tmp_path):
    with start_load(Schedule(rate=1_000, seconds=3_600), new_log(tmp_path).path) as running:
        running.look(lambda: 0)
    assert not multiprocessing.active_children()


def test_an_error_of_what_is_asked_is_told(tmp_path):
    def done() -> int:
        raise ValueError("nobody knows")

    with pytest.raises(ValueError, match="nobody knows"):
        sent(new_log(tmp_path), done)
