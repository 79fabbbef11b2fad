"""Rows that wait in the checkpoint until there are enough for a file of their sink.

    gathered/sink/8.3.rows    the rows of batch 8, by owner 3, and which file has those that waited before
    gathered/sink/5.ends      with which batch the file ends that begins with batch 5

What waits is said by directives, as states are: the directive of a batch names the last file of rows, and each names the one
before it. Nobody looks for rows, so those that no directive leads to are litter.

Where a file of the sink ends cannot be said by directives, for whoever stops a stream ends one between two batches. So it is
agreed: the first who creates ``5.ends`` says it, and everybody obeys, whoever he is and however long he has slept. A file of the
sink is made behind the directive of its last batch, and by then nothing about it can change any more: a driver that was replaced
and wakes writes a file that is there, or helps its successor.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.logs import files
from headwater.spark.streaming.errors import missing_part
from headwater.spark.streaming.seals import create_named, read_named, sealed, unsealed
from headwater.spark.streaming.sinks.batch_files import BatchRows
from headwater.spark.streaming.sinks.timeline import SinkError

_ROWS, _ENDS = ".rows", ".ends"


class Gathering(NamedTuple):
    """How rows wait for a sink after a batch, as directives say it.

    ``goes_on``: whether those of the next batch are gathered too, whoever runs it and whatever its sink is told. ``name`` and
    ``hash``: the file of the last that wait, if any do. ``due_ns``: when they have waited for long enough; None: they have.
    """

    goes_on: bool
    name: str = ""
    hash: str = ""
    due_ns: int | None = None

    @property
    def is_due(self) -> bool:
        return bool(self.name) and self.due_ns is None


class _Kept(NamedTuple):
    """What a file of rows holds: the rows, the name and hash of the one before it, and for which folder it is meant."""

    part: BatchRows
    before: tuple[str, str]
    target: str


class Found(NamedTuple):
    """``ended``: the batches of a file that is to be, all of them; ``waiting``: those for which none is yet."""

    ended: list[BatchRows]
    waiting: list[BatchRows]


class GatheredRows:
    """The rows that wait for one sink, as one driver finds and keeps them; ``owner`` is its number."""

    def __init__(self, folder: Path, owner: int = 0) -> None:
        self._folder, self._owner = folder, owner
        self._known: dict[str, _Kept] = {}

    def keep(self, part: BatchRows, before: Gathering | None, target: Path) -> tuple[str, str]:
        """Rows that are to wait behind others; the name and hash of their file, which would survive a loss of power."""
        files.make_folder(self._folder)
        name, named = f"{part.batch}.{self._owner}{_ROWS}", ("", "") if before is None else (before.name, before.hash)
        data = to_bytes([part.planned_ns, table_to_bytes(part.rows), *named, str(target)])
        hash_ = create_named(self._folder / name, data)
        self._known[name] = _Kept(part, named, str(target))
        return name, hash_

    def found(self, said: Gathering | None) -> Found:
        """What a directive leads to, as far as it is not in files yet."""
        while said is not None and said.name:
            first, last = self._last_end()
            try:
                kept = self._chain(said, first, last)
            except FileNotFoundError as error:
                if self._last_end() == (first, last):
                    raise missing_part(Path(error.filename)) from error
                continue  # somebody has made a file of them meanwhile
            ended = [each.part for each in kept if each.part.batch <= last]
            waiting = [each.part for each in kept if each.part.batch > last]
            # Whoever has slept may know of the first batches only.
            return Found(ended if ended and ended[-1].batch == last else [], waiting)
        return Found([], [])

    def waits(self, said: Gathering | None) -> bool:
        """Whether a directive leads to rows that are not in files yet."""
        return any(self.found(said))

    def end(self, waiting: Sequence[BatchRows]) -> None:
        """A file is to be made of these, or of the first of them, if somebody was here before."""
        first = waiting[0].batch
        with suppress(FileExistsError):
            files.create(self._ends(first), sealed({"is_sealed": True, "last": waiting[-1].batch}))
        if self._last_end()[0] > first:
            # It was free because it is over and forgotten.
            files.remove(self._ends(first))

    def forget(self, ended: Sequence[BatchRows]) -> None:
        """These are in a file: remove their rows, and whatever is older."""
        first, last = ended[0].batch, ended[-1].batch
        self._known = {name: kept for name, kept in self._known.items() if kept.part.batch > last}
        for place in self._folder.iterdir():
            # The last end stays: by this one knows that those before it are over.
            if (
                place.suffix == _ROWS
                and _batch(place.name) <= last
                or place.suffix == _ENDS
                and _batch(place.name) < first
            ):
                files.remove(place)

    def check_target(self, said: Gathering | None, target: Path | None) -> None:
        """Refuse another sink while rows wait for a folder."""
        parts = [part for some in self.found(said) for part in some]
        if parts and said is not None and (meant := self._read(said.name, said.hash).target) != str(target):
            raise SinkError(
                f"rows of batches {parts[0].batch} to {parts[-1].batch} are gathered for the folder {meant} and not written there"
                " yet: start the stream with this sink and stop it, and then give the other"
            )

    def _chain(self, said: Gathering, first: int, last: int) -> list[_Kept]:
        """The rows that a directive leads to, oldest first, from those of the last end on."""
        kept: list[_Kept] = []
        name, hash_ = said.name, said.hash
        while name and _batch(name) >= first:
            try:
                (self._folder / name).stat()  # also of those that are in memory
                kept.append(self._read(name, hash_))
            except FileNotFoundError:
                if _batch(name) > last:
                    raise
                # They are removed once their file is there.
                return [each for each in reversed(kept) if each.part.batch > last]
            name, hash_ = kept[-1].before
        return kept[::-1]

    def _read(self, name: str, hash_: str) -> _Kept:
        if name not in self._known:
            planned_ns, rows, *before, target = from_bytes(read_named(self._folder / name, hash_))
            part = BatchRows(_batch(name), planned_ns, table_from_bytes(rows))
            self._known[name] = _Kept(part, (before[0], before[1]), target)
        return self._known[name]

    def _last_end(self) -> tuple[int, int]:
        """The first and the last batch of the last file that was agreed upon; -1 if there was none."""
        while True:
            first = max((_batch(place.name) for place in self._folder.glob(f"*{_ENDS}")), default=-1)
            if first < 0:
                return -1, -1
            with suppress(FileNotFoundError):  # there is a later one by now
                return first, int(unsealed(self._ends(first), self._ends(first).read_bytes())["last"])

    def _ends(self, first: int) -> Path:
        return self._folder / f"{first}{_ENDS}"


def _batch(name: str) -> int:
    return int(name.partition(".")[0])
