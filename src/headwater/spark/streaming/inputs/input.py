"""What a stream reads: sources that grow, and stretches of them that can be read again at any time.

A position in a source is the offset of an event. The planner asks how far each source goes by now; workers read stretches that
the planner has described. Between the two an input travels as JSON.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from threading import get_ident
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from headwater.errors import DataError
from headwater.language.homes import Home, home_of_log
from headwater.language.places import local_path
from headwater.language.user_code import load_path
from headwater.logs import Log, PartitionReader
from headwater.spark.batch.partition_leaves import gathered
from headwater.spark.formats import Batches, Passed, Wanted
from headwater.spark.formats.streams import stored_columns

#: Where each kind of input is; a module is imported when one of its kind is met.
KINDS = {
    "log": "headwater.spark.streaming.inputs.input:LogInput",
    "folder": "headwater.spark.streaming.inputs.folder:FolderInput",
    "generated": "headwater.spark.streaming.inputs.generator:GeneratorInput",
    "renamed": "headwater.spark.streaming.inputs.renamed:RenamedInput",
    "kafka": "headwater.spark.streaming.kafka.input:KafkaInput",
}
#: Events of a log that a leaf gets at once, if they are there.
READ_EVENTS = 1 << 17


@dataclass(frozen=True, slots=True)
class Extent:
    """A source goes up to ``end`` by now. ``home``: the node it belongs to; without one it is its own.

    ``is_done``: nothing will be added, so it is not waited for. ``is_firm``: it never goes back, so an end below what was read
    says that something is wrong.
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
    """Sources of one kind. ``kind`` is one of `KINDS`, or the import path of the class; ``schema``: the columns of events.

    A class with ``stores_arrivals = True`` reads the column `ARRIVAL`, if it is wanted: when each event came, in microseconds
    since 1970, the same whenever it is read. For others it is the planning time of the batch that first took the event.
    A class whose ``extents`` takes in only so much at a time has a method ``everything`` that takes in all there is. A class
    whose sources end may have a static method ``forgets_sources`` of its data, which says that it has a method ``forget``: that
    names sources that are done, of which `extents` never tells again. One that keeps a list of what it has told of may have a
    method ``pass_over``, which hears from which event on each source may be read again.
    """

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


def rehomed(extents: dict[str, Extent], home: Home) -> dict[str, Extent]:
    """The sources that an input tells of, where a mapping says that they are at home."""
    if not isinstance(home, Mapping):
        return extents
    return {name: replace(extent, home=home.get(name, extent.home)) for name, extent in extents.items()}


def everything(opened: Input) -> dict[str, Extent]:
    """All that is there at this moment, which one look of `extents` need not take in: a stream that is to end reads it first."""
    found: dict[str, Extent] = getattr(opened, "everything", opened.extents)()
    return found


def pass_over(opened: Input, holds: Mapping[str, int]) -> None:
    """Tell an input from which event on each source may be read again."""
    getattr(opened, "pass_over", lambda _: None)(holds)


def input_class(kind: str) -> Any:
    """The class of the inputs of a kind."""
    return load_path(KINDS.get(kind, kind))


def stores_arrivals(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether an input knows when each event arrived, and gives it as a column to who wants it."""
    if "rename" in data:
        return stores_arrivals(data["kind"], data["input"])
    of_log = "has_arrivals" in data.get("began", {}) and data["began"]["has_arrivals"]
    return bool(of_log or getattr(input_class(kind), "stores_arrivals", False))


def forgets_sources(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether an input can leave out sources that are done: it never tells of them again, so that nobody has to remember them."""
    if "rename" in data:
        return forgets_sources(data["kind"], data["input"])
    return bool(getattr(input_class(kind), "forgets_sources", lambda _: False)(data))


class LogInput:
    """A segment log: its partitions are sources. Of each what its writer has published."""

    kind = "log"

    def __init__(self, path: str | Path, schema: pa.Schema | None = None) -> None:
        self._path = local_path("source", path, "give a folder that this machine and all workers see").absolute()
        self._schema = schema
        log = Log.open(self._path)
        self._id = log.id
        self._readers = [log.reader(partition) for partition in range(log.partition_count)]
        self._has_arrivals = log.id is not None and all(reader.has_arrivals for reader in self._readers)

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
        return {"path": str(self._path), "began": {"id": self._id, "has_arrivals": self._has_arrivals}}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> LogInput:
        made = cls(data["path"])
        # Streams of earlier builds do not know which log they read.
        made._id = data.get("began", {}).get("id") or made._id
        made._has_arrivals = data.get("began", {}).get("has_arrivals", False)
        return made

    def extents(self) -> dict[str, Extent]:
        _check_same(self._id, Log.open(self._path))
        home = home_of_log(self._path)
        ends = (reader.refresh() for reader in self._readers)
        return {f"{number:05d}": Extent(end, home, is_firm=True) for number, end in enumerate(ends)}

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        return [{"path": str(self._path), "id": self._id, "partition": int(source), "start": start, "end": end}]

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Batches:
        reader = _reader(stretch["path"], stretch.get("id"), stretch["partition"])
        at = stretch["start"]
        pieces = (stored_columns(stored, wanted.columns) for stored in reader.read(at, stretch["end"]))
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
