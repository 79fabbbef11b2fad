"""The plan of a batch job, made on the driver: which task reads which files and columns, and the initial root.

A plan is text, so that it fits into an option of a data source.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.engine.intake.predicates import mask
from headwater.errors import DataError
from headwater.language.expressions import Expr, boolean
from headwater.language.files.conditions import condition_from_data, condition_to_data
from headwater.language.homes import Home, check_home, homed
from headwater.language.query import Query
from headwater.language.renames import AS_STORED, Renaming
from headwater.language.schemas import check_condition, check_unit_of
from headwater.language.time_columns import ARRIVAL
from headwater.spark.batch.columns import Types, columns_of
from headwater.spark.batch.files import SourceOf, find_pieces, share_out, split
from headwater.spark.batch.initial_root import initial_root, initial_root_bytes
from headwater.spark.batch.leaf import SourceFeed
from headwater.spark.batch.pruning import Pruning, pruning_of
from headwater.spark.batch.renames import renamed_batches, stored_wanted
from headwater.spark.formats import FORMATS, FileRange, Passed, Wanted, batches, row_count
from headwater.spark.formats.streams import log_has_arrivals
from headwater.spark.shipped import carried, install


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """``tasks``: the pieces of each; ``schema``: of all columns; ``root``: it, fresh, None where events are asked for.

    ``where``: which events are asked for; ``pruning``: which events are wanted at all; ``strict``: malformed text is an error.
    ``renaming``: how columns are called that are stored under other names.
    """

    kind: str
    tasks: list[list[FileRange]]
    columns: list[str]
    schema: pa.Schema
    root: bytes | None = None
    flush: bool = True
    strict: bool = False
    where: Expr | None = None
    pruning: Pruning | None = None
    renaming: Renaming = AS_STORED
    #: The columns of result rows, and whether no value can be malformed; tasks do not need to know.
    rows: pa.Schema | None = None
    is_uniform: bool = False
    #: What was shipped, for tasks to install.
    shipped: Mapping[str, bytes] = field(default_factory=dict)

    def feeds(self, task: int) -> Iterator[SourceFeed]:
        """The sources of a task, with their events."""
        wanted = stored_wanted(Wanted(self.columns, self.schema, self.strict, self.pruning), self.renaming)
        for piece in self.tasks[task]:
            found = batches(self.kind, piece, wanted)
            yield SourceFeed(
                piece.source, piece.home, renamed_batches(found, self.renaming) if self.renaming else found
            )

    def event_count(self) -> int | None:
        """How many events the files hold, where they tell it cheaply."""
        if FORMATS[self.kind].parts is None:
            return None
        places = {place for task in self.tasks for piece in task for place in piece.places}
        return sum(row_count(self.kind, place) for place in places)

    def events(self, task: int) -> Iterator[pa.RecordBatch]:
        """The events of a task that are asked for."""
        where = self.where
        names = self.columns if where is None else sorted({*self.columns, *where.columns()})
        for feed in replace(self, columns=names).feeds(task):
            for batch in feed.batches:
                if isinstance(batch, Passed):
                    continue
                if where is not None:
                    columns = {name: batch.column(name) for name in where.columns()}
                    batch = batch.filter(pa.array(mask(where, columns, len(batch))))
                yield batch.select(self.columns)

    def to_text(self) -> str:
        tree = {
            "kind": self.kind,
            "tasks": [[asdict(piece) for piece in task] for task in self.tasks],
            "columns": self.columns,
            "schema": schema_to_bytes(self.schema).hex(),
            "root": None if self.root is None else self.root.hex(),
            "flush": self.flush,
            "strict": self.strict,
            "where": None if self.where is None else condition_to_data(self.where),
            "pruning": None if self.pruning is None else self.pruning.to_data(),
            "rename": dict(self.renaming.names),
            "shipped": {name: data.hex() for name, data in self.shipped.items()},
        }
        return base64.b64encode(zlib.compress(json.dumps(tree).encode())).decode()

    @classmethod
    def from_text(cls, text: str) -> ReadPlan:
        tree: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
        shipped = {name: bytes.fromhex(data) for name, data in tree["shipped"].items()}
        install(shipped)
        tasks = [[_piece(fields) for fields in task] for task in tree["tasks"]]
        schema = schema_from_bytes(bytes.fromhex(tree["schema"]))
        root = None if tree["root"] is None else bytes.fromhex(tree["root"])
        where = None if tree["where"] is None else condition_from_data(tree["where"])
        pruning = None if tree["pruning"] is None else Pruning.from_data(tree["pruning"])
        rest = tree["flush"], tree["strict"], where, pruning, Renaming(tree["rename"])
        return cls(tree["kind"], tasks, tree["columns"], schema, root, *rest, shipped=shipped)


def _piece(fields: dict[str, Any]) -> FileRange:
    groups = fields.pop("groups")
    places = tuple(fields.pop("places"))
    return FileRange(**fields, places=places, groups=None if groups is None else (groups[0], groups[1]))


def _check_arrivals(kind: str, pieces: Sequence[FileRange], time: str) -> None:
    """Refuse arrivals as times where nothing stores them."""
    if kind == "generated":
        raise DataError(f"time is {time}: generated events do not arrive; name a column of times")
    if kind == "log" and not all(log_has_arrivals(place) for piece in pieces for place in piece.places):
        raise DataError(
            f"time is {time}: rows of a log of version 1 do not tell when they arrived; name a column of times"
        )


def plan_queries(
    source: Any,
    queries: Query | Iterable[Query],
    kind: str | None,
    parallelism: int,
    flush: bool,
    *,
    sources: SourceOf = "auto",
    types: Types | None = None,
    rename: Mapping[str, str] | None = None,
    home: Home = None,
    **settings: Any,
) -> ReadPlan:
    """How to answer queries; whatever is wrong with files or queries is said here."""
    home = check_home(home)
    listed = homed([queries] if isinstance(queries, Query) else queries, home)
    kind, pieces = find_pieces(source, kind, sources, home)
    renaming = Renaming.of(rename)
    columns = columns_of(kind, pieces, types).renamed(renaming)
    root = initial_root(listed, columns.schema, **settings)
    check_unit_of("disorder", settings.get("disorder"), columns.schema, settings.get("time", "time"))
    names = [name for name in root.columns if name != ARRIVAL]
    if len(names) < len(root.columns):
        _check_arrivals(kind, pieces, settings["time"])
    columns.check(names)
    is_late_possible = settings.get("disorder") is not None
    if not is_late_possible and flush:
        pieces = split(pieces, kind)
    pruning = pruning_of(listed, settings.get("time", "time"), settings.get("unit", "us"), is_late_possible)
    return ReadPlan(
        kind,
        share_out(pieces, parallelism),
        list(root.columns),
        columns.schema,
        initial_root_bytes(root),
        flush,
        bool(settings.get("strict", False)),
        pruning=pruning,
        renaming=renaming,
        rows=root.result_schema,
        is_uniform=columns.are_uniform(names),
        shipped=carried(),
    )


def plan_events(
    source: Any,
    kind: str | None,
    columns: Sequence[str] | None,
    parallelism: int,
    *,
    where: Expr | None = None,
    strict: bool = False,
    types: Types | None = None,
    rename: Mapping[str, str] | None = None,
) -> ReadPlan:
    """How to read the events themselves, or those of them for which ``where`` is true."""
    kind, pieces = find_pieces(source, kind)
    renaming = Renaming.of(rename)
    found = columns_of(kind, pieces, types).renamed(renaming)
    schema = found.schema
    unknown = [name for name in columns or () if name not in schema.names]
    if unknown:
        raise DataError(f"columns hold {unknown[0]!r}: there is no such column; there is {', '.join(schema.names)}")
    wanted = list(schema.names if columns is None else columns)
    found.check(wanted)
    plan = ReadPlan(kind, share_out(split(pieces, kind), parallelism), wanted, schema, strict=strict, renaming=renaming)
    if where is None:
        return plan
    condition = boolean(where)
    check_condition("where", condition, schema)
    found.check(condition.columns())
    return replace(plan, where=condition, pruning=Pruning((condition,)))
