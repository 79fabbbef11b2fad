"""The processes of the load driver: everything that was due arrives once, in order, with the times of the schedule."""

import multiprocessing
import socket
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.bench.load.driver import Load, LoadError, LoadRun, RunningLoad, drain, fill, run_load, start_load
from headwater.bench.load.judgement import LoadSample, drain_rate, judge
from headwater.bench.load.queue import Queue
from headwater.bench.load.schedule import Content, Schedule, events_of
from headwater.bench.load.targets import CallTarget, LogTarget, NoTarget, ParquetTarget, SocketTarget
from headwater.logs import Log

SMALL = Load(rate=20_000, seconds=0.6)


def expected(load: Load, schedule: Schedule) -> pa.Table:
    return pa.Table.from_batches([events_of(schedule, load.content, 0, schedule.events)])


def log_rows(path, partition_count: int) -> list[pa.Table]:
    log = Log.open(path)
    return [
        pa.Table.from_batches([stored.batch for stored in log.reader(number).read()])
        for number in range(partition_count)
    ]


def refuse(batch: pa.RecordBatch) -> None:
    raise ValueError(f"no room for {batch.num_rows > 0}")


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
    run = run_load(SMALL, LogTarget(tmp_path / "log", partition_count=2))
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


def test_a_target_that_blocks_changes_no_time_and_makes_the_queue_grow():
    # Nobody reads before the whole schedule is over, and it is more than the sockets hold by themselves.
    load = Load(rate=2_000_000, seconds=0.5)
    server = socket.create_server(("127.0.0.1", 0))
    with server, start_load(load, SocketTarget(server.getsockname()[1])) as running:
        connection, _ = server.accept()
        while running.look().at_us <= running.schedule.end_us:
            time.sleep(0.02)
        assert running.look().queued > 0
        with connection, connection.makefile("rb") as incoming:
            received = pa.ipc.open_stream(incoming).read_all()
            run = running.wait()
    assert run.samples[-1].queued == 0
    assert received.equals(expected(load, run.schedule))


def test_the_queue_is_what_is_not_done_where_that_is_known():
    with start_load(SMALL, NoTarget(), done=lambda: 0) as running:
        run = running.wait()
    assert run.samples and all(sample.queued == sample.due for sample in run.samples)
    assert run.samples[-1].due == 12_000


def test_the_error_of_a_target_is_told(tmp_path):
    with pytest.raises(LoadError, match=r"sender .*CallTarget.* failed: ValueError: no room for True"):
        run_load(SMALL, CallTarget(refuse))


def test_a_load_that_cannot_begin_leaves_nothing_behind(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    started: list[RunningLoad] = []
    with pytest.raises(LoadError, match="ConnectionRefusedError"):
        started.append(start_load(SMALL, SocketTarget(port)))
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


@pytest.mark.parametrize("has_timestamps", [True, False])
def test_a_folder_fills_with_complete_files_of_equal_time(tmp_path, has_timestamps):
    load = Load(rate=1_000, seconds=2)
    schedule = fill(load, ParquetTarget(tmp_path, file_s=0.5, has_timestamps=has_timestamps), batch_events=50)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [f"{number:08d}.parquet" for number in range(4)]
    tables = [pq.read_table(file) for file in files]
    assert [table.num_rows for table in tables] == [500] * 4
    whole = pa.concat_tables(tables)
    assert (whole.schema.field("time").type == pa.int64()) != has_timestamps
    assert whole.cast(pa.schema(expected(load, schedule).schema)).equals(expected(load, schedule))


def test_a_log_written_at_once_is_the_log_of_the_schedule(tmp_path):
    schedule = fill(SMALL, LogTarget(tmp_path / "log"), begin_us=7_000_000, batch_events=5_000)
    (rows,) = log_rows(tmp_path / "log", 1)
    assert rows.equals(expected(SMALL, schedule).cast(rows.schema))
    assert rows["time"][0].as_py() == 7_000_000


def test_a_drain_is_watched_to_its_end():
    counts = iter([0, 0, 10, 30, 60, 100])
    found = drain(lambda: next(counts), 100, warm_up_events=1, poll_s=0.001)
    assert [done for _, done in found.moments] == [0, 0, 10, 30, 60, 100]
    assert found.rate == drain_rate(found.moments, warm_up_events=1) > 0


def test_a_drain_that_never_ends_is_given_up():
    with pytest.raises(LoadError, match=r"7 of 1,000 events were done after 0 s"):
        drain(lambda: 7, 1_000, timeout_s=0, poll_s=0.001)


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
