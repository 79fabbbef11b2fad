"""Whose rows a sink gets, and in which of a stream's pasts they were written.

A stream begins a *life* each time it is started: a random id, and the first batch that it may run. The checkpoint keeps them, in
order, and a sink remembers the life that wrote it last. As with terms in Raft, the life and the number of the last batch say
whether a sink's past is the checkpoint's own: after an older checkpoint was restored, the sink holds batches that its lives have
not written, and is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from headwater.errors import HeadwaterError
from headwater.logs import files

#: How many lives a checkpoint remembers: a sink that has not been used for longer is not known any more.
LIVES_KEPT = 1000
_FOLDER = "lives"


class SinkError(HeadwaterError):
    """A sink that does not belong to the stream that would write to it; the message says what else to do."""


def other_rows(place: Path, batch: int, what: str, way_out: str) -> SinkError:
    """A batch that a sink holds came again, and was another."""
    return SinkError(
        f"{place}: batch {batch} is here with other rows ({what}): an older checkpoint was restored, or another stream wrote"
        f" them; go on with the newest checkpoint, or {way_out}"
    )


class Life(NamedTuple):
    """One start of a stream: the first batch that it may run, and a name that no other has."""

    first: int
    id: str


def _no_keys(query: str) -> Sequence[str]:
    return ()


def _nothing_done() -> int:
    return -1


@dataclass(frozen=True)
class Claimant:
    """The stream that is to write to a sink. ``stream``: its identity; that of its side output is another.

    ``lives``: oldest first; the last is the present one. ``row_counts``: how many rows batches had, as far as the checkpoint
    knows. ``done``: the last batch that is done. ``waiting``: where rows wait that are gathered for the sink. ``keys_of``: the
    key columns of a query. ``born_ms``: nothing of this stream is older.
    """

    stream: str
    lives: Sequence[Life] = (Life(0, ""),)
    row_counts: Mapping[int, int] = field(default_factory=dict)
    done: Callable[[], int] = _nothing_done
    waiting: Path | None = None
    keys_of: Callable[[str], Sequence[str]] = _no_keys
    born_ms: int = 0

    @property
    def life(self) -> str:
        return self.lives[-1].id

    @property
    def next_batch(self) -> int:
        """The batch with which it goes on. It may be in a sink already, if it was not finished."""
        return self.lives[-1].first

    def wrote(self, life: str, last: int) -> bool:
        """Whether what a life wrote up to this batch is part of this stream's past.

        >>> stream = Claimant("s", [Life(0, "a"), Life(6, "b")])
        >>> stream.wrote("a", 6), stream.wrote("a", 7), stream.wrote("b", 9), stream.wrote("c", 0)
        (True, False, True, False)
        """
        for each, following in zip_longest(self.lives, self.lives[1:]):
            if each.id == life:
                # The first batch of the next life may have been written, and not finished, before.
                return following is None or last <= following.first
        return False

    def may_adopt(self, counts: Mapping[int, int]) -> bool:
        """Whether rows that nobody has signed can be of this stream; ``counts``: how many some batches have."""
        return all(self.row_counts.get(batch, count) == count for batch, count in counts.items())


def begin_life(checkpoint: Path, owner: int, next_batch: int, id: str) -> list[Life]:
    """Note in a checkpoint that the stream is started once more, by this owner; all its lives up to this one.

    They are in the order of their owners: one that was paused while it started, and wakes when others have long written, is not
    the newest.
    """
    folder = checkpoint / _FOLDER
    files.make_folder(folder)
    # The name says everything, so that it is there at once and whole.
    known = sorted(name for name in os.listdir(folder) if name.count("-") == 2)
    name = f"{owner:09d}-{next_batch}-{id}"
    known = [each for each in known if each < name]
    os.close(files.make(folder / name))
    for old in known[:-LIVES_KEPT]:
        files.remove(folder / old)
    files.sync_directory(folder)
    return [Life(int(first), id) for _, first, id in (each.split("-") for each in [*known[-LIVES_KEPT:], name])]
