"""Arrivals in streams: events too far ahead are set aside, times of arrival are times, and reading again gives the same."""

import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.cases.differences import explain_difference
from headwater.cases.hosts import result_rows
from headwater.reference.history import Arrived, Flushed, Joined, StreamSettings
from headwater.reference.rows import ResultRow
from headwater.reference.rows import rows as reference_rows
from headwater.simulator.stream import STEPS, TABLES, ListedInput, Loop
from headwater.spark.streaming.inputs.folder import FolderInput
from headwater.spark.streaming.planning import Offset
from headwater.spark.streaming.start.prepare import checked_ahead
from test_arrivals import in_micros

pytestmark = pytest.mark.usefixtures("no_sync")

SECOND = 1_000_000
SCHEMA = pa.schema([("time", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
#: Windows that are computed at leaves, that are read again to be cut, and whose events travel.
QUERIES = (
    hw.query("load", hw.sliding(20 * SECOND, 5 * SECOND), keys=["k"], total=hw.sum("v"), first=hw.first("v")),
    hw.query("calls", hw.session(3 * SECOND), n=hw.count()),
    hw.query("counts", hw.count_tumbling(4), total=hw.sum("v")),
    hw.query("marks", hw.punctuated(hw.col("v") == 7), n=hw.count()),
)


class ArrivalRun:
    """Events of some sources that come bit by bit to a stream whose driver dies now and then."""

    def __init__(self, place, seed: int, time: str, ahead_max: int | None) -> None:
        self.dice = dice = random.Random(seed)
        self.names = [f"s{number}" for number in range(dice.randint(1, 3))]
        self.settings = StreamSettings(QUERIES, time, 30 * SECOND, ahead_max)
        begin = 10**15
        for name in self.names:
            rows = [self.row(dice, begin + number * SECOND) for number in range(dice.randint(0, 40))]
            TABLES[name] = pa.RecordBatch.from_pylist(rows, SCHEMA)
        opened = self.opened = ListedInput(SCHEMA, dict.fromkeys(self.names, 0))
        engine = {"time": time, "unit": "us", "disorder": 30 * SECOND, "strict": False, "idle_ns": None}
        chains, roots = dice.choice([1, 2, 5]), dice.choice([1, 1, 2])
        self.loop = Loop(
            place, opened, [*map(in_micros, QUERIES)], {**engine, "ahead_max": ahead_max}, chains, roots, seed
        )

    @staticmethod
    def row(dice: random.Random, now: int) -> dict:
        ahead = dice.choice([0, 0, 0, 5, 59, 60, 61, 10**6, 2**61 // SECOND])
        time = None if dice.random() < 0.05 else now + ahead * SECOND
        return {"time": time, "k": dice.choice("ab"), "v": dice.randint(0, 9)}

    def play(self) -> None:
        dice, loop, ends = self.dice, self.loop, self.opened.ends
        while any(ends[name] < len(TABLES[name]) for name in self.names):
            for name in self.names:
                ends[name] = min(len(TABLES[name]), ends[name] + dice.choice([0, 1, 5]))
            loop.now_ns += dice.choice([0, 1, 1_500, 10**9, 10**10])
            loop.events_max = dice.choice([None, 3])
            loop.crash_at = dice.choice([None, *STEPS])
            for _ in range(dice.randint(0, 2)):
                loop.safely()
        loop.crash_at = None
        while loop.safely():
            loop.now_ns += 10**9
        loop.checkpoint.ask({"what": "flush"})
        while loop.safely():
            loop.now_ns += 10**9

    def arrival(self, name: str, offset: int) -> int:
        """When the batch was planned that first took an event."""
        taken = next(planned for planned in self.loop.planned if planned["ends"].get(name, 0) > offset)
        return taken["clock_ns"] // 1_000

    def expected(self) -> list[ResultRow]:
        history = [Joined(name) for name in self.names]
        for name in self.names:
            rows = TABLES[name].to_pylist()
            history += [Arrived(name, at, row, "", self.arrival(name, at)) for at, row in enumerate(rows)]
        found = reference_rows(self.settings, [*history, Flushed()])
        return [
            ResultRow(n, start, end, key, row.values, row.event_count) for (n, key, _, start, end), row in found.items()
        ]

    def found(self) -> list[ResultRow]:
        last = {}
        named = {query.name: query for query in QUERIES}
        for table in self.loop.sink.batches.values():
            for row in result_rows(in_ticks(table), named):
                for start, end, _ in row.replaces or ():
                    last.pop((row.query, start, end, row.key), None)
                last[row[:4]] = row._replace(revision=0, replaces=None)
        return [row for row in last.values() if row.event_count]

    def set_aside(self) -> set[tuple[str, int]]:
        rows = [row for table in self.loop.aside.batches.values() for row in table.to_pylist() if row["query"] is None]
        assert len({(row["source"], row["offset"]) for row in rows}) == len(rows), "each once"
        return {(row["source"], row["offset"]) for row in rows}


def in_ticks(rows: pa.Table) -> pa.Table:
    """The same, with bounds as the reference has them, where a sink got timestamps."""
    for at, name in enumerate(rows.column_names):
        if name in ("window_start", "window_end"):
            rows = rows.set_column(at, name, rows[name].cast(pa.int64()))
    return rows


def in_order(rows):
    return sorted(rows, key=lambda row: (row.query, row.end, row.start, str(row.key)))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_an_event_too_far_ahead_is_set_aside_and_moves_no_watermark_however_often_it_is_read(tmp_path_factory, seed):
    run = ArrivalRun(tmp_path_factory.mktemp("stream"), seed, "time", 60 * SECOND)
    run.play()
    assert not explain_difference(in_order(run.expected()), in_order(run.found()))
    far = {
        (name, at)
        for name in run.names
        for at, row in enumerate(TABLES[name].to_pylist())
        if row["time"] is None or row["time"] > run.arrival(name, at) + 60 * SECOND
    }
    assert run.set_aside() == far


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_windows_over_arrivals_are_those_of_the_batches_that_first_took_the_events(tmp_path_factory, seed):
    run = ArrivalRun(tmp_path_factory.mktemp("stream"), seed, hw.arrival(), None)
    run.play()
    assert not explain_difference(in_order(run.expected()), in_order(run.found()))
    assert run.set_aside() == set()


def test_planning_times_are_kept_only_as_long_as_their_events_may_be_read_again(tmp_path):
    TABLES["long"] = pa.RecordBatch.from_pylist(
        [{"time": 10**15 + n * SECOND, "k": "a", "v": n} for n in range(200)], SCHEMA
    )
    opened = ListedInput(SCHEMA, {"long": 0})
    engine = {"time": hw.arrival(), "unit": "us", "disorder": 0, "strict": False, "idle_ns": None, "ahead_max": None}
    loop = Loop(tmp_path, opened, [in_micros(QUERIES[0])], engine, 1, 1, 0)
    for end in range(1, 201):
        opened.ends["long"] = end
        loop.now_ns += 10**9
        while loop.step():
            pass
    assert len(loop.planned[-1]["taken"].get("long", [])) <= 3


def test_offsets_of_streams_without_arrivals_are_written_as_before():
    assert "taken" not in Offset(3, 5, {"a": 1}).to_data()
    kept = Offset(3, 5, {"a": 1}, taken={"a": [(1, 7)]})
    assert Offset.from_data(kept.to_data()) == kept


def test_an_event_far_ahead_of_its_file_is_set_aside_by_a_stream(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    noon = 1_777_636_800_000_000
    moments = [noon, noon + 5 * SECOND, noon + 40 * 86_400 * SECOND, noon + 12 * SECOND]
    pq.write_table(pa.table({"time": pa.array(moments, pa.timestamp("us", "UTC"))}), folder / "a.parquet")
    os.utime(folder / "a.parquet", ns=(0, (noon + 20 * SECOND) * 1_000))
    opened = FolderInput(folder, tmp_path / "seen")
    engine = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None}
    query = hw.query("load", hw.tumbling("10 s"), n=hw.count())
    ahead_max = checked_ahead("auto", None, opened, "time", "us")
    loop = Loop(tmp_path / "c", opened, [query], {**engine, "ahead_max": ahead_max}, 1, 1, 0)
    while loop.step():
        pass
    loop.checkpoint.ask({"what": "flush"})
    while loop.step():
        pass
    assert sorted(n for rows in loop.sink.batches.values() for n in rows["n"].to_pylist()) == [1, 2]
    (aside,) = [row for rows in loop.aside.batches.values() for row in rows.to_pylist()]
    assert aside["offset"] == 2 and "too far ahead" in aside["reason"]
    assert all("taken" not in planned for planned in loop.planned)
