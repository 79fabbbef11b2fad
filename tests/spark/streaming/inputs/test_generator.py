"""Generators as streams: the same events as read at once, at the pace of a clock that the test moves, and after any restart."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater import generator
from headwater.generator import SECOND, SmartHome
from headwater.spark.formats import Wanted
from headwater.spark.streaming.inputs.generator import KEPT_BLOCKS, Blocks, GeneratorInput

HOME = SmartHome(seconds=150, rate=100, houses=5, late_share=0.2, silence=0.3)


@dataclass(frozen=True)
class Ticks:
    """A generator without blocks of its own; its times are seconds that jump, and some are missing."""

    count: int = 100
    size: int = 7

    def batches(self, batch_events: int) -> Iterator[pa.RecordBatch]:
        for first in range(0, self.count, self.size):
            rows = range(first, min(first + self.size, self.count))
            yield pa.record_batch({"time": pa.array([None if i % 5 == 0 else 50 + (i ^ 3) for i in rows], pa.int64())})


@dataclass(frozen=True)
class Nothing:
    """A generator that has ended before it began."""

    def batches(self, batch_events: int) -> Iterator[pa.RecordBatch]:
        yield from ()


class Clock:
    """Stands where it is put."""

    now = 1_000 * 10**9

    def __call__(self) -> int:
        return self.now


@lru_cache(maxsize=100)
def all_rows(each) -> list[dict]:
    return [row for batch in each.batches(1 << 16) for row in batch.to_pylist()]


def read(given: GeneratorInput, source: str, start: int, end: int, columns=None) -> list[dict]:
    schema = given.schema
    wanted = Wanted(columns or schema.names, schema)
    stretches = json.loads(json.dumps(given.stretches(source, start, end)))
    return [row for stretch in stretches for batch in given.read(stretch, wanted) for row in batch.to_pylist()]


def again(given: GeneratorInput, clock=None) -> GeneratorInput:
    data = json.loads(json.dumps(given.to_data()))
    return GeneratorInput.from_data(data) if clock is None else GeneratorInput.from_data(data, clock)


@settings(max_examples=30)
@given(data=st.data())
def test_blocks_of_arrivals_are_the_stream_in_order_of_arrival(data):
    """The slow twin: all events that are ever born, sorted by when they arrive. And any block can be had alone."""
    described = {
        "seconds": data.draw(st.integers(1, 200)),
        "rate": data.draw(st.sampled_from([1, 20, 60])),
        "late_share": data.draw(st.sampled_from([0.0, 0.1, 1.0])),
        "delay_max": data.draw(st.sampled_from([0, 1, 8 * SECOND, 60 * SECOND])),
        "seed": data.draw(st.integers(0, 99)),
        "changes": data.draw(st.sampled_from([(), ((5, 0), (100, 40))])),
    }
    home = SmartHome(**described, houses=6).sources(data.draw(st.integers(1, 3)))[0]
    with pytest.MonkeyPatch.context() as patch:
        # Few events in a block: then it is so short that an event may arrive several blocks later.
        patch.setattr(generator, "BLOCK_EVENTS", data.draw(st.sampled_from([100, 1_000, 6_000_000])))
        born = [home._block(block) for block in range(home.block_count - 1)]
        order = np.argsort(np.concatenate([arrivals for _, arrivals in born]), kind="stable")
        expected = pa.concat_batches([events for events, _ in born]).take(pa.array(order))
        blocks = [home.arrivals_in(block) for block in range(home.block_count)]
        assert pa.concat_batches(blocks).equals(expected)
        assert pa.Table.from_batches(home.batches(50), generator.SCHEMA).combine_chunks() == pa.table(expected)
        kept: dict = {}
        for block in data.draw(st.lists(st.integers(0, home.block_count - 1), max_size=8)):
            assert home.arrivals_in(block, kept).equals(blocks[block])


@pytest.mark.parametrize("each", [HOME, Ticks(), Ticks(count=0)], ids=["home", "ticks", "none"])
@given(data=st.data())
def test_any_split_reads_what_reading_at_once_does(each, data):
    expected = all_rows(each)
    points = [0, *sorted(data.draw(st.lists(st.integers(0, len(expected)), max_size=4))), len(expected)]
    given = GeneratorInput([each, Ticks(3)], pace="fast")
    pairs = data.draw(st.permutations(list(pairwise(points))))
    columns = ["time"]
    for start, end in pairs:
        planner = data.draw(st.sampled_from([given, again(given)]))
        rows = read(planner, "00000", start, end, columns)
        assert rows == [{"time": row["time"]} for row in expected[start:end]]


def test_a_worker_that_goes_back_or_on_reads_the_same(monkeypatch):
    """Blocks are kept as far as there is room, and made again where there is none."""
    monkeypatch.setattr(KEPT_BLOCKS, "bytes_max", 1)
    given = GeneratorInput([HOME, Ticks()], pace="fast")
    whole = all_rows(HOME)
    assert read(given, "00000", 11_000, 11_010) == whole[11_000:11_010]
    assert read(given, "00000", 5, 15) == whole[5:15]
    assert read(given, "00001", 90, 95) == all_rows(Ticks())[90:95]
    assert read(given, "00001", 3, 10) == all_rows(Ticks())[3:10]


def test_as_fast_as_possible_reveals_more_when_all_was_asked_for():
    given = GeneratorInput(Ticks(count=30), pace="fast", step_events=10)
    assert given.schema == pa.schema([("time", pa.int64())])
    assert [given.extents()["00000"].end for _ in range(2)] == [14, 28]  # whole batches of 7, as long as nobody asks
    given.stretches("00000", 0, 14)
    assert given.extents()["00000"].end == 28
    given.stretches("00000", 14, 28)
    extent = given.extents()["00000"]
    assert (extent.end, extent.is_done) == (30, True)
    assert given.extents()["00000"] == extent


def arrived(rows: list[dict], ticks: int) -> int:
    """The slow twin: how many events come before the first whose time, or that of one before it, has not come."""
    not_yet = (number for number, row in enumerate(rows) if row["time"] is not None and row["time"] > ticks)
    return next(not_yet, len(rows))


@given(steps=st.lists(st.integers(-5, 60), max_size=8))
def test_in_real_time_events_appear_as_their_time_comes(steps):
    clock = Clock()
    rows = all_rows(HOME)
    given = GeneratorInput(HOME, clock=clock)
    passed = furthest = 0
    for step in [0, *steps]:
        passed += step
        clock.now = Clock.now + passed * 10**9
        furthest = max(furthest, passed)
        extent = given.extents()["00000"]
        assert extent.end == arrived(rows, HOME.start + furthest * SECOND)
        assert extent.is_done == (extent.end == len(rows))
        # Whoever starts again later agrees, if the clock has not been put back.
        if passed == furthest:
            assert again(given, clock).extents()["00000"] == extent


@given(steps=st.lists(st.integers(0, 30), max_size=6))
def test_events_appear_in_real_time_without_blocks_and_in_other_units(steps):
    clock = Clock()
    rows = all_rows(Ticks())
    given = GeneratorInput([Ticks(), Nothing()], unit="s", clock=clock)
    passed = 0
    for step in steps:
        passed += step
        clock.now = Clock.now + passed * 10**9
        extents = given.extents()
        # The first event has no time, the second 52.
        assert extents["00000"].end == arrived(rows, 52 + passed)
        assert extents["00001"].is_done
    clock.now = Clock.now + 10**12
    assert given.extents()["00000"].is_done


def test_sources_of_one_description_begin_together():
    clock = Clock()
    given = GeneratorInput(HOME.sources(3), clock=clock)
    clock.now += 20 * 10**9
    assert [extent.end for extent in given.extents().values()] == [
        arrived(all_rows(home), HOME.start + 20 * SECOND) for home in HOME.sources(3)
    ]


@pytest.mark.parametrize("pace", ["real", "fast"])
def test_a_restart_does_not_generate_what_is_known(pace, tmp_path, monkeypatch):
    clock = Clock()
    given = GeneratorInput(HOME, pace=pace, seen=tmp_path / "seen", clock=clock)
    clock.now += 130 * 10**9
    before = given.extents()
    asked = []
    block = Blocks.block
    monkeypatch.setattr(Blocks, "block", lambda self, number: asked.append(number) or block(self, number))
    restarted = again(given, clock)
    assert restarted.extents() == before
    assert restarted.stretches("00000", 9_000, 9_500) == given.stretches("00000", 9_000, 9_500)
    assert set(asked) <= {2}  # in real time the block that is not over
    other = GeneratorInput(SmartHome(seconds=5, rate=10), pace=pace, seen=tmp_path / "seen", clock=clock)
    assert read(other, "00000", 0, 10) == all_rows(SmartHome(seconds=5, rate=10))[:10]


def test_what_is_kept_of_a_generator_and_was_damaged_is_counted_again(tmp_path):
    given = GeneratorInput(Ticks(), pace="fast", seen=tmp_path / "seen", step_events=20)
    assert given.extents()["00000"].end == 21
    kept = tmp_path / "seen" / "00000.json"
    data = kept.read_bytes()
    for place, bit in product(range(len(data)), range(8)):
        kept.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
        assert read(again(given), "00000", 0, 20) == all_rows(Ticks())[:20]


def test_a_generator_that_cannot_be_is_refused():
    with pytest.raises(hw.DataError, match="pace is 'slow': give 'real' or 'fast'"):
        GeneratorInput(HOME, pace="slow")
    with pytest.raises(hw.DataError, match="unit is 'min': give one of"):
        GeneratorInput(HOME, unit="min")
    with pytest.raises(hw.DataError, match="no generator has any events"):
        _ = GeneratorInput(Nothing()).schema
    with pytest.raises(hw.DataError, match="there is no column 'at' that says when events are"):
        GeneratorInput(HOME, time="at").extents()
    with pytest.raises(hw.DataError, match="ends at 100, but 101 events of it were read before"):
        GeneratorInput(Ticks()).stretches("00000", 0, 101)
    (stretch,) = GeneratorInput(Ticks()).stretches("00000", 0, 1)
    with pytest.raises(
        hw.DataError, match="has 7 events, but had 8 before; a generator gives the same events each time"
    ):
        list(GeneratorInput.read(stretch | {"rows": 8}, Wanted(["time"], pa.schema([("time", pa.int64())]))))
