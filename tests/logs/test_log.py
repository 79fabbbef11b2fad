import os
from threading import Thread

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DataError, FormatError
from headwater.logs import (
    ConflictError,
    DamageError,
    FsyncPolicy,
    GapError,
    LockedError,
    Log,
    OffsetError,
    WriterStoppedError,
    files,
)
from headwater.logs.lock import Owner, WriterLock
from logs.batches import check_prefix, plain, rows
from waiting import SECONDS_MAX


@pytest.fixture
def log(tmp_path):
    return Log.create(tmp_path / "log", partition_count=2, time="time")


def filled(log, counts, **options):
    with log.writer(0, **options) as writer:
        for count in counts:
            writer.append(rows(writer.end, count), arrival_ns=100 * writer.end)
    return log.reader(0)


def test_partitions_are_apart(log):
    filled(log, [3])
    assert log.reader(0).refresh() == 3
    assert log.reader(1).refresh() == 0
    assert list(log.reader(1).read()) == []
    assert log.verify() == 3


def test_a_read_may_begin_and_end_inside_a_record(log):
    reader = filled(log, [4, 4, 4], segment_bytes=1)
    for start in range(13):
        for stop in range(start, 13):
            check_prefix(list(reader.read(start, stop)), start, stop)


def test_a_batch_appended_again_changes_nothing(log):
    with log.writer(0) as writer:
        assert writer.append(rows(0, 12), 0) == 12
        assert writer.append(rows(0, 12), 0) == 0  # NaN, nulls and dictionaries included.
        assert writer.append(rows(5, 3), 5) == 0
        assert writer.append(rows(10, 5), 10) == 3  # Two rows are there, three are new.
        assert writer.append(rows(0, 0), 7) == 0
    check_prefix(list(log.reader(0).read()), 0, 15)


def test_a_batch_appended_again_by_the_next_writer_changes_nothing(log):
    filled(log, [5, 5])
    with log.writer(0) as writer:
        assert writer.append(rows(3, 7), 3) == 0
        assert writer.end == 10


def test_a_gap_is_refused(log):
    with log.writer(0) as writer:
        writer.append(rows(0, 4))
        with pytest.raises(GapError, match="at offset 5 would leave a gap after the end, 4"):
            writer.append(rows(5, 1), 5)
        assert writer.append(rows(4, 1), 4) == 1


def test_other_rows_at_held_offsets_are_refused(log):
    with log.writer(0) as writer:
        writer.append(rows(0, 4))
        with pytest.raises(ConflictError, match="from offset 0 on: column 'time', row 0"):
            writer.append(rows(1, 4), 0)
        with pytest.raises(ConflictError, match="the schema"):
            writer.append(pa.record_batch({"time": [1]}), 0)
        assert writer.end == 4


def test_a_new_schema_begins_a_segment(log):
    other = pa.record_batch({"time": pa.array([7], pa.timestamp("us")), "x": [1]})
    with log.writer(0) as writer:
        writer.append(rows(0, 2))
        writer.append(other)
        writer.append(rows(3, 2))
        assert writer.append(other, 2) == 0
    assert [stored.batch.schema.names[1] for stored in log.reader(0).read()] == ["key", "x", "key"]
    assert len(list((log.path / "00000").glob("*.segment"))) == 3


def test_other_metadata_of_a_schema_begins_no_segment(log):
    with log.writer(0) as writer:
        writer.append(rows(0, 2))
        writer.append(rows(2, 2).replace_schema_metadata({"a": "b"}))
    assert len(list((log.path / "00000").glob("*.segment"))) == 1
    check_prefix(list(log.reader(0).read()), 0, 4)


def test_an_empty_segment_gives_way_to_another_schema(log):
    filled(log, [1])
    (path,) = (log.path / "00000").glob("*.segment")
    path.with_suffix(".index").unlink()
    first_record = path.read_bytes().index(b"HWRC")
    os.truncate(path, first_record)  # As after a crash between the header and the first record.
    reader = log.reader(0)
    assert reader.refresh() == 0
    with log.writer(0) as writer:
        writer.append(pa.record_batch({"time": [1], "x": [2]}))
        assert [stored.batch.num_columns for stored in reader.read()] == [2]


def test_a_reader_follows_the_writer(log):
    reader, at = log.reader(0), 0
    with log.writer(0, segment_bytes=3000, fsync="never") as writer:
        for count in [1, 5, 2, 9, 1, 30, 2]:
            writer.append(rows(writer.end, count))
            check_prefix(list(reader.read(at)), at, at + count)
            at += count
    assert list(reader.read(at)) == []


def test_rows_are_found_by_time_and_by_arrival(log):
    reader = filled(log, [5] * 20, segment_bytes=2500)
    times = rows(0, 100).column("time").to_pylist()
    for time in range(-30, 1010, 7):
        offset = reader.offset_of_time(time)
        assert all(t < time for t in times[:offset])
        # Nothing that could be left out is read: the record it names has such an event.
        assert offset == 100 or any(t >= time for t in times[offset : offset + 5])
    assert [reader.offset_of_arrival(arrival) for arrival in (0, 1, 500, 501, 9500, 9501)] == [0, 5, 5, 10, 95, 100]


