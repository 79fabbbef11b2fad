"""A connection to PostgreSQL: its library, its errors as sentences, and what is asked of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from headwater.errors import DataError, HeadwaterError
from headwater.spark.setup import SetupError

#: How long a transaction may wait for its driver before the server ends it.
IDLE_SECONDS_MAX = 120


class DatabaseError(HeadwaterError):
    """A database that does not answer, or refuses."""


class LostError(DatabaseError):
    """A connection that broke: what became of its last transaction is not known."""


def library() -> Any:
    """The client library, an extra."""
    try:
        import adbc_driver_postgresql.dbapi as found
    except ImportError:
        raise SetupError(
            "adbc-driver-postgresql is not installed: install with: pip install 'headwater[postgres]'"
        ) from None
    return found


def check_dsn(dsn: object) -> str | dict[str, str]:
    """What says where the database is: text, or the name of a variable of the environment that holds it."""
    if isinstance(dsn, str) and dsn:
        return dsn
    if isinstance(dsn, Mapping) and list(dsn) == ["env"] and isinstance(dsn["env"], str):
        return dict(dsn)
    # Not as it is given: it may hold a password.
    raise DataError(
        f"dsn is {type(dsn).__name__}: give text, 'postgresql://user@host/database' or 'host=... dbname=...', or"
        " {'env': 'NAME'} for the variable that holds it"
    )


class PostgresConnection:
    """One connection, in transactions: each `transaction` is committed as a whole or not at all."""

    def __init__(self, dsn: str | Mapping[str, str], what: str) -> None:
        """``what``: what errors speak of."""
        self._what = what
        text = dsn if isinstance(dsn, str) else os.environ.get(dsn["env"])
        if text is None:
            raise DataError(f"{what}: the environment has no variable {dsn['env']!r} for dsn")  # type: ignore[index]
        db = library()
        with self._told("the database does not answer"):
            self._connection = db.connect(text)
            # A driver whose machine is gone in the middle of a batch is not to hold up its successor for hours.
            self.do(f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS_MAX}s'")
            self._connection.commit()

    @contextmanager
    def transaction(self, doing: str) -> Iterator[PostgresConnection]:
        """What is done in it is there at its end, or not at all; an error says what it was about."""
        with self._told(doing):
            try:
                yield self
                self._connection.commit()
            except BaseException:
                with suppress(library().Error):
                    self._connection.rollback()
                raise

    def do(self, sql: str, *values: Any) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    def hold(self, name: str, rows: pa.Table) -> None:
        """Rows as a table that only this connection has, for this transaction."""
        self.do(f"DROP TABLE IF EXISTS pg_temp.{quoted(name)}")
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, rows, mode="create", temporary=True)

    def close(self) -> None:
        with suppress(library().Error):
            self._connection.close()

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        db = library()
        try:
            yield
        except db.Error as error:
            kind = LostError if isinstance(error, db.OperationalError) and not _state(error) else DatabaseError
            raise kind(f"{self._what}: {doing}: {said(error)}") from error


def _state(error: Any) -> str:
    """The SQLSTATE of an error that the server told, but for those of a server that goes away."""
    state = str(getattr(error, "sqlstate", None) or "").strip("\0")
    return "" if state[:2] in ("57", "08") or state in ("40001", "40P01") else state


def said(error: Exception) -> str:
    """What PostgreSQL said, as one line.

    >>> said(Exception("INVALID_ARGUMENT: [libpq] Failed to execute: ERROR:  no such thing\\nLINE 1: x\\nQuery was: x"))
    'no such thing'
    """
    lines = str(error).split("\n")
    first = next((line for line in lines if "ERROR:" in line or "FATAL:" in line), lines[0])
    return first.rpartition("ERROR:")[2].rpartition("FATAL:")[2].strip()


def quoted(name: str) -> str:
    """A name in SQL.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str], before: str = "") -> str:
    """Names in SQL, with commas between."""
    return ", ".join(f"{before}{quoted(name)}" for name in names)
