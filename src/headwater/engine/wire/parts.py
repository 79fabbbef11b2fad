"""What travels from leaves to the root inside a delta: partials of slices, and events where nothing else will do.

A part says of itself which family of queries it is for and how it may be merged, so that a relay needs to know no query. Keys are
listed once for each part; rows name them by their place in that list. Sources are named by their chain and their number in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Int32Array, Int64Array
from headwater.engine.intake.chunk import Values
from headwater.engine.intake.columns import read_values
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import PartialColumn

#: The family of events that travel once for all queries that need them as they are.
ALL_RAW = -1


@dataclass(slots=True)
class RowsPart:
    """Partials of slices and keys: row i belongs to key ``key[i]`` of ``key_columns`` and begins at ``slices[i]``.

    With sessions (``gap``, the smallest of them) a row is a chain of events from ``first`` to ``last``. ``cut``: the rows were
    cut where the root said, and belong to that cut.
    """

    family: int
    key_columns: list[pa.Array]
    key: Int64Array
    slices: Int64Array
    partials: Mapping[Op, PartialColumn]
    gap: int | None = None
    first: Int64Array | None = None
    last: Int64Array | None = None
    cut: bool = False


@dataclass(slots=True)
class EventsPart:
    """Events as themselves: of one chain, with their places of birth and the watermark of their source just before each.

    ``columns`` are those that queries read; ``misfits``: per column the events whose value is of a wrong type.
    """

    family: int
    chain: str
    times: Int64Array
    offsets: Int64Array
    sources: Int64Array
    watermarks: Int64Array
    columns: dict[str, pa.Array]
    misfits: dict[str, list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class LatePart:
    """Events that came when some window with their time was over already: each goes to exactly the windows that have it."""

    family: int
    chain: str
    key_columns: list[pa.Array]
    key: Int64Array
    times: Int64Array
    offsets: Int64Array
    sources: Int64Array
    watermarks: Int64Array
    columns: dict[str, pa.Array]


@dataclass(slots=True)
class MarkersPart:
    """Events that can open or end windows: their places in the order, their keys, and which conditions they match."""

    family: int
    chain: str
    key_columns: list[pa.Array]
    key: Int64Array
    times: Int64Array
    offsets: Int64Array
    sources: Int64Array
    conditions: list[BoolArray]


#: Of events: first or last keys of pieces, or all of them; rows are times, sources by number in their chain, offsets.
KeyRows = Int64Array
#: The rows of a head: the place of its chain, and what else `PiecesPart` says of it.
HEAD_CHAIN, HEAD_UNTIL, HEAD_LATEST, HEAD_IS_ALL, HEAD_ANSWERS = range(5)


@dataclass(slots=True)
class RawRuns:
    """Events as themselves, in runs that are in order: ``sizes`` of runs, ``places`` and keys of events, and their values."""

    sizes: Int64Array
    places: KeyRows
    key: Int64Array
    columns: dict[str, pa.Array]
    head: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(slots=True)
class PiecesPart:
    """Pieces of chains' events for count windows: stretches of their order with their partials, or runs of raw events.

    Piece i holds ``sizes[i]`` events from key ``first[:, i]`` to ``last[:, i]``; row j of the partials belongs to ``piece[j]``.
    Pieces and runs come under ``heads``, a column each: of which chain; events before the time *until* are in pieces by now, and
    (*is all*) all others that were taken in too; the *latest* time of those; and the number of the piece that these *answer*, for
    they are instead of it, -1 if they are news. So the parts of several leaves can be one.
    """

    family: int
    chains: tuple[str, ...]
    heads: Int64Array
    head: Int64Array
    sizes: Int64Array
    first: KeyRows
    last: KeyRows
    piece: Int64Array
    key_columns: list[pa.Array]
    key: Int64Array
    partials: Mapping[Op, PartialColumn]
    raw: RawRuns | None = None

    @classmethod
    def of(
        cls, family: int, chain: str, until: int, latest: int, is_all: bool, answers: int, sizes: Int64Array,
        first: KeyRows, last: KeyRows, piece: Int64Array, key_columns: list[pa.Array], key: Int64Array,
        partials: Mapping[Op, PartialColumn], raw: RawRuns | None = None,
    ) -> PiecesPart:  # fmt: skip
        """The pieces of one chain, under one head."""
        heads = np.array([[0], [until], [latest], [is_all], [answers]], np.int64)
        if raw is not None:
            raw.head = np.zeros(len(raw.sizes), np.int64)
        head = np.zeros(len(sizes), np.int64)
        return cls(family, (chain,), heads, head, sizes, first, last, piece, key_columns, key, partials, raw)

    @property
    def event_counts(self) -> Int64Array:
        """How many events come under each head."""
        count = self.heads.shape[1]
        counts = np.zeros(count, np.int64)
        np.add.at(counts, self.head, self.sizes)
        if self.raw is not None:
            np.add.at(counts, self.raw.head, self.raw.sizes)
        return counts


@dataclass(slots=True)
class AccountsPart:
    """How many events were seen: rows (family, seen, filtered, early, malformed), and those without a usable time."""

    rows: Int64Array
    timeless: int = 0
    malformed: int = 0


@dataclass(slots=True)
class AsidePart:
    """Events that were too late for a query or malformed, for the side output."""

    rows: pa.Table


@dataclass(slots=True)
class KeyedTimes:
    """Times at which keys are cut: row i is a time of key ``key[i]`` of ``key_columns``."""

    key_columns: list[pa.Array]
    key: Int64Array
    times: Int64Array


Part = RowsPart | EventsPart | LatePart | MarkersPart | PiecesPart | AccountsPart | AsidePart


def chains_of(part: Part) -> Set[str]:
    """The chains that a part names: those whose events it has."""
    match part:
        case EventsPart() | LatePart() | MarkersPart():
            return {part.chain}
        case PiecesPart():
            return set(part.chains)
    return frozenset()


def key_count(columns: Sequence[pa.Array]) -> int:
    """How many keys are listed; without key columns there is one that is the same for all."""
    return len(columns[0]) if columns else 1


def listed_keys(columns: Sequence[pa.Array], key: Int32Array) -> tuple[list[pa.Array], Int64Array]:
    """Only the keys that occur, and for each row the place of its key among them.

    >>> columns, places = listed_keys([pa.array(["a", "b", "c"])], np.array([2, 0, 2], np.int32))
    >>> columns[0].to_pylist(), places
    (['a', 'c'], array([1, 0, 1]))
    """
    if not columns:
        return [], np.zeros(len(key), np.int64)
    count = len(columns[0])
    used = np.zeros(count, np.bool_)
    used[key] = True
    if used.all():
        return list(columns), key.astype(np.int64)
    chosen = np.flatnonzero(used)
    place = np.cumsum(used) - 1
    return [column.take(pa.array(chosen)) for column in columns], place[key]


def arrow_values(values: Values) -> pa.Array:
    """A column of a chunk as Arrow: numbers as they are kept, everything else in its own type."""
    mask = None if values.valid is None else ~values.valid
    if values.data.dtype == object:
        return pa.array(values.data.tolist(), values.type, mask=mask)
    return pa.array(values.data, mask=mask)


def values_of(array: pa.Array, type_: pa.DataType) -> Values:
    """The column that `arrow_values` wrote; ``type_``: that of the column in events."""
    values = read_values(array)
    is_number = pa.types.is_int64(array.type) or pa.types.is_float64(array.type)
    return Values(values.data, values.valid, type_) if is_number else values
