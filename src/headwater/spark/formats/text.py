"""Text files, one event a line: Arrow parses them block by block, and blocks with errors are parsed line by line.

One line is one event. What cannot be read stays in its place, beside it a column that says so (`engine.intake.arrivals`): a value
that does not parse counts against those who read its column, a line that is no event at all counts against everyone. So a bad
line uses up its offset and changes no other event.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrow import plain_type
from headwater.engine.intake.arrivals import REASON, UNREAD, UNREAD_LINE
from headwater.errors import DataError
from headwater.spark.formats.file_range import Batches, Format, Wanted, sentence

#: Bytes of a block of text that is parsed at once, about.
BLOCK_BYTES = 1 << 24
#: Bytes of a stretch in which lines are read one by one, about: what is far from a bad line is read the quick way.
CARE_BYTES = 1 << 17
#: Bytes at the beginning of a file from which its columns are told.
LOOK_BYTES = 1 << 20


class PlacedText(NamedTuple):
    """Text that should be one event, and where it stands in its file or partition."""

    text: bytes
    where: str


class TextMark(NamedTuple):
    """A place from which text can be read on: ``row`` rows are before it, and the line ``number`` begins at ``byte``."""

    row: int
    byte: int
    number: int


@dataclass(slots=True)
class ParsedColumn:
    """Values as far as they can be read, and by row the text of those that cannot."""

    values: pa.Array
    unread: dict[int, str]


class TextLines(Protocol):
    """The lines of one file, in one format. ``begin``: where they begin, behind a header if there is one."""

    begin: int
    begin_number: int

    def __init__(self, first_block: bytes) -> None: ...
    def schema(self, block: bytes) -> pa.Schema:
        """Columns and types, as the first lines have them; lines that are no events are passed over."""

    def names(self, wanted: Wanted) -> Sequence[str]:
        """The columns asked for that the file has."""

    def parse(self, block: bytes, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
        """The quick way: an `ArrowInvalid` if anything is wrong, or a wrong number of rows."""

    def problem(self, line: bytes) -> str | None:
        """Why a line is no event at all."""

    def columns(self, lines: Sequence[bytes], names: Sequence[str], schema: pa.Schema) -> list[ParsedColumn]:
        """The slow way, for lines without a problem."""

    def is_empty(self, line: bytes) -> bool:
        """Whether a line counts for nothing."""


def text_format(lines: type[TextLines], *suffixes: str) -> Format:
    """The format of such lines, packed with gzip or not."""

    def schema(place: str) -> pa.Schema | None:
        block, _ = next(_blocks(place, LOOK_BYTES), (b"", 0))
        if not block.strip():
            return None
        reader = lines(block)
        return reader.schema(block[reader.begin :])

    def read(place: str, wanted: Wanted, groups: object) -> Batches:
        for reader, block, byte, number in _bodies(lines, place):
            yield from _events(reader, place, block, byte, number, list(reader.names(wanted)), wanted)

    return Format((*suffixes, *(f"{suffix}.gz" for suffix in suffixes)), schema, read, lines=lines)


def count_rows(lines: type[TextLines], place: str, bytes_max: int | None = None) -> tuple[int, list[TextMark]]:
    """How many events a file, or its first ``bytes_max``, holds, and marks on the way: nothing is parsed.

    There are no marks in what is packed.
    """
    rows = 0
    marks = []
    for reader, block, byte, number in _bodies(lines, place, bytes_max=bytes_max):
        if rows and not is_packed(place):
            marks.append(TextMark(rows, byte, number))
        rows += len(_starts(reader, block))
    return rows, marks


def read_rows(
    lines: type[TextLines],
    place: str,
    wanted: Wanted,
    skip: int,
    count: int,
    mark: TextMark | None = None,
    bytes_max: int | None = None,
) -> Batches:
    """``count`` events of a file behind the first ``skip``, from a mark on if one is known; other lines are not parsed.

    ``bytes_max``: what is behind so many bytes does not belong to the file.
    """
    row, end = (0 if mark is None else mark.row), skip + count
    for reader, block, byte, number in _bodies(lines, place, mark, bytes_max):
        starts = _starts(reader, block)
        first, last = max(skip - row, 0), min(end - row, len(starts))
        if first < last:
            begin = 0 if first == 0 else int(starts[first])
            part = block[begin : int(starts[last]) if last < len(starts) else len(block)]
            names = list(reader.names(wanted))
            yield from _events(reader, place, part, byte + begin, number + block.count(b"\n", 0, begin), names, wanted)
        row += len(starts)
        if row >= end:
            return


def _bodies(
    lines: type[TextLines], place: str, mark: TextMark | None = None, bytes_max: int | None = None
) -> Iterator[tuple[TextLines, bytes, int, int]]:
    """Lines behind the header, block by block: their reader, the block, the byte and the number of the line it begins with."""
    reader = None
    number = 1
    for block, byte in _blocks(place, BLOCK_BYTES, 0, bytes_max):
        if reader is None and block.strip():
            reader = lines(block)
            if mark is not None:
                break
            if reader.begin < len(block):
                yield reader, block[reader.begin :], byte + reader.begin, number + reader.begin_number - 1
        elif reader is not None:
            yield reader, block, byte, number
        number += block.count(b"\n")
    if mark is not None and reader is not None:
        number = mark.number
        for block, byte in _blocks(place, BLOCK_BYTES, mark.byte, bytes_max):
            yield reader, block, byte, number
            number += block.count(b"\n")


def is_packed(place: str) -> bool:
    """Whether the bytes of a file are not those of its text."""
    return place.endswith(".gz")


def _blocks(place: str, size: int, begin: int = 0, end_max: int | None = None) -> Iterator[tuple[bytes, int]]:
    """Whole lines, about ``size`` bytes of them at a time, and where they begin; the last may lack its end."""
    rest = b""
    left = sys.maxsize if end_max is None else end_max - begin
    with pa.input_stream(place, compression="gzip" if is_packed(place) else None) as stream:
        if begin:
            stream.seek(begin)
        while True:
            try:
                # Each time as much again as waits: a line that is longer than a block is not looked through over and over.
                data = stream.read(min(max(size, len(rest)), left))
            except (pa.ArrowException, OSError) as error:
                behind = begin + len(rest)
                raise DataError(f"{place}: broken behind byte {behind} of its text: {sentence(error)}") from error
            if not data:
                break
            left -= len(data)
            end = data.rfind(b"\n") + 1
            if end == 0:
                rest += data
                continue
            block = rest + data[:end]
            yield block, begin
            begin, rest = begin + len(block), data[end:]
    if rest:
        yield rest, begin


def _events(
    reader: TextLines, place: str, block: bytes, byte: int, number: int, names: list[str], wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    try:
        batch = reader.parse(block, names, wanted.schema)
        if batch.num_rows == len(_starts(reader, block)):
            yield batch
            return
    except (pa.ArrowException, ValueError):
        pass
    middle = block.find(b"\n", len(block) // 2) + 1
    if len(block) > CARE_BYTES and 0 < middle < len(block):
        head, tail = block[:middle], block[middle:]
        yield from _events(reader, place, head, byte, number, names, wanted)
        yield from _events(reader, place, tail, byte + middle, number + head.count(b"\n"), names, wanted)
        return
    lines = list(_lines(reader, block, byte, number))
    if lines:
        yield with_care(reader, place, lines, names, wanted)


def _starts(reader: TextLines, block: bytes) -> NDArray[np.int64]:
    """Where the lines begin that are not empty."""
    codes = np.frombuffer(block, np.uint8)
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(codes == ord("\n")) + 1])
    if starts[-1] == len(block):
        starts = starts[:-1]
    # Only what begins with white space can be empty.
    doubtful = np.flatnonzero(codes[starts] <= ord(" ")).tolist()
    if not doubtful:
        return starts
    return np.delete(starts, [line for line in doubtful if reader.is_empty(_line_at(block, int(starts[line])))])


def _line_at(block: bytes, start: int) -> bytes:
    end = block.find(b"\n", start)
    return block[start:] if end < 0 else block[start:end]


def _lines(reader: TextLines, block: bytes, byte: int, number: int) -> Iterator[PlacedText]:
    """The lines that are not empty; ``number``, from 1, and ``byte``, from 0: where the block begins."""
    for text in block.split(b"\n"):
        if not reader.is_empty(text):
            yield PlacedText(text, f"line {number}, byte {byte}")
        byte += len(text) + 1
        number += 1


def with_care(
    reader: TextLines, place: str, lines: Sequence[PlacedText], names: list[str], wanted: Wanted
) -> pa.RecordBatch:
    """One row for each line, whatever it holds."""
    problems = [reader.problem(line.text) for line in lines]
    rows = [row for row, problem in enumerate(problems) if problem is None]
    columns = reader.columns([lines[row].text for row in rows], names, wanted.schema) if rows else []
    if wanted.strict:
        _refuse_first(place, lines, problems, rows, dict(zip(names, columns, strict=bool(rows))), wanted.schema)
    places = np.full(len(lines), -1, np.int64)
    places[rows] = np.arange(len(rows))
    # Behind a null there is a null: that is how lines that are no events come into their places.
    take = pa.array(places, mask=places < 0)
    arrays: dict[str, pa.Array] = {
        name: pa.nulls(len(lines), in_text(wanted.schema.field(name).type)) for name in names
    }
    for name, column in zip(names, columns, strict=False):
        arrays[name] = column.values.take(take)
        if column.unread:
            texts = {rows[row]: text for row, text in column.unread.items()}
            arrays[UNREAD + name] = pa.array([texts.get(row) for row in range(len(lines))], pa.string())
    if len(rows) < len(lines):
        arrays[UNREAD_LINE] = pa.array([_unread_line(*each) for each in zip(lines, problems, strict=True)], REASON)
    return pa.RecordBatch.from_pydict(arrays)


def _unread_line(line: PlacedText, problem: str | None) -> dict[str, str] | None:
    if problem is None:
        return None
    return {"reason": f"{line.where}: {problem}", "text": shown(line.text)}


def _refuse_first(
    place: str,
    lines: Sequence[PlacedText],
    problems: Sequence[str | None],
    rows: Sequence[int],
    columns: dict[str, ParsedColumn],
    schema: pa.Schema,
) -> None:
    """An error for the first line with which anything is wrong."""
    wrong = {row: problem for row, problem in enumerate(problems) if problem is not None}
    for name, column in columns.items():
        for row, text in column.unread.items():
            wrong.setdefault(rows[row], f"column {name!r} is {text!r}, not {in_text(schema.field(name).type)}")
    if wrong:
        line = lines[min(wrong)]
        raise DataError(f"{place}, {line.where}: {wrong[min(wrong)]} (strict)")


def in_text(type_: pa.DataType) -> pa.DataType:
    """A column that had no value where the types were looked for is read as text."""
    return pa.string() if pa.types.is_null(plain_type(type_)) else plain_type(type_)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """The rows of a table as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def shown(line: bytes, length_max: int = 1000) -> str:
    """A line as text, cut where it is very long."""
    return line[:length_max].decode("utf-8", "replace").rstrip("\r")


def converted(texts: pa.Array, type_: pa.DataType) -> ParsedColumn:
    """Texts as values of a type. Where some are none, halves are tried, and halves of these: few bad values cost little."""
    unread: dict[int, str] = {}
    found = pa.concat_arrays(_halves(texts, type_, 0, unread)) if len(texts) else pa.nulls(0, type_)
    return ParsedColumn(found, unread)


def _halves(texts: pa.Array, type_: pa.DataType, begin: int, unread: dict[int, str]) -> list[Any]:
    try:
        return [texts.cast(type_)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(texts) == 1:
            unread[begin] = texts[0].as_py()
            return [pa.nulls(1, type_)]
    middle = len(texts) // 2
    left = _halves(texts.slice(0, middle), type_, begin, unread)
    return left + _halves(texts.slice(middle), type_, begin + middle, unread)
