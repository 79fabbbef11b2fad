"""Any input with columns under other names; the rest of a stream knows only the new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.language.renames import Renaming
from headwater.spark.batch.renames import renamed_batches, stored_wanted
from headwater.spark.formats import Wanted
from headwater.spark.streaming.inputs.input import Extent, Input, Told, everything, input_class, pass_over


class RenamedInput:
    """Another input, whose columns have the names that a `Renaming` says."""

    kind = "renamed"

    def __init__(self, inner: Input, renaming: Renaming) -> None:
        self._inner, self._renaming = inner, renaming

    @property
    def schema(self) -> pa.Schema:
        return self._renaming.schema(self._inner.schema)

    def to_data(self) -> dict[str, Any]:
        return {"rename": dict(self._renaming.names), "kind": self._inner.kind, "input": self._inner.to_data()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> RenamedInput:
        return cls(input_class(data["kind"]).from_data(data["input"]), Renaming(data["rename"]))

    def problems(self) -> list[tuple[str, str, str]]:
        found = getattr(self._inner, "problems", None)
        return [] if found is None else list(found())

    def extents(self) -> dict[str, Extent]:
        return self._inner.extents()

    def everything(self) -> dict[str, Extent]:
        return everything(self._inner)

    def forget(self, sources: Sequence[str]) -> None:
        self._inner.forget(sources)  # type: ignore[attr-defined]

    def pass_over(self, holds: Mapping[str, int]) -> None:
        pass_over(self._inner, holds)

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        told = {"rename": dict(self._renaming.names), "kind": self._inner.kind}
        return [{**told, "stretch": stretch} for stretch in self._inner.stretches(source, start, end)]

    @staticmethod
    def read(stretch: Mapping[str, Any], wanted: Wanted) -> Told:
        renaming = Renaming(stretch["rename"])
        found = input_class(stretch["kind"]).read(stretch["stretch"], stored_wanted(wanted, renaming))
        yield from renamed_batches(found, renaming)
