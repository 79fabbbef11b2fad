"""A loss of power at any step, on a disk that loses, tears and reorders what was not synced: what was acknowledged is there."""

import random
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from headwater.logs import FsyncPolicy, Log
from headwater.simulator.world.file_faults import BEFORE, ERROR, CrashError, tampered
from headwater.simulator.world.folder_disk import FolderDisk, close_below
from logs.batches import check_prefix, rows


class Story:
    """A log on a disk that loses its power again and again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.boots = 1
        self.root = folder / "disk"
        Log.create(self.root, time="time").writer(0).close()
        self.acknowledged = 0  # Rows below this offset must survive.

    def round(self, mode: str, steps: int, failing: set[int]) -> None:
        """Write until the power goes; then check what is left, without and with a writer."""
        syncs = 0

        def meddle(operation: str, arguments: tuple) -> str:
            nonlocal steps, syncs
            steps -= 1
            if steps < 0:
                return BEFORE
            syncs += operation == "sync"
            return ERROR if operation == "sync" and syncs in failing else ""

        disk = FolderDisk(self.root, self.chance)
        with tampered(disk, meddle, lambda: self.boots):
            for _ in range(self.chance.choice([1, 2])):
                # The first may be followed by another before the power goes: what it left unsynced is still to be synced.
                with suppress(CrashError):
                    while not self.written(FsyncPolicy(mode, byte_count=1500)):
                        pass  # A sync failed: opened again, it goes on.
                close_below(self.root)
                steps = self.chance.randrange(80)
            disk.lose_power()
            self.boots += 1
            self.check()

    def written(self, policy: FsyncPolicy) -> bool:
        """Whether nothing failed while one writer did its work."""
        chance = self.chance
        try:
            with Log.open(self.root).writer(0, fsync=policy, segment_bytes=chance.choice([1, 2500, 10**6])) as writer:
                assert writer.end >= self.acknowledged
                for _ in range(chance.randint(1, 6)):
                    at = max(writer.start, writer.end - chance.randrange(4))
                    writer.append(rows(at, chance.choice([1, 2, 30])), at)
                    self.note(writer, policy)
                    if chance.random() < 0.2:
                        writer.retain(offset_min=chance.randrange(writer.end + 1))
                    if chance.random() < 0.1:
                        writer.sync()
                        self.note(writer, policy)
            self.acknowledged = max(self.acknowledged, writer.end)  # Closing makes it safe.
            return True
        except OSError:
            return False

    def note(self, writer, policy: FsyncPolicy) -> None:
        if policy.mode == "never":
            assert writer.acknowledged == writer.end
        self.acknowledged = max(self.acknowledged, writer.durable)

    def check(self) -> None:
        """The machine was started again; before anybody writes, readers see all that is left."""
        reader = Log.open(self.root).reader(0)
        read = list(reader.read())
        check_prefix(read, reader.start, reader.end)
        assert self.acknowledged <= reader.end


@given(
    seed=st.integers(0, 2**32),
    rounds=st.lists(
        st.tuples(
            st.sampled_from(["always", "batch", "never"]),
            st.one_of(st.integers(0, 120), st.just(10**6)),
            st.sets(st.integers(1, 30), max_size=2),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_whatever_a_loss_of_power_leaves_what_was_acknowledged_is_read_in_order_and_nothing_else(seed, rounds):
    with TemporaryDirectory() as folder:
        story = Story(Path(folder), seed)
        for mode, steps, failing in rounds:
            story.round(mode, steps, failing)
        with Log.open(story.root).writer(0) as writer:
            assert writer.end >= story.acknowledged
            writer.append(rows(writer.end, 3))
            end = writer.end
        reader = Log.open(story.root).reader(0)
        check_prefix(list(reader.read()), reader.start, end)
