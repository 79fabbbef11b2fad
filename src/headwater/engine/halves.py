"""What the halves of an engine over a tree ask of a group, and how one that shares slices answers.

A leaf has a `LeafGroup` for each family: events go in, parts of deltas come out. The root has a `SlicedRootGroup` for the same
family: it says whether a part fits, takes it in, and closes windows. Here stand the groups of windows whose edges are known ahead
and of sessions; those of windows that markers or counts cut are made of them (`tree.marker_cuts`, `counting`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int32Array, Int64Array, frozen
from headwater.base.arrow import plain_type
from headwater.base.source_numbers import Resolve
from headwater.engine.groups.shared import KEYS_KEPT, QueryGroup
from headwater.engine.groups.windows import columns_read
from headwater.engine.intake.chunk import Chunk, Values, blank
from headwater.engine.intake.columns import Events, read_values
from headwater.engine.intake.keys import is_node_key
from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import MISFIT, joined_kinds, lift, traits
from headwater.engine.operators.user import UserColumn
from headwater.engine.slices.edges import EARLIEST, LATEST
from headwater.engine.slices.slicer import slice_bounds
from headwater.engine.slices.store import RowBlock
from headwater.engine.slices.stretches import Lifted, Stretches
from headwater.engine.windows.late import Stragglers
from headwater.engine.wire import parts
from headwater.engine.wire.parts import EventsPart, LatePart, MarkersPart, Part, PiecesPart, RowsPart
from headwater.language.expressions import Expr
from headwater.language.schemas import type_kind
from headwater.language.times import NEVER

Types = Mapping[str, pa.DataType]
#: No row has more events than this: sums of them stay within 64 bits.
COUNT_MAX = 1 << 48
#: A part of one family of queries, which its group takes in; all others are the root's own affair.
GroupPart = RowsPart | LatePart | MarkersPart | PiecesPart


class LeafGroup(QueryGroup):
    """Cuts events into slices and gives their partials; nothing is ever closed here."""

    #: Whether events are kept until the root has said where windows end. Some of those are read again after a fall, and they
    #: never travel as themselves.
    holds_events: ClassVar[bool] = False
    #: Whether what comes now was accepted before.
    known_already = False

    def take(self, number: int, chain: str) -> list[Part]:
        """Take out what was gathered: stragglers, and a row for each slice and key (of sessions: for each unbroken run)."""
        taken: list[Part] = [self._late_part(number, chain)] if len(self.stragglers) else []
        block = self.take_block()
        if block is not None:
            starts, _ = self.windows.edges.slices(block.first)
            slices = starts[np.searchsorted(starts, block.first, side="right") - 1]
            columns, key = parts.listed_keys(self.keys.columns(), block.key)
            gap = self.windows.gap
            first, last = (None, None) if gap is None else (block.first, block.last)
            taken.append(RowsPart(number, columns, key, slices, block.partials, gap, first, last))
            self.forget_unused_keys()
        return taken

    def accept_in_stretches(self, events: Events, ends: Sequence[int]) -> Iterator[None]:
        """Take in events in order of time, none of them late; stops behind each of ``ends``, and behind all: what is taken then
        is of the events so far."""
        stops = [*ends, len(events)]
        lifted = self._lifted_stretches(events, ends)
        if lifted is None:
            for begin, end in zip([0, *ends], stops):
                if end > begin:
                    self.accept(events.stretch(begin, end))
                yield
            return
        for begin, end, one in zip([0, *ends], stops, lifted):
            self.accounts.totals.seen += end - begin
            if end > begin:
                self.add_lifted(*one)
            yield

    def _lifted_stretches(self, events: Events, ends: Sequence[int]) -> list[Lifted] | None:
        """What the stretches add, lifted all at once; None where that is not simple."""
        is_cut_by_time = self.windows.gap is None and not self.in_order
        if not is_cut_by_time or self.where is not None or self.begin > NEVER or len(self.keys) > KEYS_KEPT:
            return None
        chunk, scan = events.chunk.select(columns_read(self.ops)), events.scan
        slices = self.windows.edges.slices_between(scan.low, scan.high, chunk.times)
        stretches = Stretches.of(slices[0], slice_bounds(frozen(chunk.times, np.int64), slices[0]), ends)
        numbers = stretches.numbers
        arrays = [events.arrays[name] for name in self.key_names]
        lifted = self.lift_sorted(chunk, arrays, (numbers, numbers), stretches.bounds)
        # Taking what is there may forget keys if there are many of them, and what waits to be added would have wrong ones.
        if lifted is None or len(self.keys) > KEYS_KEPT:
            return None
        self.work.entered(self.windows.slices_of_windows(slices[0]))
        return stretches.divided(lifted)

    def _late_part(self, number: int, chain: str) -> LatePart:
        stragglers, self.stragglers = self.stragglers, Stragglers()
        chunk = stragglers.chunk
        columns, key = parts.listed_keys(self.keys.columns(), stragglers.keys)
        values = {name: parts.arrow_values(column) for name, column in chunk.columns.items()}
        sources = chunk.source_ids.astype(np.int64)
        return LatePart(number, chain, columns, key, chunk.times, chunk.offsets, sources, stragglers.watermarks, values)

    def pass_over(self, count: int) -> None:
        """Count events that no query wants, for the condition or for the place of the windows."""
        is_filtered = self.where is not None
        self.count(count, count if is_filtered else 0, 0 if is_filtered else count)

    def reread(self, events: Events, cut_time: int) -> None:
        """Events that were accepted before come once more; ``cut_time``: up to there they were cut where the root said."""
        if not self.holds_events:
            return
        # The accounts of these events were given when they came first.
        totals, stragglers = self.accounts.take(), self.stragglers
        self.stragglers, self.known_already = Stragglers(), True
        self.accept(events)
        self.accounts.totals, self.stragglers, self.known_already = totals, stragglers, False

    def held_below(self, watermark: int) -> int:
        """How many events wait although nothing of this leaf can come before them."""
        return sum(int(np.searchsorted(part.chunk.times, watermark)) for part in self.buffer.parts)


class SlicedRootGroup(QueryGroup):
    """Puts rows of leaves beside each other and closes windows over them.

    ``names``: of all sources by number, the list of the node that accepts deltas.
    """

    #: Whether rows are cut where the root said.
    is_cut: ClassVar[bool] = False

    def __init__(self, keys: tuple[str, ...], where: Expr | None, begin: int = NEVER) -> None:
        super().__init__(keys, where, begin)
        self.names: list[str] = []

    def problem(self, part: GroupPart, types: Types, resolve: Resolve) -> str | None:
        """What is wrong with a part, None if nothing is. Asked before a delta is accepted: afterwards it is too late."""
        if isinstance(part, PiecesPart):
            return "pieces came for a query that needs something else"
        problem = self.keys_problem(part, types)
        if isinstance(part, RowsPart):
            if part.cut != self.is_cut or (self.windows.gap is not None and part.last is None):
                problem = problem or "rows were cut in another way than the queries need"
            # Rows that the root has cut begin at its word, which may be the beginning of time.
            places = [] if part.cut else [part.slices, *(each for each in (part.first, part.last) if each is not None)]
            return problem or times_problem(*places) or self.partials_problem(part, types)
        problem = problem or sources_problem(part, resolve) or places_problem(part)
        if isinstance(part, LatePart):
            return problem or self.columns_problem(part.columns, types, "late")
        is_right = self.is_cut and len(part.conditions) == len(self.windows.conditions)
        return problem or (None if is_right else "markers of other windows came")

    def keys_problem(self, part: GroupPart, types: Types) -> str | None:
        found, names = [plain_type(column.type) for column in part.key_columns], self.key_names
        right = [pa.string() if is_node_key(name) else plain_type(types[name]) for name in names]
        return None if found == right else f"keys are {', '.join(names) or 'none'}, and others came"

    def columns_problem(self, columns: Mapping[str, pa.Array], types: Types, kind: str) -> str | None:
        """What is wrong with the columns of events that came as themselves: operators need their values."""
        needed = {name: _kept_type(types[name]) for name in columns_read(self.ops)}
        # What only other queries read may be among them: leaves do not know that the root has divided a family.
        if needed.items() <= {name: column.type for name, column in columns.items()}.items():
            return None
        return f"{kind} events need the columns {', '.join(sorted(needed)) or 'none'}, in the types they are kept in"

    def partials_problem(self, part: RowsPart | PiecesPart, types: Types) -> str | None:
        """What is wrong with partials: rows of all leaves are combined, and only what is alike can be."""
        for op in self.ops:
            column = part.partials.get(op)
            if column is None:
                return "partials of some operators are missing"
            read = tuple(types.get(name, pa.float64()) for name in op.columns)
            found, right = traits(column), _right_traits(op, read)
            if found[:-1] != right[:-1] or joined_kinds(found[-1], right[-1]) is MISFIT:
                return f"partials of {op} are {found}, not {right}"
            if isinstance(column, CountColumn) and len(column) and int(column.counts.max()) > COUNT_MAX:
                return f"more than {COUNT_MAX} events cannot have come"
            if isinstance(column, UserColumn) and (problem := column.problem()):
                return problem
        return None

    def absorb(self, part: GroupPart, types: Types, resolve: Resolve) -> None:
        """Take in a part that nothing is wrong with."""
        keys = self.keys.encode(part.key_columns, parts.key_count(part.key_columns))[part.key]
        match part:
            case RowsPart():
                first = part.slices if part.first is None else part.first
                self.add_block(RowBlock(keys, first, part.last, None, None, dict(part.partials)))
            case LatePart():
                columns = {name: parts.values_of(part.columns[name], types[name]) for name in columns_read(self.ops)}
                chunk = Chunk(part.times, part.offsets, numbers_of(part, resolve), self.names, columns)
                self.add_late(chunk, keys, part.watermarks)


def numbers_of(part: EventsPart | LatePart | MarkersPart, resolve: Resolve) -> Int32Array:
    """The sources of a part's events, by their number over all."""
    return resolve((part.chain,)).numbers[part.sources].astype(np.int32)


