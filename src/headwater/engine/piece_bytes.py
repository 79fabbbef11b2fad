"""The byte form of pieces and of looks: columns of integers in as few bits as they need, plain floats, Arrow for the rest."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from headwater.arrays import Int64Array
from headwater.engine.key_bytes import read_keys, write_keys
from headwater.engine.keys import to_int64
from headwater.engine.op import Op
from headwater.engine.operators import partials_from_bytes, partials_to_bytes
from headwater.engine.parts import KeyRows, PiecesPart, RawRuns
from headwater.engine.state_bytes import table_from_bytes, table_to_bytes
from headwater.errors import FormatError
from headwater.packing import Reader, Writer

INTEGERS, FLOATS, ARROW = range(3)


def write_pieces(writer: Writer, part: PiecesPart) -> None:
    """The body of a part."""
    writer.number(part.family)
    writer.blob(part.chain.encode())
    writer.signed(part.until)
    writer.signed(part.latest)
    writer.number(part.is_all)
    writer.signed(part.answers)
    writer.ints(part.sizes)
    if len(part.sizes):
        _write_places(writer, part.first)
        _write_places(writer, part.last - part.first)
        writer.ints(part.piece)
        writer.blob(partials_to_bytes(part.partials))
    raw = part.raw
    keys = part.key if raw is None else np.concatenate((part.key, raw.key))
    write_keys(writer, part.key_columns, keys)
    writer.number(raw is not None)
    if raw is not None:
        writer.ints(raw.sizes)
        _write_places(writer, raw.places)
        writer.number(len(raw.columns))
        for name, column in raw.columns.items():
            writer.blob(name.encode())
            _write_column(writer, column)


def read_pieces(reader: Reader, known: Iterable[Op]) -> PiecesPart:
    """The part of which this is the body."""
    family, chain = reader.number(), reader.blob().decode()
    until, latest, is_all, answers = reader.signed(), reader.signed(), bool(reader.number()), reader.signed()
    sizes = _positive(reader.ints())
    none = np.empty((3, 0), np.int64)
    first, last, piece, partials = none, none, none[0], {}
    if len(sizes):
        first = _read_places(reader, len(sizes))
        last = first + _read_places(reader, len(sizes))
        piece = reader.ints()
        partials = partials_from_bytes(reader.view(), known)
        is_sorted = bool((piece[1:] >= piece[:-1]).all()) and len(piece) and piece[0] == 0
        if not is_sorted or piece[-1] != len(sizes) - 1 or any(len(c) != len(piece) for c in partials.values()):
            raise FormatError("a part has pieces without partials, or partials without pieces")
    columns, keys = read_keys(reader)
    raw = _read_raw(reader, keys[len(piece) :]) if reader.number() else None
    if len(keys) != len(piece) + (0 if raw is None else len(raw.key)):
        raise FormatError("a part of pieces has more or fewer keys than rows")
    return PiecesPart(
        family, chain, until, latest, is_all, answers, sizes, first, last, piece, columns, keys[: len(piece)], partials, raw
    )  # fmt: skip


def _read_raw(reader: Reader, keys: Int64Array) -> RawRuns:
    sizes = _positive(reader.ints())
    count = int(sizes.sum())
    places = _read_places(reader, count)
    columns = {}
    for _ in range(reader.count()):
        name = reader.blob().decode()
        columns[name] = _read_column(reader)
    if len(keys) != count or any(len(column) != count for column in columns.values()):
        raise FormatError("a part has more or fewer values than events")
    return RawRuns(sizes, places, keys, columns)


def _positive(sizes: Int64Array) -> Int64Array:
    if len(sizes) and int(sizes.min()) <= 0:
        raise FormatError("a piece has no events")
    return sizes


def _write_places(writer: Writer, places: KeyRows) -> None:
    for row in places:
        writer.ints(row)


def _read_places(reader: Reader, count: int) -> KeyRows:
    rows = [reader.ints() for _ in range(3)]
    if any(len(row) != count for row in rows):
        raise FormatError(f"a part names {[len(row) for row in rows]} keys for {count} events")
    return np.stack(rows)


def _write_column(writer: Writer, column: pa.Array) -> None:
    """Numbers without nulls plainly; an Arrow stream, with its long head, for everything else."""
    if column.null_count == 0 and pa.types.is_int64(column.type):
        writer.number(INTEGERS)
        writer.ints(to_int64(column))
    elif column.null_count == 0 and pa.types.is_float64(column.type):
        writer.number(FLOATS)
        writer.floats(column.to_numpy())
    else:
        writer.number(ARROW)
        writer.blob(table_to_bytes(pa.table({"": column})))


def _read_column(reader: Reader) -> pa.Array:
    kind = reader.number()
    if kind == INTEGERS:
        return pa.array(reader.ints())
    if kind == FLOATS:
        return pa.array(reader.floats())
    if kind != ARROW:
        raise FormatError("values are written in a way that this release does not know")
    table = table_from_bytes(reader.view()).combine_chunks()
    if table.num_columns != 1:
        raise FormatError("values of one column were expected")
    column = table.column(0)
    return column.chunk(0) if column.num_chunks == 1 else pa.nulls(0, column.type)
