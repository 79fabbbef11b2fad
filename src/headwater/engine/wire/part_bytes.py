"""The byte form of parts: plain columns, integers in as few bytes as they need; Arrow for events.

Keys are written once each, by value, with the Arrow type of each column. All numbers of all pieces are one list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.base.arrays import Int64Array
from headwater.base.arrow import (
    array_of_integers,
    integers_of,
    is_time_like,
    plain_array,
    table_to_bytes,
    type_from_bytes,
    type_to_bytes,
)
from headwater.base.packing import Bytes, Reader, Writer
from headwater.engine.intake.keys import is_integer_key, to_int64
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import partials_from_bytes, partials_to_bytes
from headwater.engine.wire import parts
from headwater.engine.wire.parts import (
    HEAD_CHAIN,
    EventsPart,
    KeyedTimes,
    LatePart,
    MarkersPart,
    Part,
    PiecesPart,
    RowsPart,
)
from headwater.engine.wire.peer_tables import table_from_peer
from headwater.errors import FormatError


class KnownOperators(NamedTuple):
    """Where users' operators are found: among those that are known here, and in these modules."""

    known: Iterable[Op]
    modules: Collection[str] | None


VERSION = 1
INTEGERS, FLOATS, ARROW = range(3)
HEAD_ROWS, PIECE_ROWS = 5, 8


def part_to_bytes(part: Part) -> bytes:
    """The versioned byte form of a part."""
    kind = _KINDS[type(part)]
    writer = Writer(VERSION).number(kind)
    _FORMS[kind].write(writer, part)
    return writer.finish()


def part_from_bytes(data: Bytes, known: Iterable[Op] = (), modules: Collection[str] | None = ()) -> Part:
    """The part of which these are the bytes; anything else is a `FormatError`.

    Users' operators are looked for in ``known``, and by import path in these ``modules`` only (None: in any), for a peer may
    name whatever it likes.
    """
    reader = Reader(data, "a part", VERSION)
    kind = reader.number()
    if kind not in _FORMS:
        raise FormatError("a part of a kind that this release does not know")
    try:
        part = _FORMS[kind].read(reader, KnownOperators(known, modules))
    except FormatError:
        raise
    except Exception as error:  # it was made elsewhere: whatever is wrong with it must not go further than here
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


def _read_rows(reader: Reader, known: KnownOperators) -> RowsPart:
    family, cut = reader.number(), bool(reader.number())
    key_columns, key = read_keys(reader)
    slices = reader.ints()
    gap = reader.number() - 1
    first = last = None
    if gap >= 0:
        first = reader.ints() + _as_long(slices, slices)
        last = _as_long(reader.ints(), slices) + first
    partials = partials_from_bytes(reader.view(), *known)
    _as_long(key, slices)
    if any(len(column) != len(slices) for column in partials.values()):
        raise FormatError("a part has more or fewer partials than rows")
    return RowsPart(family, key_columns, key, slices, partials, None if gap < 0 else gap, first, last, cut)


# --- keys ---


def write_keys(writer: Writer, columns: list[pa.Array], key: Int64Array) -> None:
    """Write the keys, each once, and for each row the place of its key."""
    writer.number(len(columns))
    for column in map(plain_array, columns):
        _write_type(writer, column.type)
        if is_integer_key(column.type) and column.null_count == 0:
            writer.number(0).ints(to_int64(column))
        else:
            writer.number(1).objects((integers_of(column) if is_time_like(column.type) else column).to_pylist())
    writer.ints(key)


def read_keys(reader: Reader) -> tuple[list[pa.Array], Int64Array]:
    """What `write_keys` wrote."""
    columns = []
    for _ in range(reader.count()):
        type_ = _read_type(reader)
        is_plain = reader.number() == 0
        columns.append(_key_column(reader.ints() if is_plain else reader.objects(), type_))
    key = reader.ints()
    size = parts.key_count(columns)
    if len(key) and not 0 <= int(key.min()) <= int(key.max()) < size or any(len(c) != size for c in columns):
        raise FormatError("a part names keys that it does not list")
    return columns, key


