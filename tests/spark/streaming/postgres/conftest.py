"""One server for all tests of this folder."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from spark.streaming.postgres.server import Server, missing


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    running = Server()
    yield running
    running.stop()


class Database:
    """What tests do with a database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        import adbc_driver_postgresql.dbapi as db

        with db.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table."""
        return self.table(table).to_pylist()

    def table(self, table: str) -> pa.Table:
        import adbc_driver_postgresql.dbapi as db

        with db.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f'SELECT * FROM "{table}"')
            return cursor.fetch_arrow_table()


@pytest.fixture
def database(server: Server) -> Database:
    return Database(server.dsn)


@pytest.fixture
def name() -> str:
    """A table that nobody has."""
    return f"t{uuid.uuid4().hex[:12]}"
