"""A table of PostgreSQL as a sink: whose it is, what fits it, and what becomes of a batch that comes again."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import DataError
from headwater.spark.streaming.postgres.client import DatabaseError
from headwater.spark.streaming.postgres.sink import NOTES
from headwater.spark.streaming.sinks.timeline import Claimant, Life, SinkError

pytestmark = pytest.mark.postgres

LOAD = hw.query("load", hw.session(5), keys=["house"], n=hw.count())
REPLACES = pa.list_(pa.struct([("window_start", pa.int64()), ("window_end", pa.int64()), ("revision", pa.int64())]))
FIELDS = [
    ("query", pa.string()),
    ("window_start", pa.int64()),
    ("window_end", pa.int64()),
    ("house", pa.string()),
    ("n", pa.uint64()),
    ("event_count", pa.int64()),
    ("revision", pa.int64()),
    ("replaces", REPLACES),
]
SCHEMA = pa.schema(FIELDS)


def rows(*windows: tuple, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows of (start, end, house, n, revision, replaces)."""
    return pa.Table.from_pylist(
        [
            {
                "query": "load",
                "window_start": start,
                "window_end": end,
                "house": house,
                "n": n,
                "event_count": min(n, 9),
            }
            | {"revision": rest[0] if rest else 0, "replaces": rest[1] if len(rest) > 1 else None}
            for start, end, house, n, *rest in windows
        ],
        schema,
    )


def claimant(stream: str = "s", *lives: Life, schema: pa.Schema = SCHEMA, only: str | None = None) -> Claimant:
    told = {"query_of": lambda name: LOAD, "columns": lambda name: schema, "only": only}
    return Claimant(stream, lives or (Life(0, "a"),), **told)


@pytest.fixture
def sink(server, name):
    """Sinks of one table, opened as they come; at the end all are closed."""
    made = []

    def opened(stream: Claimant | None = None, mode="append"):
        made.append(hw.postgres(server.dsn, name, mode))
        made[-1].open(claimant() if stream is None else stream)
        return made[-1]

    yield opened
    for each in made:
        each.close()


def test_a_batch_that_comes_again_is_there_once(sink, database, name):
    first = sink()
    first.write(0, rows((0, 5, "a", 1)))
    first.write(0, rows((0, 5, "a", 1)))
    first.close()
    again = sink(claimant("s", Life(0, "a"), Life(0, "b")))
    again.write(0, rows((0, 5, "a", 1)))
    again.write(1, pa.table({}))
    again.write(2, rows((5, 10, None, 2**64 - 1)))
    found = database.rows(name)
    assert [(row["window_start"], row["house"], int(row["n"])) for row in found] == [(0, "a", 1), (5, None, 2**64 - 1)]
    assert database.ask(f"SELECT stream, life, batch FROM {NOTES} WHERE target = '{name}'") == [("s", "b", 2)]


def test_the_table_of_another_stream_and_of_another_past_is_refused(sink, name):
    owner = sink()
    for batch in range(3):
        owner.write(batch, rows((batch, batch + 5, "a", 1)))
    with pytest.raises(
        SinkError, match=f"table '{name}' belongs to another stream, s .*give another table, or drop this one"
    ):
        sink(claimant("other"))
    with pytest.raises(
        SinkError, match="it has rows up to batch 2 that are not of this checkpoint, which goes on with batch 1"
    ):
        sink(claimant("s", Life(0, "z"), Life(1, "c")))
    goes_on = sink(claimant("s", Life(0, "a"), Life(2, "b")))
    with pytest.raises(SinkError, match="batch 2 is there with other rows"):
        goes_on.write(2, rows((2, 7, "a", 99)))


def test_a_driver_that_was_followed_by_another_writes_nothing_more(sink, database, name):
    former = sink()
    former.write(0, rows((0, 5, "a", 1)))
    sink(claimant("s", Life(0, "a"), Life(1, "b")))
    with pytest.raises(SinkError, match="not of this checkpoint"):
        former.write(1, rows((5, 10, "a", 1)))
    assert len(database.rows(name)) == 1


def test_a_table_that_was_dropped_is_nobodys(sink, database, name):
    sink().write(0, rows((0, 5, "a", 1)))
    database.ask(f'DROP TABLE "{name}"')
    sink(claimant("other")).write(0, rows((1, 6, "b", 1)))
    assert [row["house"] for row in database.rows(name)] == ["b"]


def test_upserts_leave_the_last_revision_of_every_window(sink, database, name):
    table = sink(mode="upsert")
    table.write(0, rows((0, 5, "a", 1), (7, 12, "a", 1), (0, 5, None, 1), (20, 25, "b", 1)))
    gone = [{"window_start": 0, "window_end": 5, "revision": 0}, {"window_start": 7, "window_end": 12, "revision": 0}]
    vanished = [{"window_start": 20, "window_end": 25, "revision": 0}]
    table.write(1, rows((0, 12, "a", 3, 1, gone), (0, 5, None, 2, 1), (20, 25, "b", 0, 1, vanished)))
    found = [(row["window_start"], row["window_end"], row["house"], int(row["n"])) for row in database.rows(name)]
    assert sorted(found, key=repr) == [(0, 12, "a", 3), (0, 5, None, 2)]
    assert "replaces" not in database.rows(name)[0]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("query text, window_start bigint, window_end bigint, house text, n numeric, revision bigint", "no column 'event_count'"),
        ("query text, window_start timestamptz, window_end bigint, house text, n numeric, event_count bigint, revision bigint",
         "its column 'window_start' is timestamp with time zone; rows need \"window_start\" bigint"),
        ("query text, window_start bigint, window_end bigint, house text, n numeric, event_count bigint, revision bigint, id int"
         " not null", "its column 'id' .integer. may not be null"),
    ],
)  # fmt: skip
def test_a_table_with_other_columns_is_refused_by_their_name(sink, database, name, columns, says):
    database.ask(f'CREATE TABLE "{name}" ({columns})')
    with pytest.raises(SinkError, match=f"table '{name}' does not fit the rows: .*{says}"):
        sink(mode="upsert")
    assert database.ask(f"SELECT count(*) FROM {NOTES} WHERE target = '{name}'") == [(0,)]


