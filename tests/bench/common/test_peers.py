"""A comparison is worth something only if everyone answers the same question."""

import polars
import pytest

import headwater as hw
from headwater.bench.common.peers import DuckDB, Polars
from headwater.bench.common.queries import many, named, one_query
from headwater.bench.common.workload import SECOND, EventColumns

EVENTS = EventColumns(400_000)
TABLE = EVENTS.table("time", "key", "value")
SPECS = many(60)


@pytest.fixture(scope="module", params=["duckdb", "polars"])
def peer(request):
    return DuckDB(TABLE, 2) if request.param == "duckdb" else Polars(TABLE, polars.thread_pool_size())


def test_peers_and_headwater_give_as_many_rows_for_one_query(peer):
    assert peer.one() == hw.run(TABLE, [one_query()], time="time").num_rows == 400


def test_peers_and_headwater_give_as_many_rows_for_many_queries(peer):
    assert peer.many(SPECS) == peer.sliced(SPECS) == hw.run(TABLE, named(SPECS), time="time").num_rows


@pytest.mark.parametrize(
    ("count", "slide_min", "resolution"), [(100, 1, SECOND), (10_000, 10, SECOND), (60_000, 1, 1000)]
)
def test_no_two_of_many_queries_are_equal(count, slide_min, resolution):
    specs = many(count, slide_min, resolution)
    assert len(set(specs)) == len(specs) == count
    assert all(slide_min * SECOND <= spec.slide <= spec.size for spec in specs[count // 2 :])
    assert all(0 <= spec.offset < spec.slide for spec in specs)
