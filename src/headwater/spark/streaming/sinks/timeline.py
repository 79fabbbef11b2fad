"""Whose rows a sink gets, and in which of a stream's pasts they were written.

A stream begins a *life* each time it is started: a random id, and the first batch that it may run. The checkpoint keeps them, in
order, and a sink remembers the life that wrote it last. As with terms in Raft, the life and the number of the last batch say
whether a sink's past is the checkpoint's own: after an older checkpoint was restored, the sink holds batches that its lives have
not written, and is refused.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.language.query import Query
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


def _no_query(name: str) -> Query:
    raise KeyError(name)


def _no_session() -> Any:
    return None


def _no_columns(query: str | None) -> pa.Schema:
    return pa.schema([])


def _nothing_done() -> int:
    return -1


@dataclass(frozen=True)
class Claimant:
    """The stream that is to write to a sink. ``stream``: its identity; that of its side output is another.

    ``lives``: oldest first; the last is the present one. ``row_counts``: how many rows batches had, as far as the checkpoint
    knows. ``done``: the last batch that is done. ``waiting``: where rows wait that are gathered for the sink. ``query_of``: a
    query that has rows in the batch that is being written. ``born_ms``: nothing of this stream is older. ``session``: Spark's,
    for the batch that is being written. ``columns``: those of the rows to come, of one query or of all. ``only``: the query
    whose rows it gets; None if they are of several, and say themselves of which.
    """

    stream: str
    lives: Sequence[Life] = (Life(0, ""),)
    row_counts: Mapping[int, int] = field(default_factory=dict)
    done: Callable[[], int] = _nothing_done
    waiting: Path | None = None
    query_of: Callable[[str], Query] = _no_query
    born_ms: int = 0
    session: Callable[[], Any] = _no_session
    columns: Callable[[str | None], pa.Schema] = _no_columns
    only: str | None = None

    @property
    def life(self) -> str:
        return self.lives[-1].id

    @property
    def next_batch(self) -> int:
        """The batch with which it goes on. It may be in a sink already, if it was not finished."""
        return self.lives[-1].first

    def keys_of(self, query: str) -> Sequence[str]:
        """The key columns of a query that has rows in the batch that is being written."""
        return self.query_of(query).keys

    def part(self, query: str | None) -> Claimant:
        """The same stream, for a sink that gets the rows of one query, or of all that have no sink of their own.

        >>> whole = Claimant("s", waiting=Path("gathered/sink"))
        >>> whole.part(None).stream, whole.part("load").stream, whole.part("load").waiting.name
        ('s-rest', 's-0cf67fc72b3c', 'sink-0cf67fc72b3c')
        """
        # By a hash: a query may be called anything, and this becomes the name of a file.
        tag = "rest" if query is None else hashlib.sha256(query.encode()).hexdigest()[:12]
        waiting = None if self.waiting is None else self.waiting.with_name(f"{self.waiting.name}-{tag}")
        return replace(self, stream=f"{self.stream}-{tag}", row_counts={}, waiting=waiting, only=query)

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


def begin_life(checkpoint: Path, next_batch: int, id: str) -> list[Life]:
    """Note in a checkpoint that the stream is started once more; all its lives."""
    folder = checkpoint / _FOLDER
    files.make_folder(folder)
    # The name says everything, so that it is there at once and whole.
    known = sorted(name for name in os.listdir(folder) if name.count("-") == 2)
    number = int(known[-1].split("-")[0]) + 1 if known else 0
    name = f"{number:09d}-{next_batch}-{id}"
    os.close(files.make(folder / name))
    for old in known[:-LIVES_KEPT]:
        files.remove(folder / old)
    files.sync_directory(folder)
    return [Life(int(first), id) for _, first, id in (each.split("-") for each in [*known[-LIVES_KEPT:], name])]
