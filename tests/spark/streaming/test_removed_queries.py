"""The rows of a batch belong to the queries that made it, whatever was asked for since."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.simulator.stream import STEPS, TABLES, CrashError, ListedInput, Loop
from headwater.spark.streaming.kafka.rows import row_keys
from headwater.spark.streaming.sinks import FolderSink, LogSink, MemorySink
from headwater.spark.streaming.start.query_changes import change_queries, running_queries
from spark.streaming.plain_stream import SETTINGS

pytestmark = pytest.mark.usefixtures("no_sync")

SCHEMA = pa.schema([("time", pa.int64()), ("house", pa.int64())])
QUERIES = [
    hw.query("q", hw.tumbling(10), keys=["house"], n=hw.count()),
    hw.query("all", hw.tumbling(10), n=hw.count()),
]


class KeyedSink(MemorySink):
    """Asks for the keys of its rows, as Kafka's does."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self.loop = loop
        self.keys: dict[bytes, int] = {}

    def write(self, batch: int, rows: pa.Table) -> None:
        super().write(batch, rows)
        if len(rows):
            self.keys |= dict.fromkeys(
                row_keys(rows, lambda name: self.loop.runner.queries.query_of(name).keys)[0], batch
            )


def begun(place) -> Loop:
    """Windows [0, 10) and [10, 20) are open, and what closes them has come."""
    TABLES["a"] = pa.RecordBatch.from_pydict({"time": [1, 2, 12, 25, 99], "house": [1, 2, 1, 1, 1]}, SCHEMA)
    opened = ListedInput(SCHEMA, {"a": 0})
    loop = Loop(place, opened, QUERIES, SETTINGS, 1, 1, seed=0)
    opened.ends["a"] = 2
    loop.step()
    opened.ends["a"] = 4
    return loop


def sunk(sink, place) -> list[tuple[str, int]]:
    if isinstance(sink, FolderSink):
        import pyarrow.parquet as pq

        tables = [pq.read_table(file) for file in sorted(place.glob("*.parquet"))]
    elif isinstance(sink, LogSink):
        tables = [pa.Table.from_batches([stored.batch for stored in sink._log.reader(0).read()])]
    else:
        tables = [sink.table()]
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted((row["query"], row["window_start"]) for row in rows)


@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("kind", ["folder", "log", "memory", "keyed"])
def test_a_query_that_is_removed_in_the_batch_that_closes_its_windows_has_its_rows(kind, drain, tmp_path):
    loop = begun(tmp_path / "stream")
    made = {"folder": FolderSink, "log": LogSink}
    loop.sink = made[kind](tmp_path / "out") if kind in made else KeyedSink(loop) if kind == "keyed" else MemorySink()
    loop.checkpoint.ask({"what": "remove", "name": "q", "drain": drain})
    loop.step()
    assert sunk(loop.sink, tmp_path / "out") == [("all", 0), ("all", 10), ("q", 0), ("q", 0), ("q", 10)]


@given(step=st.sampled_from(STEPS), others=st.booleans())
def test_a_stream_that_is_started_with_fewer_queries_after_a_crash_runs_its_batch_again(tmp_path_factory, step, others):
    loop = begun(tmp_path_factory.mktemp("stream"))
    sink = loop.sink = KeyedSink(loop)
    loop.crash_at = step
    with pytest.raises(CrashError):
        loop.step()
    added = [hw.query("new", hw.tumbling(5), n=hw.count())] if others else []
    change_queries(loop.checkpoint, [QUERIES[1], *added])
    loop.restart()
    while loop.step():
        pass
    assert "q" not in running_queries(loop.checkpoint)
    assert sorted(key for key, batch in sink.keys.items() if b'"q"' in key) == [
        b'["q",0,10,{"house":1},0]',
        b'["q",0,10,{"house":2},0]',
        b'["q",10,20,{"house":1},0]',
    ]
