"""The byte form of parts: plain columns, integers in as few bytes as they need; Arrow for events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.base.packing import Bytes, Reader, Writer
from headwater.engine.intake.keys import to_int64
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import partials_from_bytes, partials_to_bytes
from headwater.engine.wire.key_bytes import read_keys, write_keys
from headwater.engine.wire.parts import (
    AccountsPart,
    AsidePart,
    EventsPart,
    KeyedTimes,
    LatePart,
    MarkersPart,
    Part,
    PiecesPart,
    RowsPart,
)
from headwater.engine.wire.piece_bytes import read_pieces, write_pieces
from headwater.errors import FormatError

VERSION = 1


def part_to_bytes(part: Part) -> bytes:
    """The versioned byte form of a part."""
    kind = _KINDS[type(part)]
    writer = Writer(VERSION).number(kind)
    _FORMS[kind].write(writer, part)
    return writer.finish()


def part_from_bytes(data: Bytes, known: Iterable[Op] = ()) -> Part:
    """The part of which these are the bytes; anything else is a `FormatError`. Users' operators are looked for in ``known``."""
    reader = Reader(data, "a part", VERSION)
    kind = reader.number()
    if kind not in _FORMS:
        raise FormatError("a part of a kind that this release does not know")
    try:
        part = _FORMS[kind].read(reader, known)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise FormatError(f"a part is damaged: {error}") from error
    reader.finish()
    return part


def cuts_to_bytes(cuts: Mapping[int, KeyedTimes]) -> bytes:
    """Where each family's keys are cut, as the root announces it."""
    writer = Writer(VERSION).number(len(cuts))
    for family, keyed in cuts.items():
        writer.number(family)
        write_keys(writer, keyed.key_columns, keyed.key)
        writer.ints(keyed.times)
    return writer.finish()


def cuts_from_bytes(data: bytes) -> dict[int, KeyedTimes]:
    """The cuts of which these are the bytes; anything else is a `FormatError`."""
    cuts = {}
    with Reader(data, "cuts", VERSION) as reader:
        for _ in range(reader.count()):
            family = reader.number()
            columns, key = read_keys(reader)
            times = reader.ints()
            cuts[family] = KeyedTimes(columns, _as_long(key, times), times)
    return cuts


# --- rows ---


def _write_rows(writer: Writer, part: RowsPart) -> None:
    writer.number(part.family).number(part.cut)
    write_keys(writer, part.key_columns, part.key)
    writer.ints(part.slices)
    writer.number(0 if part.gap is None else part.gap + 1)
    if part.gap is not None:
        assert part.first is not None and part.last is not None
        writer.ints(part.first - part.slices).ints(part.last - part.first)
    writer.blob(partials_to_bytes(part.partials))


def _read_rows(reader: Reader, known: Iterable[Op]) -> RowsPart:
    family, cut = reader.number(), bool(reader.number())
    key_columns, key = read_keys(reader)
    slices = reader.ints()
    gap = reader.number() - 1
    first = last = None
    if gap >= 0:
        first = reader.ints() + _as_long(slices, slices)
        last = _as_long(reader.ints(), slices) + first
    partials = partials_from_bytes(reader.view(), known)
    _as_long(key, slices)
    if any(len(column) != len(slices) for column in partials.values()):
        raise FormatError("a part has more or fewer partials than rows")
    return RowsPart(family, key_columns, key, slices, partials, None if gap < 0 else gap, first, last, cut)


# --- keys ---


def _write_keyed(writer: Writer, part: LatePart | MarkersPart) -> None:
    writer.number(part.family).blob(part.chain.encode())
    write_keys(writer, part.key_columns, part.key)


# --- events ---


def _write_events(writer: Writer, part: EventsPart | LatePart) -> None:
    """As an Arrow stream: places of birth, watermarks where somebody is late, and the columns."""
    columns: dict[str, Any] = {"time": part.times, "offset": part.offsets}
    # Mostly all events are of one source and nobody is late: then a number says it.
    sources = np.unique(part.sources)
    writer.number(int(sources[0]) + 1 if len(sources) == 1 else 0)
    if len(sources) != 1:
        columns["source"] = part.sources.astype(np.int32)
    some_late = bool((part.times < part.watermarks).any())
    writer.number(some_late)
    if some_late:
        columns["watermark"] = part.watermarks
    columns |= {f"column {name}": array for name, array in part.columns.items()}
    writer.blob(table_to_bytes(pa.table(columns)))


