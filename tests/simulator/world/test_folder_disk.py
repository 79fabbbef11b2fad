"""What a loss of power leaves of real files: what was synced, and any part of the rest."""

import os
from pathlib import Path
from random import Random

import pytest

from headwater.logs import files
from headwater.simulator.world.file_faults import AFTER, BEFORE, ERROR, TORN, CrashError, InjectedError, tampered
from headwater.simulator.world.folder_disk import FolderDisk


def lost(tmp_path: Path, write, seeds: int = 20) -> set[tuple[str, ...]]:
    """Which files may be there after a loss of power behind ``write``."""
    found = set()
    for seed in range(seeds):
        root = tmp_path / str(seed)
        root.mkdir()
        disk = FolderDisk(root, Random(seed))
        with tampered(disk, lambda *_: "", lambda: 1):
            write(root)
            disk.lose_power()
        found.add(tuple(sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())))
    return found


@pytest.mark.parametrize("create", [files.create, files.create_unseen])
def test_what_is_created_stays(tmp_path, create):
    assert lost(tmp_path, lambda root: create(root / "a", b"x" * 200)) == {("a",)}


def test_a_name_that_was_not_synced_may_be_lost(tmp_path):
    def write(root: Path) -> None:
        os.close(files.make(root / "a"))

    assert lost(tmp_path, write) == {(), ("a",)}


def test_a_folder_whose_maker_died_is_made_safe_by_the_next(tmp_path):
    """Found by the simulator: everything below it was lost, though it was synced."""

    def write(root: Path) -> None:
        files.make_one_folder(root / "a")  # and dies before it syncs
        files.make_folder(root / "a" / "b")
        files.create(root / "a" / "b" / "c", b"x")

    assert lost(tmp_path, write) == {("a/b/c",)}


@pytest.mark.parametrize(
    ("fate", "error", "left"),
    [(BEFORE, CrashError, b""), (AFTER, CrashError, b"12345678"), (TORN, CrashError, b"1234")],
)
def test_an_operation_dies_before_it_after_it_or_in_the_middle(tmp_path, fate, error, left):
    disk = FolderDisk(tmp_path, Random(0))
    with tampered(disk, lambda name, _: fate if name == "write_all" else "", lambda: 1):
        descriptor = files.make(tmp_path / "a")
        with pytest.raises(error):
            files.write_all(descriptor, b"1234", b"5678")
    os.close(descriptor)
    assert (tmp_path / "a").read_bytes() == left


def test_a_sync_that_failed_is_not_made_good_by_another(tmp_path):
    kept = set()
    for seed in range(30):
        root = tmp_path / str(seed)
        root.mkdir()
        disk, fates = FolderDisk(root, Random(seed)), [ERROR]
        with tampered(disk, lambda name, _: fates.pop() if name == "sync" and fates else "", lambda: 1):  # noqa: B023
            descriptor = files.make(root / "a")
            files.write_all(descriptor, b"x" * 64)
            with pytest.raises(InjectedError):
                files.sync(descriptor)
            files.sync(descriptor)
            files.sync_directory(root)
            os.close(descriptor)
            disk.lose_power()
        kept.add((root / "a").read_bytes().strip(b"\0"))
    assert kept == {b"", b"x" * 64}
