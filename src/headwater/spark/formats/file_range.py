"""What a task is given to read (`FileRange`, `Wanted`), what readers give back, and what describes a format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from headwater.spark.batch.pruning import Pruning
    from headwater.spark.formats.text import TextLines

#: Events of one batch: enough to forget what a batch costs, few enough for the cache.
BATCH_EVENTS = 1 << 20


@dataclass(frozen=True, slots=True)
class FileRange:
    """One source, or a stretch of one: the events of some files, one file after the other.

    ``source`` names it among all, ``home`` is the node it belongs to; its first event has the offset ``base`` in its source.
    ``groups``: only the row groups [first, last) of a Parquet file. ``size`` in bytes says how much work it is. ``root``: below
    it the names of folders say columns.
    """

    source: str
    home: str
    places: tuple[str, ...]
    size: int
    groups: tuple[int, int] | None = None
    base: int = 0
    root: str | None = None

    @property
    def origin(self) -> str:
        """The source it is of: stretches have numbers behind a zero byte."""
        return self.source.partition("\0")[0]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a file: ``columns`` of the types in ``schema``.

    ``strict``: text that does not hold them is an error. ``pruning``: which events are wanted at all. ``root``: below it the
    names of folders say columns.
    """

    columns: Sequence[str]
    schema: pa.Schema
    strict: bool = False
    pruning: Pruning | None = None
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Passed:
    """The next ``count`` events, which were not read: no query wants any of them. Their times are in [low, high].

    Without times: at these offsets there are no events.
    """

    count: int
    low: int | None = None
    high: int | None = None


Batches: TypeAlias = Iterator["pa.RecordBatch | Passed"]


@dataclass(frozen=True, slots=True)
class Format:
    """How files of one kind are known by their names, and read.

    ``schema``: the columns of a file, None if it is so empty that it does not say. ``parts``: the rows of each part that can be
    read alone, where a file tells it cheaply; ``read`` takes a range of them. ``has_types``: whether files say of which types
    their columns are. ``lines``: how text is read. ``stores_arrivals``: whether ``read`` gives the column `ARRIVAL` by itself.
    """

    suffixes: tuple[str, ...]
    schema: Callable[[str], pa.Schema | None]
    read: Callable[[str, Wanted, tuple[int, int] | None], Batches]
    parts: Callable[[str], list[int]] | None = None
    has_types: bool = False
    lines: type[TextLines] | None = None
    stores_arrivals: bool = False


def sentence(error: Exception) -> str:
    """The message of another library's error, in one line."""
    return " ".join(str(error).split())


def present(columns: Sequence[str], schema: pa.Schema) -> list[str]:
    """Those of the columns that a file has; the caller says which are missing."""
    return [name for name in columns if name in schema.names]
