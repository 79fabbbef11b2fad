"""The table of a PostgreSQL sink: which columns it has, whether rows fit them, and how rows come into it."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt

from headwater.engine.results.shape import BOUNDS, POSITIONS
from headwater.errors import DataError
from headwater.spark.streaming.kafka.rows import json_texts
from headwater.spark.streaming.postgres.client import PostgresConnection, listed, quoted
from headwater.spark.streaming.sinks.timeline import SinkError
from headwater.spark.streaming.sinks.upsert import Upsert
from headwater.spark.types import nearest

#: The tables that a batch comes by.
ROWS = "headwater_rows"
WINDOWS = "headwater_windows"
NAME_BYTES_MAX = 63
#: Types of a user's table that hold all values of those that rows have.
_WIDER = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "jsonb": ("json", "text"),
}
_COLUMNS = """
    SELECT attname::text, format_type(atttypid, atttypmod)::text,
           (attnotnull AND NOT atthasdef AND attidentity = '')
    FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


class TargetTable:
    """One table, by the name that a user gave: ``windows`` or ``schema.windows``."""

    def __init__(self, name: str) -> None:
        parts = name.split(".") if hasattr(name, "split") else []
        if not 1 <= len(parts) <= 2 or not all(parts):
            raise DataError(f"table is {name!r}: give its name, 'windows' or 'schema.windows'")
        self.name = name
        self.sql = ".".join(map(quoted, parts))
        #: Where its notes are: beside it.
        self.schema_sql = "".join(f"{quoted(part)}." for part in parts[:-1])

    def exists(self, connection: PostgresConnection) -> bool:
        return connection.ask("SELECT to_regclass($1) IS NOT NULL", self.sql) == [(True,)]

    def create(self, connection: PostgresConnection, columns: pa.Schema, is_upsert: bool) -> None:
        """A new table for these columns; windows that come again are found by an index."""
        types = held_types(connection, columns)
        said = ", ".join(f"{quoted(name)} {type_}" for name, type_ in types.items())
        connection.do(f"CREATE TABLE {self.sql} ({said})")
        if is_upsert:
            for place in (BOUNDS, POSITIONS):
                if set(place) <= types.keys():
                    by = [name for name in ("query", *place) if name in types]
                    connection.do(f"CREATE INDEX ON {self.sql} ({listed(by)})")

    def fit(self, connection: PostgresConnection, columns: pa.Schema, *, may_grow: bool) -> None:
        """SinkError if rows with these columns do not fit; columns that are missing are added if that is allowed."""
        there = {name: (type_, is_needed) for name, type_, is_needed in connection.ask(_COLUMNS, self.sql)}
        wanted = held_types(connection, columns)
        for name, type_ in wanted.items():
            if name not in there and may_grow:
                connection.do(f"ALTER TABLE {self.sql} ADD COLUMN {quoted(name)} {type_}")
            elif name not in there:
                raise self._unfit(f"it has no column {name!r}", f"{quoted(name)} {type_}")
            elif not _holds(there[name][0], type_):
                raise self._unfit(f"its column {name!r} is {there[name][0]}", f"{quoted(name)} {type_}")
        for name, (type_, is_needed) in there.items():
            if is_needed and name not in wanted:
                raise self._unfit(
                    f"its column {name!r} ({type_}) may not be null, and rows have none", "a default for it"
                )

    def _unfit(self, what: str, form: str) -> SinkError:
        return SinkError(
            f"table {self.name!r} does not fit the rows: {what}; rows need {form}. Change it, or give another table: one that is"
            " missing is created"
        )

    def append(self, connection: PostgresConnection, rows: pa.Table) -> None:
        self._put(connection, rows)

    def upsert(self, connection: PostgresConnection, change: Upsert) -> None:
        """What the table has of these windows goes, and the rows of those that hold come."""
        connection.hold(WINDOWS, held(change.windows))
        connection.do(f"ANALYZE pg_temp.{quoted(WINDOWS)}")
        for place in (BOUNDS, POSITIONS):
            if set(place) <= set(change.names):
                connection.do(_delete(self.sql, change.names, place))
        connection.do(f"DROP TABLE pg_temp.{quoted(WINDOWS)}")
        if len(change.rows):
            self._put(connection, change.rows)

    def _put(self, connection: PostgresConnection, rows: pa.Table) -> None:
        connection.hold(ROWS, held(rows))
        names = listed(rows.column_names)
        picked = ", ".join(
            f"{quoted(field.name)}::jsonb" if is_nested(field.type) else quoted(field.name) for field in rows.schema
        )
        connection.do(f"INSERT INTO {self.sql} ({names}) SELECT {picked} FROM pg_temp.{quoted(ROWS)}")
        connection.do(f"DROP TABLE pg_temp.{quoted(ROWS)}")


