"""Cases as the input of a stream: each source of a case is a source of the stream, and shows as much of itself as it was told to.

An item of a source is an event or a watermark. A watermark has an offset of its own, at which there is no event: so it is news
even where no event came before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.logs import files
from headwater.spark.formats import Passed, Wanted
from headwater.spark.streaming.inputs.input import Extent, Told, Watermark

#: An event's row, or a watermark.
Item = dict[str, Any] | int


@dataclass(frozen=True)
class CaseSource:
    """One source of one case."""

    home: str
    items: Sequence[Item]


class CaseInput:
    """Sources in a folder: what they hold in ``items.json``, how much of it they show in ``shown.json``."""

    kind = "headwater.cases.stream_input:CaseInput"

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder = folder
        self.schema = schema

    def store(self, sources: Mapping[str, CaseSource]) -> None:
        """Write the items of all sources, once, before any is shown."""
        text = json.dumps({name: [source.home, list(source.items)] for name, source in sources.items()})
        files.replace(self._folder / "items.json", text.encode())
        self.show({})

    def show(self, ends: Mapping[str, int]) -> None:
        """From now on there are these sources, each up to an end."""
        files.replace(self._folder / "shown.json", json.dumps(dict(ends)).encode())

    def to_data(self) -> dict[str, Any]:
        return {"folder": str(self._folder), "schema": schema_to_bytes(self.schema).hex()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> CaseInput:
        return cls(Path(data["folder"]), schema_from_bytes(bytes.fromhex(data["schema"])))

    def extents(self) -> dict[str, Extent]:
        items = json.loads((self._folder / "items.json").read_bytes())
        shown = json.loads((self._folder / "shown.json").read_bytes())
        # A case that is over holds no other back.
        return {name: Extent(end, items[name][0], end == len(items[name][1])) for name, end in shown.items()}

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        return [{"folder": str(self._folder), "source": source, "start": start, "end": end}]

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Told:
        _, items = json.loads(Path(stretch["folder"], "items.json").read_bytes())[stretch["source"]]
        schema = pa.schema([wanted.schema.field(name) for name in wanted.columns])
        for is_watermark, some in groupby(items[stretch["start"] : stretch["end"]], lambda item: isinstance(item, int)):
            if not is_watermark:
                yield pa.RecordBatch.from_pylist(list(some), schema=schema)
                continue
            for watermark in some:
                yield Passed(1)
                yield Watermark(watermark)
