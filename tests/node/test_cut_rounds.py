"""Rounds of cuts: one at a time, each over when all who have events below it have answered."""

from __future__ import annotations

from headwater.language.times import NEVER
from headwater.protocols.messages import Cuts
from node.parts import MARKS, SUMS, Parts


def two_leaves() -> Parts:
    parts = Parts.of(MARKS)
    for chain in ("x", "y"):
        parts.join(chain)
        parts.advance(chain, 13, latest=20)
    return parts


def test_a_cut_is_due_once_the_watermark_passed_the_last() -> None:
    parts = Parts.of(MARKS)
    parts.join("x")
    assert not parts.cuts.is_due and parts.cuts.announce() is None
    parts.advance("x", 13)
    assert parts.cuts.is_due


def test_without_windows_that_markers_cut_no_cut_is_ever_due() -> None:
    parts = Parts.of(SUMS)
    parts.join("x")
    parts.advance("x", 13, latest=20)
    assert not parts.cuts.is_due


def test_a_round_is_over_when_every_chain_has_answered() -> None:
    parts = two_leaves()
    cuts = parts.cuts.announce()
    assert cuts is not None and (cuts.number, cuts.until) == (1, 13)
    assert parts.cuts.unanswered() == ["x", "y"] and parts.cuts.finish() is None
    parts.answer("y")
    assert parts.cuts.unanswered() == ["x"] and parts.cuts.finish() is None
    parts.answer("x")
    assert parts.cuts.finish() == cuts
    assert (parts.cuts.time, parts.cuts.last_number, parts.cuts.announced) == (13, 1, None)


def test_no_second_cut_is_announced_while_one_is_not_answered() -> None:
    parts = two_leaves()
    parts.cuts.announce()
    for chain in ("x", "y"):
        parts.advance(chain, 30, latest=40)
    assert not parts.cuts.is_due and parts.cuts.announce() is None


def test_a_chain_without_events_below_the_cut_is_not_waited_for_and_passes_it() -> None:
    parts = two_leaves()
    parts.join("silent")
    parts.advance("silent", 13)
    parts.cuts.announce()
    assert parts.cuts.unanswered() == ["x", "y"]
    for chain in ("x", "y"):
        parts.answer(chain)
    parts.cuts.finish()
    assert parts.ledger.cut_of("silent") == 1


def test_a_chain_that_joins_during_a_round_begins_behind_it() -> None:
    parts = two_leaves()
    parts.cuts.announce()
    parts.join("z")
    assert parts.cuts.standing("z") == (1, 13)
    assert parts.cuts.standing("x") == (0, NEVER)


def test_leaves_are_told_up_to_which_offset_idle_sources_came() -> None:
    parts = two_leaves()
    parts.members.set_idle([1])
    cuts = parts.cuts.announce()
    assert cuts is not None and cuts.idle == {"y/s": 1}


def test_a_round_that_nobody_asks_for_any_more_is_passed_by_all() -> None:
    parts = two_leaves()
    parts.cuts.announce()
    parts.cuts.forget()
    assert (parts.cuts.announced, parts.cuts.time, parts.cuts.unanswered()) == (None, 13, [])
    assert [parts.ledger.cut_of(chain) for chain in ("x", "y")] == [1, 1]


def test_a_round_survives_a_snapshot() -> None:
    parts, again = two_leaves(), two_leaves()
    parts.cuts.announce()
    again.cuts.restore(parts.cuts.state())
    assert isinstance(again.cuts.announced, Cuts)
    assert again.cuts.unanswered() == ["x", "y"]
    assert again.cuts.state() == parts.cuts.state()
