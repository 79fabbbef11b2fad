"""The root, frame by frame: what it accepts, what it refuses, what it records and what it tells."""

from __future__ import annotations

import pytest

from headwater.errors import QueryError
from headwater.node import NodeSettings, RootNode
from headwater.protocols.actions import Action, Checkpoint, Finished, Noted, Record, SetTimer
from headwater.protocols.advances import Advance
from headwater.protocols.delta import ChainRange, Delta
from headwater.protocols.events import FlushAsked, IdleAsked, MessageReceived, ReturnAsked, Started, TimerFired
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Assign, Hello, Message, Positions, Refuse, encode
from node.parts import MARKS, SCHEMA, SUMS, sent


def root_of(**settings: int) -> RootNode:
    root = RootNode("root", [SUMS], schema=SCHEMA, settings=NodeSettings(**settings))
    hear(root, "a", Hello("x", "a", sources=(("s", ""),)))
    return root


def hear(root: RootNode, sender: str, message: Message, now_ns: int = 0) -> list[Action]:
    return root.handle(MessageReceived(sender, encode(message)), now_ns)


def delta(epoch: int, start: int, count: int = 1, rise: int = 0) -> Delta:
    return Delta({"x": ChainRange(epoch, start, start + 1)}, {"x": Advance.of([0], [count], [rise])})


def notes(actions: list[Action]) -> list[str]:
    return [action.what for action in actions if isinstance(action, Noted)]


def messages(actions: list[Action]) -> list[Message]:
    return [message for _, message in sent(actions)]


def is_recorded(actions: list[Action]) -> bool:
    return any(isinstance(action, Record) for action in actions)


# --- deltas ---


def test_a_delta_is_recorded_before_its_sender_hears_that_it_is_accepted() -> None:
    actions = hear(root_of(), "a", delta(1, 0))
    assert isinstance(actions[0], Record) and notes(actions) == ["accepted"]
    assert messages(actions) == [Positions(False, {"x": Position(1, 1)})]


def test_a_delta_that_comes_twice_counts_once_and_is_answered_twice() -> None:
    root = root_of()
    first = hear(root, "a", delta(1, 0))
    second = hear(root, "a", delta(1, 0))
    assert notes(second) == ["rejected"] and not is_recorded(second)
    assert messages(first)[0] in messages(second)


def test_a_zombies_delta_is_refused_and_it_hears_who_owns_its_chain() -> None:
    root = root_of()
    hear(root, "b", Hello("x", "b", sources=(("s", ""),)))
    actions = hear(root, "a", delta(1, 0))
    assert not is_recorded(actions)
    assert next(note.detail for note in actions if isinstance(note, Noted)) == {"chains": {"x": "old epoch"}}
    told = [(link, message) for link, message in sent(actions) if isinstance(message, Assign)]
    assert [(link, assign.node, assign.epoch) for link, assign in told] == [("a", "b", 2), ("b", "b", 2)]
    assert notes(hear(root, "b", delta(2, 0))) == ["accepted"]


def test_a_delta_that_moves_a_source_that_is_not_there_begins_its_chain_anew() -> None:
    root = root_of()
    wrong = Delta({"x": ChainRange(1, 0, 1)}, {"x": Advance.of([3], [1], [0])})
    actions = hear(root, "a", wrong)
    assert notes(actions) == ["damaged delta", "assigned"] and is_recorded(actions)
    assert Positions(True, {"x": Position(2, 0)}) in messages(actions)


def test_after_the_end_new_deltas_are_refused_and_old_ones_answered() -> None:
    root = root_of()
    hear(root, "a", delta(1, 0))
    root.handle(FlushAsked(), 0)
    ended = root.handle(IdleAsked("s"), 0)
    assert any(isinstance(action, Finished) for action in ended) and root.is_finished
    old, new = hear(root, "a", delta(1, 0)), hear(root, "a", delta(1, 1))
    assert [type(message) for message in messages(old)] == [Positions]
    assert [type(message) for message in messages(new)] == [Positions, Refuse]


# --- leaves and sources ---


def test_a_source_of_another_chain_is_refused_with_the_reason() -> None:
    (refusal,) = messages(hear(root_of(), "b", Hello("y", "b", sources=(("s", ""),))))
    assert isinstance(refusal, Refuse) and "belongs to another chain" in refusal.reason


