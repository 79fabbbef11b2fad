"""What a stream reads: sources that grow, and stretches of them that can be read again at any time.

A position in a source is the offset of an event. The planner asks how far each source goes by now; workers read stretches that
the planner has described. Between the two an input travels as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from headwater.errors import DataError
from headwater.logs import Log
from headwater.own import load_path
from headwater.spark.formats import Batches, Wanted
from headwater.spark.formats.piece import present

#: Where each kind of input is; a module is imported when one of its kind is met.
KINDS = {
    "log": "headwater.spark.streaming.inputs:LogInput",
    "folder": "headwater.spark.streaming.folder_input:FolderInput",
    "generated": "headwater.spark.streaming.generator_input:GeneratorInput",
    "kafka": "headwater.spark.streaming.kafka_input:KafkaInput",
}


@dataclass(frozen=True, slots=True)
class Extent:
    """A source goes up to ``end`` by now. ``is_done``: nothing will be added, so nobody has to wait for it."""

    end: int
    home: str = ""
    is_done: bool = False


class Input(Protocol):
    """Sources of one kind. ``kind`` is one of `KINDS`; ``schema``: the columns of events."""

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
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Batches:
        """The events of a stretch in the order of their offsets. In a worker, and the same whenever it is read."""


def input_class(kind: str) -> Any:
    """The class of the inputs of a kind."""
    return load_path(KINDS[kind])


class LogInput:
    """A segment log: its partitions are sources."""

    kind = "log"

    def __init__(self, path: str | Path, schema: pa.Schema | None = None) -> None:
        self._path = Path(path).absolute()
        self._schema = schema
        self._log = Log.open(self._path)
        self._readers = [self._log.reader(partition) for partition in range(self._log.partition_count)]

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
        return {"path": str(self._path)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> LogInput:
        return cls(data["path"])

    def extents(self) -> dict[str, Extent]:
        return {f"{number:05d}": Extent(reader.refresh()) for number, reader in enumerate(self._readers)}

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        return [{"path": str(self._path), "partition": int(source), "start": start, "end": end}]

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Batches:
        reader = Log.open(stretch["path"]).reader(stretch["partition"])
        at = stretch["start"]
        for stored in reader.read(at, stretch["end"]):
            yield stored.batch.select(present(wanted.columns, stored.batch.schema))
            at = stored.offset + stored.batch.num_rows
        if at != stretch["end"]:
            raise DataError(f"{reader.directory}: the log ends at offset {at}, but had {stretch['end']} rows before")
