"""What a stream reads: sources that grow, and stretches of them that can be read again at any time.

A position in a source is the offset of an event. The planner asks how far each source goes by now; workers read stretches that
the planner has described. Between the two an input travels as JSON.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from threading import get_ident
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from headwater.errors import DataError
from headwater.language.user_code import load_path
from headwater.logs import Log, PartitionReader
from headwater.spark.batch.partition_leaves import gathered
from headwater.spark.formats import Batches, Passed, Wanted
from headwater.spark.formats.file_range import present

#: Where each kind of input is; a module is imported when one of its kind is met.
KINDS = {
    "log": "headwater.spark.streaming.inputs.input:LogInput",
    "folder": "headwater.spark.streaming.inputs.folder:FolderInput",
    "generated": "headwater.spark.streaming.inputs.generator:GeneratorInput",
    "kafka": "headwater.spark.streaming.kafka.input:KafkaInput",
}
#: Events of a log that a leaf gets at once, if they are there.
READ_EVENTS = 1 << 17


@dataclass(frozen=True, slots=True)
class Extent:
    """A source goes up to ``end`` by now. ``is_done``: nothing will be added, so it is not waited for.

    ``is_firm``: it never goes back, so an end below what was read says that something is wrong.
    """

    end: int
    home: str = ""
    is_done: bool = False
    is_firm: bool = False


@dataclass(frozen=True, slots=True)
class Watermark:
    """The source says so itself: behind the events before it none has a smaller time."""

    time: int


#: What reading a stretch gives.
Told: TypeAlias = Iterator["pa.RecordBatch | Passed | Watermark"]


class Input(Protocol):
    """Sources of one kind. ``kind`` is one of `KINDS`, or the import path of the class; ``schema``: the columns of events."""

    kind: str

    @property
    def schema(self) -> pa.Schema: ...

    def to_data(self) -> dict[str, Any]:
        """What it is made of, for `from_data` of its class."""

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Input: ...

    def extents(self) -> dict[str, Extent]:
        """All sources there are, by name. In the planner, before each batch.

        A source that is missing here has nothing new; it may come back.
        """

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        """How to read the events [start, end) of a source, which `extents` has told of once. In the planner."""

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Told:
        """The events of a stretch in the order of their offsets, watermarks among them if the source tells any.

        In a worker, and the same whenever it is read.
        """


def input_class(kind: str) -> Any:
    """The class of the inputs of a kind."""
    return load_path(KINDS.get(kind, kind))


class LogInput:
    """A segment log: its partitions are sources. Of each what its writer has published."""

    kind = "log"

    def __init__(self, path: str | Path, schema: pa.Schema | None = None) -> None:
        self._path = Path(path).absolute()
        self._schema = schema
        log = Log.open(self._path)
        self._id = log.id
        self._readers = [log.reader(partition) for partition in range(log.partition_count)]

    @property
    def schema(self) -> pa.Schema:
        """The columns that were given, or those of the first batch of any partition."""
        if self._schema is not None:
            return self._schema
        for reader in self._readers:
            for stored in reader.read():
                return stored.batch.schema.remove_metadata()
        raise DataError(f"{self._path}: the log is empty, so nothing says which columns there are; give schema=")

    def to_data(self) -> dict[str, Any]:
        return {"path": str(self._path), "began": {"id": self._id}}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> LogInput:
        made = cls(data["path"])
        # Streams of earlier builds do not know which log they read.
        made._id = data.get("began", {}).get("id") or made._id
        return made

    def extents(self) -> dict[str, Extent]:
        _check_same(self._id, Log.open(self._path))
        return {f"{number:05d}": Extent(reader.refresh(), is_firm=True) for number, reader in enumerate(self._readers)}

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        return [{"path": str(self._path), "id": self._id, "partition": int(source), "start": start, "end": end}]

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Batches:
        reader = _reader(stretch["path"], stretch.get("id"), stretch["partition"])
        at = stretch["start"]
        found = (stored.batch for stored in reader.read(at, stretch["end"]))
        pieces = (batch.select(present(wanted.columns, batch.schema)) for batch in found)
        for _, alike in groupby(pieces, key=lambda batch: batch.schema):
            # Who writes at once what has come appends little at a time, and the price of a leaf is by the batch.
            for batch in gathered(alike, READ_EVENTS):
                yield batch
                at += len(batch)
        if at != stretch["end"]:
            raise DataError(f"{reader.directory}: the log ends at offset {at}, but had {stretch['end']} rows before")


def _check_same(id: str | None, log: Log) -> None:
    """Refuse a log that was made in place of the one that was read; one of version 1 had no name to know it by."""
    if id is not None and log.id != id:
        raise DataError(
            f"{log.path}: this is another log than the one that was read so far (it is {log.id}, that was {id}): its offsets"
            " mean other rows; begin a new stream with another checkpoint, or bring the other log back"
        )


def _reader(path: str, id: str | None, partition: int) -> PartitionReader:
    """A reader that knows the files of earlier batches, if there is one: a long log has many, and each has to be looked at.

    By what the log is and not by its name alone, for it may have been replaced; and one for each thread.
    """
    status = os.stat(Path(path, "log.json"))
    return _kept_reader(path, id, partition, status.st_ino, status.st_mtime_ns, get_ident())


@lru_cache(maxsize=64)
def _kept_reader(path: str, id: str | None, partition: int, *_: int) -> PartitionReader:
    log = Log.open(path)
    _check_same(id, log)
    return log.reader(partition)
