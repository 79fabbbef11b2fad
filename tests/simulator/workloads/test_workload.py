"""Workloads and logs: the same seed, the same stream; however a log is read, it says the same."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from headwater.language.files.queries import from_json, to_json
from headwater.protocols.events import BatchArrived, SourceEnded
from headwater.reference.history import UNREAD
from headwater.simulator.workloads.queries import SCHEMA, WINDOWS, draw_query
from headwater.simulator.workloads.streams import LogCursor, SourceLog, Told
from headwater.simulator.workloads.workload import draw_workload
from headwater.simulator.world.topology import ROOT, tree


def read(reader, moments, dice=None):
    """Everything that a reader gives, as (offset or "watermark" or "end", value)."""
    words = []
    for now in moments:
        while (event := reader.next_event(now, dice)) is not None:
            if isinstance(event, SourceEnded):
                words.append(("end", event.offset))
                continue
            assert isinstance(event, BatchArrived)
            times = event.batch.column("time").to_pylist()
            words += [(event.offset + place, time) for place, time in enumerate(times)]
            if event.watermark is not None:
                words.append(("watermark", event.watermark))
    return words


LOG = SourceLog(
    "a",
    "",
    pa.record_batch({"time": [5, 6, 4, 9]}),
    np.array([10, 20, 20, 40]),
    told=(Told(0, -3, 5), Told(2, 5, 21), Told(2, 6, 22), Told(4, 8, 50)),
    ended_ns=60,
)
WORDS = [
    ("watermark", -3),
    (0, 5),
    (1, 6),
    ("watermark", 5),
    ("watermark", 6),
    (2, 4),
    (3, 9),
    ("watermark", 8),
    ("end", 4),
]


@pytest.mark.parametrize("seed", range(5))
def test_a_log_says_the_same_whatever_the_pieces(seed):
    dice = Random(seed)
    moments = [*sorted(dice.randrange(70) for _ in range(8)), 70]
    assert read(LogCursor(LOG, 0), moments, dice) == WORDS


def test_a_reader_that_moves_back_says_it_all_again_with_the_watermark_that_stands_there():
    reader = LogCursor(LOG, 0)
    read(reader, [70])
    reader.move(2)
    assert read(reader, [70]) == WORDS[3:]


def test_a_reader_says_when_to_look_again():
    reader = LogCursor(LOG, 0)
    looks = []
    while (moment := reader.next_ns()) is not None:
        looks.append(moment)
        reader.next_event(moment, None)
    assert looks == [5, 10, 20, 21, 22, 20, 40, 50, 60]


def test_the_same_seed_draws_the_same_workload():
    one, other = (draw_workload(Random(3), tree(5, 2)) for _ in range(2))
    assert one.queries == other.queries and one.script == other.script
    assert [log.rows for log in one.all_logs] == [log.rows for log in other.all_logs]


@pytest.mark.parametrize("seed", range(20))
def test_every_log_can_be_read_to_its_end_and_keeps_to_its_times(seed):
    for log in draw_workload(Random(seed), tree(3, 1)).all_logs:
        assert (np.diff(log.available_ns) >= 0).all()
        own = [column for column in log.events.schema if not column.name.startswith(UNREAD)]
        assert pa.schema(own) == SCHEMA
        words = read(LogCursor(log, 0), [log.last_ns])
        assert sum(isinstance(word[0], int) for word in words) == len(log)
        assert (words[-1] == ("end", len(log))) == (log.ended_ns is not None)


@pytest.mark.parametrize("kind", WINDOWS)
def test_queries_of_every_kind_can_travel(kind):
    queries = [draw_query(Random(seed), f"q{seed}", kind) for seed in range(20)]
    assert list(from_json(to_json(queries))) == queries


@pytest.mark.parametrize(("leaves", "height"), [(1, 1), (1, 4), (16, 1), (16, 3), (1000, 4), (7, 2)])
def test_every_leaf_is_as_far_from_the_root_as_asked(leaves, height):
    topology = tree(leaves, height)
    assert len(topology.leaves) == leaves
    for leaf in topology.leaves:
        distance, node = 0, leaf
        while node != ROOT:
            distance, node = distance + 1, topology.parents[node]
        assert distance == height
    assert set(topology.parents.values()) == {ROOT, *topology.relays}
