"""The byte form of pieces: all numbers of all pieces as one list, plain floats, Arrow for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.arrow import table_from_bytes, table_to_bytes
from headwater.base.packing import Reader, Writer
from headwater.engine.intake.keys import to_int64
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import partials_from_bytes, partials_to_bytes
from headwater.engine.wire.key_bytes import read_keys, write_keys
from headwater.engine.wire.parts import HEAD_CHAIN, KeyRows, PiecesPart, RawRuns
from headwater.errors import FormatError

INTEGERS, FLOATS, ARROW = range(3)
HEAD_ROWS, PIECE_ROWS = 5, 8


def write_pieces(writer: Writer, part: PiecesPart) -> None:
    """The body of a part."""
    writer.number(part.family).texts(part.chains)
    # One list for all: each costs more than the few numbers that are in it. What lies side by side is alike.
    numbers = [part.head, part.sizes, *part.first, *(part.last - part.first)]
    writer.number(len(part.sizes)).ints(np.concatenate([part.heads.ravel(), *numbers]))
    rows = len(part.piece)
    writer.number(rows)
    if rows > len(part.sizes):
        writer.ints(part.piece)
    if rows:
        writer.blob(partials_to_bytes(part.partials))
    raw = part.raw
    keys = part.key if raw is None else np.concatenate((part.key, raw.key))
    write_keys(writer, part.key_columns, keys if part.key_columns else keys[:0])
    writer.number(0 if raw is None else len(raw.sizes))
    if raw is not None:
        _write_raw(writer, raw)


def _write_raw(writer: Writer, raw: RawRuns) -> None:
    writer.ints(np.concatenate((raw.head, raw.sizes)))
    for row in raw.places:
        writer.ints(row)
    writer.number(len(raw.columns))
    for name, column in raw.columns.items():
        writer.blob(name.encode())
        _write_column(writer, column)


def read_pieces(reader: Reader, known: Iterable[Op]) -> PiecesPart:
    """The part of which this is the body."""
    family, chains = reader.number(), reader.texts()
    count = reader.count()
    numbers = reader.ints()
    if len(numbers) < PIECE_ROWS * count or (len(numbers) - PIECE_ROWS * count) % HEAD_ROWS:
        raise FormatError("a part of pieces has more or fewer numbers than it should")
    split = len(numbers) - PIECE_ROWS * count
    heads, rows = numbers[:split].reshape(HEAD_ROWS, -1), numbers[split:].reshape(PIECE_ROWS, count)
    _check(heads[HEAD_CHAIN], len(chains))
    head, sizes = _check(rows[0], heads.shape[1]), _positive(rows[1])
    piece, partials = _read_rows(reader, count, known)
    columns, keys = read_keys(reader)
    runs = reader.count()
    raw = _read_raw(reader, runs, heads.shape[1]) if runs else None
    total = len(piece) + (0 if raw is None else raw.places.shape[1])
    keys = keys if columns else np.zeros(total, np.int64)
    if len(keys) != total:
        raise FormatError("a part of pieces has more or fewer keys than rows")
    if raw is not None:
        raw.key = keys[len(piece) :]
    places = rows[2:5], rows[2:5] + rows[5:8]
    return PiecesPart(family, chains, heads, head, sizes, *places, piece, columns, keys[: len(piece)], partials, raw)


def _read_rows(reader: Reader, count: int, known: Iterable[Op]) -> tuple[Int64Array, dict[Op, Any]]:
    """For each row of the partials its piece, and the partials."""
    rows = reader.number()
    piece = reader.ints() if rows > count else np.arange(rows, dtype=np.int64)
    partials = partials_from_bytes(reader.view(), known) if rows else {}
    if len(piece) != rows or any(len(column) != rows for column in partials.values()):
        raise FormatError("a part has pieces without partials, or partials without pieces")
    steps = np.diff(piece, prepend=-1, append=count)
    if (count or rows) and not bool(((steps >= 0) & (steps <= 1)).all()):
        raise FormatError("the rows of pieces are not in order")
    return piece, partials


def _read_raw(reader: Reader, runs: int, heads: int) -> RawRuns:
    numbers = reader.ints()
    if len(numbers) != 2 * runs:
        raise FormatError("runs of events are damaged")
    head, sizes = _check(numbers[:runs], heads), _positive(numbers[runs:])
    count = int(sizes.sum())
    places = _read_places(reader, count)
    columns = {}
    for _ in range(reader.count()):
        name = reader.blob().decode()
        columns[name] = _read_column(reader)
    if any(len(column) != count for column in columns.values()):
        raise FormatError("a part has more or fewer values than events")
    return RawRuns(sizes, places, np.empty(0, np.int64), columns, head)


def _check(numbers: Int64Array, count: int) -> Int64Array:
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < count:
        raise FormatError("a part of pieces names heads or chains that it does not have")
    return numbers


def _positive(sizes: Int64Array) -> Int64Array:
    if len(sizes) and int(sizes.min()) <= 0:
        raise FormatError("a piece has no events")
    return sizes


def _read_places(reader: Reader, count: int) -> KeyRows:
    rows = [reader.ints() for _ in range(3)]
    if any(len(row) != count for row in rows):
        raise FormatError(f"a part names {[len(row) for row in rows]} keys for {count} events")
    return np.stack(rows)


def _write_column(writer: Writer, column: pa.Array) -> None:
    """Numbers without nulls plainly; an Arrow stream, with its long head, for everything else."""
    if column.null_count == 0 and pa.types.is_int64(column.type):
        writer.number(INTEGERS).ints(to_int64(column))
    elif column.null_count == 0 and pa.types.is_float64(column.type):
        writer.number(FLOATS).words(column.to_numpy())
    else:
        writer.number(ARROW).blob(table_to_bytes(pa.table({"": column})))


def _read_column(reader: Reader) -> pa.Array:
    kind = reader.number()
    if kind == INTEGERS:
        return pa.array(reader.ints())
    if kind == FLOATS:
        return pa.array(reader.words(), pa.float64())
    if kind != ARROW:
        raise FormatError("values are written in a way that this release does not know")
    table = table_from_bytes(reader.view()).combine_chunks()
    if table.num_columns != 1:
        raise FormatError("values of one column were expected")
    column = table.column(0)
    return column.chunk(0) if column.num_chunks == 1 else pa.nulls(0, column.type)
