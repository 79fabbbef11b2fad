import os
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.edge.cluster.outcome import Emission
from headwater.edge.journal import _OLD_HEADER, CHECKPOINT, RECORD, Journal, JournalContents
from headwater.logs.entries import HEADER_BYTES
from headwater.logs.errors import DamageError

entries = st.lists(st.tuples(st.sampled_from([RECORD, CHECKPOINT]), st.binary(max_size=10)), max_size=10)


def kept_of(written: list[tuple[bytes, bytes]]) -> JournalContents:
    last = max((place for place, (kind, _) in enumerate(written) if kind == CHECKPOINT), default=None)
    if last is None:
        return JournalContents(None, [data for _, data in written])
    return JournalContents(written[last][1], [data for _, data in written[last + 1 :]])


@given(entries, st.integers(0, 200))
def test_what_was_cut_short_is_as_if_it_had_not_been_written(tmp_path_factory, written, size):
    path = Path(tmp_path_factory.mktemp("journal"), "root")
    journal = Journal(path)
    ends = [0]
    for kind, data in written:
        journal.add(kind, data)
        ends.append(ends[-1] + HEADER_BYTES + len(data))
    journal.close()
    whole = sum(end <= size for end in ends[1:])
    with path.open("r+b") as file:
        file.truncate(min(size, ends[-1]))
    again = Journal(path)
    assert again.read() == kept_of(written[:whole])
    again.add(RECORD, b"more")
    assert again.read() == kept_of([*written[:whole], (RECORD, b"more")])
    again.close()


def test_a_hole_within_what_was_written_is_no_entry(tmp_path: Path):
    """As a disk leaves it that wrote the length of a file, and not its bytes."""
    journal = Journal(tmp_path / "root")
    journal.add(RECORD, b"whole")
    journal.close()
    size = (tmp_path / "root").stat().st_size
    with (tmp_path / "root").open("ab") as file:
        file.write(bytes(100))
    again = Journal(tmp_path / "root")
    assert again.read() == JournalContents(None, [b"whole"]) and (tmp_path / "root").stat().st_size == size
    again.close()


@given(st.integers(0, 10**6))
def test_a_synced_entry_that_the_disk_changed_is_an_error_and_not_the_end(tmp_path_factory, place):
    path = Path(tmp_path_factory.mktemp("journal"), "root")
    journal = Journal(path)
    for data in (b"one", b"two", b"three"):
        journal.add(RECORD, data)
    journal.close()
    file = bytearray(path.read_bytes())
    file[place % (len(file) - HEADER_BYTES - len(b"three"))] ^= 1 << place % 8
    path.write_bytes(file)
    with closing(Journal(path)) as again, pytest.raises(DamageError, match=r"root, byte .*was synced and is not"):
        again.read()


def test_a_journal_without_checksums_is_read_and_written_anew(tmp_path: Path):
    old = [(CHECKPOINT, b"c"), (RECORD, b"1"), (RECORD, b"2")]
    written = b"".join(_OLD_HEADER.pack(kind, len(data)) + data for kind, data in old)
    (tmp_path / "root").write_bytes(written + _OLD_HEADER.pack(RECORD, 9) + b"torn")
    journal = Journal(tmp_path / "root")
    assert journal.read() == JournalContents(b"c", [b"1", b"2"])
    journal.add(RECORD, b"3")
    journal.close()
    with closing(Journal(tmp_path / "root")) as again:
        assert again.read() == JournalContents(b"c", [b"1", b"2", b"3"])


def test_rows_keep_their_steps_and_moments(tmp_path: Path):
    journal = Journal(tmp_path / "root")
    emission = Emission(3, 77, pa.table({"n": [1]}))
    journal.emit(emission)
    journal.add(CHECKPOINT, b"c")
    assert journal.read() == JournalContents(b"c", [], [emission])
    journal.close()


def test_an_entry_is_on_the_disk_before_anything_behind_it_is_done(tmp_path: Path, monkeypatch):
    synced = []
    monkeypatch.setattr("headwater.edge.journal.sync", lambda file: synced.append(os.fstat(file).st_size))
    journal = Journal(tmp_path / "root")
    for size in (1, 5, 9):
        journal.add(RECORD, b"x" * size)
        assert synced[-1] == (tmp_path / "root").stat().st_size
    assert len(synced) == 3
    journal.close()
    measuring = Journal(tmp_path / "root", syncs=False)
    measuring.add(RECORD, b"x")
    assert len(synced) == 3
    measuring.close()