def test_retention_drops_whole_segments_from_the_front(log):
    reader = filled(log, [10] * 10, segment_bytes=1)
    with log.writer(0, segment_bytes=1) as writer:
        assert writer.retain(offset_min=25) == 20
        assert writer.retain(offset_min=5) == 20
        assert writer.retain(arrival_ns_min=100 * 40) == 40
        assert writer.retain(byte_count_max=10**6) == 40
        assert writer.retain(byte_count_max=0) == 90
    check_prefix(list(reader.read(90)), 90, 100)
    with pytest.raises(OffsetError, match=r"offset 89 is not held; the partition holds \[90, 100\)"):
        reader.read(89)
    with pytest.raises(OffsetError, match="offset 101"):
        reader.read(101)
    assert sorted(path.suffix for path in (log.path / "00000").iterdir()) == [".epoch", ".index", ".segment"]


def test_rows_that_retention_dropped_are_passed_over(log):
    with log.writer(0, segment_bytes=1) as writer:
        for _ in range(3):
            writer.append(rows(writer.end, 10))
        assert writer.retain(offset_min=20) == 20
        assert writer.append(rows(5, 30), 5) == 5
    check_prefix(list(log.reader(0).read()), 20, 35)


def test_a_reader_that_retention_overtakes_is_told(log):
    reader = filled(log, [10] * 3, segment_bytes=1)
    ahead = reader.read()
    assert next(ahead).offset == 0
    with log.writer(0) as writer:
        writer.retain(offset_min=20)
    reader.refresh()
    with pytest.raises(OffsetError, match="offset 10 was dropped; the oldest is 20"):
        next(ahead)


def test_acknowledged_is_what_the_policy_promises(log, monkeypatch):
    synced = []
    monkeypatch.setattr(files, "sync", lambda descriptor: synced.append(descriptor))
    with log.writer(0, fsync="always") as writer:
        before = len(synced)
        writer.append(rows(0, 1))
        assert writer.acknowledged == writer.durable == 1 and len(synced) > before
    with log.writer(0, fsync=FsyncPolicy("batch", byte_count=10**6, interval_ns=50)) as writer:
        before = len(synced)
        writer.append(rows(1, 1), arrival_ns=100)
        writer.append(rows(2, 1), arrival_ns=149)
        assert (writer.acknowledged, writer.end, len(synced)) == (1, 3, before)
        writer.append(rows(3, 1), arrival_ns=150)
        assert writer.acknowledged == 4 and len(synced) == before + 1
        writer.append(rows(4, 1), arrival_ns=151)
        writer.sync()
        assert writer.acknowledged == 5
    with log.writer(0, fsync="never") as writer:
        before = len(synced)
        writer.append(rows(5, 1))
        assert (writer.acknowledged, writer.durable, len(synced)) == (6, 5, before)
    assert len(synced) > before  # Closing makes it safe.


def test_an_unknown_policy_is_refused(log):
    with pytest.raises(DataError, match="give 'always', 'batch' or 'never'"):
        log.writer(0, fsync="sometimes")
    log.writer(0).close()


def test_a_partition_has_one_writer(log):
    with log.writer(0), log.writer(1), pytest.raises(LockedError, match=f"being written by process {os.getpid()} on"):
        log.writer(0)
    log.writer(0).close()


def test_a_lock_left_by_another_machine_needs_a_word(tmp_path):
    path = tmp_path / "writer.lock"
    there = Owner(17, "elsewhere", "boot-1")
    path.write_text('{"pid": 17, "host": "elsewhere", "boot": "boot-1"}')
    with pytest.raises(LockedError, match="last written by process 17 on elsewhere, which may still live"):
        WriterLock(path, owner=Owner(1, "here", "boot-2"))
    WriterLock(path, owner=Owner(1, "here", "boot-2"), take_over=True).release()
    assert not path.exists()
    for mine in (Owner(1, "elsewhere", "boot-2"), Owner(1, "a-container", "boot-1")):  # A reboot; the same kernel.
        assert not there.may_live_beyond(mine)
        path.write_text('{"pid": 17, "host": "elsewhere", "boot": "boot-1"}')
        WriterLock(path, owner=mine).release()
    path.write_text("")  # A writer that died while it took the lock over.
    WriterLock(path).release()


