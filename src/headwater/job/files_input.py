"""A list of files as the input of a run: each is a source that is done once it is read, and no others will come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.errors import DataError
from headwater.language.homes import home_of_files
from headwater.spark.batch.columns import Types, columns_of
from headwater.spark.batch.files import find_pieces
from headwater.spark.formats.ranges import counted
from headwater.spark.streaming.inputs.folder import FolderInput
from headwater.spark.streaming.inputs.input import Extent


class FilesInput:
    """Files and patterns of files, of one format, as they are when this is made: what changes later is an error that names it."""

    kind = "headwater.job.files_input:FilesInput"
    stores_arrivals = True  # when a file was last changed
    #: A stretch says everything, as those of a folder do.
    read = staticmethod(FolderInput.read)

    def __init__(self, paths: Sequence[str | Path], *, format: str | None = None, types: Types | None = None) -> None:
        places = {place: None for path in paths for piece in find_pieces(path, format)[1] for place in piece.places}
        kind, pieces = find_pieces(list(places), format)
        if kind == "log":
            raise DataError(f"{paths[0]}: this is a segment log, which is no file; give it as a log")
        self.schema: pa.Schema = columns_of(kind, pieces, types).schema
        self._files: dict[str, dict[str, Any]] = {}
        for piece in pieces:
            (place,) = piece.places
            status, (rows, marks) = Path(place).stat(), counted(kind, place)
            self._files[piece.source] = {
                "kind": kind,
                "place": place,
                "root": piece.root,
                "rows": rows,
                "bytes": status.st_size,
                "mtime_ns": status.st_mtime_ns,
                "marks": [list(mark) for mark in marks],
            }

    def to_data(self) -> dict[str, Any]:
        return {"files": self._files, "schema": schema_to_bytes(self.schema).hex()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> FilesInput:
        made = cls.__new__(cls)
        made.schema, made._files = schema_from_bytes(bytes.fromhex(data["schema"])), dict(data["files"])
        return made

    def extents(self) -> dict[str, Extent]:
        return {
            source: Extent(file["rows"], home_of_files(source, "file"), is_done=True)
            for source, file in self._files.items()
        }

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        file = {name: value for name, value in self._files[source].items() if name != "marks"}
        mark = next((mark for mark in reversed(self._files[source]["marks"]) if mark[0] <= start), None)
        return [{**file, "skip": start, "count": end - start, "mark": mark}] if start < end else []
