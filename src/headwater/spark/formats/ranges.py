"""Reads the rows [skip, skip + count) of a file, at any time, without reading what comes before where the format allows it.

A file of columns is read from the row group or record batch in which they begin, text from the last mark before them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headwater.errors import DataError
from headwater.spark.formats import FORMATS, Batches, Passed, Wanted, checked, named
from headwater.spark.formats.csv_lines import CsvLines
from headwater.spark.formats.ipc import record_batches
from headwater.spark.formats.json_lines import JsonLines
from headwater.spark.formats.parquet import row_groups
from headwater.spark.formats.text import TextLines, TextMark, count_rows, read_rows

_LINES: dict[str, type[TextLines]] = {"csv": CsvLines, "json": JsonLines}
#: The rows of each part of a file that can be read alone.
_PARTS: dict[str, Callable[[str], list[int]]] = {
    "parquet": lambda place: [rows for _, rows in row_groups(place)],
    "arrow": record_batches,
}


class EventCount(NamedTuple):
    """How many events a file holds, and for text, marks on the way."""

    rows: int
    marks: Sequence[TextMark] = ()


def counted(kind: str, place: str) -> EventCount:
    """Counts the events of a file; text has to be read for that, but not parsed."""
    with named(kind, place):
        return EventCount(*count_rows(_LINES[kind], place)) if kind in _LINES else EventCount(sum(_PARTS[kind](place)))
    raise AssertionError("an error leaves the block above")


def rows_of(kind: str, place: str, wanted: Wanted, skip: int, count: int, mark: TextMark | None = None) -> Batches:
    """``count`` events behind the first ``skip``; ``mark``: one of those of the file at or before them.

    An error if the file does not hold so many.
    """
    if kind in _LINES:
        yield from _exactly(
            place, skip, count, checked(kind, place, wanted, _text(kind, place, wanted, skip, count, mark))
        )
        return
    with named(kind, place):
        sizes = _PARTS[kind](place)
    first = begin = 0
    while first < len(sizes) and begin + sizes[first] <= skip:
        begin += sizes[first]
        first += 1
    last, end = first, begin
    while last < len(sizes) and end < skip + count:
        end += sizes[last]
        last += 1
    found = FORMATS[kind].read(place, wanted, (first, last))
    yield from _exactly(place, skip, count, _between(checked(kind, place, wanted, found), skip - begin, count))


def _text(kind: str, place: str, wanted: Wanted, skip: int, count: int, mark: TextMark | None) -> Batches:
    return read_rows(_LINES[kind], place, wanted, skip, count, mark)


def _between(found: Batches, skip: int, count: int) -> Batches:
    """The next ``count`` events behind the first ``skip``."""
    for batch in found:
        size = batch.count if isinstance(batch, Passed) else len(batch)
        here = min(size - skip, count)
        if here > 0:
            if isinstance(batch, Passed):
                yield Passed(here, batch.low, batch.high)
            else:
                yield batch.slice(skip, here)
            count -= here
        skip = max(skip - size, 0)
        if count == 0:
            return


def _exactly(place: str, skip: int, count: int, found: Batches) -> Batches:
    rows = 0
    for batch in found:
        rows += batch.count if isinstance(batch, Passed) else len(batch)
        yield batch
    if rows != count:
        raise DataError(f"{place}: it ends behind row {skip + rows}, but had {skip + count} rows before")
