"""Queries as JSON and YAML: exact in both directions, and wrong files refused like wrong queries."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import headwater.language.aggregations as hw
from headwater.errors import FormatError, QueryError
from headwater.language.expressions import col
from headwater.language.files.queries import from_json, from_yaml, load, to_json, to_yaml
from headwater.language.query import Query, query
from headwater.language.user_code import Aggregate, Operator, aggregate_of
from headwater.language.windows import custom, sliding, tumbling
from language_strategies import LONGEST, queries

LOAD = query(
    "load",
    sliding("1 min", "5 s"),
    avg=hw.avg("load"),
    p99=hw.quantile("load", 0.99),
    keys=["house"],
    where=(col("load") > 0) & col("house").isin(["a", "b"]),
    lateness="10 s",
)
LISTED = st.lists(queries(), max_size=3, unique_by=lambda found: found.name)


@given(LISTED)
def test_json_gives_back_what_was_written(written: list[Query]) -> None:
    text = to_json(written)
    assert from_json(text) == written
    assert to_json(from_json(text.encode())) == text


@given(LISTED)
def test_yaml_gives_back_what_was_written(written: list[Query]) -> None:
    text = to_yaml(written)
    assert from_yaml(text) == written
    assert to_yaml(from_yaml(text)) == text


@given(LISTED)
def test_types_come_back_too_so_that_columns_keep_their_meaning(written: list[Query]) -> None:
    # 1 and True are equal in Python, ticks and nanoseconds only by our own definition: their texts differ.
    assert [repr(found) for found in from_json(to_json(written))] == [repr(found) for found in written]


def test_the_form_is_the_documented_one() -> None:
    assert json.loads(to_json(LOAD)) == {
        "headwater": 1,
        "queries": [
            {
                "name": "load",
                "window": {"type": "sliding", "size": "1 min", "slide": "5 s"},
                "aggregates": {
                    "avg": {"function": "avg", "column": "load"},
                    "p99": {"function": "quantile", "column": "load", "q": 0.99},
                },
                "keys": ["house"],
                "where": {"and": [{"column": "load", ">": 0}, {"column": "house", "in": ["a", "b"]}]},
                "lateness": "10 s",
            }
        ],
    }


def test_yaml_as_a_person_writes_it() -> None:
    text = """
    headwater: 1
    queries:
      - name: load
        window: {type: sliding, size: 1 min, slide: 5 s}
        keys: [house]
        lateness: 10 s
        where:
          and:
            - {column: load, ">": 0}
            - {column: house, in: [a, b]}
        aggregates:
          avg: {function: avg, column: load}
          p99: {function: quantile, column: load, q: 0.99}
      - name: day
        window: {type: tumbling, size: 1 day}
        where: {column: day, ">=": 2024-02-29}
        aggregates:
          middle: {function: median, column: load, method: upper}
    """
    load_query, day = from_yaml(text)
    assert load_query == LOAD
    assert day.aggregates == (("middle", hw.median("load", "upper")),)


def test_files_are_read_by_their_suffix(tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text(to_json(LOAD), encoding="utf-8")
    (tmp_path / "q.yml").write_text(to_yaml(LOAD), encoding="utf-8")
    assert load(tmp_path / "q.json") == load(str(tmp_path / "q.yml")) == [LOAD]
    with pytest.raises(FormatError, match=r"call it \.json, \.yaml or \.yml"):
        load(tmp_path / "q.txt")


# Each: the JSON of one query, with {} for a change; what the message must say.
GOOD = {"name": "q", "window": {"type": "tumbling", "size": 10}, "aggregates": {"n": {"function": "count"}}}


def changed(**fields: object) -> str:
    return json.dumps({"headwater": 1, "queries": [GOOD | fields]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(window={"type": "tumbling", "size": 0}), "query 'q': window.size is 0: give a duration above 0"),
        (changed(window={"type": "tumbling"}), "query 'q': window.size is None: this field is missing"),
        (changed(window={"type": "tumbling", "size": 1, "slide": 1}), "query 'q': window is 'slide': no such field"),
        (changed(window={"type": "tumbling", "size": 1, "ofset": 1}), "did you mean 'offset'?"),
        (changed(window={"type": "hopping"}), "query 'q': window.type is 'hopping': use one of tumbling, sliding"),
        (changed(window="tumbling"), "query 'q': window.type is None: use one of"),
        (changed(window={"type": ["a"]}), "query 'q': window.type is ['a']"),
        (changed(window={"type": "punctuated", "marker": 5}), "query 'q': window.marker is 5: write a condition"),
        (
            changed(window={"type": "custom", "function": "x"}),
            "query 'q': window.function is 'x': write 'package.module",
        ),
        (
            changed(window={"type": "custom", "function": "no_such:f"}),
            "window.function is 'no_such:f': module 'no_such'",
        ),
        (changed(window={"type": "count_sliding", "size": 5, "step": 0}), "query 'q': window.step is 0"),
        (changed(aggregates={}), "query 'q': aggregates is (): ask for at least one"),
        (changed(aggregates=["count"]), "query 'q': aggregates is ['count']: write {name: {'function'"),
        (changed(aggregates={"x": "count"}), "query 'q': aggregate 'x'.function is None: use one of"),
        (changed(aggregates={"x": {"function": "mean"}}), "query 'q': aggregate 'x'.function is 'mean': use one of"),
        (
            changed(aggregates={"x": {"function": "avg"}}),
            "query 'q': aggregate 'x'.column is None: this field is missing",
        ),
        (
            changed(aggregates={"x": {"function": "quantile", "column": "v", "q": 2}}),
            "query 'q': aggregate 'x'.q is 2.0",
        ),
        (
            changed(aggregates={"x": {"function": "avg", "column": "v", "q": 1}}),
            "query 'q': aggregate 'x' is 'q': no such",
        ),
        (
            changed(aggregates={"x": {"function": "apply", "aggregate": "no_such:f", "column": "v"}}),
            "query 'q': aggregate 'x'.aggregate is 'no_such:f': module 'no_such' cannot be imported",
        ),
        (changed(aggregates={"window_start": {"function": "count"}}), "query 'q': aggregate 'window_start' is"),
        (changed(where={"column": "a"}), "query 'q': where is {'column': 'a'}: compare with exactly one of"),
        (changed(where={"column": "a", "~": 1}), "query 'q': where is {'column': 'a', '~': 1}"),
        (changed(where={"column": "a", ">": 1, "<": 5}), "compare with exactly one of"),
        (changed(where={">": 1}), "query 'q': where is {'>': 1}: write a condition such as"),
        (changed(where={"and": [{"column": "a", ">": 1}]}), "two or more conditions"),
        (changed(where={"and": [{"column": "a", ">": 1}, 5]}), "query 'q': where.and is 5: write a condition"),
        (changed(where={"not": 1}), "query 'q': where.not is 1"),
        (changed(where={"not": {}, "or": []}), "query 'q': where is"),
        (changed(where={"not": {"column": "a", ">": 1}, "x": 1}), "nothing beside it"),
        (changed(where={"column": "a", "in": 5}), "query 'q': where.in is 5: write the values"),
        (changed(where={"column": "a", "in": []}), "query 'q': where.isin is []"),
        (changed(where={"column": "a", "between": [1]}), "query 'q': where.between is [1]: write the two bounds"),
        (changed(where={"column": "a", "between": [2, 1]}), "query 'q': where.between is (2, 1)"),
        (changed(where={"column": "a", "is_null": 1}), "query 'q': where.is_null is 1: use true or false"),
        (changed(where={"column": "a", "matches": "["}), "query 'q': where.matches is '['"),
        (changed(where={"value": 1, "in": [1]}), "'in' needs a column"),
        (changed(where={"column": "a", ">": None}), "query 'q': where.condition is"),
        (changed(where={"column": "a", ">": {"decimal": "x"}}), "this text is no decimal"),
        (changed(where={"column": "a", ">": {"datetime": "soon"}}), "this text is no datetime"),
        (changed(where={"column": "a", ">": {"bytes": "???"}}), "this text is no bytes"),
        (changed(where={"column": "a", ">": {"money": "1"}}), "write a number, text"),
        (changed(where={"column": "a", ">": {}}), "write a number, text"),
        (changed(where={"column": 5, ">": 1}), "query 'q': where.column is 5"),
        (changed(keys="house", aggregates={"house": {"function": "count"}}), "a key column has this name"),
        (changed(keys=5), "query 'q': keys is 5"),
        (changed(lateness=-1), "query 'q': lateness is -1"),
        (changed(scope="overlap"), "query 'q': scope is 'overlap'"),
        (changed(colour="red"), "query 'q': query is 'colour': no such field"),
        (changed(name=""), "name is ''"),
        (changed(name=5), "name is 5: name the query with text"),
        ('{"headwater": 1, "queries": [5]}', "query 'number 1': query is 5: write an object with name"),
        (
            '{"headwater": 1, "queries": [{"window": {}}]}',
            "query 'number 1': query.name is None: this field is missing",
        ),
    ],
)
def test_what_is_wrong_in_a_query_is_refused_with_its_name(text: str, message: str) -> None:
    for read in (from_json, from_yaml):
        with pytest.raises(QueryError, match=re.escape(message)) as caught:
            read(text)
        assert caught.value.query is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "queries are written as"),
        ("nonsense", "queries are written as"),
        ("[]", "queries are written as"),
        ("{}", "queries are written as"),
        ('{"queries": []}', "queries are written as"),
        ('{"headwater": 2, "queries": []}', "the version is 2, this release reads 1"),
        ('{"headwater": true, "queries": []}', "the version is True"),
        ('{"headwater": "1", "queries": []}', "the version is '1'"),
        ('{"headwater": 1}', "not with the fields headwater"),
        ('{"headwater": 1, "queries": {}}', "queries are written as"),
        ('{"headwater": 1, "queries": [], "more": 1}', "not with the fields headwater, queries, more"),
        ('{"headwater": 1, "queries": [], "queries": []}', "queries are written as"),
        ("[" * 100_000, "this is not"),
    ],
)
def test_what_is_no_file_of_queries_is_refused(text: str, message: str) -> None:
    for read in (from_json, from_yaml):
        with pytest.raises(FormatError, match=re.escape(message)):
            read(text)


@pytest.mark.parametrize("text", ["a: [", "a: 2024-13-45", "? [a]\n: 1", "\x00"])
def test_what_is_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="this is not YAML"):
        from_yaml(text)


def test_a_number_with_a_million_digits_is_refused_not_computed() -> None:
    with pytest.raises(FormatError, match="this is not JSON"):
        from_json('{"headwater": ' + "1" * 10_000 + "}")


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (
            '"aggregates": {"n": {"function": "count"}, "n": {"function": "count"}}',
            "aggregates is 'n': name each aggregate",
        ),
        (
            '"aggregates": {"n": {"function": "count", "function": "count"}}',
            "aggregate 'n' is 'function': name each field",
        ),
    ],
)
def test_a_doubled_name_is_refused(inner: str, message: str) -> None:
    text = '{"headwater": 1, "queries": [{"name": "q", "window": {"type": "tumbling", "size": 5}, ' + inner + "}]}"
    for read in (from_json, from_yaml):
        with pytest.raises(QueryError, match=re.escape(f"query 'q': {message}")):
            read(text)


def test_two_queries_of_one_name_are_refused_in_both_directions() -> None:
    with pytest.raises(QueryError, match="another query has this name"):
        to_json([LOAD, LOAD])
    with pytest.raises(QueryError, match="another query has this name"):
        from_json(json.dumps({"headwater": 1, "queries": [GOOD, GOOD]}))


def test_code_without_an_import_path_cannot_be_written() -> None:
    def local(events: object, state: object) -> tuple[list[int], object]:
        return [], state

    with pytest.raises(
        QueryError, match=r"query 'q': window.function is <function .*local.*'package.module:name' finds it"
    ):
        to_json(query("q", custom(local), n=hw.count()))
    with pytest.raises(
        QueryError, match=r"query 'q': window.function is <function .*lambda.*'package.module:name' finds it"
    ):
        to_json(query("q", custom(lambda events, state: ([], state)), n=hw.count()))
    unnamed = aggregate_of("unnamed", np.sum, np.add, float, 0.0)
    with pytest.raises(
        QueryError, match=r"query 'q': aggregate 'x' is <Aggregate 'unnamed'>: .*'package.module:name' finds it"
    ):
        to_yaml(query("q", tumbling(5), x=hw.apply(unnamed, "v")))


@pytest.mark.parametrize("path", ["language_strategies:NAMES", "no_such:x"])
def test_a_path_that_leads_elsewhere_cannot_be_written(path: str) -> None:
    astray = Aggregate("astray", (Operator("sum", np.sum, np.add, 0.0),), float, path=path)
    with pytest.raises(QueryError, match=f"query 'q': aggregate 'x' is '{path}'"):
        to_json(query("q", tumbling(5), x=hw.apply(astray, "v")))


def test_users_code_comes_back_as_the_same_object() -> None:
    (found,) = from_json(to_json(query("q", tumbling(5), x=hw.apply(LONGEST, "v"))))
    assert found.aggregates[0][1].parameter is LONGEST
    assert "language_strategies:LONGEST" in to_yaml(found)


def test_yaml_is_read_safely() -> None:
    with pytest.raises(FormatError, match="this is not YAML"):
        from_yaml("!!python/object/apply:os.getcwd []")
    assert yaml.safe_load(to_yaml(LOAD))["headwater"] == 1
