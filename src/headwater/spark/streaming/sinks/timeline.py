"""Whose rows a sink gets, and in which of a stream's pasts they were written.

A stream begins a *life* each time it is started: a random id, and the first batch that it may run. The checkpoint keeps them, in
order, and a sink remembers the life that wrote it last. As with terms in Raft, the life and the number of the last batch say
whether a sink's past is the checkpoint's own: after an older checkpoint was restored, the sink holds batches that its lives have
not written, and is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.language.query import Query
from headwater.logs import files

if TYPE_CHECKING:
    from headwater.spark.streaming.sinks.gathered import GatheredRows

#: How many lives a checkpoint remembers: a sink that has not been used for longer is not known any more.
LIVES_KEPT = 1000
_FOLDER = "lives"


class SinkError(HeadwaterError):
    """A sink that does not belong to the stream that would write to it; the message says what else to do."""


class OtherStreamError(SinkError):
    """The rows of another stream are there: nobody knows yet whether these two belong together."""


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


def _runs() -> None:
    """Nobody has taken over."""


@dataclass(frozen=True)
class Claimant:
    """The stream that is to write to a sink. ``stream``: its identity; that of its side output is another.

    ``lives``: oldest first; the last is the present one. ``row_counts``: how many rows batches had, as far as the checkpoint
    knows. ``gathered``: rows that wait for the sink. ``query_of``: a query that has rows in the batch that is being written.
    ``born_ms``: nothing of this stream is older. ``check``: raises an error once another driver runs the stream. ``session``:
    Spark's, for the batch that is being written. ``columns``: those of the rows to come, of one query or of all. ``only``: the
    query whose rows it gets; None if they are of several, and say themselves of which.
    """

    stream: str
    lives: Sequence[Life] = (Life(0, ""),)
    row_counts: Mapping[int, int] = field(default_factory=dict)
    gathered: GatheredRows | None = None
    query_of: Callable[[str], Query] = _no_query
    born_ms: int = 0
    check: Callable[[], None] = _runs
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

    def part(self, tag: str, only: str | None) -> Claimant:
        """The same stream, for a sink that gets the rows of one query, or of all that have no sink of their own.

        >>> Claimant("s").part("rest", None).stream
        's-rest'
        """
        return replace(self, stream=f"{self.stream}-{tag}", row_counts={}, only=only)

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

    def age(self, life: str) -> int:
        """Which of the lives it is, oldest first; one that is not known is taken for a later one."""
        ids = [each.id for each in self.lives]
        return ids.index(life) if life in ids else len(ids)

    def follows(self, life: str) -> bool:
        """Whether the present life is known to have begun later."""
        return self.age(life) < len(self.lives) - 1

    def may_adopt(self, counts: Mapping[int, int]) -> bool:
        """Whether rows that nobody has signed can be of this stream; ``counts``: how many some batches have."""
        return all(self.row_counts.get(batch, count) == count for batch, count in counts.items())


def begin_life(checkpoint: Path, owner: int, next_batch: int, id: str) -> list[Life]:
    """Note in a checkpoint that its driver ``owner`` starts the stream once more; all lives up to this one.

    The owner's number is that of the life: whoever sleeps in here does not come in behind those that have begun since.
    """
    folder = checkpoint / _FOLDER
    files.make_folder(folder)
    # The name says everything, so that it is there at once and whole.
    name = f"{owner:09d}-{next_batch}-{id}"
    os.close(files.make(folder / name))
    *known, _ = sorted(each for each in os.listdir(folder) if each.count("-") == 2 and each <= name)
    for old in known[:-LIVES_KEPT]:
        files.remove(folder / old)
    files.sync_directory(folder)
    return [Life(int(first), id) for _, first, id in (each.split("-") for each in [*known[-LIVES_KEPT:], name])]
