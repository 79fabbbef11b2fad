"""Rounds of count windows: what leaves are told and asked, and what of it survives."""

from __future__ import annotations

import pytest

from headwater.engine.counting.root import ProvenCut
from headwater.engine.tree.root import RootHalf
from headwater.protocols.actions import Action
from headwater.protocols.count_windows import Counting
from headwater.protocols.messages import CountPlan, LookInto
from node.parts import COUNTS, SUMS, Parts, sent


def test_where_events_travel_leaves_are_told_nothing_of_count_windows() -> None:
    parts = Parts.of(SUMS)
    parts.join("x")
    assert parts.counts.frames() == parts.counts.advance() == parts.counts.tell_again() == []
    assert parts.counts.report() == {}


def test_all_children_are_told_the_plan_again() -> None:
    parts = Parts.of(COUNTS, counting=Counting("monitor"))
    for chain in ("x", "y"):
        parts.join(chain)
    told = sent(parts.counts.tell_again())
    assert [(link, type(message)) for link, message in told] == [("to-x", CountPlan), ("to-y", CountPlan)]


def test_a_plan_says_how_far_all_have_come() -> None:
    parts = Parts.of(COUNTS, counting=Counting("monitor"))
    parts.join("x")
    parts.advance("x", 7)
    plan = parts.counts.plan()
    assert (plan.number, plan.until, list(plan.forecasts)) == (0, 7, [0])


def test_leaves_hear_of_the_watermark_when_a_source_is_idle_and_only_when_it_rose() -> None:
    parts = Parts.of(COUNTS, counting=Counting("monitor"))
    for chain in ("x", "y"):
        parts.join(chain)
    parts.advance("x", 7)
    assert parts.counts.advance() == []
    parts.members.set_idle([1])
    (told, _) = sent(parts.counts.advance())
    assert isinstance(told[1], CountPlan) and told[1].until == 7
    assert parts.counts.advance() == []


def test_a_piece_is_asked_about_once_until_all_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts.of(COUNTS, counting=Counting("monitor"))
    for chain in ("x", "y"):
        parts.join(chain)
    pieces = {(0, 5): "y"}
    monkeypatch.setattr(RootHalf, "looked_into", lambda half: dict(pieces))

    def asked(actions: list[Action]) -> list[str]:
        return [message.chain for _, message in sent(actions) if isinstance(message, LookInto)]

    assert asked(parts.counts.advance()) == ["y"]
    assert asked(parts.counts.advance()) == []
    pieces[0, 6] = "x"
    assert asked(parts.counts.advance()) == ["x"]
    assert asked(parts.counts.tell_again()) == ["x", "y"]


def test_horizons_and_forecasts_survive_a_snapshot_and_what_can_be_asked_again_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = Parts.of(COUNTS, counting=Counting("sync"))
    parts.join("x")
    assert parts.plans is not None
    parts.plans.told(0, 1000, [(1000 * k, 500 * k + k % 2, {"x": 1000}) for k in range(1, 9)])
    proven = [ProvenCut(9000, 4500, {"x": 1000})]
    monkeypatch.setattr(RootHalf, "take_proven", lambda half: {0: proven})
    parts.counts.advance()
    again = Parts.of(COUNTS, counting=Counting("sync"))
    again.counts.restore(parts.counts.state())
    assert again.counts.state() == parts.counts.state()
    assert again.counts.plan().forecasts == parts.counts.plan().forecasts
    assert parts.counts.state()["horizons"][0][1] > 4500
