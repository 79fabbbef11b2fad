"""A writer is killed with -9 wherever it happens to be; nothing acknowledged is lost, nothing half-written is read."""

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.logs import Log, OffsetError, files
from headwater.logs.lock import WriterLock
from logs.batches import check_prefix, rows

SCRIPT = Path(__file__).with_name("crash_writer.py")
ROOT = Path(__file__).parents[2]


def killed_writer(log: Log, chance: random.Random) -> int:
    """Let a process append for a moment, kill it, and return the last offset it said was acknowledged."""
    mode = chance.choice(["always", "batch", "never"])
    command = [sys.executable, str(SCRIPT), str(log.path), str(chance.randrange(10**6)), mode]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        first = process.stdout.readline()  # It lives and has the lock.
        reader = log.reader(0)
        until = time.monotonic() + chance.uniform(0, 0.15)
        while time.monotonic() < until:
            check_whole(reader)  # Also while the writer is in the middle of a record.
        process.kill()
        said = (first + process.stdout.read()).split(b"\n")
    # A number without the end of its line was cut short by the kill.
    return max(int(line) for line in said[:-1])


def check_whole(reader):
    reader.refresh()
    start = max(reader.start, reader.end - 500)
    with suppress(OffsetError):  # The writer's retention may be faster.
        check_prefix(list(reader.rows(start, reader.end)), start, reader.end)


def check_rounds(path: Path, seed: int, count: int) -> None:
    chance = random.Random(seed)
    log = Log.create(path, time="time")
    for _ in range(count):
        acknowledged = killed_writer(log, chance)
        reader, written = log.reader(0), log.reader(0, unpublished=True)
        check_prefix(list(reader.read()), reader.start, reader.end)
        check_prefix(list(written.read()), written.start, written.end)
        with log.writer(0) as after:  # The lock of the dead is free, and its torn tail is cut off.
            assert acknowledged <= reader.end <= after.end == written.end
        check_prefix(list(log.reader(0).read()), written.start, written.end)


def test_a_writer_that_is_killed_loses_nothing(tmp_path):
    check_rounds(tmp_path / "log", seed=1, count=3)


@pytest.mark.slow(reason="a hundred processes")
def test_a_writer_that_is_killed_a_hundred_times_loses_nothing(tmp_path):
    check_rounds(tmp_path / "log", seed=2, count=100)


class Crashed(BaseException):
    """The process is gone; no handler of the log may act on it."""


class Disk:
    """Passes every step to the real disk until the one at which the process dies; a write may be half done by then."""

    def __init__(self, monkeypatch, steps: int, part: float) -> None:
        self.steps, self.part = steps, part
        for name in ("write_all", "write_at", "truncate", "sync", "sync_directory", "make", "link", "rename", "remove"):
            monkeypatch.setattr(files, name, self.wrapped(name, getattr(files, name)))
        self.locks, take, release = [], WriterLock._acquired, WriterLock.release

        def taken(lock, take_over):
            # In one go: who dies while it takes the lock leaves a descriptor that only the kernel could close.
            steps, self.steps = self.steps, 1000
            self.locks.append(lock)
            try:
                return take(lock, take_over)
            finally:
                self.steps = steps

        monkeypatch.setattr(WriterLock, "_acquired", taken)
        # The dead remove no files.
        monkeypatch.setattr(WriterLock, "release", lambda lock: release(lock) if self.steps >= 0 else None)

    def let_go(self):
        """What the kernel does for a dead process."""
        for lock in self.locks:
            if getattr(lock, "_descriptor", -1) >= 0:
                os.close(lock._descriptor)

    def wrapped(self, name, real):
        def step(target, *data):
            self.steps -= 1
            if self.steps < 0:
                if name == "write_all":
                    whole = b"".join(data)
                    real(target, whole[: int(len(whole) * self.part)])
                elif name == "write_at":
                    real(target, data[0][: int(len(data[0]) * self.part)], data[1])
                raise Crashed
            # No power is lost here: a sync counts as a step but takes no time.
            return None if name.startswith("sync") else real(target, *data)

        return step


@pytest.mark.parametrize("part", [0, 0.5, 1])
def test_a_crash_at_each_single_step_loses_nothing(tmp_path, monkeypatch, part):
    """Deterministic: every step of opening, appending, rolling, closing, in turn, is the last one."""
    steps, is_over = 0, False
    while not is_over:
        log = Log.create(tmp_path / f"{steps}")
        acknowledged, is_over = 0, True
        with monkeypatch.context() as patch:
            disk = Disk(patch, steps, part)
            try:
                for _ in range(2):
                    dying = log.writer(0, segment_bytes=2500)
                    for count in (3, 1, 30, 2):
                        dying.append(rows(dying.end, count))
                        acknowledged = dying.acknowledged
                    dying.close()
            except Crashed:
                is_over = False
            disk.let_go()
        published, seen = log.reader(0), log.reader(0, unpublished=True)
        for reader in (published, seen):
            check_prefix(list(reader.read()), 0, reader.end)
        with log.writer(0) as after:
            assert acknowledged <= published.end <= after.end == seen.end
            after.append(rows(after.end, 1))
        check_prefix(list(log.reader(0).read()), 0, seen.end + 1)
        steps += 1
    assert steps > 20
