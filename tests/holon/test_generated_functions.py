"""Functions that Hypothesis draws: whoever runs which partition when, and however it is told, the rows are the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import shown
from headwater.holon import run
from headwater.holon.run import input_of, tables_of
from headwater.holon.two_runners import TwoRunners
from headwater.language.functions.program import program_of
from headwater.node.holon.functions.plans import plan_of

WINDOWS = st.sampled_from(
    [hw.tumbling(10), hw.sliding(20, 5), hw.sliding(13, 7), hw.session(4), hw.count_tumbling(3), hw.band(5, 20)]
)
AGGREGATES = st.sampled_from([hw.count(), hw.sum("v"), hw.max("v"), hw.top("v", 2), hw.distinct("k"), hw.median("v")])
KEYS = st.sampled_from([(), (), ("k",)])
CONDITIONS = st.sampled_from([None, None, hw.col("v") > 3])


def _text(value: Any) -> str:
    return str(value.to_pylist() if isinstance(value, pa.Table) else value)


def _tell(inserts: bool, counts: bool) -> Any:
    """A handler that yields what it is given, remembers how often it was called, and perhaps inserts."""

    def tell(self: Any, w: Any, *values: Any) -> Any:
        if counts:
            self.calls.value += 1
        if inserts:
            self.second.insert(len(_text(values)), w.end + 3)
        yield {"start": w.start, "end": w.end, "values": _text(list(map(_text, values))), "calls": self.calls.value}

    return tell


def _again() -> Any:
    def again(self: Any, w: Any, *values: Any) -> Any:
        yield {"start": w.start, "end": w.end, "values": _text(list(map(_text, values)))}

    return again


@st.composite
def functions(draw: st.DrawFn) -> type[hw.ProcessingFunction]:
    window = draw(WINDOWS)
    lateness = draw(st.sampled_from([0, 0, 15])) if not isinstance(window, type(hw.count_tumbling(1))) else 0
    inserts = lateness == 0 and not isinstance(window, type(hw.session(1))) and draw(st.booleans())
    once = draw(st.booleans())

    def state(kind: Any) -> Any:
        return kind(draw(AGGREGATES), window, keys=draw(KEYS), where=draw(CONDITIONS), lateness=lateness)

    first = state(hw.WindowedCRDT)
    read = [first] if once or draw(st.booleans()) else [first, state(hw.WindowedLocal)]
    body: dict[str, Any] = {f"state{number}": one for number, one in enumerate(read)}
    body["calls"] = hw.Local(0)
    body["tell"] = hw.when_final(*read, once=once)(_tell(inserts, draw(st.booleans())))
    if inserts:
        second = hw.WindowedCRDT(hw.sum("value"), hw.tumbling(20), inserted_by="tell", columns={"value": int})
        body["second"] = second
        body["again"] = hw.when_final(second, once=draw(st.booleans()))(_again())
    return type("Drawn", (hw.ProcessingFunction,), body)


@st.composite
def inputs(draw: st.DrawFn) -> dict[str, pa.Table]:
    found = {}
    for name in ("a", "b")[: draw(st.integers(1, 2))]:
        time, rows = draw(st.integers(-5, 20)), []
        for _ in range(draw(st.integers(0, 12))):
            time += draw(st.sampled_from([0, 1, 3, 12, 60]))
            rows.append(
                {"time": time - draw(st.integers(0, 6)), "v": draw(st.integers(0, 9)), "k": draw(st.sampled_from("xy"))}
            )
        schema = pa.schema({"time": pa.int64(), "v": pa.int64(), "k": pa.string()})
        found[name] = pa.Table.from_pylist(rows, schema)
    return found


@given(functions(), inputs(), st.integers(0, 2**32), st.sampled_from([None, 1, 7, 100]))
def test_two_runners_and_one_process_give_the_same_rows(
    function: type[hw.ProcessingFunction], events: dict[str, pa.Table], seed: int, every: int | None
) -> None:
    arrow = tables_of(events)
    plan = plan_of(program_of(function), arrow, input_of(arrow, "time", "us", 5, every, False))
    alone = run(function, events, disorder=5, every=every, seed=seed, batch_events=3)
    known = {chain: [shown(row) for row in rows.to_pylist()] for chain, rows in alone.chains.items()}
    before = {chain: list(rows) for chain, rows in known.items()}
    TwoRunners(plan, {name: table.combine_chunks() for name, table in arrow.items()}, Random(seed), known, seed).play()
    assert known == before
