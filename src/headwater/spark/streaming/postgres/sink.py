"""Result rows into a table of PostgreSQL, exactly once: rows and the note of their batch are one transaction.

Beside the table stands ``headwater_sinks``: which stream a table belongs to, which of its lives wrote last, the last batch, and a
digest of its rows. A batch that is run again is known by its note. The note is locked while a batch is written, so that of two
drivers one comes first, and the other finds what it did.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from headwater.errors import DataError
from headwater.spark.streaming.kafka.rows import json_rows
from headwater.spark.streaming.postgres.client import DatabaseError, LostError, PostgresConnection, check_dsn, library
from headwater.spark.streaming.postgres.table import TargetTable, stored_columns
from headwater.spark.streaming.sinks.mode import Mode, check_mode
from headwater.spark.streaming.sinks.noted import Note, NotedBatches
from headwater.spark.streaming.sinks.sink import Sink
from headwater.spark.streaming.sinks.timeline import Claimant
from headwater.spark.streaming.sinks.upsert import upsert_of

_log = logging.getLogger(__name__)

#: How often a batch is tried whose connection broke, before the stream stops.
TRIES = 3
#: The table of notes; its lock, for two that begin at once.
NOTES = "headwater_sinks"
_LOCK = 0x6865_6164_7761_7465
_COLUMNS = """
    target text PRIMARY KEY, stream text NOT NULL, life text NOT NULL, batch bigint NOT NULL, digest text NOT NULL,
    written timestamptz NOT NULL DEFAULT now()
"""


def postgres(dsn: str | Mapping[str, str], table: str, mode: Mode = "append") -> PostgresSink:
    """A sink that writes rows into a table of PostgreSQL, each exactly once; the table is created if it is missing.

    With ``mode="upsert"`` the table holds the last revision of every window, instead of all rows. ``dsn`` is as for `psql`, or
    ``{"env": "NAME"}`` for the variable that holds it.
    """
    return PostgresSink(dsn, table, mode)


class PostgresSink(Sink):
    """A table that belongs to one stream. Write it with `postgres(...)`."""

    def __init__(self, dsn: str | Mapping[str, str], table: str, mode: Mode = "append") -> None:
        check_mode(mode)
        self._dsn = check_dsn(dsn)
        self._table = TargetTable(table)
        self._is_upsert = mode == "upsert"
        self._stream: Claimant | None = None
        self._connection: PostgresConnection | None = None
        self._notes: NotedBatches | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Through Spark Connect it is pickled, and connects there."""
        return {**self.__dict__, "_connection": None}

    def open(self, stream: Claimant) -> None:
        """From now on the table is this stream's."""
        library()
        columns = stream.columns(stream.only)
        if self._is_upsert and "window_start" not in columns.names:
            raise DataError(
                f"table {self._table.name!r}: events that are in no result have no revisions; write them with mode='append'"
            )
        self._stream = stream
        give = "give another table, or drop this one"
        self._notes = NotedBatches(f"table {self._table.name!r}", stream, give, give)
        self.close()
        self._in_transaction("it cannot be opened", lambda connection: self._claim(connection, columns))

    def write(self, batch: int, rows: pa.Table) -> None:
        """Write the rows of a batch, if they are not there; afterwards they are, and stay."""
        if len(rows):
            digest = hashlib.sha256(b"\n".join(json_rows(rows))).hexdigest()[:32]
            doing = f"batch {batch} is not written"
            self._in_transaction(doing, lambda connection: self._write(connection, batch, rows, digest))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # --- transactions ---

    def _in_transaction(self, doing: str, act: Callable[[PostgresConnection], None]) -> None:
        """Do something as a whole; if the connection breaks, it is done again, for the note tells whether it was."""
        for left in reversed(range(TRIES)):
            try:
                if self._connection is None:
                    self._connection = PostgresConnection(self._dsn, f"table {self._table.name!r}")
                with self._connection.transaction(doing) as connection:
                    act(connection)
                return
            except LostError as error:
                self.close()
                if not left:
                    raise
                _log.warning("%s; it is tried again", error)
            except BaseException:
                self.close()
                raise

    def _claim(self, connection: PostgresConnection, columns: pa.Schema) -> None:
        """The table is there, fits, and has a note of this stream and life."""
        assert self._notes is not None
        kept = stored_columns(columns, self._is_upsert)
        connection.ask("SELECT pg_advisory_xact_lock($1)::text", _LOCK)
        connection.do(f"CREATE TABLE IF NOT EXISTS {self._notes_sql} ({_COLUMNS})")
        note = self._noted(connection)
        if not self._table.exists(connection):
            # Whatever was noted is of a table that somebody has dropped.
            note = Note(-1)
            self._table.create(connection, kept, self._is_upsert)
        self._notes.check(note)
        self._table.fit(connection, kept, may_grow=note.stream != "")
        self._notes.last = note
        self._note(connection, self._notes.next(note.batch, note.digest))

    def _write(self, connection: PostgresConnection, batch: int, rows: pa.Table, digest: str) -> None:
        assert self._notes is not None and self._stream is not None
        note = self._noted(connection)
        if not note.stream:
            raise DatabaseError(
                f"table {self._table.name!r}: its row of {NOTES} is gone, so nobody knows which batches are in it; start the"
                " stream again with another table"
            )
        self._notes.check(note)
        self._notes.last = note
        if self._notes.has(batch, digest):
            return
        kept = rows.select(stored_columns(rows.schema, self._is_upsert).names)
        # Columns follow the queries: one that was added may bring some.
        self._table.fit(connection, kept.schema, may_grow=True)
        if self._is_upsert:
            self._table.upsert(connection, upsert_of(rows, self._stream))
        else:
            self._table.append(connection, kept)
        self._note(connection, self._notes.next(batch, digest))

    # --- notes ---

    @property
    def _notes_sql(self) -> str:
        return f"{self._table.schema_sql}{NOTES}"

    def _noted(self, connection: PostgresConnection) -> Note:
        """The note of the table, which stays locked to the end of the transaction; an empty one if it has none."""
        found = connection.ask(
            f"UPDATE {self._notes_sql} SET written = now() WHERE target = $1 RETURNING batch, stream, life, digest",
            self._table.name,
        )
        return Note(*found[0]) if found else Note(-1)

    def _note(self, connection: PostgresConnection, note: Note) -> None:
        connection.do(
            f"INSERT INTO {self._notes_sql} (target, batch, stream, life, digest) VALUES ($1, $2, $3, $4, $5)"
            " ON CONFLICT (target) DO UPDATE SET batch = $2, stream = $3, life = $4, digest = $5",
            self._table.name,
            *note,
        )
