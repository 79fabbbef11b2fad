"""How events come in does not matter: cut into any batches, sent twice, in tables of any maker, along any path inside."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agreement import assert_agreement
from headwater.cases.hosts import EngineHost, Played, batch_of
from headwater.engine import core
from headwater.engine.groups import shared as group
from headwater.engine.intake import keys
from headwater.engine.slices import edges, slicer, store
from headwater.engine.windows import assembler
from headwater.local import engine as live
from headwater.reference.history import Arrived, Flushed, Removed
from headwater.reference.rows import ResultRow, identity
from strategies import EXACT, SCHEMA, SKETCHES, Scenario, alike, bulk_scenarios, queries, scenarios


class PiecesHost(EngineHost):
    """Batches cut into pieces of a few events."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def push(self, engine: Any, arrivals: Sequence[Arrived], schema: pa.Schema) -> None:
        for start in range(0, len(arrivals), self._size):
            super().push(engine, arrivals[start : start + self._size], schema)


class RepeatingHost(EngineHost):
    """Every batch is sent again together with the one before it, as after a lost acknowledgement."""

    def __init__(self) -> None:
        super().__init__()
        self._sent: dict[str, list[Arrived]] = {}

    def push(self, engine: Any, arrivals: Sequence[Arrived], schema: pa.Schema) -> None:
        sent = self._sent.setdefault(arrivals[0].source, [])
        for again in ([*sent, *arrivals], arrivals):
            super().push(engine, again, schema)
        self._sent[arrivals[0].source] = list(arrivals)


class MakerHost(EngineHost):
    """Tables of another maker."""

    def __init__(self, make: Callable[[pa.Table], Any]) -> None:
        super().__init__()
        self._make = make

    def push(self, engine: Any, arrivals: Sequence[Arrived], schema: pa.Schema) -> None:
        first = arrivals[0]
        table = pa.Table.from_batches([batch_of([arrival.row for arrival in arrivals], schema)])
        engine.push(self._make(table), source=first.source, offset=first.offset, node=first.node)


def played(host: EngineHost, scenario: Scenario) -> Played:
    """To the end of the stream: when late members show before it depends on how events were cut into batches.

    So does what a query has shown that is removed at once: here every query lives until its open windows have closed.
    """
    history = [replace(step, drain=True) if isinstance(step, Removed) else step for step in scenario.history]
    if not any(isinstance(step, Flushed) for step in history):
        history = [*history, Flushed()]
    return host.play(scenario.settings, history, SCHEMA)


def last_rows(result: Played) -> dict[Any, Any]:
    """What holds in the end: the last revision of every window, without those that vanished."""
    rows: dict[Any, Any] = {}
    for _, emitted in result.emitted:
        for row in emitted:
            rows[row.query, row.start, row.end, identity(row.key), row.node] = row
    return {place: content(row) for place, row in rows.items() if content(row) is not None}


def content(row: ResultRow) -> Any:
    is_gone = row.event_count == 0 and row.replaces is not None
    return None if is_gone else (identity(row.values), row.event_count, row.first_time, row.last_time)


def assert_same(scenario: Scenario, host: EngineHost) -> None:
    expected, found = played(EngineHost(), scenario), played(host, scenario)
    assert last_rows(found) == last_rows(expected)
    assert found.dropped == expected.dropped
    assert found.counters == expected.counters
    if scenario.settings.disorder is None:
        # The watermark rises by explicit steps only, and these are the same.
        assert repr(found.emitted) == repr(expected.emitted)


@given(scenarios(queries(aggregates=EXACT | SKETCHES)), st.integers(1, 3))
def test_batches_of_any_size_give_the_same_rows(scenario: Scenario, size: int):
    assert_same(scenario, PiecesHost(size))


@settings(max_examples=20)
@given(bulk_scenarios(), st.sampled_from([1, 7, 64]))
def test_batches_of_any_size_give_the_same_rows_of_hundreds_of_events(scenario: Scenario, size: int):
    assert_same(scenario, PiecesHost(size))


@given(scenarios(), st.integers(1, 3))
def test_long_pushes_are_cut_without_a_trace(scenario: Scenario, size: int):
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in ((live, "BATCH_EVENTS", size), (core, "CELLS_HELD", 0), (core, "ROWS_HELD", 0)):
            patch.setattr(module, name, value)
        cut = played(EngineHost(), scenario)
    whole = played(EngineHost(), scenario)
    assert last_rows(cut) == last_rows(whole)
    assert (cut.dropped, cut.counters) == (whole.dropped, whole.counters)


@given(scenarios())
def test_events_sent_again_are_passed_over(scenario: Scenario):
    assert_same(scenario, RepeatingHost())


MAKERS: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    # A name with a zero byte, beside which values of a wrong type stand here, makes Polars end the process.
    "Polars": lambda table: table if any("\0" in name for name in table.column_names) else pl.from_arrow(table),
    "record batch": lambda table: table.combine_chunks().to_batches()[0],
    "chunks": lambda table: pa.concat_tables([table.slice(0, 1), table.slice(1)]),
    "dictionary": lambda table: table.set_column(1, "k", table.column("k").dictionary_encode()),
    "narrow integers": lambda table: table.set_column(2, "g", table.column("g").cast(pa.int8())),
}


@pytest.mark.parametrize("maker", MAKERS)
@settings(max_examples=20)
@given(scenario=scenarios())
def test_tables_of_any_maker_give_the_same_rows(maker: str, scenario: Scenario):
    assert_same(scenario, MakerHost(MAKERS[maker]))


#: Numbers that choose between two ways to the same rows, set so that the rarer way is always taken.
PATHS: dict[str, list[tuple[Any, str, int]]] = {
    "rows are merged with their neighbours": [(store, "COMPACT_FROM", 0)],
    "keys are forgotten": [(group, "KEYS_KEPT", 0)],
    "events are sorted into slices": [(slicer, "CELLS_FREE", 0), (slicer, "CELLS_PER_EVENT", 0)],
    "rows are numbered in key order": [(slicer, "KEYS_MANY", 0)],
    "windows are looked up key by key": [(assembler, "CELLS_FREE", 0), (assembler, "CELLS_PER_ROW", 0)],
    "edges are listed": [(edges, "CELLS_FREE", 0)],
    "keys are hashed": [(keys, "TABLE_SPAN_MAX", 0)],
}


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=25)
@given(scenario=alike().flatmap(lambda drawn: scenarios(drawn, query_count_max=4)) | bulk_scenarios())
def test_every_path_gives_what_the_reference_says(path: str, scenario: Scenario):
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in PATHS[path]:
            assert hasattr(module, name)
            patch.setattr(module, name, value)
        assert_agreement(scenario)


@settings(max_examples=25)
@given(scenario=alike().flatmap(lambda drawn: scenarios(drawn, query_count_max=4)))
def test_all_rare_paths_together_give_what_the_reference_says(scenario: Scenario):
    with pytest.MonkeyPatch.context() as patch:
        for changes in PATHS.values():
            for module, name, value in changes:
                patch.setattr(module, name, value)
        assert_agreement(scenario)
