"""Every byte of a log counts: whatever is cut off or flipped is found, and never read as rows."""

import os
import shutil

import pyarrow as pa
import pytest

from headwater.logs import DamageError, Log, files
from logs.batches import check_prefix, rows


@pytest.fixture(autouse=True)
def _without_sync(monkeypatch):
    """No power is lost here, and a thousand real syncs would take a minute."""
    for name in ("sync", "sync_directory"):
        monkeypatch.setattr(files, name, lambda target: None)


def written(path, fsync="always"):
    """A log of two segments of two records each, and its writer."""
    log = Log.create(path, time="time")
    writer = log.writer(0, segment_bytes=1600, fsync=fsync)
    for _ in range(4):
        writer.append(rows(writer.end, 3))
    assert len(segments(log)) == 2
    return log, writer


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Closed well."""
    log, writer = written(tmp_path_factory.mktemp("whole") / "log")
    writer.close()
    return log


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """As kill -9 of the writer leaves it: a mark, and no index of the newest segment."""
    log, writer = written(tmp_path_factory.mktemp("left") / "log")
    shutil.copytree(log.path, log.path.with_name("killed"))
    writer.close()
    return Log.open(log.path.with_name("killed"))


@pytest.fixture
def log(whole, tmp_path):
    shutil.copytree(whole.path, tmp_path / "log")
    return Log.open(tmp_path / "log")


@pytest.fixture
def killed(left, tmp_path):
    shutil.copytree(left.path, tmp_path / "killed")
    return Log.open(tmp_path / "killed")


def segments(log):
    return sorted((log.path / "00000").glob("*.segment"))


def forget_indexes(log):
    """As after a loss of power that took them; of the marks none is left since the log was closed."""
    for path in (log.path / "00000").glob("*.index"):
        path.unlink()


def is_found(log):
    """Whether reading everything raises; what it gives before that is right."""
    read = []
    try:
        read.extend(log.reader(0).read())
        return False
    except DamageError:
        return True
    finally:
        check_prefix(read, 0, sum(stored.batch.num_rows for stored in read))


def flips(path, step=5):
    """The file with one bit turned, at one place after the other; whole again in the end."""
    good = path.read_bytes()
    with open(path, "r+b", buffering=0) as file:
        for at in range(0, len(good), step):
            os.pwrite(file.fileno(), bytes([good[at] ^ (1 << at % 8)]), at)
            yield at
            os.pwrite(file.fileno(), good[at : at + 1], at)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("with_indexes", [True, False])
def test_a_flipped_byte_anywhere_in_a_segment_is_found(log, killed, number, with_indexes):
    if not with_indexes:
        log = killed
        forget_indexes(log)
    for at in flips(segments(log)[number]):
        assert is_found(log), at
    assert not is_found(log)


def test_after_a_kill_damage_of_acknowledged_rows_is_an_error_and_no_torn_tail(killed):
    """Finding B2: 280 of 1,616 places in the last record lost two synced rows without a word."""
    path = segments(killed)[1]
    for at in flips(path, step=37):
        with pytest.raises(DamageError, match=r"\.segment, byte \d+: "), killed.writer(0) as writer:
            # The rows of a record are looked at when they are read.
            list(writer._held.read())
        assert path.stat().st_size, at


def test_after_a_kill_a_newest_segment_that_is_shorter_is_an_error_and_no_torn_tail(killed):
    """Finding B2: a truncation lost everything behind it, up to 64 MB."""
    path = segments(killed)[1]
    for size in range(path.stat().st_size - 1, 0, -101):
        os.truncate(path, size)
        with pytest.raises(DamageError, match=r"\.segment, byte \d+: .*(synced|header)"):
            killed.writer(0)
        with pytest.raises(DamageError):
            list(killed.reader(0).read())


def test_after_a_loss_of_power_a_later_record_tells_that_an_earlier_one_was_synced(log):
    forget_indexes(log)
    path = segments(log)[1]
    good = path.read_bytes()
    first, last = good.index(b"HWRC"), good.rindex(b"HWRC")
    for at in [0, 40, first, first + 9, first + 100, last - 1]:
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert is_found(log)
        with pytest.raises(DamageError, match=r"\.segment, byte \d+: "):
            log.writer(0)
        assert len(path.read_bytes()) == len(good)


@pytest.mark.parametrize("number", range(4))
def test_a_hole_among_records_that_were_not_synced_is_cut_off_with_what_follows(tmp_path, number, caplog):
    """Finding B3: one zero page in the middle made the partition unusable for ever."""
    log = Log.create(tmp_path / "log", time="time")
    with log.writer(0, fsync="never") as writer:
        for _ in range(4):
            writer.append(rows(writer.end, 3))
    forget_indexes(log)
    (path,) = segments(log)
    good = path.read_bytes()
    starts = [at for at in range(len(good)) if good.startswith(b"HWRC", at)]
    hole = starts[number] + 90
    path.write_bytes(good[:hole] + bytes(100) + good[hole + 100 :])
    check_prefix(list(log.reader(0).read()), 0, 3 * number)
    with log.writer(0) as writer:
        assert writer.repaired == (path, starts[number], len(good) - starts[number])
        assert "were no whole record and were cut off" in caplog.text
        assert writer.append(rows(0, 12), 0) == 12 - 3 * number
    check_prefix(list(log.reader(0).read()), 0, 12)


@pytest.mark.parametrize("number", [0, 1])
def test_a_flipped_byte_in_an_index_is_found_and_the_index_made_again(log, number):
    path = segments(log)[number].with_suffix(".index")
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        check_prefix(list(log.reader(0).read()), 0, 12)
    log.writer(0).close()
    assert path.read_bytes() == good


@pytest.mark.parametrize("number", [0, 1])
def test_a_segment_that_was_closed_and_is_shorter_now_is_found(log, number):
    path = segments(log)[number]
    for size in range(path.stat().st_size - 1, -1, -7):
        os.truncate(path, size)
        assert is_found(log), size
        with pytest.raises(DamageError, match=r"\.segment, byte \d+: "):
            log.writer(0)


def test_a_missing_segment_is_found(log):
    segments(log)[1].rename(log.path / "aside")
    with pytest.raises(DamageError, match="the segment is missing; its index is there"):
        log.writer(0)


def test_a_missing_segment_in_the_middle_is_found(log):
    with log.writer(0, segment_bytes=1) as writer:
        writer.append(rows(12, 3))
    segments(log)[1].unlink()
    with pytest.raises(DamageError, match="rows from offset 6 on are missing"):
        log.reader(0).refresh()


def test_a_torn_tail_of_any_length_is_cut_off_and_nothing_else(log):
    forget_indexes(log)
    sealed, path = segments(log)
    before, good = sealed.read_bytes(), path.read_bytes()
    starts = [at for at in range(len(good)) if good.startswith(b"HWRC", at)]
    for size in sorted({*range(starts[0], len(good), 11), *(at + near for at in starts for near in (0, 1))}):
        shutil.rmtree(sealed.parent)
        sealed.parent.mkdir()
        sealed.write_bytes(before)
        path.write_bytes(good[:size])
        whole = sum(end <= size for end in [*starts[1:], len(good)])
        check_prefix(list(log.reader(0).read()), 0, 6 + 3 * whole)
        with log.writer(0, fsync="never") as writer:
            assert writer.end == 6 + 3 * whole
            assert (writer.repaired is None) == (size in starts)
            assert writer.append(rows(6, 6), 6) == 6 - 3 * whole
        check_prefix(list(log.reader(0).read()), 0, 12)
        forget_indexes(log)


def test_the_last_record_wrong_after_a_loss_of_power_is_cut_off_and_reported(log):
    forget_indexes(log)
    path = segments(log)[1]
    good = path.read_bytes()
    last = good.rindex(b"HWRC")
    path.write_bytes(good[: last + 200] + bytes(len(good) - last - 200))
    check_prefix(list(log.reader(0).read()), 0, 9)
    with log.writer(0) as writer:
        assert (writer.repaired.path, writer.repaired.byte) == (path, last)
        assert writer.repaired.byte_count == len(good) - last
        assert writer.end == 9
    check_prefix(list(log.reader(0).read()), 0, 9)


def test_a_log_inside_a_log_does_not_confuse_repair(tmp_path, whole):
    """A torn record whose column holds a whole segment: what looks like records in it is none."""
    log = Log.create(tmp_path / "outer")
    batch = pa.record_batch({"blob": [segments(whole)[0].read_bytes()] * 3})
    with log.writer(0) as writer:
        writer.append(batch)
        writer.append(batch)
    forget_indexes(log)
    (path,) = segments(log)
    os.truncate(path, path.stat().st_size - 50)
    with log.writer(0) as writer:
        assert writer.end == 3 and writer.repaired is not None


@pytest.mark.parametrize("with_indexes", [True, False])
def test_bytes_behind_a_sealed_segment_are_never_read(log, with_indexes):
    """Only a writer that was fenced can have left them, and it did not acknowledge them."""
    if not with_indexes:
        forget_indexes(log)
    with open(segments(log)[0], "ab") as file:
        file.write(bytes(200))
    check_prefix(list(log.reader(0).read()), 0, 12)


def test_a_segment_of_another_log_is_refused(log, tmp_path):
    stranger, writer = written(tmp_path / "stranger")
    writer.close()
    shutil.copy(segments(stranger)[1], segments(log)[1])
    segments(log)[1].with_suffix(".index").unlink()
    with pytest.raises(DamageError, match=f"belongs to the log {stranger.id}, this one is {log.id}"):
        log.reader(0).refresh()
