"""A folder of Parquet files, each with the rows of one batch, or of several that follow each other: its name says which.

``batch-000000000007.parquet``, ``batch-000000000008-000000000015.parquet``. A file of several says in its metadata how many rows
are whose. Files appear whole and are never changed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from headwater.logs import files
from headwater.logs.segments.rows import first_difference
from headwater.spark.streaming.sinks.timeline import other_rows

WAY_OUT = "give another folder, or empty this one"
_NAME = re.compile(r"batch-(\d{12,})(?:-(\d{12,}))?\.parquet")
#: In the metadata of a file of several batches: their numbers, each with its count of rows, as JSON.
_BATCHES = b"headwater.batches"


class BatchRows(NamedTuple):
    """The rows of one batch, and when it was planned."""

    batch: int
    planned_ns: int
    rows: pa.Table


class BatchFiles:
    """The files of one folder, as of when it was made; from then on it is the only one to add some."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: The last batch that has rows here; -1 if none has.
        self.last = max((last for _, last, _ in self._spans()), default=-1)

    def write(self, parts: Sequence[BatchRows]) -> None:
        """One file with the rows of all these batches; a file that is there already has to have the same."""
        from pyarrow import parquet

        table = pa.concat_tables([part.rows for part in parts])
        if len(parts) > 1:
            counts = json.dumps([[part.batch, len(part.rows)] for part in parts])
            table = table.replace_schema_metadata({**(table.schema.metadata or {}), _BATCHES: counts})
        target = pa.BufferOutputStream()
        parquet.write_table(table, target)
        first, last = parts[0].batch, parts[-1].batch
        name = f"batch-{first:012d}" if first == last else f"batch-{first:012d}-{last:012d}"
        try:
            files.create_unseen(self._folder / f"{name}.parquet", target.getvalue().to_pybytes())
        except FileExistsError:
            for part in parts:
                self.check_same(part.batch, part.rows)
            files.sync_directory(self._folder)
        self.last = max(self.last, last)

    def check_same(self, batch: int, rows: pa.Table) -> None:
        """SinkError if the rows of a batch are here, but others; or if they are missing, and rows of later batches are here."""
        path, stored = self._stored(batch)
        if len(stored) != len(rows):
            raise other_rows(path, batch, f"{len(stored)} instead of {len(rows)}", WAY_OUT)
        if not len(rows):
            return
        try:
            # Parquet has its own names for the fields of nested types.
            difference = first_difference(stored.cast(rows.schema), rows)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            difference = "the schema"
        if difference:
            raise other_rows(path, batch, f"{difference} differs", WAY_OUT)

    def counts(self, batches: Mapping[int, int]) -> dict[int, int]:
        """How many rows some batches have, of those that have files of their own here: others may have been taken away."""
        from pyarrow import parquet

        single = {first: path for first, last, path in self._spans() if first == last and first in batches}
        return {batch: parquet.read_metadata(path).num_rows for batch, path in single.items()}

    def _stored(self, batch: int) -> tuple[Path, pa.Table]:
        from pyarrow import parquet

        for first, last, path in self._spans():
            if first <= batch <= last:
                # Not read_table, which would take the folder's name for a column if it looks like one.
                table = parquet.ParquetFile(path).read()
                return path, table if first == last else _share(table, batch)
        return self._folder, pa.table({})

    def _spans(self) -> Iterator[tuple[int, int, Path]]:
        for name in os.listdir(self._folder):
            if found := _NAME.fullmatch(name):
                yield int(found[1]), int(found[2] or found[1]), self._folder / name


def _share(table: pa.Table, batch: int) -> pa.Table:
    """The rows of one batch among those of several."""
    at = 0
    for number, count in json.loads(table.schema.metadata[_BATCHES]):
        if number == batch:
            return table.slice(at, count)
        at += count
    return table.slice(0, 0)
