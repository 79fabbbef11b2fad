"""What the host of a node does by itself: it looks, feeds and syncs; slow storage answers late, full storage stops it."""

from random import Random

import pyarrow as pa

from headwater.node.holon.happenings import (
    AppendRows,
    Decide,
    EntryDecided,
    InputSeen,
    PeerGone,
    PeerJoined,
    RowsAppended,
    RowsSynced,
    StopReading,
)
from headwater.protocols.actions import Checkpoint, ReadFrom
from headwater.protocols.events import BatchArrived, Started
from headwater.simulator.holon.site import HolonSite
from headwater.simulator.holon.workload import draw_holon_workload
from headwater.simulator.world.machine import Machine, Maker
from headwater.simulator.world.network import MS
from headwater.simulator.world.world import World

ROWS = pa.table({"n": [1, 2]})


class Scripted:
    """A node that asks for the next list of actions whenever it is spoken to, and remembers what it was told."""

    def __init__(self, *script):
        self.script, self.told = list(script), []

    def handle(self, event, now_ns):
        self.told.append(event)
        return self.script.pop(0) if self.script else []

    def snapshot(self):
        return b""

    def check(self):
        pass

    def kinds(self, kind):
        return [event for event in self.told if isinstance(event, kind)]


def site_with(*nodes):
    """A world with these nodes, and what they share."""
    workload = draw_holon_workload(Random(4), 3)
    world = World(7, surroundings=lambda world: HolonSite(world, workload.logs))
    for number, node in enumerate(nodes):
        maker = Maker(lambda node=node: node, lambda _, node=node: node, lambda data, _, node=node: (node, []))
        world.add(Machine(f"n{number}", "member", maker))
    return world, world._surroundings, workload


def test_a_node_is_told_of_its_peers_and_of_what_it_reads():
    one, two = Scripted([ReadFrom("p0", 0)]), Scripted()
    world, _, workload = site_with(one, two)
    world.run(workload.last_ns + 100 * MS)
    assert isinstance(one.told[0], Started)
    assert one.kinds(PeerJoined) == [PeerJoined("n1")] and two.kinds(PeerJoined) == [PeerJoined("n0")]
    assert sum(len(event.batch) for event in one.kinds(BatchArrived)) == len(workload.logs["p0"])
    assert two.kinds(BatchArrived) == []
    assert two.kinds(InputSeen)[-1].ends == {name: len(log) for name, log in workload.logs.items()}


def test_reading_ends_when_it_is_no_longer_wanted():
    node = Scripted([ReadFrom("p0", 0)], [StopReading("p0")])
    world, _, workload = site_with(node)
    world.run(workload.last_ns + 100 * MS)
    assert node.kinds(BatchArrived) == []


def test_the_first_entry_with_a_number_is_told_to_everybody():
    one, two = Scripted([Decide(0, b"one")]), Scripted([Decide(0, b"two")])
    world, _, _ = site_with(one, two)
    world.run(100 * MS)
    assert set(one.kinds(EntryDecided)) == set(two.kinds(EntryDecided)) == {EntryDecided(0, b"one")}


def test_rows_are_there_at_once_and_synced_later():
    node = Scripted([AppendRows("c", 0, ROWS)])
    world, site, _ = site_with(node)
    assert site.output.ends() == {"c": 2}
    assert site.output.durable() == {"c": 0}
    world.run(200 * MS)
    assert node.kinds(RowsAppended) == [RowsAppended("c", 2)]
    assert node.kinds(RowsSynced) == [RowsSynced({"c": 2})]


def test_slow_storage_answers_late_and_it_is_counted():
    node = Scripted([AppendRows("c", 0, ROWS)])
    world, site, _ = site_with()
    site.slowness_ns["n0"] = 50 * MS
    world.add(Machine("n0", "member", Maker(lambda: node, lambda _: node)))
    world.run(49 * MS)
    assert node.kinds(RowsAppended) == []
    world.run(60 * MS)
    assert node.kinds(RowsAppended) == [RowsAppended("c", 2)]
    assert world.counts["fault: stall"] == 1


def test_a_node_stops_where_its_storage_is_full_and_peers_may_notice():
    nodes = [Scripted(*[[]] * 9, [AppendRows("c", 0, ROWS)]), *(Scripted() for _ in range(6))]
    world, site, _ = site_with(*nodes)
    world.machines["n0"].storage.disk.is_full = True
    world.run(200 * MS)
    assert not world.machines["n0"].is_up
    assert site.output.ends() == {}
    told = [node.kinds(PeerGone) for node in nodes[1:]]
    assert [PeerGone("n0")] in told and [] in told


def test_a_node_comes_back_from_its_checkpoint_with_all_decisions():
    node = Scripted([Checkpoint(b"state"), Decide(0, b"entry")])
    world, _, _ = site_with(node)
    seen = []
    machine = world.machines["n0"]
    machine.maker = Maker(Scripted, Scripted, lambda data, records: (seen.append((data, records)) or node, []))
    world.run(50 * MS)
    world.crash(machine, keeps_memory=False)
    node.told.clear()
    world.start(machine)
    assert seen == [(b"state", [])]
    assert node.told[:2] == [Started(), EntryDecided(0, b"entry")]
