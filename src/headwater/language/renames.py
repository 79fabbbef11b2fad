"""Columns under other names on the way in, for data whose own names results need: `rename={"node": "device"}`.

Queries and all other arguments speak of the new names; only the data, and what says how it is read, has the old ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from headwater.errors import DataError, shown
from headwater.language.time_columns import epoch, iso, time_column

_FORM = 'give old and new names, such as rename={"node": "device"}'


@dataclass(frozen=True, slots=True)
class Renaming:
    """New names by old ones; mostly there are none, and nothing happens."""

    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Any) -> Renaming:
        """What a user gave, checked as far as it can be without the data.

        >>> Renaming.of({"a": "c", "b": "c"})
        Traceback (most recent call last):
        headwater.errors.DataError: rename gives the name 'c' twice: give each column a name of its own
        """
        if given is None:
            return cls()
        if not isinstance(given, Mapping):
            raise DataError(f"rename is {shown(given)}: {_FORM}")
        for name in (*given.keys(), *given.values()):
            if not isinstance(name, str) or not name or "\0" in name:
                raise DataError(f"rename holds {shown(name)}: {_FORM}")
        new = list(given.values())
        twice = [name for name in new if new.count(name) > 1]
        if twice:
            raise DataError(f"rename gives the name {twice[0]!r} twice: give each column a name of its own")
        return cls({old: name for old, name in given.items() if old != name})

    def __bool__(self) -> bool:
        return bool(self.names)

    def check(self, columns: Iterable[str]) -> None:
        """Refuse names that the data has not, and new ones that it has already."""
        there = list(columns)
        for old, new in self.names.items():
            if old not in there:
                raise DataError(f"rename names {old!r}: there is no such column; there is {', '.join(there) or 'none'}")
            if new in there and new not in self.names:
                raise DataError(f"rename makes {new!r} of {old!r}: there is a column of this name; take another")

    def renamed(self, columns: Iterable[str]) -> list[str]:
        """Columns of the data by their new names.

        >>> Renaming.of({"node": "device"}).renamed(["time", "node"])
        ['time', 'device']
        """
        # Beside a column may stand the texts of it that could not be read, under its name behind zero bytes.
        # What hosts add begins with two, and is nobody's to rename.
        plain = [(name, "" if name.startswith("\0\0") else name.lstrip("\0")) for name in columns]
        return [name.removesuffix(own) + self.names.get(own, own) for name, own in plain]

    def stored(self, name: str) -> str:
        """The name that a column has in the data.

        >>> Renaming.of({"node": "device"}).stored("device")
        'node'
        """
        return next((old for old, new in self.names.items() if new == name), name)

    def stored_time(self, time: str) -> str:
        """What `time=` would be if nothing were renamed.

        >>> Renaming.of({"node": "device"}).stored_time("hw.epoch('device', 's')")
        "hw.epoch('node', 's')"
        """
        column = time_column(time)
        match column.reading:
            case "epoch":
                return epoch(self.stored(column.name), column.unit)
            case "iso":
                return iso(self.stored(column.name))
            case "arrival":
                return time
        return self.stored(time)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the data under their new names."""
        if not self:
            return schema
        self.check(schema.names)
        return self.fields(schema)

    def fields(self, schema: pa.Schema) -> pa.Schema:
        """The same without a check: a part of the data may lack a column."""
        names = self.renamed(schema.names)
        return pa.schema([each.with_name(name) for each, name in zip(schema, names, strict=True)])

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same columns under their new names; nothing is copied."""
        return batch.rename_columns(self.renamed(batch.schema.names)) if self else batch


#: Every column has the name that it has.
AS_STORED: Final = Renaming()