def _key_column(values: Int64Array | list[object], type_: pa.DataType) -> pa.Array:
    is_whole = isinstance(values, np.ndarray) or is_time_like(type_)
    return array_of_integers(pa.array(values, pa.int64()), type_) if is_whole else pa.array(values, type_)


def _write_type(writer: Writer, type_: pa.DataType) -> None:
    """Write a type by its name where that is enough, else as Arrow writes it."""
    name = str(type_)
    try:
        plain = pa.type_for_alias(name) == type_
    except ValueError:
        plain = False
    writer.blob(name.encode() if plain else b"")
    if not plain:
        writer.blob(type_to_bytes(type_))


def _read_type(reader: Reader) -> pa.DataType:
    name = reader.blob().decode()
    if name:
        try:
            return pa.type_for_alias(name)
        except ValueError as error:
            raise FormatError(f"no type is called {name!r}") from error
    return type_from_bytes(reader.blob())


def _write_keyed(writer: Writer, part: LatePart | MarkersPart) -> None:
    writer.number(part.family).blob(part.chain.encode())
    write_keys(writer, part.key_columns, part.key)


# --- events ---


def _write_events(writer: Writer, part: EventsPart | LatePart) -> None:
    """Write events as an Arrow stream: places of birth, watermarks if some event is late, and the columns."""
    columns: dict[str, Any] = {"time": part.times, "offset": part.offsets}
    # Mostly all events are of one source and none is late: then a number says it.
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
    table = table_from_peer(reader.view()).combine_chunks()
    names = {"time", "offset", *(["source"] if source == 0 else []), *(["watermark"] if some_late else [])}
    if not names <= set(table.schema.names):
        raise FormatError("a part of events lacks their places of birth")
    times, offsets = _numbers(table, "time"), _numbers(table, "offset")
    sources = np.full(len(times), source - 1) if source else _numbers(table, "source")
    watermarks = _numbers(table, "watermark") if some_late else times
    columns = {name[7:]: _joined(table.column(name)) for name in table.schema.names if name.startswith("column ")}
    return times, offsets, sources, watermarks, columns


def _numbers(table: pa.Table, name: str) -> Int64Array:
    column = _joined(table.column(name))
    if not pa.types.is_integer(column.type) or column.null_count:
        raise FormatError(f"{name} of events is {column.type}, with {column.null_count} missing")
    return to_int64(column)


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _write_events_part(writer: Writer, part: EventsPart) -> None:
    writer.signed(part.family).blob(part.chain.encode())
    _write_events(writer, part)
    writer.number(len(part.misfits))
    for name, rows in part.misfits.items():
        writer.blob(name.encode()).ints(np.array(rows, np.int64))


def _read_events_part(reader: Reader, _known: KnownOperators) -> EventsPart:
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


def _read_late(reader: Reader, _known: KnownOperators) -> LatePart:
    family, chain = reader.number(), reader.blob().decode()
    key_columns, key = read_keys(reader)
    times, offsets, sources, watermarks, columns = _read_events(reader)
    return LatePart(family, chain, key_columns, _as_long(key, times), times, offsets, sources, watermarks, columns)


def _write_markers(writer: Writer, part: MarkersPart) -> None:
    _write_keyed(writer, part)
    writer.ints(part.times).ints(part.offsets).ints(part.sources).number(len(part.conditions))
    for condition in part.conditions:
        writer.blob(np.packbits(condition).tobytes())


def _read_markers(reader: Reader, _known: KnownOperators) -> MarkersPart:
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


def _write_accounts(writer: Writer, part: parts.AccountsPart) -> None:
    writer.ints(part.rows.ravel()).number(part.timeless).number(part.malformed)


def _read_accounts(reader: Reader, _known: KnownOperators) -> parts.AccountsPart:
    rows = reader.ints()
    if len(rows) % 5:
        raise FormatError("the accounts of a part are damaged")
    return parts.AccountsPart(rows.reshape(-1, 5), reader.number(), reader.number())


# --- pieces ---


