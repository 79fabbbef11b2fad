"""Programs: the one form in which hosts get functions, flows and queries, and what tells one from another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.language.functions.program import Handler, Program, program_of
from language.functions.shop import SECOND, Trend, both, hot, load

TESTS = Path(__file__).parent.parent.parent
PATHS = [f"language.functions.shop:{name}" for name in ("Trend", "hot", "load", "both")]


def test_declared_states_are_one_table_and_each_inserted_one_is_its_own() -> None:
    tables = program_of(Trend).tables
    assert [(t.number, t.level, t.inserted_by, t.states) for t in tables] == [
        (0, 0, None, ("bids", "mine")),
        (1, 0, "events", ("prices",)),
        (2, 1, "second", ("minutes",)),
    ]
    assert tables[0].queries == (
        hw.query("bids", SECOND, keys="auction", where=hw.col("kind") == "bid", value=hw.count()),
        hw.query("mine", SECOND, scope="node", value=hw.count()),
    )
    assert [table.columns for table in tables] == [None, {"eur": pa.float64()}, {"n": pa.int64()}]


def test_handlers_come_in_program_order_with_their_stages() -> None:
    program = program_of(Trend)
    assert program.handlers == (
        Handler("second", 1, ("bids",), False, False, 0, ("minutes",)),
        Handler("minute", 2, ("minutes",), True, True, 1, ()),
    )
    assert (program.levels, program.has_events, program.cut, program.unsafe) == (3, "events", 4096, False)
    assert program.locals == {"seen": {"windows": 0}}
    assert (program.function, program.path, program.name) == (Trend, "language.functions.shop:Trend", "Trend")


def test_inserted_states_count_from_one_where_nothing_is_declared() -> None:
    class Votes(hw.ProcessingFunction):
        votes = hw.WindowedCRDT(hw.crdts.GCounter(), SECOND, inserted_by="event", columns={"value": int})

        def event(self, e: Any) -> None: ...

    assert [(table.number, table.level) for table in program_of(Votes).tables] == [(1, 0)]


def test_a_function_of_events_alone_is_a_program() -> None:
    class Passes(hw.ProcessingFunction):
        def events(self, batch: Any) -> Any:
            yield from ()

    program = program_of(Passes)
    assert (program.tables, program.handlers, program.levels, program.step_grid("us")) == ((), (), 1, 100_000)


def test_members_of_nested_functions_have_dotted_names() -> None:
    class Mall(hw.ProcessingFunction):
        shop = Trend()
        cut = 4096

        def events(self, batch: Any) -> Any:
            yield from self.shop.events(batch)

    program = program_of(Mall)
    assert [query.name for table in program.tables for query in table.queries] == [
        "shop.bids",
        "shop.mine",
        "shop.prices",
        "shop.minutes",
    ]
    assert [table.inserted_by for table in program.tables] == [None, "events", "shop.second"]
    assert program.handlers[0].inserts == ("shop.minutes",)
    assert program.locals == {"shop.seen": {"windows": 0}}


def test_queries_are_one_table_without_handlers() -> None:
    program = program_of(both)
    assert (program.handlers, program.has_events, program.function) == ((), None, None)
    assert [table.queries for table in program.tables] == [tuple(both)]
    assert program_of(load).name == "load"


def test_a_path_leads_to_the_same_program() -> None:
    for path, thing in zip(PATHS, [Trend, hot, load, both], strict=True):
        found = program_of(path)
        assert found.path == path
        assert found.digest() == program_of(thing).digest()


def test_a_digest_is_the_same_in_every_process_and_another_for_another_program() -> None:
    code = (
        "import sys; from headwater.language.functions.program import program_of; "
        "print(*(program_of(path).digest() for path in sys.argv[1:]))"
    )
    here = [program_of(path).digest() for path in PATHS]
    assert len(set(here)) == len(here)
    environment = {**os.environ, "PYTHONPATH": f"{TESTS.parent / 'src'}{os.pathsep}{TESTS}", "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code, *PATHS], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == here


def functions_that_differ_in_one_thing() -> list[type]:
    """Functions of one name, each with something of its own."""

    def report(self: Any, w: Any, *values: Any) -> None: ...

    async def waits(self: Any, w: Any, *values: Any) -> None: ...

    def made(method: Any = report, once: bool = False, inserts: bool = False, more: Any = None, **state: Any) -> type:
        total = hw.WindowedCRDT(hw.count(), SECOND, **state)
        handler = hw.when_final(total, once=once)(type(method)(method.__code__, method.__globals__))
        days = {"days": hw.WindowedCRDT(hw.count(), SECOND, inserted_by="report" if inserts else None)}
        return type("Bids", (hw.ProcessingFunction,), {"total": total, "report": handler, **days, **(more or {})})

    return [
        made(),
        made(waits),
        made(once=True),
        made(inserts=True),
        made(keys="auction"),
        made(lateness="1 s"),
        made(where=hw.col("kind") == "bid"),
        made(more={"seen": hw.Local(0)}),
        made(more={"seen": hw.Local(1)}),
        made(more={"cut": 10}),
        made(more={"unsafe": True}),
        made(more={"other": hw.WindowedLocal(hw.count(), SECOND)}),
        made(more={"other": hw.WindowedCRDT(hw.count(), SECOND)}),
    ]


def test_whatever_a_program_means_is_in_its_digest() -> None:
    digests = [program_of(function).digest() for function in functions_that_differ_in_one_thing()]
    assert len(set(digests)) == len(digests)
    again = [program_of(function).digest() for function in functions_that_differ_in_one_thing()]
    assert again == digests


def test_types_of_inserted_columns_are_in_the_digest() -> None:
    def made(kind: Any) -> Program:
        votes = hw.WindowedCRDT(hw.sum("n"), SECOND, inserted_by="event", columns={"n": kind})
        return program_of(type("Votes", (hw.ProcessingFunction,), {"votes": votes, "event": lambda self, e: None}))

    assert made(int).digest() == made(pa.int64()).digest() != made(float).digest()


def test_code_without_a_path_has_no_digest() -> None:
    longest = hw.aggregate_of("longest", lambda words: max(map(len, words)), max, int, 0)
    program = program_of(hw.query("q", SECOND, longest=hw.apply(longest, "word")))
    with pytest.raises(hw.QueryError, match=r"query 'q': aggregate 'longest' is .*define it at the top level"):
        program.digest()


class Empty(hw.ProcessingFunction):
    total = hw.WindowedCRDT(hw.count(), SECOND)


class NeedsLimit(Trend):
    def __init__(self, limit: int) -> None: ...


@pytest.mark.parametrize(
    ("thing", "sentence"),
    [
        (Empty, "function Empty: nothing in it gives rows: write a method events, event or one with @hw.when_final"),
        (NeedsLimit, "function NeedsLimit: hosts make it without arguments: give each argument a default"),
        (Trend(), "program is an instance of Trend: give the class itself"),
        (hw.ProcessingFunction, "give a class made of hw.ProcessingFunction, a flow, queries, or the import path"),
        (int, "program is <class 'int'>: give a class made of hw.ProcessingFunction, a flow, queries"),
        (7, "queries hold 7: give queries made with"),
        ([], r"queries is \[\]: give one query or more"),
        ([load, load], "query 'load': name is 'load': another query has this name; name each once"),
        (pa.table({"a": [1]}), "queries is an Arrow Table: give one query"),
        ("shop", "import path is 'shop': write 'package.module:name'"),
        ("language.functions.shop:nothing", "module 'language.functions.shop' has no 'nothing'"),
        ("language.functions.shop:text", "program is 'language.functions.shop:text', which is the text"),
    ],
)
def test_what_is_no_program_is_refused(thing: Any, sentence: str) -> None:
    with pytest.raises(hw.QueryError, match=sentence):
        program_of(thing)
