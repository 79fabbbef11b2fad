"""Rows into a table of Spark's catalog: appended, or as the last revision of every window.

Delta and Iceberg know by a batch's number, which they keep with its rows, whether they have it. Other formats have no
transactions: after a crash a batch may be appended again. An upsert is one MERGE, which does the same when it is done again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import DataError
from headwater.spark.native.types import quoted
from headwater.spark.streaming.sinks.foreach_batch import frame_of, session_of
from headwater.spark.streaming.sinks.mode import Mode, check_mode
from headwater.spark.streaming.sinks.noted import Note, NotedBatches
from headwater.spark.streaming.sinks.sink import Sink
from headwater.spark.streaming.sinks.timeline import Claimant, SinkError
from headwater.spark.streaming.sinks.upsert import Upsert, upsert_of
from headwater.spark.types import spark_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

#: Formats that keep the number of a batch with its rows.
ONCE = ("delta", "iceberg")
#: What a table of Delta or Iceberg says of each batch: stream, life and number.
PROPERTY = "headwater.batch"
#: Whether a window holds, in the source of a MERGE.
HOLDS = "headwater_holds"
_SOURCE = "headwater_upsert"


def to_table(name: str, mode: Mode = "append") -> TableSink:
    """A sink that writes rows into a table of Spark's catalog: ``"main.iot.windows"``.

    ``mode="append"`` appends all rows, exactly once where the format has transactions (Delta, Iceberg), else at least once; a
    table that is missing is created. With ``mode="upsert"`` the table holds the last revision of every window, by MERGE.
    """
    return TableSink(name, mode)


class TableSink(Sink):
    """A table of Spark's catalog. Write it with `to_table(...)`."""

    def __init__(self, name: str, mode: Mode = "append") -> None:
        if not (name and hasattr(name, "encode")):
            raise DataError(f"table is {name!r}: give the name of a table, such as 'main.iot.windows'")
        check_mode(mode)
        self.name = name
        self._is_upsert = mode == "upsert"
        self._stream: Claimant | None = None
        self._notes: NotedBatches | None = None
        self._format: str | None = None
        #: Columns that the table is known to have, in small letters, as Spark compares them.
        self._there: set[str] = set()

    def open(self, stream: Claimant) -> None:
        """A table that cannot take these rows is refused here."""
        spark = session_of(stream)
        self._stream = stream
        self._notes = NotedBatches(f"table {self.name!r}", stream, "give another table", "give another table")
        self._format = format_of(spark, self.name)
        if self._is_upsert:
            self._check_upsert(spark, stream.columns(stream.only))
        elif self._format in ONCE:
            note = self._noted(spark)
            self._notes.check(note)
            self._notes.last = note
        else:
            self._tell()

    def _tell(self) -> None:
        """Say that rows may come twice, where they may."""
        if self._format is not None and self._format not in ONCE:
            _log.warning(
                "table %r is %s, which has no transactions: after a crash rows of one batch may be there twice",
                self.name,
                self._format,
            )

    def write(self, batch: int, rows: pa.Table) -> None:
        if len(rows):
            spark = session_of(self._stream)
            if self._is_upsert:
                self._upsert(spark, rows)
            else:
                self._append(spark, batch, rows)

    # --- append ---

    def _append(self, spark: SparkSession, batch: int, rows: pa.Table) -> None:
        """Nobody else writes batches of this stream, so what the table said when it was opened holds."""
        assert self._notes is not None
        if self._format in ONCE and self._notes.has(batch, ""):
            return
        if self._format == "iceberg":
            self._grow(spark, rows.schema)
        note = self._notes.next(batch)
        writer = frame_of(rows, spark).write.mode("append").options(**append_options(note))
        # Spark takes its default format for what is meant, and refuses a table of another.
        (writer if self._format is None else writer.format(self._format)).saveAsTable(self.name)
        self._notes.last = note
        if self._format is None:
            self._format = format_of(spark, self.name)
            self._tell()

    def _noted(self, spark: SparkSession) -> Note:
        """The last batch that the table says it has; none if nobody has written to it from a stream."""
        if self._format == "delta":
            told = spark.sql(f"DESCRIBE HISTORY {self.name}").where("userMetadata IS NOT NULL").orderBy("version")
            texts = [row["userMetadata"] for row in told.select("userMetadata").collect()]
        else:
            told = spark.sql(f"SELECT summary['{PROPERTY}'] AS note FROM {self.name}.snapshots ORDER BY committed_at")
            texts = [row["note"] for row in told.where("note IS NOT NULL").collect()]
        found = [note for text in texts if (note := note_of(text)) is not None]
        return found[-1] if found else Note(-1)

    # --- columns ---

    def _grow(self, spark: SparkSession, columns: pa.Schema) -> None:
        """A query that was added brings its columns."""
        if missing := self._missing(spark, columns):
            spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({missing})")

    def _missing(self, spark: SparkSession, columns: pa.Schema) -> str:
        """Columns that the table has not, as ALTER TABLE takes them; it is asked only where more come than it had."""
        if not {name.lower() for name in columns.names} <= self._there:
            self._there = {name.lower() for name in spark.table(self.name).columns}
        return _declared(pa.schema([field for field in columns if field.name.lower() not in self._there]))

    # --- upsert ---

    def _check_upsert(self, spark: SparkSession, columns: pa.Schema) -> None:
        """SinkError if the table is missing, or cannot MERGE rows with these columns."""
        if "window_start" not in columns.names:
            raise DataError(
                f"table {self.name!r}: events that are in no result have no revisions; write them with mode='append'"
            )
        shown = pa.schema([field for field in columns if field.name != "replaces"])
        if self._format is None:
            raise SinkError(
                f"there is no table {self.name!r}: create one that can MERGE first, such as CREATE TABLE {self.name}"
                f" ({_declared(shown)}) USING delta"
            )
        assert self._stream is not None
        # Of a stream in its first life the table is not known to be its own.
        if len(self._stream.lives) == 1 and (missing := self._missing(spark, shown)):
            raise SinkError(
                f"table {self.name!r} lacks columns that rows have: ALTER TABLE {self.name} ADD COLUMNS ({missing}), or give"
                " another table"
            )
        self._grow(spark, shown)
        names = [name for name in shown.names if name in ("query", "window_start", "window_end")]
        empty = Upsert(
            pa.schema([shown.field(name) for name in [*names, "revision"]]).empty_table(), shown.empty_table()
        )
        _source(spark, empty).createOrReplaceTempView(_SOURCE)
        # A plan is one row, an error several.
        told = [row[0] for row in spark.sql(f"EXPLAIN {merge_sql(self.name, empty.names, shown.names)}").collect()]
        spark.catalog.dropTempView(_SOURCE)
        if "Error occurred during query planning" in "".join(told):
            raise SinkError(
                f"table {self.name!r} is {self._format}, which cannot MERGE, so it cannot hold the last revisions only: give one"
                " of Delta or Iceberg, or mode='append'"
            )

    def _upsert(self, spark: SparkSession, rows: pa.Table) -> None:
        assert self._stream is not None
        change = upsert_of(rows, self._stream)
        self._grow(spark, change.rows.schema)
        _source(spark, change).createOrReplaceTempView(_SOURCE)
        spark.sql(merge_sql(self.name, change.names, change.rows.column_names))