def test_an_owner_that_asks_again_is_told_again_and_nothing_is_recorded() -> None:
    actions = hear(root_of(), "a", Hello("x", "a", 1, sources=(("s", ""),)))
    assert notes(actions) == ["assigned"] and not is_recorded(actions)


def test_a_quiet_leaf_that_missed_its_new_epoch_is_told_again() -> None:
    root = root_of()
    assert hear(root, "a", Positions(False, {"x": Position(1, 0)})) == []
    assert notes(hear(root, "a", Positions(False, {"x": Position(0, 0)}))) == ["assigned"]


def test_an_idle_source_that_brings_events_returns_and_sends_them_again_under_a_new_epoch() -> None:
    root = root_of()
    assert notes(root.handle(IdleAsked("s"), 0)) == ["decided"]
    assert root.idle_sources == ["s"]
    actions = hear(root, "a", delta(1, 0))
    assert notes(actions) == ["decided", "assigned", "rejected"]
    assert root.idle_sources == [] and root.assignments.all()[0].epoch == 2


def test_a_watermark_alone_does_not_bring_a_source_back() -> None:
    root = root_of()
    root.handle(IdleAsked("s"), 0)
    assert notes(hear(root, "a", delta(1, 0, count=0, rise=5))) == ["accepted"]
    assert root.idle_sources == ["s"]


def test_decisions_are_noted_once() -> None:
    root = root_of()
    for event in (IdleAsked("s"), ReturnAsked("s")):
        assert notes(root.handle(event, 0)).count("decided") == 1
        assert root.handle(event, 0) == []
    assert [decision.what for decision in root.members.decisions] == ["joined", "idle", "returned"]


def test_a_source_that_nobody_knows_cannot_be_set_idle() -> None:
    with pytest.raises(QueryError, match="there is no source 'nobody'; there are 1 others"):
        root_of().handle(IdleAsked("nobody"), 0)


# --- timers and recovery ---


def test_a_root_starts_with_a_checkpoint_and_its_timers() -> None:
    actions = root_of(linger_ns=0, idle_ns=100).handle(Started(), 0)
    assert isinstance(actions[0], Checkpoint)
    assert [action.name for action in actions if isinstance(action, SetTimer)] == ["tend", "idle"]


def test_a_checkpoint_follows_every_few_records() -> None:
    root = root_of(checkpoint_every=3)
    kinds = [[type(action) for action in hear(root, "a", delta(1, at))] for at in range(4)]
    assert [Checkpoint in some for some in kinds] == [False, True, False, False]


def test_a_recovered_root_is_byte_for_byte_the_one_that_was_lost() -> None:
    root = RootNode("root", [SUMS, MARKS], schema=SCHEMA, settings=NodeSettings(linger_ns=0, idle_ns=100))
    (checkpoint, *_) = root.handle(Started(), 0)
    assert isinstance(checkpoint, Checkpoint)
    done = [hear(root, "a", Hello("x", "a", sources=(("s", ""),)), 1), hear(root, "a", delta(1, 0, rise=5), 2)]
    done += [
        root.handle(TimerFired("cut"), 3),
        root.handle(TimerFired("idle"), 200),
        root.handle(ReturnAsked("s"), 201),
    ]
    records = [action.data for actions in done for action in actions if isinstance(action, Record)]
    again, repeated = RootNode.recover(checkpoint.data, records)
    assert again.snapshot() == root.snapshot()
    assert notes(repeated) == [note for actions in done for note in notes(actions)]


def test_a_clock_that_begins_anew_with_its_machine_does_not_turn_idle_off() -> None:
    root = root_of(linger_ns=0, idle_ns=100)
    (checkpoint, *_) = root.handle(Started(), 0)
    assert isinstance(checkpoint, Checkpoint)
    done = [hear(root, "a", delta(1, 0), 10**15)]
    # The machine was off, and its clock begins at zero: silence counts from the first look on.
    done += [root.handle(TimerFired("idle"), at) for at in (25, 50, 124, 125)]
    assert [notes(actions) for actions in done[1:]] == [[], [], [], ["decided"]]
    records = [action.data for actions in done for action in actions if isinstance(action, Record)]
    assert len(records) == 3 and RootNode.recover(checkpoint.data, records)[0].snapshot() == root.snapshot()


def test_a_restored_root_does_not_note_old_decisions_again() -> None:
    again = RootNode.restore(root_of().snapshot())
    assert notes(again.handle(IdleAsked("s"), 0)) == ["decided"]
