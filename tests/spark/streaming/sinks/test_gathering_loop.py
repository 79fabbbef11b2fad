"""Folders that gather, behind the loop that Spark runs: rows and events set aside, with crashes behind every step."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.simulator.stream import StoryRun, loop
from headwater.spark.streaming.sinks import FolderSink


class Watched(FolderSink):
    """Tells the loop what it was given, and may die behind it."""

    def __init__(self, loop, name, every) -> None:
        super().__init__(loop.checkpoint.path.parent / name, every=every)
        self._loop, self._name = loop, name

    def write_after(self, said, batch, rows, planned_ns):
        (self._loop.sink if self._name == "rows" else self._loop.aside).write(batch, rows)
        said = super().write_after(said, batch, rows, planned_ns)
        self._loop.reached(self._name)
        return said


def new_sinks(driver):
    loop = driver.loop
    loop.lives = getattr(loop, "lives", 0) + 1
    every = [None, "2 s", "20 s", "1 h"][loop.lives % 4]
    rows, aside = Watched(loop, "rows", every), Watched(loop, "aside", "5 s")
    return rows, aside


@pytest.mark.parametrize(("seed", "roots"), [(1, 1), (3, 2)])
def test_gathered_files_hold_what_every_batch_gave_in_order_and_once(tmp_path, monkeypatch, seed, roots):
    monkeypatch.setattr(loop, "watched_sinks", new_sinks)
    run = StoryRun(tmp_path / "checkpoint", seed, crashes=True, roots=roots)
    run.play()
    run.loop.runner.close_sinks()
    for sink, name in ((run.loop.sink, "rows"), (run.loop.aside, "aside")):
        given = [table for _, table in sorted(sink.batches.items()) if len(table)]
        place = tmp_path / name
        found = [pq.ParquetFile(path).read() for path in sorted(place.glob("*.parquet"))]
        assert [row for table in found for row in _rows(table)] == [row for table in given for row in _rows(table)]
        assert len(found) <= len(given)


def _rows(table: pa.Table) -> list[str]:
    return [repr(row) for row in table.to_pylist()]


def test_a_stream_without_new_events_runs_a_batch_when_gathered_rows_are_due():
    from headwater.spark.streaming.directives import Directive
    from headwater.spark.streaming.planning import Offset, PlannerView, next_offset

    said, start = Directive(3, "", [], {}, rows_due_ns=70), Offset(batch=3, now_ns=10)
    assert Directive.from_data(said.to_data()) == said
    for now_ns, batch in ((69, 3), (70, 4)):
        assert next_offset(start, said, PlannerView({}, 0, False, 0, now_ns - start.now_ns), 1, None).batch == batch
