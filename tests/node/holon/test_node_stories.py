"""Single things that happen to nodes without a root, and what they do about them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import DataError
from headwater.node.holon.happenings import (
    AppendRows,
    Decide,
    EntryDecided,
    HolonAction,
    InputSeen,
    PeerGone,
    PeerJoined,
    RowsAppended,
    RowsSynced,
)
from headwater.node.holon.node import BEAT, HolonNode
from headwater.node.holon.settings import HolonSettings
from headwater.node.holon.shared_program import ProgramPlan
from headwater.node.holon.tables import SharedTable
from headwater.protocols.actions import Checkpoint, Finished, Noted, ReadFrom, SendMessage
from headwater.protocols.events import BatchArrived, FlushAsked, MessageReceived, Started, TimerFired
from headwater.protocols.frames import frame, open_frame
from headwater.protocols.peers.decisions import JobStopped, StepClosed, entry_from_bytes, entry_to_bytes
from headwater.protocols.peers.gossip_messages import Digest, EntryTold, PrefixTold, WorldPiece, heard, told
from headwater.protocols.steps import StepGrid
from headwater.protocols.windowed_crdt import PrefixDelta
from node.holon.small_world import MS, SharedStores, SmallWorld

TABLE = SharedTable(0, (hw.query("q", hw.tumbling(10), n=hw.count()),), pa.schema({"time": pa.int64()}), disorder=0)
BEAT_NS = HolonSettings().beat_ns


def plan_of(*partitions: str, generation: int = 1) -> ProgramPlan:
    return ProgramPlan(partitions, StepGrid(10), (TABLE,), generation=generation)


def events(*times: int) -> pa.RecordBatch:
    return pa.record_batch({"time": pa.array(times, pa.int64())})


def world_of(partitions: dict[str, Sequence[int]], settings: HolonSettings | None = None) -> SmallWorld:
    """All events of these partitions are there."""
    logs = {name: [events(*times)] for name, times in partitions.items()}
    stores = SharedStores(logs, lambda rows: rows.select(["window_start", "n"]).to_pylist())
    stores.there = {name: len(times) for name, times in partitions.items()}
    plan = plan_of(*partitions)
    return SmallWorld(stores, lambda name, data: HolonNode(name, plan, settings or HolonSettings(), data), seed=1)


def running(partition_count: int = 1, settings: HolonSettings | None = None, peers: str = "") -> HolonNode:
    """A node that has listened, and owns everything."""
    node = HolonNode("a", plan_of(*"pqrstuvw"[:partition_count]), settings or HolonSettings())
    node.handle(Started(), 0)
    for beat in (1, 2, 3):
        node.handle(TimerFired(BEAT), beat * BEAT_NS - 50 * MS)
    for peer in peers:
        node.handle(PeerJoined(peer), 250 * MS)
    return node


def digest(peer: str, beat: int, **fields: object) -> MessageReceived:
    known = {"incarnation": 1, "generation": 1, "executed": (-(2**63), -(2**63)), **fields}
    return MessageReceived(peer, told(Digest(peer, beat=beat, **known)))  # type: ignore[arg-type]


def messages(actions: Sequence[HolonAction], kind: type) -> list[object]:
    found = [heard(action.frame) for action in actions if isinstance(action, SendMessage)]
    return [message for message in found if isinstance(message, kind)]


def ends(actions: Sequence[HolonAction]) -> list[tuple[str, int]]:
    """The chains of deltas that are told, each with the index where it ends."""
    deltas = [message for message in messages(actions, PrefixDelta) if isinstance(message, PrefixDelta)]
    return sorted((delta.chain, delta.end) for delta in deltas)


def of_kind(actions: Sequence[HolonAction], kind: type) -> list[HolonAction]:
    return [action for action in actions if isinstance(action, kind)]


# --- who runs what ---


def test_a_node_listens_for_two_beats_before_it_claims() -> None:
    node = HolonNode("a", plan_of("p"))
    first = node.handle(Started(), 0) + node.handle(TimerFired(BEAT), BEAT_NS)
    assert not of_kind(first, ReadFrom)
    assert of_kind(node.handle(TimerFired(BEAT), 2 * BEAT_NS), ReadFrom) == [ReadFrom("p", 0)]


def test_living_nodes_share_all_units_and_run_each_once() -> None:
    world = world_of({name: [1] for name in "pqrstuvw"})
    for name in "abc":
        world.start(name)
    world.run(40)
    units = [unit for host in world.living for unit in host.node.running.units]
    assert sorted(units) == sorted([*"pqrstuvw", "*"])
    assert all(len(host.node.running.units) == 3 for host in world.living)


def test_one_that_joins_takes_one_unit_with_each_beat() -> None:
    world = world_of({name: [1] for name in "pqrstuvw"})
    world.start("a")
    world.run(20)
    world.start("b")
    counts = []
    for _ in range(40):
        world.run(4)
        counts.append(len(world.hosts["b"].node.running.units))
    assert counts[-1] in (4, 5) and all(after - before in (0, 1) for before, after in pairwise(counts))


def test_what_a_node_ran_that_refuses_connections_is_claimed_at_once() -> None:
    world = world_of({name: [1] for name in "pqrs"})
    for name in "ab":
        world.start(name)
    world.run(40)
    world.kill("b")
    world.hosts["a"].happen(PeerGone("b"))
    assert world.hosts["a"].node.running.units == ["*", *"pqrs"]


def test_a_node_that_is_silent_is_suspected_and_what_it_wrote_is_looked_through() -> None:
    node = running(peers="b")
    late = [action for beat in range(3, 30) for action in node.handle(TimerFired(BEAT), beat * BEAT_NS)]
    assert [note.detail for note in of_kind(late, Noted)] == [{"peers": ["b"]}]
    assert node.running.units == ["*", "p"]


def test_a_partition_with_which_its_owner_lags_is_taken_from_it() -> None:
    node = running(2, peers="b")
    claims = {"q": node.owning.table.claim("q", "b")}
    node.handle(digest("b", 3, owners=claims), 3 * BEAT_NS)
    assert node.running.units == ["*", "p"]
    for beat in range(4, 40):
        node.handle(digest("b", beat, lags={"q": 900 * MS}), beat * BEAT_NS)
        node.handle(TimerFired(BEAT), beat * BEAT_NS)
    assert node.running.units == ["*", "p", "q"]


def test_the_loser_of_a_claim_stops() -> None:
    node = running(peers="b")
    claims = {unit: node.owning.table.claim(unit, "b") for unit in ("*", "p")}
    node.handle(digest("b", 3, owners=claims), 3 * BEAT_NS)
    assert node.running.units == []


# --- rows before positions, checkpoints behind rows ---


def test_what_rows_stand_for_is_told_when_they_are_there() -> None:
    node = running(peers="b")
    actions = node.handle(BatchArrived("p", 0, events(1, 5, 12)), 300 * MS)
    [append] = of_kind(actions, AppendRows)
    assert isinstance(append, AppendRows) and (append.chain, append.index, len(append.rows)) == ("*/1", 0, 1)
    # The first step has no rows.
    assert ends(actions) == [("*/1", 1), ("p", 1), ("p", 3)]
    assert ends(node.handle(RowsAppended("*/1", 1), 301 * MS)) == [("*/1", 2)]


def test_a_checkpoint_waits_for_the_rows_it_stands_for() -> None:
    node = running()
    node.handle(BatchArrived("p", 0, events(1, 5, 12)), 300 * MS)
    node.handle(RowsAppended("*/1", 1), 301 * MS)
    beats = [action for beat in range(10, 20) for action in node.handle(TimerFired(BEAT), beat * BEAT_NS)]
    assert not of_kind(beats, Checkpoint)
    assert len(of_kind(node.handle(RowsSynced({"*/1": 1}), 2001 * MS), Checkpoint)) == 1


def test_a_peers_word_that_rows_are_durable_releases_a_checkpoint() -> None:
    node = running(peers="b")
    node.handle(BatchArrived("p", 0, events(1, 5, 12)), 300 * MS)
    node.handle(RowsAppended("*/1", 1), 301 * MS)
    for beat in range(3, 15):
        node.handle(digest("b", beat), beat * BEAT_NS)
        node.handle(TimerFired(BEAT), beat * BEAT_NS)
    assert of_kind(node.handle(digest("b", 15, durable={"*/1": 1}), 1501 * MS), Checkpoint)


def test_a_node_goes_on_where_its_checkpoint_is() -> None:
    node = running()
    node.handle(BatchArrived("p", 0, events(1, 5, 12)), 300 * MS)
    node.handle(RowsAppended("*/1", 1), 301 * MS)
    again = HolonNode("a", plan_of("p"), checkpoint=node.snapshot())
    assert again.known.executed == node.known.executed and again.known.places() == node.known.places()
    again.handle(Started(), 0)
    assert again.incarnation > node.incarnation


def test_a_checkpoint_of_another_program_is_refused() -> None:
    data = HolonNode("a", plan_of("p")).snapshot()
    with pytest.raises(DataError, match="a checkpoint of another program than generation 2"):
        HolonNode("a", plan_of("p", generation=2), checkpoint=data)


# --- gossip ---


def test_who_lacks_a_delta_is_told_it_by_its_owner() -> None:
    node = running(peers="b")
    node.handle(BatchArrived("p", 0, events(1, 5, 12)), 300 * MS)
    node.handle(TimerFired(BEAT), 300 * MS)
    assert ends(node.handle(digest("b", 3), 301 * MS)) == [("*/1", 1), ("p", 1), ("p", 3)]
    assert not ends(node.handle(digest("b", 4, chains={"p": (0, 3), "*/1": (0, 1)}), 302 * MS))


def test_who_lacks_what_is_held_no_longer_gets_the_prefix() -> None:
    node = running(settings=HolonSettings(deltas_held_max=1), peers="b")
    node.handle(digest("b", 2), 300 * MS)
    node.handle(BatchArrived("p", 0, events(1, 12, 25)), 300 * MS)
    node.handle(TimerFired(BEAT), 300 * MS)
    [prefix] = [m for m in messages(node.handle(digest("b", 3), 301 * MS), PrefixTold) if m.chain == "p"]  # type: ignore[attr-defined]
    assert isinstance(prefix, PrefixTold) and prefix.prefix.version.at == 3


def test_a_newcomer_is_given_the_world() -> None:
    world = world_of({"p": [*range(0, 200, 3)], "q": [*range(0, 200, 5)]})
    for name in "ab":
        world.start(name)
    world.run(200)
    assert all(host.node.known.executed[0] == 19 for host in world.living)
    world.start("c")
    world.run(20)
    assert world.hosts["c"].node.known.executed == world.hosts["a"].node.known.executed


def test_another_generation_is_ignored() -> None:
    node = running(peers="b")
    other = Digest("z", 1, 1, generation=2, executed=(5, 5), chains={"p": (0, 9)})
    assert of_kind(node.handle(MessageReceived("z", told(other)), 300 * MS), Noted)
    assert node.owning.living == ["a", "b"]
    assert not node.handle(MessageReceived("b", told(EntryTold(2, 0, JobStopped(0)))), 300 * MS)
    assert node.deciding.log.next_number == 0


def test_digests_that_are_overtaken_say_nothing() -> None:
    node = running(peers="b")
    node.handle(digest("b", 9, lags={"p": 5}), 300 * MS)
    assert not node.handle(digest("b", 8, owners={"p": node.owning.table.claim("p", "b")}), 301 * MS)
    assert node.running.units == ["*", "p"]


def test_no_bytes_bring_a_node_down() -> None:
    """Frames that are damaged, with and without a checksum that fits, of every kind."""
    dice = random.Random(5)
    source = running(2, peers="b")
    frames = [
        a.frame for a in source.handle(BatchArrived("p", 0, events(1, 5, 12)), 300 * MS) if isinstance(a, SendMessage)
    ]
    prefix = source.program.prefix("p")
    assert prefix is not None
    frames += [told(PrefixTold("p", prefix)), told(WorldPiece(1, 5, 0, 1, source.known.state()))]
    frames += [told(EntryTold(1, 0, StepClosed(3, {"p": 2}))), told(EntryTold(1, 1, JobStopped(5)))]
    for _ in range(3000):
        node = source if dice.random() < 0.05 else node_of(dice, source)
        kind, body = open_frame(dice.choice(frames))
        data = bytearray(body)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        whole = frame(kind, bytes(data)) if dice.random() < 0.9 else bytes(data)
        node.handle(MessageReceived("b", whole[: dice.randint(0, 2 * len(whole))]), 400 * MS)


_NODES: list[HolonNode] = []


def node_of(dice: random.Random, like: HolonNode) -> HolonNode:
    """Some node that has perhaps heard nonsense before."""
    if not _NODES or dice.random() < 0.02:
        _NODES.append(running(2, peers="b"))
    return _NODES[-1]


# --- decisions ---


IDLE = HolonSettings(idle_ns=4 * BEAT_NS)


def decided(actions: Sequence[HolonAction]) -> list[object]:
    return [entry_from_bytes(action.entry) for action in actions if isinstance(action, Decide)]


def test_a_silent_partition_is_left_out_of_a_step_with_what_there_is_of_it() -> None:
    node = running(2, IDLE)
    node.handle(InputSeen({"p": 3, "q": 2}), 3 * BEAT_NS)
    node.handle(BatchArrived("p", 0, events(1, 5, 22)), 5 * BEAT_NS)
    assert decided(node.handle(BatchArrived("q", 0, events(2, 3)), 5 * BEAT_NS)) == [StepClosed(0, {})]
    node.handle(EntryDecided(0, entry_to_bytes(StepClosed(0, {}))), 5 * BEAT_NS)
    for beat in (5, 6):  # at the second one it is seen that nothing goes on, and what there is of it is told
        node.handle(TimerFired(BEAT), beat * BEAT_NS)
    assert decided(node.handle(InputSeen({"p": 3, "q": 2}), 6 * BEAT_NS)) == []
    [entry] = decided(node.handle(InputSeen({"p": 3, "q": 2}), 8 * BEAT_NS))
    assert entry == StepClosed(2, {"q": 2})
    actions = node.handle(EntryDecided(1, entry_to_bytes(StepClosed(2, {"q": 2}))), 8 * BEAT_NS)
    assert [row.rows.column("n").to_pylist() for row in of_kind(actions, AppendRows)] == [[4]]  # type: ignore[union-attr]


def test_lag_is_not_idleness() -> None:
    """Of the partition that the step waits for there are events that nobody has taken in."""
    node = running(2, IDLE)
    node.handle(BatchArrived("p", 0, events(1, 5, 22)), 5 * BEAT_NS)
    for beat in range(5, 50):
        assert not decided(node.handle(InputSeen({"p": 3, "q": 2}), beat * BEAT_NS))


def test_another_entry_than_the_proposed_one_is_what_counts() -> None:
    node = running(2, IDLE)
    node.handle(BatchArrived("p", 0, events(1, 5, 12)), 300 * MS)
    actions = node.handle(BatchArrived("q", 0, events(1, 14)), 301 * MS)
    # Only up to the step that both have reached.
    assert decided(actions) == [StepClosed(0, {})]
    actions = node.handle(EntryDecided(0, entry_to_bytes(StepClosed(0, {"q": 0}))), 302 * MS)
    assert node.known.executed[0] == 0 and node.program.decided.out == {"q": 0}
    node.check()


def test_all_partitions_end_where_the_look_behind_the_flush_saw_their_ends() -> None:
    node = running(1)
    node.handle(InputSeen({"p": 2}), 250 * MS)
    assert not decided(node.handle(FlushAsked(), 251 * MS))
    [entry] = decided(node.handle(InputSeen({"p": 3}), 252 * MS))
    node.handle(EntryDecided(0, entry_to_bytes(entry)), 253 * MS)  # type: ignore[arg-type]
    actions = node.handle(BatchArrived("p", 0, events(1, 5, 12)), 254 * MS)
    assert [append.index for append in of_kind(actions, AppendRows)] == [0, 1]  # type: ignore[union-attr]
    assert of_kind(node.handle(RowsAppended("*/1", 2), 255 * MS), Finished) == [Finished()]


def test_a_job_stops_after_a_step() -> None:
    node = running(1)
    node.handle(EntryDecided(0, entry_to_bytes(JobStopped(1))), 250 * MS)
    actions = node.handle(BatchArrived("p", 0, events(1, 5, 12, 33, 50)), 254 * MS)
    assert [append.index + len(append.rows) for append in of_kind(actions, AppendRows)] == [1]  # type: ignore[union-attr]
    assert node.known.executed[0] == 1
    assert of_kind(node.handle(RowsAppended("*/1", 1), 255 * MS), Finished) == [Finished()]
