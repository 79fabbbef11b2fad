"""What a log promises its writers, its readers and those who come after a fault: syncs, marks, epochs, identity, holds."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.errors import DataError
from headwater.logs import (
    FencedError,
    FsyncPolicy,
    Log,
    OffsetError,
    RegressError,
    WriterStoppedError,
    files,
)
from headwater.logs.lock import WriterLock
from headwater.logs.segments.mark import MARK_SUFFIX, read_mark
from logs.batches import check_prefix, rows

V1 = Path(__file__).parents[1] / "golden" / "log"


@pytest.fixture
def log(tmp_path):
    return Log.create(tmp_path / "log", time="time")


def names(log):
    return sorted(path.name for path in (log.path / "00000").iterdir())


def fail(*_):
    raise OSError(errno.EIO, "input/output error")


# --- syncs (B1) ---


@pytest.mark.parametrize("policy", ["always", FsyncPolicy("batch", byte_count=1)])
def test_a_failed_sync_is_never_acknowledged_and_its_rows_are_written_again(log, monkeypatch, policy):
    writer = log.writer(0, fsync=policy)
    writer.append(rows(0, 3))
    with monkeypatch.context() as patch:
        patch.setattr(files, "sync", fail)
        with pytest.raises(OSError, match="input/output error"):
            writer.append(rows(3, 1))
    assert (writer.acknowledged, writer.durable, writer.end) == (3, 3, 4)
    assert log.reader(0).refresh() == 3
    with pytest.raises(WriterStoppedError, match="input/output error"):
        writer.append(rows(3, 1), 3)
    writer.close()
    again = []
    write_at = files.write_at
    monkeypatch.setattr(files, "write_at", lambda fd, data, at: (again.append((at, len(data))), write_at(fd, data, at)))
    (path,) = (log.path / "00000").glob("*.segment")
    durable, size = read_mark(path.with_suffix(MARK_SUFFIX)).durable, path.stat().st_size
    with log.writer(0) as after:
        # The kernel may hold the bytes for clean: they have to reach the disk anew.
        assert (durable, size - durable) in again
        assert after.append(rows(3, 1), 3) == 0 and after.acknowledged == 4
    check_prefix(list(log.reader(0).read()), 0, 4)


def test_a_sync_that_fails_again_on_opening_is_not_acknowledged_either(log, monkeypatch):
    writer = log.writer(0)
    writer.append(rows(0, 3))
    monkeypatch.setattr(files, "sync", fail)
    for attempt in (lambda: writer.append(rows(3, 1)), writer.sync, lambda: log.writer(0)):
        with pytest.raises((OSError, WriterStoppedError)):
            attempt()
        writer.close()
        assert log.reader(0).refresh() == 3


# --- what is published (B4) ---


def test_readers_see_what_is_published_unless_they_ask_for_more(log):
    reader, all_reader = log.reader(0), log.reader(0, unpublished=True)
    with log.writer(0, fsync=FsyncPolicy("batch", byte_count=10**6)) as writer:
        writer.append(rows(0, 3))
        assert (writer.durable, reader.refresh(), all_reader.refresh()) == (0, 0, 3)
        with pytest.raises(OffsetError, match=r"offset 1 is not held; the partition holds \[0, 0\)"):
            reader.read(1)
        writer.sync()
        assert (writer.durable, reader.refresh()) == (3, 3)
        writer.append(rows(3, 3))
        check_prefix(list(reader.read()), 0, 3)
        check_prefix(list(all_reader.read()), 0, 6)
    assert reader.refresh() == 6


def test_a_writer_that_never_syncs_publishes_on_write(log):
    with log.writer(0, fsync="never") as writer:
        writer.append(rows(0, 3))
        assert (writer.durable, writer.acknowledged, log.reader(0).refresh()) == (0, 3, 3)


def test_a_reader_notices_that_the_log_went_back(log):
    with log.writer(0) as writer:
        writer.append(rows(0, 3))
    shutil.copytree(log.path, log.path.with_name("before"))
    reader = log.reader(0)
    with log.writer(0) as writer:
        writer.append(rows(3, 3))
    assert reader.refresh() == 6
    shutil.rmtree(log.path)
    shutil.copytree(log.path.with_name("before"), log.path)
    with pytest.raises(RegressError, match="rows up to offset 6 were seen, but only those below 3 are left"):
        reader.refresh()


def test_a_reader_notices_that_the_log_went_back_and_has_grown_again(log):
    """Rows that nobody synced were read, lost with the power, and others have their offsets."""
    reader = log.reader(0)
    writer = log.writer(0, fsync="never")
    writer.append(rows(0, 3))
    (path,) = (log.path / "00000").glob("*.segment")
    size = path.stat().st_size
    writer.append(rows(3, 3))
    assert reader.refresh() == 6
    os.truncate(path, size)
    writer._stopped = "lost its power"
    writer.close()
    with log.writer(0) as after:
        assert after.end == 3
        after.append(rows(3, 9))
    with pytest.raises(RegressError, match="only those below 3 are left"):
        reader.refresh()


# --- one writer (B5) ---


def test_of_two_writers_after_a_lock_was_removed_by_hand_the_older_one_is_refused(log):
    old = log.writer(0)
    old.append(rows(0, 3))
    (log.path / "00000" / "writer.lock").unlink()
    new = log.writer(0)
    with pytest.raises(FencedError, match="another writer has opened the partition since"):
        old.append(rows(3, 2))
    assert old.acknowledged == 3
    assert new.append(rows(3, 4), 3) == 4 and new.acknowledged == 7
    old.close()
    with suppress(WriterStoppedError):
        old.append(rows(5, 1))
    new.append(rows(7, 1))
    new.close()
    check_prefix(list(log.reader(0).read()), 0, 8)
    with log.writer(0) as after:
        assert after.end == 8 and after.repaired is None


@pytest.mark.parametrize("fsync", ["always", "never"])
def test_what_a_fenced_writer_writes_later_stands_between_nobodys_rows(log, fsync):
    old = log.writer(0, fsync=fsync, segment_bytes=1)
    old.append(rows(0, 3))
    (log.path / "00000" / "writer.lock").unlink()
    new = log.writer(0)
    new.append(rows(3, 1))
    # As if it had been stopped between its last look and this: a record behind its segment, and a segment of its own.
    old._appender.append(rows(3, 2), 0, (0, 0))
    old._epoch.check = lambda: None
    with suppress(FencedError, FileExistsError):
        old._begin_segment(rows(0, 1).schema)
    new.append(rows(4, 4))
    check_prefix(list(log.reader(0).read()), 0, 8)
    new.close()
    with log.writer(0) as after:
        after.append(rows(8, 1))
    check_prefix(list(log.reader(0).read()), 0, 9)


def test_a_fenced_writer_that_closes_leaves_the_lock_of_the_other(log):
    old = log.writer(0)
    (log.path / "00000" / "writer.lock").unlink()
    new = log.writer(0)
    with suppress(FencedError):
        old.close()
    assert "writer.lock" in names(log)
    new.close()
    assert "writer.lock" not in names(log)


def test_a_writer_that_died_is_followed_by_a_segment_of_its_own(log):
    """It may only be slow, and append to the file that it has open."""
    log.writer(0).append(rows(0, 3))
    (log.path / "00000" / "writer.lock").unlink()
    with log.writer(0) as writer:
        writer.append(rows(3, 3))
    with log.writer(0) as writer:  # That one was closed well.
        writer.append(rows(6, 3))
    assert [name for name in names(log) if name.endswith(".segment")] == [f"{0:019d}.segment", f"{3:019d}.segment"]


# --- small things (B5) ---


def test_offsets_go_on_when_a_writer_dies_while_it_gives_an_empty_segment_another_schema(log, monkeypatch):
    with log.writer(0, segment_bytes=1) as writer:
        writer.append(rows(0, 3))
        writer.append(rows(3, 3))
        with monkeypatch.context() as patch:
            patch.setattr("headwater.logs.segments.segment.SegmentAppender.append", fail)
            with pytest.raises(OSError, match="input/output error"):
                writer.append(rows(6, 3))
    with log.writer(0) as writer:
        assert writer.retain(offset_min=6) == 6
    for name in ("make", "write_all", "sync", "rename", "sync_directory"):
        with log.writer(0) as writer, monkeypatch.context() as patch:
            patch.setattr(files, name, fail)
            with pytest.raises(OSError, match="input/output error"):
                writer.append(pa.record_batch({"time": [1]}))
        with log.writer(0) as writer:
            assert (writer.start, writer.end) == (6, 6)


class FullDisk:
    """No byte and no new block is to be had; what is there can be written over."""

    def __init__(self, patch):
        write = files.write_at
        patch.setattr(files, "write_all", self.full)
        patch.setattr(
            files, "write_at", lambda fd, data, at: write(fd, data, at) if self.fits(fd, data, at) else self.full()
        )

    @staticmethod
    def fits(descriptor, data, at):
        return at + len(data) <= os.fstat(descriptor).st_size

    @staticmethod
    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")


@pytest.mark.parametrize("is_closed", [True, False])
def test_on_a_full_disk_a_writer_can_be_opened_and_retention_makes_room(log, monkeypatch, is_closed):
    writer = log.writer(0, segment_bytes=1)
    for _ in range(4):
        writer.append(rows(writer.end, 3))
    if is_closed:
        writer.close()
    with monkeypatch.context() as patch:
        FullDisk(patch)
        if not is_closed:
            with pytest.raises(OSError, match="no space left"):
                writer.append(rows(12, 3))
            writer.close()
        with log.writer(0) as again:
            with pytest.raises(OSError, match="no space left"):
                log.hold(0, "a", 3)
            assert again.retain(offset_min=6) == 6
        assert not [name for name in names(log) if name.endswith(".tmp")]
    with log.writer(0) as writer:
        writer.append(rows(12, 3), 12)
    check_prefix(list(log.reader(0).read()), 6, 15)


def test_a_full_disk_leaves_no_unfinished_files(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "write_all", FullDisk.full)
    for make in (files.replace, files.create):
        with pytest.raises(OSError, match="no space left"):
            make(tmp_path / "a", b"abc")
    assert list(tmp_path.iterdir()) == []


def test_unfinished_files_of_two_processes_of_one_number_have_names_of_their_own(tmp_path):
    with files.unfinished(tmp_path / "a", b"1") as one, files.unfinished(tmp_path / "a", b"2") as other:
        assert one != other and one.name.startswith(".")


def test_the_parents_of_new_folders_are_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files, "sync_directory", synced.append)
    files.make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path.parent, tmp_path, tmp_path / "a"]
    synced.clear()
    # Whoever made it may have died before its name was safe.
    files.make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path / "a"]


def test_a_writer_that_opens_makes_the_names_of_segments_safe(log, monkeypatch):
    """Found by the simulator (stream, seed 92): a segment whose maker died before its name was safe was lost with its rows."""
    with log.writer(0) as writer:
        writer.append(rows(0, 3))
    synced = []
    monkeypatch.setattr(files, "sync_directory", synced.append)
    with log.writer(0) as writer:
        assert log.path / "00000" in synced and writer.durable == 3


def test_retention_leaves_what_readers_hold(log):
    with log.writer(0, segment_bytes=1) as writer:
        for _ in range(5):
            writer.append(rows(writer.end, 10))
        log.hold(0, "slow-stream", 25)
        log.hold(0, "other", 30)
        assert log.holds(0) == {"other": 30, "slow-stream": 25}
        assert writer.retain(byte_count_max=0) == 20
        log.hold(0, "slow-stream", 33)
        assert writer.retain(byte_count_max=0) == 30
        log.release(0, "other")
        log.release(0, "other")
        (log.path / "00000" / "holds" / "slow-stream").write_text("torn")  # It holds everything.
        assert writer.retain(byte_count_max=0) == 30
        assert writer.retain(byte_count_max=0, despite_holds=True) == 40
    with pytest.raises(DataError, match=r"hold is '\.\./up' at 3: give a name of letters"):
        log.hold(0, "../up", 3)


# --- identity, arrivals and versions ---


def test_each_log_has_an_identity_that_stays(log, tmp_path):
    assert Log.open(log.path).id == Log.create(log.path, time="time").id == log.id
    assert Log.create(tmp_path / "other").id != log.id


def test_arrivals_are_stored_in_nanoseconds_by_the_clock_of_the_writer(log):
    clock = iter([10**18, 10**18 + 7])
    with log.writer(0, clock=lambda: next(clock)) as writer:
        writer.append(rows(0, 2))
        writer.append(rows(2, 1), arrival_ns=10**18 + 5)
        writer.append(rows(1, 3), 1)  # Rows that are there keep their arrival.
    reader = log.reader(0)
    stored = list(reader.read())
    assert [each.arrival_ns - 10**18 for each in stored] == [0, 5, 7]
    assert pa.concat_arrays([each.arrivals() for each in reader.read(1)]).to_pylist() == [
        10**18,
        10**18 + 5,
        10**18 + 7,
    ]
    assert stored[0].arrivals().type == pa.int64()
    assert reader.has_arrivals and reader.offset_of_arrival(10**18 + 1) == 2


def test_a_log_of_version_1_is_read_and_written_once_it_has_been_upgraded(tmp_path):
    shutil.copytree(V1, tmp_path / "log")
    log = Log.open(tmp_path / "log")
    assert (log.version, log.id, log.verify()) == (1, None, 43)
    with pytest.raises(DataError, match=r"version 1, which is read but no longer written; `headwater upgrade .*/log`"):
        log.writer(0)
    reader = log.reader(0)
    stored = next(reader.read())
    assert not reader.has_arrivals
    with pytest.raises(
        DataError, match="rows from offset 0 on have no arrival times: they were appended to a log of version 1"
    ):
        stored.arrivals()
    lock = WriterLock(tmp_path / "log" / "00000" / "writer.lock")
    with pytest.raises(Exception, match="being written by process"):
        log.upgrade()
    lock.release()
    upgraded = log.upgrade()
    assert upgraded.id == Log.open(log.path).id == upgraded.upgrade().id
    with upgraded.writer(0) as writer:
        assert writer.append(stored.batch, 0) == 0
        writer.append(stored.batch)
        assert writer.end == 48
    assert [each.arrival_ns is None for each in upgraded.reader(0).read()] == [True, True, True, False]
    assert Log.open(log.path).verify() == 55
    with upgraded.writer(0) as writer:
        assert writer.end == 48