def test_of_many_that_want_the_lock_at_once_one_has_it(tmp_path):
    inside, most, taken = 0, 0, 0

    def wants_it():
        nonlocal inside, most, taken
        for _ in range(40):
            try:
                lock = WriterLock(tmp_path / "writer.lock")
            except LockedError:
                continue
            inside += 1
            most, taken = max(most, inside), taken + 1
            inside -= 1
            lock.release()

    threads = [Thread(target=wants_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS_MAX)
        assert not thread.is_alive()
    assert most == 1 and taken > 0
    assert list(tmp_path.iterdir()) == []


def test_a_writer_stops_after_a_failed_write_and_the_next_one_repairs(log, monkeypatch):
    writer = log.writer(0)
    writer.append(rows(0, 3))

    def half(descriptor, header, rows):
        os.write(descriptor, header[: len(header) // 2])
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_all", half)
        with pytest.raises(OSError, match="disk full"):
            writer.append(rows(3, 3))
    with pytest.raises(WriterStoppedError, match="disk full"):
        writer.append(rows(3, 3))
    check_prefix(list(log.reader(0).read()), 0, 3)
    writer.close()
    with log.writer(0) as again:
        assert again.repaired.byte_count == 36
        assert again.append(rows(3, 3), 3) == 3
    with pytest.raises(WriterStoppedError, match="was closed"):
        again.append(rows(6, 1))
    check_prefix(list(log.reader(0).read()), 0, 6)


def test_settings_are_kept_and_checked(log):
    assert Log.create(log.path, partition_count=2, time="time").time == "time"
    with pytest.raises(DataError, match="there already with 2 partitions"):
        Log.create(log.path, partition_count=3, time="time")
    with pytest.raises(DataError, match="there is no log here"):
        Log.open(log.path / "nowhere")
    with pytest.raises(DataError, match="partition 2 is not one of 0 to 1"):
        log.reader(2)
    settings = log.path / "log.json"
    good = settings.read_bytes()
    for at in range(len(good)):
        settings.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(DamageError, match=r"log\.json, byte 0"):
            Log.open(log.path)


def test_a_batch_without_the_time_column_is_refused(log):
    with log.writer(0) as writer:
        with pytest.raises(DataError, match="the column 'time', which is not among"):
            writer.append(pa.record_batch({"x": [1]}))
        with pytest.raises(DataError, match="its type is string"):
            writer.append(pa.record_batch({"time": ["1"]}))
        assert writer.append(rows(0, 1)) == 1


@pytest.mark.parametrize(
    "times",
    [pa.array([None, None], pa.int64()), pa.array([2**64 - 1, 3], pa.uint64()), pa.array([1, 2], pa.timestamp("ns"))],
)
def test_malformed_times_are_kept_all_the_same(log, times):
    with log.writer(0) as writer:
        writer.append(pa.record_batch({"time": times}))
    (stored,) = log.reader(0).read()
    assert stored.batch.column("time").equals(times)


def test_a_segment_of_a_later_version_is_refused(log):
    filled(log, [1])
    (path,) = (log.path / "00000").glob("*.segment")
    data = bytearray(path.read_bytes())
    data[4] = 3
    path.write_bytes(data)
    with pytest.raises(FormatError, match="byte 4: the segment has version 3"):
        log.reader(0).refresh()


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(-6, 2), st.integers(0, 9)),
        st.tuples(st.just("read"), st.integers(0, 40), st.integers(0, 40)),
        st.tuples(st.just("reopen"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("retain"), st.integers(0, 40), st.just(0)),
    ),
    max_size=25,
)


@given(
    operations=OPERATIONS, segment_bytes=st.sampled_from([1, 2500, 10**6]), fsync=st.sampled_from(["batch", "never"])
)
def test_a_log_is_a_list(tmp_path_factory, operations, segment_bytes, fsync):
    log = Log.create(tmp_path_factory.mktemp("log") / "log", time="time")
    reader, all_reader = log.reader(0), log.reader(0, unpublished=True)
    writer = log.writer(0, segment_bytes=segment_bytes, fsync=fsync)
    kept: list[str] = []  # The rows by offset, as text; those below writer.start are no longer readable.
    for kind, first, second in operations:
        if kind == "append":
            at = max(0, len(kept) + first)
            if at > len(kept):
                with pytest.raises(GapError):
                    writer.append(rows(at, second), at)
                continue
            new = [plain(rows(n, 1)) for n in range(len(kept), at + second)]
            assert writer.append(rows(at, second), at) == len(new)
            kept += new
        elif kind == "read":
            for one, end in ((reader, writer.acknowledged), (all_reader, len(kept))):
                start, stop = min(max(first, writer.start), end), min(second, end)
                read = [plain(s.batch.slice(i, 1)) for s in one.read(start, stop) for i in range(s.batch.num_rows)]
                assert read == kept[start:stop]
        elif kind == "retain":
            assert writer.retain(offset_min=first) <= max(first, writer.start)
        else:
            writer.close()
            if first:  # As if it had crashed: nothing saved beside the segments.
                for path in (log.path / "00000").glob("*.index"):
                    path.unlink()
            writer = log.writer(0, segment_bytes=segment_bytes, fsync=fsync)
            assert writer.repaired is None
        assert writer.end == len(kept)
    writer.close()
    check_prefix(list(log.reader(0).read()), writer.start, len(kept))
