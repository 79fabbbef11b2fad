"""A stream into PostgreSQL whose driver dies at every moment: the table is what the reference says, nothing is twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from itertools import cycle
from typing import Any

import pyarrow as pa
import pytest

from headwater.simulator import stream
from headwater.simulator.stream import Loop, StoryRun
from headwater.simulator.stream.loop import DurableSink
from headwater.spark.streaming.postgres.client import PostgresConnection
from headwater.spark.streaming.postgres.sink import PostgresSink
from headwater.spark.streaming.postgres.table import held, is_nested

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("no_sync")]
#: Also in the middle of a transaction, all of it said and nothing committed.
MOMENTS = ("sql", *stream.MOMENTS)


class WatchedSink(PostgresSink):
    """Tells the loop what it was given, and may die in its transaction and behind it."""

    def __init__(self, loop: Loop, dsn: str, table: str, mode: Any, name: str) -> None:
        super().__init__(dsn, table, mode)
        self._loop, self._name = loop, name

    def write(self, batch: int, rows: pa.Table) -> None:
        (self._loop.sink if self._name == "rows" else self._loop.aside).write(batch, rows)
        super().write(batch, rows)
        self._loop.reached(self._name)

    def _write(self, connection: PostgresConnection, *batch: Any) -> None:
        super()._write(connection, *batch)
        self._loop.reached("sql")


class KilledRun(StoryRun):
    """Dies at one moment after the other."""

    def __init__(self, place, seed: int, kills: int, roots: int) -> None:
        self.died: Counter[str] = Counter()
        self._moments, self._left = cycle(MOMENTS), kills
        super().__init__(place, seed, crashes=False, roots=roots)

    def _something_happens(self) -> None:
        super()._something_happens()
        self.loop.events_max = 3  # many small batches: each kill needs one

    def _batches(self, count: int) -> None:
        for _ in range(count):
            if self._left and self.loop.crash_at is None:
                self.loop.crash_at = next(self._moments)
            moment, before = self.loop.crash_at, (len(self.loop.planned), self.loop.committed)
            super()._batches(1)
            if moment is not None and self.loop.crash_at is None:
                self.died[moment] += 1
                self._left -= 1
            elif before == (len(self.loop.planned), self.loop.committed):
                break


def played(monkeypatch, dsn: str, place, table: str, mode: str, seed: int, kills: int, roots: int = 1) -> KilledRun:
    """A stream from its first event to its end."""

    open_sinks: list[WatchedSink] = []

    def new_sinks(driver):
        loop = driver.loop
        for dead in open_sinks:
            dead.close()  # as the kernel does for whoever has died
        rows = WatchedSink(loop, dsn, table, mode, "rows")
        aside = WatchedSink(loop, dsn, f"{table}_aside", "append", "aside")
        open_sinks[:] = rows, aside
        return rows, aside

    monkeypatch.setattr(stream.loop, "watched_sinks", new_sinks)
    run = KilledRun(place, seed, kills, roots)
    run.play()
    run.loop.runner.close_sinks()
    return run


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order of their own, without what a table has only for other queries."""
    pairs = ([(name, _plain(value)) for name, value in row.items() if value is not None] for row in rows)
    return sorted(repr(sorted(each)) for each in pairs)


def _plain(value: Any) -> Any:
    """Decimals as the table has them, which is read as text and forgets zeros at the end; fields in the order of their names."""
    if isinstance(value, dict):
        return [(name, _plain(value[name])) for name in sorted(value)]
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


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
    held = [standing.row for standing in run.checker.shown.values()]
    assert sorted(map(_identity, found)) == sorted((row.query, row.event_count, row.revision) for row in held)
    given = set(texts(given_rows(run.loop.sink, "replaces")))
    assert len(set(texts(found))) == len(found) and given.issuperset(texts(found))


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["query"], row["event_count"], row["revision"]


CHECKS = {"append": check_append, "upsert": check_upsert}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_driver_that_dies_at_every_moment_leaves_a_table_of_the_reference(
    monkeypatch, server, database, name, tmp_path, mode
):
    run = played(monkeypatch, server.dsn, tmp_path, name, mode, seed=3, kills=len(MOMENTS))
    CHECKS[mode](database, name, run)
    assert set(run.died) == set(MOMENTS)


@pytest.mark.slow(reason="many kills")
@pytest.mark.parametrize(("seed", "roots"), [(0, 1), (2, 1), (4, 2)])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_thirty_kills_of_the_driver_leave_a_table_of_the_reference(
    monkeypatch, server, database, name, tmp_path, mode, seed, roots
):
    run = played(monkeypatch, server.dsn, tmp_path, name, mode, seed, kills=30, roots=roots)
    CHECKS[mode](database, name, run)
    assert run.died.total() == 30