def _read_events(reader: Reader) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, dict[str, pa.Array]]:
    source, some_late = reader.number(), bool(reader.number())
    table = table_from_bytes(reader.view()).combine_chunks()
    names = {"time", "offset", *(["source"] if source == 0 else []), *(["watermark"] if some_late else [])}
    if not names <= set(table.schema.names):
        raise FormatError("a part of events lacks their places of birth")
    times, offsets = _numbers(table, "time"), _numbers(table, "offset")
    sources = np.full(len(times), source - 1) if source else _numbers(table, "source")
    watermarks = _numbers(table, "watermark") if some_late else times
    columns = {name[7:]: _joined(table.column(name)) for name in table.schema.names if name.startswith("column ")}
    return times, offsets, sources, watermarks, columns


def _numbers(table: pa.Table, name: str) -> Int64Array:
    return to_int64(_joined(table.column(name)))


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _write_events_part(writer: Writer, part: EventsPart) -> None:
    writer.signed(part.family).blob(part.chain.encode())
    _write_events(writer, part)
    writer.number(len(part.misfits))
    for name, rows in part.misfits.items():
        writer.blob(name.encode()).ints(np.array(rows, np.int64))


def _read_events_part(reader: Reader, _known: Iterable[Op]) -> EventsPart:
    family, chain = reader.signed(), reader.blob().decode()
    events = _read_events(reader)
    misfits = {}
    for _ in range(reader.count()):
        name = reader.blob().decode()
        misfits[name] = reader.ints().tolist()
    return EventsPart(family, chain, *events, misfits)


def _write_late(writer: Writer, part: LatePart) -> None:
    _write_keyed(writer, part)
    _write_events(writer, part)


def _read_late(reader: Reader, _known: Iterable[Op]) -> LatePart:
    family, chain = reader.number(), reader.blob().decode()
    key_columns, key = read_keys(reader)
    times, offsets, sources, watermarks, columns = _read_events(reader)
    return LatePart(family, chain, key_columns, _as_long(key, times), times, offsets, sources, watermarks, columns)


def _write_markers(writer: Writer, part: MarkersPart) -> None:
    _write_keyed(writer, part)
    writer.ints(part.times).ints(part.offsets).ints(part.sources).number(len(part.conditions))
    for condition in part.conditions:
        writer.blob(np.packbits(condition).tobytes())


def _read_markers(reader: Reader, _known: Iterable[Op]) -> MarkersPart:
    family, chain = reader.number(), reader.blob().decode()
    key_columns, key = read_keys(reader)
    times, offsets, sources = reader.ints(), reader.ints(), reader.ints()
    for numbers in (offsets, sources, key):
        _as_long(numbers, times)
    conditions = []
    for _ in range(reader.count()):
        bits = np.unpackbits(np.frombuffer(reader.blob(), np.uint8))
        if not len(times) <= len(bits) < len(times) + 8:
            raise FormatError("the conditions of markers are damaged")
        conditions.append(bits[: len(times)].astype(np.bool_))
    return MarkersPart(family, chain, key_columns, key, times, offsets, sources, conditions)


def _write_accounts(writer: Writer, part: AccountsPart) -> None:
    writer.ints(part.rows.ravel()).number(part.timeless).number(part.malformed)


def _read_accounts(reader: Reader, _known: Iterable[Op]) -> AccountsPart:
    rows = reader.ints()
    if len(rows) % 5:
        raise FormatError("the accounts of a part are damaged")
    return AccountsPart(rows.reshape(-1, 5), reader.number(), reader.number())


def _as_long(numbers: Int64Array, other: Int64Array) -> Int64Array:
    if len(numbers) != len(other):
        raise FormatError(f"a part has columns of {len(numbers)} and {len(other)} rows")
    return numbers


class PartForm(NamedTuple):
    """How parts of one class are written and read."""

    made: type
    write: Callable[[Writer, Any], object]
    read: Callable[[Reader, Iterable[Op]], Part]


#: The number under which each class travels; numbers are never used again for another class.
_FORMS: Final = {
    1: PartForm(RowsPart, _write_rows, _read_rows),
    2: PartForm(EventsPart, _write_events_part, _read_events_part),
    3: PartForm(LatePart, _write_late, _read_late),
    4: PartForm(MarkersPart, _write_markers, _read_markers),
    5: PartForm(AccountsPart, _write_accounts, _read_accounts),
    6: PartForm(
        AsidePart,
        lambda writer, part: writer.blob(table_to_bytes(part.rows)),
        lambda reader, _: AsidePart(table_from_bytes(reader.view())),
    ),
    7: PartForm(PiecesPart, write_pieces, read_pieces),
}
_KINDS: Final = {form.made: kind for kind, form in _FORMS.items()}
