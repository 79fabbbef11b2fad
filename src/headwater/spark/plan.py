"""What the driver fixes before a job: who reads which files, which columns, and the root as no leaf has met it yet.

A plan is text, so that it fits into an option of a data source.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from headwater.errors import DataError
from headwater.node import RootNode
from headwater.query import Query
from headwater.spark.files import find_pieces, share_out, split
from headwater.spark.formats import Piece, batches, schema_of
from headwater.spark.leaf import SETTINGS, Feed

#: As many files are asked for their columns before it is said that none has any.
LOOKS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """``tasks``: the pieces of each; ``schema``: of all columns; ``root``: a snapshot, None where events are asked for."""

    kind: str
    tasks: list[list[Piece]]
    columns: list[str]
    schema: pa.Schema
    root: bytes | None = None
    flush: bool = True

    def feeds(self, task: int) -> Iterator[Feed]:
        """The sources of a task, with their events."""
        for piece in self.tasks[task]:
            yield Feed(piece.source, piece.home, batches(self.kind, piece, self.columns, self.schema))

    def to_text(self) -> str:
        tree = {
            "kind": self.kind,
            "tasks": [[asdict(piece) for piece in task] for task in self.tasks],
            "columns": self.columns,
            "schema": self.schema.serialize().to_pybytes().hex(),
            "root": None if self.root is None else self.root.hex(),
            "flush": self.flush,
        }
        return base64.b64encode(zlib.compress(json.dumps(tree).encode())).decode()

    @classmethod
    def from_text(cls, text: str) -> Plan:
        tree: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
        tasks = [[_piece(fields) for fields in task] for task in tree["tasks"]]
        schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(tree["schema"])))
        root = None if tree["root"] is None else bytes.fromhex(tree["root"])
        return cls(tree["kind"], tasks, tree["columns"], schema, root, tree["flush"])


def _piece(fields: dict[str, Any]) -> Piece:
    groups = fields.pop("groups")
    return Piece(**fields, groups=None if groups is None else (groups[0], groups[1]))


def plan_queries(
    source: Any, queries: Query | Iterable[Query], kind: str | None, parallelism: int, flush: bool, **settings: Any
) -> Plan:
    """How to answer queries; whatever is wrong with files or queries is said here."""
    kind, pieces = find_pieces(source, kind)
    schema = _schema(kind, pieces)
    root = fresh_root(queries, schema, **settings)
    if settings.get("disorder") is None and flush:
        pieces = split(pieces, kind)
    return Plan(kind, share_out(pieces, parallelism), list(root.columns), schema, root.snapshot(), flush)


def fresh_root(queries: Query | Iterable[Query], schema: pa.Schema, **settings: Any) -> RootNode:
    """A root that no leaf has met; queries that do not fit the columns are refused."""
    listed = [queries] if isinstance(queries, Query) else queries
    return RootNode("root", listed, schema=schema, settings=SETTINGS, round_trips=False, **settings)


def plan_events(source: Any, kind: str | None, columns: Sequence[str] | None, parallelism: int) -> Plan:
    """How to read the events themselves."""
    kind, pieces = find_pieces(source, kind)
    schema = _schema(kind, pieces)
    unknown = [name for name in columns or () if name not in schema.names]
    if unknown:
        raise DataError(f"columns hold {unknown[0]!r}: there is no such column; there is {', '.join(schema.names)}")
    wanted = list(schema.names if columns is None else columns)
    return Plan(kind, share_out(split(pieces, kind), parallelism), wanted, schema)


def _schema(kind: str, pieces: Sequence[Piece]) -> pa.Schema:
    """The columns of the first file that has any."""
    for piece in pieces[:LOOKS_MAX]:
        schema = schema_of(kind, piece.place)
        if schema is not None:
            return schema.remove_metadata()
    raise DataError(f"{pieces[0].place}: all files are empty, so nothing says which columns there are")
