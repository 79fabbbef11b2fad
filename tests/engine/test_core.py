"""The engine on record batches: what goes in, what comes out, and what it refuses without a trace."""

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.core import Core
from headwater.errors import DataError, QueryError
from headwater.language.times import FOREVER

TOTAL = hw.query("total", hw.tumbling(10), total=hw.sum("v"))


def batch(times: list, values: list) -> pa.RecordBatch:
    return pa.record_batch({"time": times, "v": values})


def totals(core: Core) -> list[tuple[int, object]]:
    rows = core._take()[0].to_pylist()
    return [(row["window_start"], row["total"]) for row in rows]


def test_a_window_comes_out_when_the_watermark_reaches_its_end():
    core = Core([TOTAL])
    core.push([batch([1, 5, 12], [1, 2, 4])])
    core.advance(9)
    assert totals(core) == []
    core.advance(10)
    assert totals(core) == [(0, 3)]
    core.flush()
    assert totals(core) == [(10, 4)]
    assert core.watermark == FOREVER


def test_the_slowest_source_holds_windows_back_until_it_is_idle():
    core = Core([TOTAL], disorder=0)
    core.join("slow")
    core.push([batch([1, 25], [1, 2])], source="fast")
    assert totals(core) == []
    core.idle("slow")
    assert totals(core) == [(0, 1)]
    assert [decision.what for decision in core.decisions] == ["joined", "joined", "idle"]


def test_events_that_were_accepted_before_are_passed_over():
    core = Core([TOTAL])
    core.push([batch([1, 2], [1, 2])], offset=0)
    core.push([batch([2, 3], [2, 4])], offset=1)
    core.flush()
    assert totals(core) == [(0, 7)]
    assert core.statistics["repeated"] == 1


def test_what_no_query_can_use_is_set_aside_and_counted():
    core = Core([TOTAL])
    core.push([batch([1, None], [1, 2])])
    core.flush()
    assert totals(core) == [(0, 1)]
    counts = core.counters()["total"]
    assert (counts["in"], counts["member"], counts["malformed"], core.statistics["malformed"]) == (2, 1, 1, 1)
    assert core.side_output().column("reason").to_pylist() == ["time is null"]


def test_a_batch_that_strict_refuses_leaves_no_trace():
    core = Core([TOTAL], strict=True)
    with pytest.raises(DataError, match="offset 1"):
        core.push([batch([1, None], [1, 2])])
    core.push([batch([1, 2], [1, 2])])
    core.flush()
    assert totals(core) == [(0, 3)]


def test_pushing_all_at_once_gives_what_a_push_and_a_flush_give():
    batches = [batch([3, 1, 12], [1, 2, 4]), batch([11, 25], [8, 16])]
    at_once, live = Core([TOTAL]), Core([TOTAL])
    at_once.push_all(batches)
    live.push(batches)
    live.flush()
    assert totals(at_once) == totals(live) == [(0, 3), (10, 12), (20, 16)]


def test_a_query_that_joins_sees_windows_from_its_begin_on():
    core = Core([TOTAL])
    core.push([batch([1], [1])])
    begin = core.add_query(hw.query("late", hw.tumbling(10), total=hw.sum("v")))
    assert begin == 2
    with pytest.raises(QueryError, match="at is 1"):
        core.add_query(hw.query("later", hw.tumbling(10), n=hw.count()), at=1)
    core.push([batch([11], [2])])
    core.flush()
    rows = core._take()[0].to_pylist()
    assert [(row["query"], row["window_start"]) for row in rows] == [("total", 0), ("total", 10), ("late", 10)]


def test_an_engine_goes_on_from_a_snapshot():
    core = Core([TOTAL])
    core.push([batch([1, 12], [1, 2])])
    core.advance(10)
    again = Core.restore(core.snapshot())
    assert again.snapshot() == core.snapshot()
    for one in (core, again):
        one.push([batch([13], [4])])
        one.flush()
    assert totals(again) == totals(core) == [(0, 1), (10, 6)]


def test_a_mode_that_is_none_is_told_what_there_is():
    with pytest.raises(QueryError, match="mode is 'desw': give one of 'cebuffer', 'debucket', 'scotty', 'desis'"):
        Core([TOTAL], mode="desw")


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (-5, "offset is -5; offsets count up from 0"),
        ([-1, 0], "offset is -1; offsets count up from 0"),
        (2**63 - 2, "the offset behind the last event is 9223372036854775808; the largest is 2\\*\\*63 - 1"),
        (2**64, "the offset behind the last event is 18446744073709551618"),
        (np.array([1, 2**64 - 1], np.uint64), "the offset behind the last event is 18446744073709551616"),
        ([0, 2**70], "offset is .*; give the first event's offset, or one whole number per event"),
        ([3, 3], "offset 3 follows 3; .* each above the one before"),
        ([5, 4], "offset 4 follows 5"),
        ([1.5, 2.5], "offset is \\[1.5, 2.5\\]"),
        ("a", "offset is 'a'"),
        (True, "offset is True"),
        (np.zeros((1, 1), int), "offset is array"),
        ([7], "there are 1 offsets for 2 events"),
        ([7, 8, 9], "there are 3 offsets for 2 events"),
    ],
)
def test_an_offset_that_cannot_be_is_refused_and_swallows_no_event(offset: object, words: str):
    core = Core([TOTAL])
    for source in ("", "meter"):
        with pytest.raises(DataError, match=f"source '{source}': {words}"):
            core.push([batch([1], [1]), batch([2], [2])], source, offset)
    assert core.counters()["total"]["in"] == 0 and core.decisions == ()
    core.push([batch([1], [1]), batch([2], [2])], offset=0)
    core.flush()
    assert totals(core) == [(0, 3)]


def test_offsets_that_run_out_are_refused():
    core = Core([TOTAL])
    core.push([batch([1], [1])], offset=2**63 - 2)
    with pytest.raises(DataError, match="the offset behind the last event is 9223372036854775808"):
        core.push([batch([2], [2])])
    assert core.counters()["total"]["in"] == 1
