"""Reads the rows [skip, skip + count) of a file, at any time, without reading what comes before where the format allows it.

A file of columns is read from the row group or record batch in which they begin, text from the last mark before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from headwater.errors import DataError
from headwater.spark.formats import FORMATS, Batches, Passed, Wanted, checked, named, row_count
from headwater.spark.formats.text import TextMark, count_rows, read_rows


class EventCount(NamedTuple):
    """How many events a file holds, and for text, marks on the way."""

    rows: int
    marks: Sequence[TextMark] = ()


def counted(kind: str, place: str, bytes_max: int | None = None) -> EventCount:
    """Counts the events of a file; text, or its first ``bytes_max``, has to be read for that, but not parsed."""
    lines = FORMATS[kind].lines
    if lines is None:
        return EventCount(row_count(kind, place))
    return EventCount(*named(kind, place, partial(count_rows, lines, bytes_max=bytes_max)))


def rows_of(
    kind: str,
    place: str,
    wanted: Wanted,
    skip: int,
    count: int,
    mark: TextMark | None = None,
    bytes_max: int | None = None,
) -> Batches:
    """``count`` events behind the first ``skip``; ``mark``: one of those of the file at or before them.

    ``bytes_max``: how much of a text is read at most. An error if the file holds fewer.
    """
    form = FORMATS[kind]
    if form.lines is not None:
        found = checked(kind, place, wanted, read_rows(form.lines, place, wanted, skip, count, mark, bytes_max))
    else:
        assert form.parts is not None, "only files are read in ranges"
        ends = np.cumsum([0, *named(kind, place, form.parts)])
        first = int(np.searchsorted(ends[1:], skip, side="right"))
        last = max(first, int(np.searchsorted(ends[:-1], skip + count)))
        read = form.read(place, wanted, (first, last))
        found = _between(checked(kind, place, wanted, read), skip - int(ends[first]), count)
    rows = 0
    for batch in found:
        rows += batch.count if isinstance(batch, Passed) else len(batch)
        yield batch
    if rows != count:
        raise DataError(f"{place}: it ends behind row {skip + rows}, but had {skip + count} rows before")


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
