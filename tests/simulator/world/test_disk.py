"""A disk and what machines keep on it: what was synced survives every crash, of everything else any part does."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.logs.entries import framed
from headwater.logs.errors import DamageError
from headwater.simulator.world.disk import Disk, DiskFullError, PowerLostError
from headwater.simulator.world.storage import CHECKPOINT, MEMORY, RECORD, RECORDS, Storage


def content(disk):
    return {name: bytes(file.data) for name, file in disk.files.items()}


def test_what_was_synced_survives_and_of_the_rest_any_part_is_kept():
    seen = set()
    for seed in range(50):
        disk = Disk()
        disk.append("a", b"old")
        disk.sync("a")
        disk.sync_folder()
        disk.append("a", b"x" * 130)
        disk.append("b", b"new")
        disk.lose(Random(seed))
        left = content(disk)
        assert left["a"].startswith(b"old") and set(left["a"][3:]) <= {0, ord("x")}
        seen.add((len(left["a"]), 0 in left["a"], "b" in left))
    # All of it, nothing, or a hole in the middle; with the other file and without.
    assert {(3, False, True), (3, False, False), (133, False, True), (133, True, False)} <= seen


def test_a_name_that_was_not_synced_may_be_lost_though_its_bytes_were():
    fates = set()
    for seed in range(20):
        disk = Disk()
        disk.append("a", b"1")
        disk.sync("a")
        disk.lose(Random(seed))
        fates.add("a" in disk.files)
    assert fates == {True, False}


def test_a_rename_replaces_at_once():
    disk = Disk()
    for name in ("old", "new"):
        disk.append(name, name.encode())
        disk.sync(name)
    disk.rename("new", "old")
    disk.sync_folder()
    disk.lose(Random(0))
    assert content(disk) == {"old": b"new"}


def test_a_full_disk_takes_half_and_says_so():
    disk = Disk(is_full=True)
    with pytest.raises(DiskFullError, match="no room for 4 bytes of a"):
        disk.append("a", b"1234")
    assert content(disk) == {"a": b"12"}


def kept(storage):
    return next(storage.lives(), (None, []))


@st.composite
def stories(draw):
    """What a root asks for: each thing is a record or a checkpoint of all records so far; and where the power is lost."""
    return draw(st.lists(st.booleans(), max_size=12)), draw(st.integers(0, 40)), draw(st.integers(0, 1 << 20))


@given(stories())
def test_wherever_the_power_is_lost_everything_that_was_done_is_there_and_at_most_one_thing_more(story):
    checkpoints, steps, seed = story
    storage = Storage()
    storage.checkpoint(b"0")
    storage.disk.steps_left = steps
    done = 0
    try:
        for number, is_checkpoint in enumerate(checkpoints, 1):
            storage.checkpoint(b"%d" % number) if is_checkpoint else storage.record(b"%d" % number)
            done = number
    except PowerLostError:
        pass
    storage.disk.lose(Random(seed))
    for checkpoint, records in Storage(storage.disk).lives():
        first = int(checkpoint)
        # The last two checkpoints, with all records behind each, lead to the same end.
        numbers = [first, *map(int, records)]
        missing = set(range(first, done + 1)) - set(numbers)
        assert all(checkpoints[number - 1] for number in missing), "only a checkpoint stands for others"
        assert max(numbers) in (done, done + 1) or max(numbers) < done and done in missing
        assert numbers == sorted(numbers)
    assert int(kept(Storage(storage.disk))[0]) >= max([0, *(n for n in range(1, done + 1) if checkpoints[n - 1])])


def test_a_life_after_a_torn_one_goes_on_behind_it():
    storage = Storage()
    storage.checkpoint(b"0")
    storage.record(b"1")
    end = len(storage.disk.files["records-1"].data)
    storage.disk.append("records-1", framed(RECORD, b"2", end, end)[:-1])
    storage.disk.lose(Random(1))
    again = Storage(storage.disk)
    assert kept(again) == (b"0", [b"1"])
    again.checkpoint(b"1")
    again.record(b"2")
    assert list(Storage(storage.disk).lives()) == [(b"1", [b"2"]), (b"0", [b"1", b"2"])]


def test_two_checkpoints_are_kept_and_no_more():
    storage = Storage()
    for number in range(5):
        storage.checkpoint(b"%d" % number)
    assert [checkpoint for checkpoint, _ in storage.lives()] == [b"4", b"3"]
    assert sorted(storage.disk.files) == ["checkpoint-4", "checkpoint-5", "records-4", "records-5"]


def test_a_memory_is_recalled_once_and_not_kept_on_a_full_disk():
    storage = Storage()
    assert storage.remember(b"all") and storage.recall() == b"all" and storage.recall() is None
    storage.disk.is_full = True
    assert not storage.remember(b"all") and MEMORY not in storage.disk.files


def test_a_record_that_another_follows_is_not_lost_in_silence_when_a_bit_of_it_flips():
    for seed in range(50):
        storage = Storage()
        storage.checkpoint(b"0")
        for number in range(3):
            storage.record(b"%d" % number)
        storage.disk.flip(RECORDS.format(1), Random(seed), storage.followed_bytes())
        with pytest.raises(DamageError, match=r"records-1, byte .*synced"):
            list(storage.lives())
        storage.disk.restore()
        assert kept(storage) == (b"0", [b"0", b"1", b"2"])


def test_a_flip_changes_one_bit():
    storage = Storage()
    storage.checkpoint(bytes(20))
    storage.disk.flip(CHECKPOINT.format(1), Random(3))
    checkpoint, _ = kept(storage)
    assert sum(byte.bit_count() for byte in checkpoint) == 1