def _delete(table: str, names: list[str], place: tuple[str, ...]) -> str:
    """Rows of windows that are known by bounds, or by positions: these are never null there, so that an index finds them."""
    equal = [name for name in ("query", *place) if name in names]
    others = [name for name in names if name not in ("query", *BOUNDS, *POSITIONS)]
    said = [f"t.{quoted(name)} = w.{quoted(name)}" for name in equal]
    if others:
        # Arrays with nulls in the same places are equal, and can be hashed; IS NOT DISTINCT FROM would look at every pair.
        arrays = (", ".join(f"{table}.{quoted(name)}::text" for name in others) for table in "tw")
        said.append(" = ".join(f"ARRAY[{array}]" for array in arrays))
    return f"DELETE FROM {table} t USING pg_temp.{quoted(WINDOWS)} w WHERE {' AND '.join(said)}"


def held_types(connection: PostgresConnection, columns: pa.Schema) -> dict[str, str]:
    """The types of PostgreSQL for columns of rows: those that ADBC chooses, and JSON for what is nested."""
    for field in columns:
        if len(field.name.encode()) > NAME_BYTES_MAX:
            raise DataError(
                f"column {field.name!r} is too long for PostgreSQL, whose names have {NAME_BYTES_MAX} bytes"
            )
    connection.hold(ROWS, held(columns.empty_table()))
    found = {name: type_ for name, type_, _ in connection.ask(_COLUMNS, f"pg_temp.{quoted(ROWS)}")}
    connection.do(f"DROP TABLE pg_temp.{quoted(ROWS)}")
    return {field.name: "jsonb" if is_nested(field.type) else found[field.name] for field in columns}


def held(rows: pa.Table) -> pa.Table:
    """Rows in types that travel: unsigned integers in wider ones, what is nested as JSON."""
    columns = {}
    for field, column in zip(rows.schema, rows.columns):
        if is_nested(field.type):
            chunks = [pa.array(_texts(chunk), pa.string()) for chunk in column.chunks]
            columns[field.name] = pa.chunked_array(chunks, pa.string())
        else:
            columns[field.name] = column.cast(nearest(field.type))
    return pa.table(columns)


def _texts(array: pa.Array) -> list[str | None]:
    return [None if text == "null" else text for text in json_texts(array)]


def is_nested(type_: pa.DataType) -> bool:
    """Whether values have parts with names, or lists in lists, for which tables have no columns."""
    if pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_):
        return bool(pt.is_fixed_size_list(type_) or pt.is_nested(type_.value_type))
    return bool(pt.is_nested(type_))


def _holds(there: str, wanted: str) -> bool:
    """Whether a column of one type holds all values of another.

    >>> _holds("numeric", "bigint"), _holds("integer", "bigint"), _holds("character varying(20)", "text")
    (True, False, True)
    """
    is_text = wanted == "text" and there.startswith("character varying")
    return there == wanted or is_text or there in _WIDER.get(wanted, ())


def stored_columns(columns: pa.Schema, is_upsert: bool) -> pa.Schema:
    """The columns that are kept: of the last revisions nothing is replaced."""
    return pa.schema([field for field in columns if not (is_upsert and field.name == "replaces")])
