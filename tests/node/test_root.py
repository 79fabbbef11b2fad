"""The root, frame by frame: what it accepts, what it refuses, what it records and what it tells."""

from __future__ import annotations

import pytest

from headwater.base.arrow import schema_to_bytes
from headwater.errors import QueryError
from headwater.language.times import NEVER
from headwater.node import NodeSettings, RootNode
from headwater.protocols.actions import Action, Checkpoint, Finished, Noted, Record, SetTimer
from headwater.protocols.advances import Advance, wrapped
from headwater.protocols.delta import ChainRange, Delta
from headwater.protocols.events import FlushAsked, IdleAsked, MessageReceived, ReturnAsked, Started, TimerFired
from headwater.protocols.ledger import UNKNOWN, Position
from headwater.protocols.messages import Assign, Hello, Leave, Message, Positions, Refuse, encode
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
    later = root.settings.takeover_ns
    hear(root, "b", Hello("x", "b", sources=(("s", ""),)), later)
    actions = hear(root, "a", delta(1, 0), later)
    assert not is_recorded(actions)
    assert next(note.detail for note in actions if isinstance(note, Noted)) == {"chains": {"x": "old epoch"}}
    told = [(link, message) for link, message in sent(actions) if isinstance(message, Assign)]
    assert [(link, assign.node, assign.epoch) for link, assign in told] == [("a", "b", 2)]
    assert notes(hear(root, "b", delta(2, 0), later)) == ["accepted"]


def test_an_owned_chain_is_granted_to_another_only_after_its_owners_silence_or_leave() -> None:
    root, wanted = root_of(), Hello("x", "b", sources=(("s", ""),))
    silence = root.settings.takeover_ns
    hear(root, "a", Positions(False, {"x": Position(1, 0)}), 10)
    actions = hear(root, "b", wanted, silence + 9)
    assert notes(actions) == ["not granted"] and not is_recorded(actions) and not messages(actions)
    assert notes(hear(root, "b", wanted, silence + 10)) == ["assigned"]
    hear(root, "b", Leave("x", 1), silence + 11)
    assert notes(hear(root, "c", Hello("x", "c", sources=(("s", ""),)), silence + 12)) == ["not granted"]
    hear(root, "b", Leave("x", 2), silence + 13)
    assert notes(hear(root, "c", Hello("x", "c", sources=(("s", ""),)), silence + 14)) == ["assigned"]


def test_a_node_that_lost_a_chain_may_own_it_again() -> None:
    root, now = root_of(), 0
    for life in range(300):
        now += root.settings.takeover_ns
        node = "ab"[life % 2]
        told = sent(hear(root, node, Hello("x", node, sources=(("s", ""),)), now))
        assert [(link, m.node) for link, m in told if isinstance(m, Assign)] == [(node, node)]
    assert notes(hear(root, "b", delta(root.assignments.all()[0].epoch, 0), now)) == ["accepted"]


def test_a_delta_over_a_link_that_was_not_let_in_is_dropped_until_the_owners_link_is_silent() -> None:
    root = root_of()
    silence = root.settings.takeover_ns
    actions = hear(root, "b", delta(1, 0), silence - 1)
    assert notes(actions) == ["rejected"] and not is_recorded(actions)
    assert notes(hear(root, "a", delta(1, 0), silence - 1)) == ["accepted"]
    assert notes(hear(root, "b", delta(1, 1), 2 * silence - 2)) == ["rejected"]
    # Its leaf has another parent now.
    assert notes(hear(root, "b", delta(1, 1), 2 * silence)) == ["accepted"]
    assert notes(hear(root, "a", delta(1, 2), 2 * silence)) == ["rejected"]


def test_what_was_granted_is_granted_again_by_a_recovered_root_and_nothing_else() -> None:
    root = RootNode("root", [SUMS], schema=SCHEMA)
    (checkpoint, *_) = root.handle(Started(), 0)
    assert isinstance(checkpoint, Checkpoint)
    silence, sources = root.settings.takeover_ns, (("s", ""),)
    done = [hear(root, "a", Hello("x", "a", sources=sources), 1)]
    done.append(hear(root, "a", Positions(False, {"x": Position(1, 0)}), silence))
    done.append(hear(root, "b", Hello("x", "b", sources=sources, schema=schema_to_bytes(SCHEMA)), silence + 2))
    done.append(hear(root, "c", Hello("x", "c", sources=sources), 2 * silence))
    records = [action.data for actions in done for action in actions if isinstance(action, Record)]
    again, _ = RootNode.recover(checkpoint.data, records)
    assert len(records) == 2 and again.snapshot() == root.snapshot()
    # Whoever is there has not had a chance to be heard by a process that has just begun.
    again.handle(Started(), 5 * silence)
    assert notes(hear(again, "d", Hello("x", "d", sources=sources), 5 * silence + 1)) == ["not granted"]


def test_offsets_and_times_that_fall_or_wrap_around_are_not_accepted() -> None:
    root = root_of()
    rise = wrapped(10 - NEVER)
    hear(root, "a", Delta({"x": ChainRange(1, 0, 1)}, {"x": Advance.of([0], [5], [rise], rise)}))
    for epoch, (count, rise, latest) in enumerate(
        [(1, -1, 0), (2**63 - 1, 0, 0), (0, 2**63 - 5, 0), (0, 0, -1), (0, 0, -(2**63))], 1
    ):
        wrong = Delta({"x": ChainRange(epoch, 1, 2)}, {"x": Advance.of([0], [count], [rise], latest)})
        assert notes(hear(root, "a", wrong))[0] == "damaged delta"
    assert (root.members.offsets.tolist(), root.watermark) == ([5], 10)


def test_positions_of_chains_that_nobody_knows_leave_nothing_behind() -> None:
    root = root_of()
    before = root.snapshot()
    named = [f"x{i}" for i in range(50_000)]
    told = sent(hear(root, "b", Positions(False, dict.fromkeys(named, Position(1, 1)))))
    assert told == [("b", Positions(True, dict.fromkeys(named, UNKNOWN)))], "so that relays forget them, too"
    assert notes(hear(root, "b", Delta({"y": ChainRange(1, 0, 1)}))) == ["rejected"]
    assert root.snapshot() == before


def test_sources_that_no_message_could_name_are_refused_before_any_of_them_joins() -> None:
    root = root_of()
    many = Hello("y", "b", sources=[(f"s{i}", "") for i in range(150_000)])
    (refusal,) = messages(hear(root, "b", many))
    assert isinstance(refusal, Refuse) and "give them to several leaves" in refusal.reason
    assert root.members.names == ["s"]


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
    # And forgotten then: a source that comes and goes for months must not make the root larger.
    assert root.members.decisions == []


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
    hear(root, "b", Hello("y", "b", sources=(("t", ""),)))
    root.members.raise_to(1, 7)  # or nobody would wait for the other
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
