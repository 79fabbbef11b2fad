"""The processes of the load driver: everything that was due arrives once, in order, with the times of the schedule."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.bench.load.driver import Load, LoadError, LoadRun, RunningLoad, start_load
from headwater.bench.load.judgement import LoadSample, judge
from headwater.bench.load.queue import Queue
from headwater.bench.load.schedule import Content, Schedule, events_of
from headwater.bench.load.targets import LogTarget, NoTarget, Send, Target
from headwater.logs import Log

SMALL = Load(rate=20_000, seconds=0.6)


def expected(load: Load, schedule: Schedule) -> pa.Table:
    return pa.Table.from_batches([events_of(schedule, load.content, 0, schedule.events)])


def sent(target: Target) -> LoadRun:
    with start_load(SMALL, target) as running:
        return running.wait()


def log_rows(path, partition_count: int) -> list[pa.Table]:
    log = Log.open(path)
    return [
        pa.Table.from_batches([stored.batch for stored in log.reader(number).read()])
        for number in range(partition_count)
    ]


def refuse(batch: pa.RecordBatch) -> None:
    raise ValueError(f"no room for {batch.num_rows > 0}")


@dataclass(frozen=True)
class Refusing:
    """A target that takes nothing."""

    @contextmanager
    def opened(self) -> Iterator[Send]:
        yield refuse


@dataclass(frozen=True)
class Unreachable:
    """A target that cannot be opened."""

    @contextmanager
    def opened(self) -> Iterator[Send]:
        raise ConnectionRefusedError("nobody listens")
        yield refuse


@given(st.integers(1, 20), st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=30))
def test_the_queue_gives_what_was_put_in_once_and_in_order(capacity, steps):
    queue, memory = Queue.create(multiprocessing.get_context("spawn"), capacity)
    try:
        end = queue.attach()
        schedule, content = Schedule(1_000, 10, 5_000), Content(block=7)
        stop, taken = 0, []
        for is_put, count in steps:
            if is_put:
                stop = max(stop, end.made + count)
                assert end.put(schedule, content, stop) == (end.made == stop)
            elif (batch := end.take(count)) is not None:
                taken += batch.to_pylist()
                end.done(len(batch))
                del batch
            assert 0 <= end.made - end.sent <= capacity
        assert taken == events_of(schedule, content, 0, len(taken)).to_pylist()
        assert end.sent == len(taken)
        end.close()
    finally:
        memory.close()
        memory.unlink()


def test_a_log_holds_every_event_with_the_time_at_which_it_was_due(tmp_path):
    run = sent(LogTarget(tmp_path / "log", partition_count=2))
    assert run.schedule.events == 12_000
    partitions = log_rows(tmp_path / "log", 2)
    for partition in partitions:
        times = partition["time"].to_pylist()
        assert times == sorted(times)
    whole = pa.concat_tables(partitions).sort_by("time")
    assert whole.equals(expected(SMALL, run.schedule).cast(whole.schema))
    # Samples were taken all along, each with what was due at its moment.
    assert all(sample.due == run.schedule.due(sample.at_us) and sample.queued >= 0 for sample in run.samples)
    assert all(seconds >= 0 for seconds in run.cpu_seconds)


def test_the_queue_is_what_is_not_done_where_that_is_known():
    with start_load(SMALL, NoTarget(), done=lambda: 0) as running:
        run = running.wait()
    assert run.samples and all(sample.queued == sample.due for sample in run.samples)
    assert run.samples[-1].due == 12_000


def test_the_error_of_a_target_is_told(tmp_path):
    with pytest.raises(LoadError, match=r"sender .*Refusing.* failed: ValueError: no room for True"):
        sent(Refusing())


def test_a_load_that_cannot_begin_leaves_nothing_behind():
    started: list[RunningLoad] = []
    with pytest.raises(LoadError, match="ConnectionRefusedError"):
        started.append(start_load(SMALL, Unreachable()))
    assert not started and not multiprocessing.active_children()


def test_a_load_can_be_stopped_before_its_end():
    with start_load(Load(rate=1_000, seconds=3_600), NoTarget()) as running:
        running.look()
    running.stop()
    assert not multiprocessing.active_children()


def test_an_error_of_whoever_is_asked_is_told():
    def done() -> int:
        raise ValueError("nobody knows")

    with start_load(SMALL, NoTarget(), done=done) as running, pytest.raises(LoadError, match="could not be asked"):
        running.wait()


def test_a_run_is_judged_by_its_own_samples():
    schedule = Schedule(100, 20)
    samples = tuple(LoadSample(n * 1_000_000, 100 * n, 50 * n) for n in range(21))
    run = LoadRun(schedule, samples, (0.0, 0.0))
    assert run.verdict(warm_up_s=5) == judge(samples, schedule, warm_up_s=5)
    assert not run.verdict().is_sustainable and run.verdict(tolerance=0.6).is_sustainable


def test_latency_of_a_run_waits_for_every_window_that_can_close():
    begin = 1_000_500_000
    run = LoadRun(Schedule(10, 5, begin), (), (0.0, 0.0))
    # Whole windows end at 1002 to 1005 s; nothing after 1005.5 s is due.
    seen = [(end * 1_000_000, end * 1_000_000 + 250_000) for end in (1_001, 1_002, 1_003, 1_005)]
    found = run.latency(seen, window_us=1_000_000)
    assert (found.count, found.missing, found.p50_s) == (4, 1, 0.25)
    assert run.latency(seen, window_us=1_000_000, warm_up_s=4).count == 1
    assert run.latency(seen, window_us=1_000_000, tail_s=0.6).missing == 1
    assert run.latency(seen, window_us=1_000_000, tail_s=1.6).missing == 0
