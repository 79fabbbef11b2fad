"""Streams whose queries show windows without events: a long gap is shown bit by bit, and nothing dies of it."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.engine import state
from headwater.engine.windows import empty_windows
from headwater.node.micro_batches.frames import BatchSettings, EventGroup, Frame, Heard
from headwater.node.micro_batches.root import BatchRoot
from headwater.simulator.stream import STEPS, TABLES, ListedInput, Loop
from spark.streaming.plain_stream import SETTINGS

pytestmark = pytest.mark.usefixtures("no_sync")

SCHEMA = pa.schema([("time", pa.int64()), ("k", pa.string()), ("v", pa.int64())])


@pytest.fixture
def small_steps(monkeypatch):
    for module in (state, empty_windows):
        monkeypatch.setattr(module, "EMPTY_STEP", 8)


def queries():
    return [
        hw.query("all", hw.tumbling(10), n=hw.count(), emit_empty=True),
        hw.query("keyed", hw.sliding(20, 5), keys=["k"], total=hw.sum("v"), emit_empty=True),
        hw.query("once", hw.tumbling(10), n=hw.count(), distinct="v", emit_empty=True),
        hw.query("plain", hw.tumbling(10), n=hw.count()),
    ]


def answers(tables):
    """Of each window the last that was said."""
    last = {}
    for table in tables:
        for row in table.to_pylist():
            last[row["query"], row["window_start"], row["k"]] = (row["event_count"], row["n"], row["total"])
    return last


def looped(place, events, asked, cuts, crashes=()):
    """The rows of a stream that reads the events up to each of the cuts, and is then flushed."""
    TABLES["a"] = pa.RecordBatch.from_pylist(events, SCHEMA)
    opened = ListedInput(SCHEMA, {"a": 0})
    loop = Loop(place, opened, asked, SETTINGS, 1, 1, 0)
    dying = list(crashes)
    for end in [*cuts, len(events)]:
        opened.ends["a"] = max(end, opened.ends["a"])
        loop.crash_at = dying.pop() if dying else None
        while loop.safely():
            loop.now_ns += 1
    loop.checkpoint.ask({"what": "flush"})
    while loop.safely():
        loop.now_ns += 1
    assert loop.directive()["is_finished"]
    return loop


@pytest.mark.usefixtures("small_steps")
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_windows_without_events_that_come_bit_by_bit_are_those_that_come_at_once(tmp_path_factory, data):
    gaps = st.sampled_from([0, 3, 10, 40, 300])
    times = [0]
    for gap in data.draw(st.lists(gaps, max_size=8)):
        times.append(times[-1] + gap)
    events = [
        {"time": time, "k": data.draw(st.sampled_from("ab")), "v": data.draw(st.integers(0, 3))} for time in times
    ]
    asked = queries()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=3)))
    crashes = data.draw(st.lists(st.sampled_from(STEPS), max_size=3))
    loop = looped(tmp_path_factory.mktemp("stream"), events, asked, cuts, crashes)
    engine = hw.Engine(asked, disorder=0)
    engine.push(pa.Table.from_pylist(events, SCHEMA))
    engine.flush()
    assert answers(loop.sink.batches.values()) == answers([engine.results().table])


@pytest.mark.usefixtures("small_steps")
def test_a_long_gap_is_shown_over_many_batches(tmp_path):
    events = [{"time": 0, "k": "a", "v": 1}, {"time": 5_000, "k": "a", "v": 1}]
    loop = looped(tmp_path, events, queries()[:1], [])
    sizes = [len(rows) for rows in loop.sink.batches.values()]
    assert sum(sizes) == 501 and max(sizes) <= 20


def test_one_event_at_10_to_the_15_does_not_stop_a_stream_that_shows_empty_windows(tmp_path):
    TABLES["a"] = pa.RecordBatch.from_pylist(
        [{"time": time, "k": "a", "v": 1} for time in (0, 10**15, 10**15 + 1)], SCHEMA
    )
    opened = ListedInput(SCHEMA, {"a": 0})
    loop = Loop(tmp_path, opened, queries()[:1], SETTINGS, 1, 1, 0)
    for end in (1, 2, 3):
        opened.ends["a"] = end
        assert loop.step()
    assert loop.directive()["wants_batch"] and not loop.directive()["is_finished"]
    assert 0 < sum(map(len, loop.sink.batches.values())) < 10 * empty_windows.EMPTY_STEP


@pytest.mark.usefixtures("small_steps")
def test_a_streaming_dataframe_shows_a_long_gap_over_its_next_batches():
    query = hw.query("all", hw.tumbling(10), n=hw.count(), emit_empty=True)
    root = BatchRoot(BatchSettings((EventGroup("", (query,), ("time",)),), disorder=0))

    def batch(time):
        outcome = root.take([Frame({"": Heard(1, time)}, False, {"": pa.record_batch({"time": [time]})})])
        return sum(map(len, outcome.rows))

    sizes = [batch(0), *(batch(400 + number) for number in range(10))]
    assert sum(sizes) == 40 and max(sizes) <= 20
