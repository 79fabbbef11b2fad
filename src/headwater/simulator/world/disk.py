"""A disk: files that are appended to, synced, renamed and removed, and what a crash leaves of them.

A process reads what it wrote. Of what it did not sync, a crash keeps any part: sectors of a file, and names of the folder,
each for itself and in no order. So whatever is told to others before it is synced may never have been.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

#: What is kept of unsynced bytes, or lost, in one piece.
SECTOR_BYTES = 64


class DiskError(Exception):
    """The machine cannot go on: its disk did not do what it was asked for. ``fault`` is what was wrong with it."""

    fault = ""


class PowerLostError(DiskError):
    """The machine lost its power in the middle of its work on the disk."""

    fault = "torn"


class DiskFullError(DiskError):
    """There is no room for what was to be written."""

    fault = "full"


@dataclass(slots=True)
class File:
    """The bytes of a file as processes read them; those below ``synced`` survive a crash."""

    data: bytearray = field(default_factory=bytearray)
    synced: int = 0

    def lose(self, dice: Random) -> bool:
        """Keep any part of what was not synced, zeros between; returns whether something is lost."""
        if self.synced == len(self.data):
            return False
        share = dice.choice([0.0, 0.5, 1.0])
        kept = bytearray(self.data[: self.synced])
        for start in range(self.synced, len(self.data), SECTOR_BYTES):
            if dice.random() < share:
                kept.extend(bytes(start - len(kept)))
                kept += self.data[start : start + SECTOR_BYTES]
        is_less = kept != self.data
        self.data, self.synced = kept, len(kept)
        return is_less


@dataclass(slots=True)
class Disk:
    """One folder of files, and what is wrong with it: full, slow, about to lose its power.

    >>> disk = Disk()
    >>> disk.append("a", b"old"); disk.sync("a"); disk.sync_folder(); disk.append("a", b", new")
    >>> disk.lose(Random(1)), bytes(disk.files["a"].data)
    (True, b'old')
    """

    files: dict[str, File] = field(default_factory=dict)
    #: Whether nothing more can be written, and how long a sync takes.
    is_full: bool = False
    delay_ns: int = 0
    #: After how many more steps on the disk the power is lost; None: never.
    steps_left: int | None = None
    #: The folder as a crash leaves it for certain, and what was done to it since: a name and its file, or None.
    _kept: dict[str, File] = field(default_factory=dict)
    _unsynced: list[tuple[str, File | None]] = field(default_factory=list)
    #: Which bits have changed: the file, the byte and the bit.
    _flips: list[tuple[str, int, int]] = field(default_factory=list)

    def append(self, name: str, data: bytes) -> None:
        """Write behind everything that is in a file; one that is not there begins."""
        file = self.files.get(name)
        if file is None:
            file = self.files[name] = File()
            self._unsynced.append((name, file))
        if self.is_full:
            file.data += data[: len(data) // 2]
            raise DiskFullError(f"no room for {len(data)} bytes of {name}")
        file.data += data
        self._step()

    def sync(self, name: str) -> None:
        """From now on what is in a file survives a crash, if its name does."""
        self._step()
        file = self.files[name]
        file.synced = len(file.data)

    def sync_folder(self) -> None:
        """From now on the names survive a crash."""
        self._step()
        self._kept = dict(self.files)
        self._unsynced.clear()

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, at once; what had that name is gone."""
        self.files[new] = file = self.files.pop(old)
        self._unsynced += [(new, file), (old, None)]
        self._step()

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self.files.pop(name, None) is not None:
            self._unsynced.append((name, None))
            self._step()

    def lose(self, dice: Random) -> bool:
        """The machine crashes: any part of what was not synced is kept. Returns whether something is lost."""
        is_less = False
        for name, file in self._unsynced:
            if dice.random() < 0.5:
                is_less = True
            elif file is not None:
                self._kept[name] = file
            else:
                self._kept.pop(name, None)
        self._unsynced.clear()
        self.files = dict(self._kept)
        self.steps_left = None
        for file in self.files.values():
            is_less |= file.lose(dice)
        return is_less

    def flip(self, name: str, dice: Random, below: int | None = None) -> None:
        """One bit of a file, or of what lies below a byte of it, is another from now on."""
        data = self.files[name].data
        at, bit = dice.randrange(len(data) if below is None else below), 1 << dice.randrange(8)
        data[at] ^= bit
        self._flips.append((name, at, bit))

    def restore(self) -> None:
        """Somebody brings a copy of the files in which no bit has changed."""
        for name, at, bit in self._flips:
            if name in self.files:
                self.files[name].data[at] ^= bit
        self._flips.clear()

    def mend(self) -> None:
        """Nothing is wrong with it any more."""
        self.is_full, self.delay_ns, self.steps_left = False, 0, None

    def _step(self) -> None:
        if self.steps_left is None:
            return
        if self.steps_left == 0:
            raise PowerLostError("the power is gone")
        self.steps_left -= 1
