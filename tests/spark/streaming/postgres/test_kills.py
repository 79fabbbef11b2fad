"""A stream into PostgreSQL whose driver dies at every moment: the table is what the reference says, nothing is twice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.simulator import stream
from headwater.simulator.stream import Loop
from headwater.simulator.stream.loop import DurableSink
from headwater.spark.streaming.postgres.client import PostgresConnection
from headwater.spark.streaming.postgres.sink import PostgresSink
from headwater.spark.streaming.postgres.table import held, is_nested
from spark.streaming.killed_run import KilledRun, played, texts

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("no_sync")]
#: Also in the middle of a transaction, all of it said and nothing committed.
MOMENTS = ("sql", *stream.MOMENTS)


class DyingSink(PostgresSink):
    """May die in its transaction."""

    def __init__(self, loop: Loop, dsn: str, table: str, mode: Any) -> None:
        super().__init__(dsn, table, mode)
        self._loop = loop

    def _write(self, connection: PostgresConnection, *batch: Any) -> None:
        super()._write(connection, *batch)
        self._loop.reached("sql")


def sinks(dsn: str, table: str, mode: str):
    def new_sink(loop: Loop, name: str) -> DyingSink:
        return DyingSink(loop, dsn, table, mode) if name == "rows" else DyingSink(loop, dsn, f"{table}_aside", "append")

    return new_sink


def given_rows(sink: DurableSink, *but: str) -> list[dict[str, Any]]:
    """What a sink was given; what is nested as the JSON that a table has of it."""
    tables = [table for table in sink.batches.values() if len(table)]
    held_tables = (as_json(held(table), nested_columns([table])) for table in tables)
    return [{name: row[name] for name in row if name not in but} for rows in held_tables for row in rows]


def found_rows(database, table: str, sink: DurableSink) -> list[dict[str, Any]]:
    return as_json(database.table(table), nested_columns(sink.batches.values()))


def nested_columns(tables: Iterable[pa.Table]) -> set[str]:
    return {field.name for table in tables for field in table.schema if is_nested(field.type)}


def as_json(rows: pa.Table, names: set[str]) -> list[dict[str, Any]]:
    """Rows whose columns of these names are parsed, every number to its last digit."""

    def parsed(name: str, value: Any) -> Any:
        is_text = name in names and value is not None
        return json.loads(value, parse_float=Decimal, parse_int=Decimal) if is_text else value

    return [{name: parsed(name, value) for name, value in row.items()} for row in rows.to_pylist()]


def check_append(database, table: str, run: KilledRun) -> None:
    """Every row that was given, once."""
    for name, sink in ((table, run.loop.sink), (f"{table}_aside", run.loop.aside)):
        assert texts(found_rows(database, name, sink)) == texts(given_rows(sink))


def check_upsert(database, table: str, run: KilledRun) -> None:
    """The last revision of every window, as the checker knows them, who has compared them with the reference."""
    found = found_rows(database, table, run.loop.sink)
    assert sorted((row["query"], row["event_count"], row["revision"]) for row in found) == run.held
    given = set(texts(given_rows(run.loop.sink, "replaces")))
    assert len(set(texts(found))) == len(found) and given.issuperset(texts(found))


CHECKS = {"append": check_append, "upsert": check_upsert}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_driver_that_dies_at_every_moment_leaves_a_table_of_the_reference(server, database, name, tmp_path, mode):
    run = played(tmp_path, sinks(server.dsn, name, mode), seed=3, kills=len(MOMENTS), moments=MOMENTS)
    CHECKS[mode](database, name, run)
    assert set(run.died) == set(MOMENTS)


@pytest.mark.slow(reason="many kills")
@pytest.mark.parametrize(("seed", "roots"), [(0, 1), (2, 1), (4, 2)])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_thirty_kills_of_the_driver_leave_a_table_of_the_reference(server, database, name, tmp_path, mode, seed, roots):
    run = played(tmp_path, sinks(server.dsn, name, mode), seed, kills=30, roots=roots, moments=MOMENTS)
    CHECKS[mode](database, name, run)
    assert run.died.total() == 30
