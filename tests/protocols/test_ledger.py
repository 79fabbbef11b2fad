"""The one rule of acceptance: whole and at the right place, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.protocols.delta import ChainRange, Delta
from headwater.protocols.ledger import UNKNOWN, Ledger, Position

SMALL = st.integers(0, 4)
POSITIONS = st.dictionaries(st.sampled_from("abc"), st.builds(Position, st.integers(1, 3), SMALL))


@st.composite
def stretches(draw: st.DrawFn) -> ChainRange:
    start = draw(SMALL)
    return ChainRange(draw(st.integers(1, 3)), start, start + draw(SMALL))


RANGES = st.dictionaries(st.sampled_from("abc"), stretches(), min_size=1)


@pytest.mark.parametrize(
    ("stretch", "reason"),
    [
        (ChainRange(2, 5, 6), None),
        (ChainRange(2, 5, 9), None),
        (ChainRange(2, 6, 7), "gap"),
        (ChainRange(2, 4, 5), "duplicate"),
        (ChainRange(2, 5, 5), "duplicate"),
        (ChainRange(2, 4, 6), "overlap"),
        (ChainRange(1, 5, 6), "old epoch"),
        (ChainRange(3, 5, 6), "new epoch"),
    ],
)
def test_a_stretch_that_does_not_fit_is_not_accepted_and_says_why(stretch: ChainRange, reason: str | None) -> None:
    assert Ledger({"a": Position(2, 5)}).objections({"a": stretch}) == ({} if reason is None else {"a": reason})


def test_a_chain_that_nobody_knows_is_not_accepted() -> None:
    assert Ledger().objections({"a": ChainRange(1, 0, 1)}) == {"a": "unknown"}
    assert Ledger().of({"a": None}) == {"a": UNKNOWN}


def test_one_stretch_that_does_not_fit_drops_the_whole_delta() -> None:
    ledger = Ledger({"a": Position(1, 0), "b": Position(1, 1)})
    assert ledger.objections({"a": ChainRange(1, 0, 1), "b": ChainRange(1, 0, 1)}) == {"b": "duplicate"}


@given(positions=POSITIONS, ranges=RANGES)
def test_accepted_iff_each_stretch_goes_on_where_its_chain_stands(
    positions: dict[str, Position], ranges: dict[str, ChainRange]
) -> None:
    fits = all(
        stretch.start < stretch.end and positions.get(chain) == Position(stretch.epoch, stretch.start)
        for chain, stretch in ranges.items()
    )
    assert fits == (not Ledger(positions).objections(ranges))


@given(positions=POSITIONS, ranges=RANGES)
def test_what_was_accepted_is_not_accepted_again(positions: dict[str, Position], ranges: dict[str, ChainRange]) -> None:
    ledger = Ledger(dict(positions))
    before = ledger.of(positions)
    if not ledger.objections(ranges):
        ledger.accept(Delta(ranges))
        assert set(ledger.objections(ranges).values()) == {"duplicate"}
        assert all(ledger.positions[chain] == Position(one.epoch, one.end) for chain, one in ranges.items())
    untouched = positions.keys() - ranges.keys()
    assert all(ledger.positions[chain] == before[chain] for chain in untouched)


@given(positions=POSITIONS, ranges=RANGES)
def test_objections_change_nothing(positions: dict[str, Position], ranges: dict[str, ChainRange]) -> None:
    ledger = Ledger(dict(positions))
    ledger.objections(ranges)
    assert ledger.positions == positions


@given(positions=POSITIONS, ranges=RANGES)
def test_after_a_takeover_the_old_owner_does_no_harm(
    positions: dict[str, Position], ranges: dict[str, ChainRange]
) -> None:
    """Whoever takes over goes on at the same place under the next epoch."""
    taken_over = {chain: Position(4, position.at) for chain, position in positions.items()}
    assert set(Ledger(taken_over).objections(ranges).values()) <= {"old epoch", "unknown"}
    assert len(Ledger(taken_over).objections(ranges)) == len(ranges)


# --- owners and cuts ---


def test_a_chain_has_no_owner_before_its_first_epoch() -> None:
    ledger = Ledger()
    ledger.open("a", cut=3)
    assert ledger.objections({"a": ChainRange(0, 0, 1)}) == {"a": "unknown"}
    ledger.new_epoch("a")
    assert ledger.objections({"a": ChainRange(1, 0, 1), "a#cuts": ChainRange(1, 3, 4)}) == {}


def test_a_cut_that_is_passed_is_not_passed_again() -> None:
    ledger = Ledger()
    ledger.open("a", cut=3)
    ledger.pass_cut("a", 5)
    ledger.pass_cut("a", 4)
    assert ledger.cut_of("a") == 5


def test_positions_survive_a_snapshot() -> None:
    ledger = Ledger({"a": Position(2, 7), "a#cuts": Position(2, 1)})
    assert Ledger.restored(ledger.state()) == ledger
