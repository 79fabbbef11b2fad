"""The world by itself: time, order, timers, crashes, with tiny nodes that only keep what they were told."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.protocols.actions import Noted, ReadFrom, Record, SendMessage, SetTimer
from headwater.protocols.events import BatchArrived, MessageReceived, SourceEnded, SourceOpened, Started, TimerFired
from headwater.simulator.workloads.streams import SourceLog
from headwater.simulator.world.machine import Clock, Machine, Maker
from headwater.simulator.world.network import MS
from headwater.simulator.world.storage import RECORDS, entries
from headwater.simulator.world.world import World


@dataclass
class Echo:
    """Answers each kind of event with the actions it was given."""

    answers: dict = field(default_factory=dict)
    heard: list = field(default_factory=list)

    def handle(self, event, now_ns):
        self.heard.append((now_ns, event))
        return list(self.answers.get(type(event), []))

    def snapshot(self):
        return b"memory"

    def check(self):
        pass


def machine(name, node, *, role="leaf", logs=(), clock=None):
    return Machine(name, role, Maker(lambda: node, lambda data: node), logs, clock or Clock())


def log(times=(1, 2, 3), available=(5 * MS, 6 * MS, 7 * MS), **options):
    return SourceLog("a", "home", pa.record_batch({"time": list(times)}), np.array(available), **options)


def test_what_was_scheduled_first_happens_first():
    world, seen = World(0), []
    for number in (1, 2, 3):
        world.at(10, seen.append, number)
    world.at(5, seen.append, 0)
    world.run(20)
    assert seen == [0, 1, 2, 3] and world.time_ns == 20


def test_a_timer_set_anew_replaces_the_one_that_runs():
    world, node = World(0), Echo({Started: [SetTimer("x", 10), SetTimer("x", 30)]})
    world.add(machine("n", node))
    world.run(100)
    assert node.heard == [(0, Started()), (30, TimerFired("x"))]


def test_a_fast_clock_shows_more_and_rings_earlier():
    world, node = World(0), Echo({Started: [SetTimer("x", 150)]})
    world.add(machine("n", node, clock=Clock(offset_ns=7, drift_ppm=500_000)))
    world.run(1000)
    assert node.heard[-1] == (157, TimerFired("x")) and world.counts["fault: drift"] == 1


def test_timers_die_with_their_node():
    world, node = World(0), Echo({Started: [SetTimer("x", 10)]})
    world.add(machine("n", node))
    world.crash(world.machines["n"], keeps_memory=True)
    world.run(100)
    assert [event for _, event in node.heard] == [Started()]


def test_a_message_reaches_its_neighbour_after_the_delay():
    world, one, other = World(0), Echo({Started: [SendMessage("b", b"hi")]}), Echo()
    world.add(machine("b", other))
    world.add(machine("a", one))
    world.run(10 * MS)
    assert other.heard[-1] == (MS // 2, MessageReceived("a", b"hi"))


def test_a_paused_node_gets_everything_when_it_wakes():
    world, one, other = World(0), Echo({Started: [SendMessage("b", b"hi")]}), Echo()
    world.add(machine("b", other))
    world.pause(world.machines["b"], 5 * MS)
    world.add(machine("a", one))
    world.run(4 * MS)
    assert len(other.heard) == 1 and world.counts["fault: pause"] == 1
    world.run(6 * MS)
    assert other.heard[-1] == (5 * MS, MessageReceived("a", b"hi"))


def test_a_pause_in_which_nothing_came_does_not_count():
    world = World(0)
    world.add(machine("b", Echo()))
    world.pause(world.machines["b"], 5 * MS)
    world.run(6 * MS)
    assert not world.counts


def test_a_node_that_stumbles_has_done_a_prefix_of_its_actions():
    actions = [Record(b"1"), SendMessage("b", b"x"), Record(b"2")]
    world, one, other = World(0), Echo({TimerFired: actions, Started: [SetTimer("t", MS)]}), Echo()
    world.add(machine("b", other))
    struck = machine("a", one)
    world.add(struck)
    struck.stumble = (0, True)
    world.run(10 * MS)
    records = bytes(struck.storage.disk.files[RECORDS.format(0)].data)
    assert [entry.data for entry in entries(records, Path("records"))] == [b"1"]
    assert not struck.is_up and struck.storage.disk.files["memory"].data == b"memory"
    assert len(other.heard) == 1
    world.start(struck)
    assert struck.is_up and struck.life == 2


def root(name, node):
    return Machine(name, "root", Maker(lambda: node, lambda data: node, lambda checkpoint, records: (node, [])))


def test_what_follows_a_record_waits_for_a_slow_disk_and_so_does_everybody_else():
    world, other = World(0), Echo()
    node = Echo({TimerFired: [Record(b"1"), SendMessage("b", b"x")], Started: [SetTimer("t", MS)]})
    world.add(machine("b", other))
    slow = root("a", node)
    slow.storage.disk.delay_ns = 5 * MS
    world.add(slow)
    world.run(3 * MS)
    world.hand(slow, MessageReceived("b", b"y"))
    assert len(node.heard) == 2 and len(other.heard) == 1
    world.run(10 * MS)
    assert [now for now, _ in node.heard] == [0, MS, 6 * MS] and other.heard[-1][0] == 6 * MS + MS // 2
    assert world.counts == {"fault: stall": 1}


def test_a_node_whose_disk_is_full_falls_before_it_says_anything():
    world, other = World(0), Echo()
    node = Echo({TimerFired: [Record(b"1"), SendMessage("b", b"x")], Started: [SetTimer("t", MS)]})
    world.add(machine("b", other))
    full = root("a", node)
    full.storage.disk.is_full = True
    world.add(full)
    world.run(10 * MS)
    assert not full.is_up and len(other.heard) == 1 and full.unread_faults == ["full"]
    full.storage.disk.mend()
    world.start(full)
    assert full.is_up


def test_a_clock_that_leaps_does_not_move_timers():
    world, node = World(0), Echo({Started: [SetTimer("x", 100)]})
    leaping = machine("n", node)
    world.add(leaping)
    leaping.clock = leaping.clock.showing(1000, world.time_ns)
    world.run(1000)
    assert node.heard[-1] == (1100, TimerFired("x"))


def test_notes_alone_make_no_halfway_crash_that_counts():
    world, one = World(0), Echo({TimerFired: [Noted("a", {}), Noted("b", {})], Started: [SetTimer("t", MS)]})
    struck = machine("a", one)
    world.add(struck)
    struck.stumble = (0, True)
    world.run(10 * MS)
    assert not struck.is_up and not struck.unread_faults


def test_a_log_is_read_from_where_the_node_says_and_as_it_becomes_available():
    world, node = World(0), Echo({SourceOpened: [ReadFrom("a", 1)]})
    world.cuts_batches = False
    world.add(machine("n", node, logs=(log(opened_ns=2 * MS, ended_ns=9 * MS),)))
    world.run(20 * MS)
    events = [event for _, event in node.heard]
    assert [type(event) for event in events] == [Started, SourceOpened, BatchArrived, BatchArrived, SourceEnded]
    assert [(event.offset, event.batch.num_rows) for event in events[2:4]] == [(1, 1), (2, 1)]
    assert node.heard[2][0] == 6 * MS


def test_nothing_is_read_before_the_node_asks():
    world, node = World(0), Echo()
    world.add(machine("n", node, logs=(log(),)))
    world.run(20 * MS)
    assert [type(event) for _, event in node.heard] == [Started, SourceOpened]