def _declared(columns: pa.Schema) -> str:
    """Columns as CREATE TABLE and ALTER TABLE take them."""
    _, struct = spark_types(columns)
    return ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in struct.fields)


def format_of(spark: SparkSession, name: str) -> str | None:
    """The format of a table, None if there is no such table."""
    if not spark.catalog.tableExists(name):
        return None
    told = {row[0]: row[1] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
    return str(told.get("Provider", "a table of unknown format")).lower()


def append_options(note: Note) -> dict[str, Any]:
    """What a format is told with the rows of a batch, to be kept with them; each takes its own, and others pass it by.

    >>> append_options(Note(7, "s", "l"))["snapshot-property.headwater.batch"]
    's:l:7'
    """
    text = f"{note.stream}:{note.life}:{note.batch}"
    return {
        # Delta's own fence: of two that append one batch at once it takes one.
        "txnAppId": f"headwater-{note.stream}",
        "txnVersion": note.batch,
        "userMetadata": f"{PROPERTY}:{text}",
        # A query that is added may bring columns.
        "mergeSchema": "true",
        # Iceberg's
        f"snapshot-property.{PROPERTY}": text,
    }


def note_of(text: str) -> Note | None:
    """The note that a table keeps of a batch; None if somebody else wrote it.

    >>> note_of("headwater.batch:s:l:7"), note_of("nightly run")
    (Note(batch=7, stream='s', life='l', digest=''), None)
    """
    parts = text.removeprefix(f"{PROPERTY}:").split(":")
    return Note(int(parts[2]), parts[0], parts[1]) if len(parts) == 3 and parts[2].isdigit() else None


def merge_sql(table: str, names: list[str], columns: list[str]) -> str:
    """What a change does to a table, in one statement; ``names``: the columns by which a window is known.

    A row whose revision the table has passed changes nothing: a driver that was replaced may come late.
    """
    same = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in names)
    set_to = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in columns)
    into = ", ".join(map(quoted, columns))
    values = ", ".join(f"s.{quoted(name)}" for name in columns)
    return (
        f"MERGE INTO {table} t USING {_SOURCE} s ON {same}"
        f" WHEN MATCHED AND NOT s.{HOLDS} AND s.revision >= t.revision THEN DELETE"
        f" WHEN MATCHED AND s.{HOLDS} AND s.revision >= t.revision THEN UPDATE SET {set_to}"
        f" WHEN NOT MATCHED AND s.{HOLDS} THEN INSERT ({into}) VALUES ({values})"
    )


def _source(spark: SparkSession, change: Upsert) -> DataFrame:
    """Each window of a change once: with its row if it holds."""
    return frame_of(merge_rows(change), spark)


def merge_rows(change: Upsert) -> pa.Table:
    """The windows of a change as one table: rows of those that hold, the others with nothing but their names and revision."""
    rows = change.rows.append_column(HOLDS, pa.array([True] * len(change.rows), pa.bool_()))
    gone = _without(change.windows, change.rows, change.names)
    nothing: Mapping[str, pa.Array] = {
        field.name: gone.column(field.name) if field.name in gone.column_names else pa.nulls(len(gone), field.type)
        for field in change.rows.schema
    }
    gone = pa.table({**nothing, HOLDS: pa.array([False] * len(gone), pa.bool_())}).cast(rows.schema)
    return pa.concat_tables([rows, gone])


def _without(windows: pa.Table, rows: pa.Table, names: list[str]) -> pa.Table:
    """The windows that have no row. Not by a join, for which nulls are never equal."""
    counted = pa.concat_tables([windows.select(names), rows.select(names).cast(windows.select(names).schema)])
    places = pa.array([*range(len(windows)), *([None] * len(rows))], pa.int64())
    found = counted.append_column("place", places).group_by(names).aggregate([("place", "max"), ([], "count_all")])
    alone = found.filter(pc.equal(found["count_all"], 1))["place_max"]
    return windows.take(pc.sort_indices(alone) if not len(alone) else alone.take(pc.sort_indices(alone)))
