"""States of a root: snapshots, and what was recorded since, as files that only the driver who wrote them knows the names of.

A file is named by its batch and by the owner who wrote it, ``8.3.part``, and is never changed. Nobody looks for one: the
directive of a batch names its state by file and hash, and each part names the state that it goes on from, so a file that no
directive leads to is litter, whoever wrote it and whenever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import FormatError
from headwater.logs import files
from headwater.spark.streaming.errors import CheckpointError, missing_part


class StateRef(NamedTuple):
    """The state after a batch, as directives name it: its file, the hash of what it holds, of which batch its snapshot is.

    States of releases without owners have no hash.
    """

    name: str
    hash: str
    since: int

    @property
    def is_snapshot(self) -> bool:
        return self.name.endswith(".full")

    @property
    def batch(self) -> int:
        return int(self.name.partition(".")[0])


@dataclass(frozen=True, slots=True)
class Saved:
    """The root after a batch: its last snapshot, and what was recorded since. ``since``: of which batch the snapshot is."""

    since: int
    snapshot: bytes
    records: tuple[bytes, ...]


class StateFolder:
    """The states of one root."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write_snapshot(self, batch: int, owner: int, snapshot: bytes) -> StateRef:
        return self._write(f"{batch}.{owner}.full", snapshot, batch)

    def write_records(self, batch: int, owner: int, before: StateRef, records: Sequence[bytes]) -> StateRef:
        """What happened in a batch to the state ``before`` it."""
        data = to_bytes([before.since, list(records), list(before)])
        return self._write(f"{batch}.{owner}.part", data, before.since)

    def _write(self, name: str, data: bytes, since: int) -> StateRef:
        place = self.path / name
        try:
            files.create(place, data)
        except FileExistsError:
            # Another attempt of the same task was here first; both compute the same.
            if place.read_bytes() != data:
                raise CheckpointError(f"{place}: two attempts of one batch left different states") from None
            files.sync_directory(place.parent)  # the other may have died before it did
        except FileNotFoundError as error:
            raise missing_part(place.parent) from error
        return StateRef(name, _hash(data), since)

    def saved(self, state: StateRef) -> Saved:
        """The root as a state has it."""
        records: list[bytes] = []
        while not state.is_snapshot:
            # The state that a part goes on from stands in it; before there were owners, its name followed from the number.
            _, some, *before = self._part(state)
            records[:0] = some
            state = StateRef(*before[0]) if before else self.former(state.batch - 1)
        return Saved(state.batch, self._read(state), tuple(records))

    def former(self, batch: int) -> StateRef:
        """The state after a batch as releases without owners have named it."""
        name = f"{batch}.full"
        return StateRef(name if (self.path / name).exists() else f"{batch}.part", "", -1)

    def forget(self, before: int) -> None:
        """Remove the states of batches before this one, whoever wrote them."""
        for place in sorted(self.path.iterdir()):
            batch = place.name.partition(".")[0]
            if batch.lstrip("-").isdigit() and int(batch) < before:
                files.remove(place)

    def _part(self, state: StateRef) -> list[Any]:
        try:
            part: list[Any] = from_bytes(self._read(state))
        except FormatError as error:
            raise CheckpointError(f"{self.path / state.name}: {error}") from error
        return part

    def _read(self, state: StateRef) -> bytes:
        place = self.path / state.name
        try:
            data = place.read_bytes()
        except FileNotFoundError as error:
            raise missing_part(place) from error
        if state.hash and _hash(data) != state.hash:
            raise CheckpointError(
                f"{place}: this state is damaged: it is not the one that the checkpoint names; restore the checkpoint, or begin"
                " anew with another folder"
            )
        return data


def sweep(folder: Path) -> None:
    """Remove what drivers and tasks that died have left unfinished."""
    for place in sorted(folder.glob(f".*{files.UNFINISHED}")):
        files.remove(place)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