def test_a_users_own_table_may_have_wider_types_and_more_columns(sink, database, name):
    columns = "id serial, query varchar(20), window_start numeric, window_end bigint, house text, n numeric"
    database.ask(
        f'CREATE TABLE "{name}" ({columns}, event_count bigint, revision bigint, noted timestamptz DEFAULT now())'
    )
    table = sink(mode="upsert")
    table.write(0, rows((0, 5, "a", 1)))
    table.write(1, rows((0, 5, "a", 2, 1)))
    (found,) = database.rows(name)
    assert found["id"] == 2 and int(found["n"]) == 2


def test_a_query_that_is_added_brings_its_columns(sink, database, name):
    table = sink()
    table.write(0, rows((0, 5, "a", 1)))
    wider = pa.schema([*SCHEMA, ("room", pa.float64())])
    table.write(1, rows((5, 10, "a", 1), schema=wider).set_column(8, wider.field("room"), pa.array([1.5])))
    assert [row["room"] for row in database.rows(name)] == [None, 1.5]


VALUES = {
    "text": pa.array(["ä'\"", None]),
    "whole": pa.array([2**63 - 1, None], pa.int64()),
    "float": pa.array([float("nan"), None]),
    "flag": pa.array([True, None]),
    "at": pa.array([datetime(2024, 5, 1, 12, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "local": pa.array([datetime(2024, 5, 1, 12), None], pa.timestamp("us")),
    "day": pa.array([date(2024, 5, 1), None]),
    "hour": pa.array([time(1, 2, 3), None], pa.time64("us")),
    "exact": pa.array([Decimal("1.25"), None], pa.decimal128(38, 2)),
    "bytes": pa.array([b"\0x", None]),
    "list": pa.array([[1.5, None], None], pa.list_(pa.float64())),
    "texts": pa.array([["a"], None], pa.list_(pa.string())),
}


def test_values_of_all_types_come_back_as_they_were(sink, database, name):
    given = pa.table(VALUES)
    sink(claimant(schema=given.schema)).write(0, given)
    found = database.rows(name)
    wanted = given.to_pylist()
    assert [repr({**row, "exact": row["exact"] and Decimal(row["exact"])}) for row in found] == list(map(repr, wanted))


def test_what_has_no_columns_is_json(sink, database, name):
    nested = pa.table(
        {"pairs": pa.array([[{"a": 1}], None]), "lists": pa.array([[[1.0]], []]), "gap": pa.array([timedelta(1)] * 2)}
    )
    sink(claimant(schema=nested.schema)).write(0, nested)
    asked = database.ask(f"SELECT pairs->0->>'a', lists->0->>0, extract(epoch FROM gap)::int FROM \"{name}\"")
    assert asked == [("1", "1.0", 86400), (None, None, 86400)]


def test_a_connection_that_breaks_is_made_again(sink, database, name, caplog):
    table = sink()
    table.write(0, rows((0, 5, "a", 1)))
    database.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid() AND usename IS NOT NULL"
    )
    with caplog.at_level(logging.WARNING):
        table.write(1, rows((5, 10, "a", 1)))
    assert len(database.rows(name)) == 2 and "it is tried again" in caplog.text


def test_what_the_database_refuses_is_said_without_the_dsn(server, name):
    with pytest.raises(DatabaseError, match=f"table '{name}': the database does not answer") as error:
        hw.postgres("host=/nowhere password=secret", name).open(claimant())
    assert "secret" not in str(error.value)
    with pytest.raises(DatabaseError, match='schema "nowhere" does not exist'):
        hw.postgres(server.dsn, f"nowhere.{name}").open(claimant())


def test_the_dsn_may_stand_in_the_environment(server, name, database, monkeypatch):
    monkeypatch.setenv("WINDOWS_DSN", server.dsn)
    table = hw.postgres({"env": "WINDOWS_DSN"}, name)
    table.open(claimant())
    table.write(0, rows((0, 5, "a", 1)))
    table.close()
    assert len(database.rows(name)) == 1
    with pytest.raises(DataError, match="no variable 'NOWHERE'"):
        hw.postgres({"env": "NOWHERE"}, name).open(claimant())


def test_events_that_were_set_aside_have_no_revisions(sink):
    with pytest.raises(DataError, match="have no revisions; write them with mode='append'"):
        sink(claimant(schema=pa.schema([("query", pa.string()), ("reason", pa.string())])), mode="upsert")
