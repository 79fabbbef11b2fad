"""The queries of an engine: all of a call come or none, equal ones share a family, and numbers are never given twice."""

import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.modes import MODES, group_maker
from headwater.engine.registry import Registry
from headwater.errors import QueryError
from headwater.language.times import NEVER

SUM = hw.query("sum", hw.tumbling(10), s=hw.sum("v"), keys="k")
PEAK = hw.query("peak", hw.sliding(20, 5), s=hw.max("v"), keys="k")
PLAIN = hw.query("plain", hw.tumbling(10), s=hw.sum("v"))
OWN_COPY = hw.query("once", hw.tumbling(10), s=hw.sum("v"), keys="k", distinct="id")
SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string(), "v": pa.int32(), "id": pa.int64()})


def registry(*queries: hw.Query, mode: str = "desis") -> Registry:
    made = Registry(group_maker(mode), "time", "us")
    made.add([(query, NEVER) for query in queries], NEVER)
    return made


def families(made: Registry) -> list[list[str]]:
    return [[entry.query.name for entry in family.group.queries()] for family in made.families.values()]


def test_queries_with_equal_keys_and_conditions_are_one_family():
    made = registry(SUM, PEAK, PLAIN, OWN_COPY)
    assert families(made) == [["sum", "peak"], ["plain"], ["once"]]
    assert list(made.numbered_families()) == [0, 2, 3]


@pytest.mark.parametrize(("mode", "count"), list(zip(MODES, [4, 4, 4, 3], strict=True)))
def test_the_baselines_share_less(mode: str, count: int):
    assert len(registry(SUM, PEAK, PLAIN, OWN_COPY, mode=mode).families) == count


def test_a_name_that_is_taken_refuses_all_queries_of_the_call():
    made = registry(SUM)
    with pytest.raises(QueryError, match="'sum' is there already"):
        made.add([(PLAIN, NEVER), (SUM, NEVER)], NEVER)
    assert list(made.by_name) == made.query_names == ["sum"]


def test_a_family_goes_with_its_last_query_and_its_number_with_nobody():
    made = registry(SUM, PLAIN)
    made.remove("sum")
    assert families(made) == [["plain"]]
    with pytest.raises(QueryError, match="no query 'sum'"):
        made.remove("sum")
    made.add([(SUM, NEVER)], NEVER)
    assert made.by_name["sum"].number == 2


def test_only_columns_that_are_read_get_a_type():
    made = registry(SUM)
    made.check(SCHEMA)
    assert dict(made.types) == {"k": pa.string(), "v": pa.int32()}
    assert made.value_columns == ("v",)
    with pytest.raises(QueryError):
        registry(SUM).check(pa.schema({"time": pa.int64()}))


def test_another_registry_takes_queries_over_under_their_numbers():
    made, leaf = registry(PLAIN, SUM), Registry(group_maker("desis"), "time", "us")
    made.check(SCHEMA)
    made.remove("plain")
    leaf.take_over(list(made.entries.values()), made.query_names, made.types)
    assert list(leaf.numbered_families()) == list(made.numbered_families()) == [1]
    assert (leaf.needed, leaf.types) == (made.needed, made.types)