def sources_problem(part: EventsPart | LatePart | MarkersPart, resolve: Resolve) -> str | None:
    sources: Int64Array = part.sources
    if len(sources) and not 0 <= int(sources.min()) <= int(sources.max()) < len(resolve((part.chain,)).numbers):
        return f"chain {part.chain!r} has no such sources"
    return None


def places_problem(part: EventsPart | LatePart | MarkersPart) -> str | None:
    """What is wrong with the times and offsets of events that came as themselves."""
    if len(part.offsets) and int(part.offsets.min()) < 0:
        return "an offset is negative"
    return times_problem(part.times)


def times_problem(*places: Int64Array) -> str | None:
    """Events whose times lie further away are malformed, so nothing is ever cut there."""
    for times in places:
        if len(times) and not EARLIEST <= int(times.min()) <= int(times.max()) <= LATEST:
            return "events cannot be so far away in time"
    return None


@lru_cache(256)
def _right_traits(op: Op, types: tuple[pa.DataType, ...]) -> tuple[object, ...]:
    """The `traits` of an operator's partials over columns of these types: those of no events at all, and the kinds of values."""
    columns = {name: blank(plain_type(type_), 0) for name, type_ in zip(op.columns, types, strict=True)}
    empty = Chunk(np.empty(0, np.int64), 0, 0, [], columns)
    made = lift([op], empty, np.empty(0, np.int32), 0)[op]
    kinds = tuple(_kind(op, columns[name], type_) for name, type_ in zip(op.columns, types, strict=True))
    return (*traits(made)[:-1], kinds if op.kind == "top" else kinds[0] if kinds else "i")


def _kind(op: Op, values: Values, type_: pa.DataType) -> object:
    """What the values of partials are over a column of this type."""
    if values.data.dtype != object:
        return values.data.dtype.kind
    if op.kind in ("sum", "sumsq"):
        return int
    return {"text": str, "bytes": bytes}.get(type_kind(type_) or "", Decimal)


@lru_cache(256)
def _kept_type(type_: pa.DataType) -> pa.DataType:
    """The type in which a column's values are kept: numbers in 64 bits, everything else as it is."""
    kept = read_values(pa.nulls(0, plain_type(type_)))
    return pa.from_numpy_dtype(kept.data.dtype) if kept.data.dtype != object else kept.type