def _write_pieces(writer: Writer, part: PiecesPart) -> None:
    """Write the body of a part of pieces."""
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


def _write_raw(writer: Writer, raw: parts.RawRuns) -> None:
    writer.ints(np.concatenate((raw.head, raw.sizes)))
    for row in raw.places:
        writer.ints(row)
    writer.number(len(raw.columns))
    for name, column in raw.columns.items():
        writer.blob(name.encode())
        _write_column(writer, column)


def _read_pieces(reader: Reader, known: KnownOperators) -> PiecesPart:
    """The part of pieces of which this is the body."""
    family, chains = reader.number(), reader.texts()
    count = reader.count()
    numbers = reader.ints()
    if len(numbers) < PIECE_ROWS * count or (len(numbers) - PIECE_ROWS * count) % HEAD_ROWS:
        raise FormatError("a part of pieces has more or fewer numbers than it should")
    split = len(numbers) - PIECE_ROWS * count
    heads, rows = numbers[:split].reshape(HEAD_ROWS, -1), numbers[split:].reshape(PIECE_ROWS, count)
    _check(heads[HEAD_CHAIN], len(chains))
    head, sizes = _check(rows[0], heads.shape[1]), _positive(rows[1])
    piece, partials = _read_piece_rows(reader, count, known)
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


def _read_piece_rows(reader: Reader, count: int, known: KnownOperators) -> tuple[Int64Array, dict[Op, Any]]:
    """The piece of each row of the partials, and the partials."""
    rows = reader.number()
    piece = reader.ints() if rows > count else np.arange(rows, dtype=np.int64)
    partials = partials_from_bytes(reader.view(), *known) if rows else {}
    if len(piece) != rows or any(len(column) != rows for column in partials.values()):
        raise FormatError("a part has pieces without partials, or partials without pieces")
    steps = np.diff(piece, prepend=-1, append=count)
    if (count or rows) and not bool(((steps >= 0) & (steps <= 1)).all()):
        raise FormatError("the rows of pieces are not in order")
    return piece, partials


def _read_raw(reader: Reader, runs: int, heads: int) -> parts.RawRuns:
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
    return parts.RawRuns(sizes, places, np.empty(0, np.int64), columns, head)


def _check(numbers: Int64Array, count: int) -> Int64Array:
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < count:
        raise FormatError("a part of pieces names heads or chains that it does not have")
    return numbers


def _positive(sizes: Int64Array) -> Int64Array:
    if len(sizes) and int(sizes.min()) <= 0:
        raise FormatError("a piece has no events")
    return sizes


def _read_places(reader: Reader, count: int) -> Int64Array:
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
    table = table_from_peer(reader.view()).combine_chunks()
    if table.num_columns != 1:
        raise FormatError("values of one column were expected")
    return _joined(table.column(0))


# --- all of them ---


def _as_long(numbers: Int64Array, other: Int64Array) -> Int64Array:
    if len(numbers) != len(other):
        raise FormatError(f"a part has columns of {len(numbers)} and {len(other)} rows")
    return numbers


class PartForm(NamedTuple):
    """How parts of one class are written and read."""

    made: type
    write: Callable[[Writer, Any], object]
    read: Callable[[Reader, KnownOperators], Part]


#: The number under which each class travels; numbers are never used again for another class.
_FORMS: Final = {
    1: PartForm(RowsPart, _write_rows, _read_rows),
    2: PartForm(EventsPart, _write_events_part, _read_events_part),
    3: PartForm(LatePart, _write_late, _read_late),
    4: PartForm(MarkersPart, _write_markers, _read_markers),
    5: PartForm(parts.AccountsPart, _write_accounts, _read_accounts),
    6: PartForm(
        parts.AsidePart,
        lambda writer, part: writer.blob(table_to_bytes(part.rows)),
        lambda reader, _: parts.AsidePart(table_from_peer(reader.view())),
    ),
    7: PartForm(PiecesPart, _write_pieces, _read_pieces),
}
_KINDS: Final = {form.made: kind for kind, form in _FORMS.items()}
