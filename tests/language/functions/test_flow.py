"""Flows: one window query and a function of its windows, checked step by step."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.language.functions.flow import Flow, rows_of
from headwater.language.functions.function import bound
from headwater.language.functions.handlers import WindowRead
from headwater.language.functions.program import program_of
from language.functions.shop import hot, most

SECOND = hw.tumbling("1 s")
COUNTED = hw.flow("bids").window(SECOND).aggregate(n=hw.count())


def test_a_flow_is_one_state_and_one_handler_that_runs_once() -> None:
    program = program_of(hot)
    (table,), (handler,) = program.tables, program.handlers
    assert table.queries == (
        hw.query(
            "windows",
            hw.sliding("10 s", "2 s"),
            keys="auction",
            where=hw.col("kind") == "bid",
            lateness="5 s",
            n=hw.count(),
        ),
    )
    assert (handler.states, handler.once, handler.stage) == (("windows",), True, 1)
    assert (program.name, program.code) == ("hot items", ("language.functions.shop:most",))


def test_the_rows_of_a_flow_are_those_of_its_function_with_the_window_in_front() -> None:
    function = program_of(hot).function
    assert function is not None
    made: Any = bound(function, {"windows": None})
    window = pa.table({"auction": [1, 2], "n": [3, 5]})
    rows = list(made.rows(WindowRead(0, 10, revision=1), window))
    assert rows == [{"window_start": 0, "window_end": 10, "revision": 1, "auction": 2, "n": 5}]


def test_a_window_without_keys_is_a_table_of_one_row() -> None:
    function = program_of(COUNTED.per_window(lambda table: table)).function
    assert function is not None
    made: Any = bound(function, {"windows": None})
    assert list(made.rows(WindowRead(0, 1), {"n": 4})) == [{"window_start": 0, "window_end": 1, "n": 4}]


@pytest.mark.parametrize(
    "given", [pa.table({"a": [1]}), pa.record_batch({"a": [1]}), [{"a": 1}], {"a": 1}, iter([{"a": 1}])]
)
def test_a_function_may_give_a_table_or_rows(given: Any) -> None:
    expected = [{"window_start": 0, "window_end": 1, "position_start": 5, "position_end": 9, "a": 1}]
    assert list(rows_of(given, WindowRead(0, 1, position=(5, 9)), False, "hot")) == expected


def test_a_function_that_gives_nothing_gives_no_rows() -> None:
    assert list(rows_of(None, WindowRead(0, 1), False, "hot")) == []


@pytest.mark.parametrize(("given", "shown"), [(7, "7"), ("rows", "'rows'"), ([7], "7 among its rows")])
def test_what_is_no_row_is_refused(given: Any, shown: str) -> None:
    with pytest.raises(
        hw.QueryError, match=f"flow 'hot': per_window gave {shown}: give an Arrow table, or rows as dicts"
    ):
        list(rows_of(given, WindowRead(0, 1), False, "hot"))


def test_a_flow_without_a_function_is_its_query() -> None:
    program = program_of(COUNTED)
    assert (program.handlers, program.function, program.name) == ((), None, "bids")
    assert program.tables[0].queries == (hw.query("bids", SECOND, n=hw.count()),)


def test_each_step_is_a_new_flow() -> None:
    plain = hw.flow("bids")
    keyed = plain.key_by("auction", "bidder")
    assert (plain.keys, keyed.keys) == ((), ("auction", "bidder"))
    assert isinstance(keyed, Flow)


def test_a_function_with_a_path_is_the_path() -> None:
    assert COUNTED.per_window(most) == COUNTED.per_window("language.functions.shop:most")


def test_a_function_without_a_path_runs_here_and_has_no_digest() -> None:
    program = program_of(COUNTED.per_window(lambda table: table))
    with pytest.raises(hw.QueryError, match=r"query 'bids': per_window is .*define it at the top level"):
        program.digest()


def test_other_functions_are_other_programs() -> None:
    digests = {
        program_of(COUNTED.per_window(path)).digest()
        for path in ("math:fsum", "math:prod", "language.functions.shop:most")
    }
    assert len(digests) == 3


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: hw.flow(""), "flow: name is '': name the flow with text, such as 'hot items'"),
    (lambda: hw.flow("f").where(7), "flow 'f': where is 7: write a condition over columns"),
    (lambda: hw.flow("f").key_by(), "flow 'f': key_by is (): name the key columns: key_by('house', 'room')"),
    (lambda: hw.flow("f").key_by("a").key_by("b"), "flow 'f': key_by stands there twice: say it once"),
    (lambda: hw.flow("f").window(SECOND).window(SECOND), "flow 'f': window stands there twice: say it once"),
    (lambda: hw.flow("f").aggregate(n=hw.count()), "flow 'f': window is None: say it before aggregate"),
    (lambda: hw.flow("f").window(SECOND).aggregate(), "flow 'f': aggregate is None: say what is computed"),
    (lambda: hw.flow("f").window(SECOND).aggregate(n=7), "query 'f': aggregate 'n' is 7: give an aggregate"),  # type: ignore[arg-type]
    (
        lambda: hw.flow("f").window(hw.sliding("1 s", 0)).aggregate(n=hw.count()),
        "query 'f': window.slide is 0: give a duration above 0",
    ),
    (
        lambda: COUNTED.where(hw.col("a")),
        "flow 'bids': where stands behind aggregate: say it before, it is about events",
    ),
    (
        lambda: hw.flow("f").window(SECOND).per_window("math:fsum"),
        "flow 'f': aggregate is None: say it before per_window",
    ),
    (
        lambda: COUNTED.per_window("most"),
        "flow 'bids': per_window is 'most': give a function of one window's Arrow table",
    ),
    (lambda: COUNTED.per_window(7), "flow 'bids': per_window is 7: give a function of one window's Arrow table"),  # type: ignore[arg-type]
    (lambda: program_of(COUNTED.per_window("math:pi")), "flow 'bids': per_window is 'math:pi': give a function"),
    (lambda: program_of(COUNTED.per_window("math:none")), "import path is 'math:none': module 'math' has no 'none'"),
    (lambda: program_of(hw.flow("f")), "flow 'f': aggregate is None: say what is computed: .aggregate(n=hw.count())"),
]


@pytest.mark.parametrize(("make", "sentence"), REFUSED, ids=[sentence[:50] for _, sentence in REFUSED])
def test_a_wrong_step_is_refused_when_it_is_written(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(hw.QueryError, match=re.escape(sentence)):
        make()
