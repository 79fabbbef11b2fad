"""Messages of every kind with made-up content."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from headwater.protocols.advances import Advance
from headwater.protocols.count_windows import Forecast
from headwater.protocols.delta import ChainRange, Delta
from headwater.protocols.ledger import Position
from headwater.protocols.messages import (
    Assign,
    CountPlan,
    Cuts,
    Flush,
    Hello,
    LookInto,
    Message,
    Positions,
    Rates,
    Refuse,
    SourceState,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
COUNTS = st.integers(0, 2**63 - 1) | st.integers(0, 5)
EPOCHS = st.integers(1, 2**63 - 1) | st.integers(1, 3)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
BYTES = st.binary(max_size=20)


@st.composite
def advances(draw: st.DrawFn) -> Advance:
    sources = sorted(draw(st.sets(st.integers(0, 30), max_size=6)))
    size = len(sources)
    counts = draw(st.lists(COUNTS, min_size=size, max_size=size))
    rises = draw(st.lists(NUMBERS, min_size=size, max_size=size))
    return Advance.of(sources, counts, rises, draw(NUMBERS))


@st.composite
def ranges(draw: st.DrawFn) -> ChainRange:
    start, end = sorted(draw(st.lists(COUNTS, min_size=2, max_size=2, unique=True)))
    return ChainRange(draw(EPOCHS), start, end)


@st.composite
def deltas(draw: st.DrawFn) -> Delta:
    stretches = draw(st.dictionaries(NAMES, ranges(), min_size=1, max_size=12))
    moved = draw(st.sets(st.sampled_from(sorted(stretches))))
    return Delta(stretches, {chain: draw(advances()) for chain in moved}, draw(st.lists(BYTES, max_size=3)))


POSITIONS = st.builds(
    Positions, st.booleans(), st.dictionaries(NAMES, st.builds(Position, COUNTS, COUNTS), max_size=12)
)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=2).map(tuple)
STATES = st.builds(SourceState, NAMES, COUNTS, NUMBERS, COUNTS, NUMBERS, PAIRS).map(
    lambda state: replace(state, hold=min(state.hold, state.offset))
)
HELLOS = st.builds(Hello, NAMES, NAMES, COUNTS, COUNTS, st.lists(st.tuples(NAMES, NAMES), max_size=3).map(tuple), BYTES)
ASSIGNS = st.builds(
    Assign,
    NAMES,
    NAMES,
    EPOCHS,
    COUNTS,
    COUNTS,
    NUMBERS,
    st.lists(STATES, max_size=3, unique_by=lambda state: state.name).map(tuple),
    COUNTS,
    st.none() | NAMES,
    NUMBERS,
    st.dictionaries(NUMBERS, NUMBERS, max_size=2),
    BYTES,
)
CUTS = st.builds(Cuts, COUNTS, NUMBERS, st.dictionaries(NAMES, COUNTS, max_size=3), BYTES)
FORECASTS = st.builds(
    Forecast,
    NUMBERS,
    NUMBERS,
    st.floats(0, 9),
    st.none() | st.floats(0, 9),
    EPOCHS,
    st.none() | NUMBERS,
    st.booleans(),
    st.dictionaries(NAMES, st.tuples(NUMBERS, COUNTS, COUNTS), max_size=2),
    COUNTS,
    COUNTS,
    COUNTS,
)
PLANS = st.builds(CountPlan, COUNTS, NUMBERS, NUMBERS, st.dictionaries(COUNTS, FORECASTS, max_size=2))

MESSAGES: dict[str, st.SearchStrategy[Message]] = {
    "delta": deltas(),
    "positions": POSITIONS,
    "hello": HELLOS,
    "assign": ASSIGNS,
    "cuts": CUTS,
    "plan": PLANS,
    "look": st.builds(LookInto, NAMES, BYTES),
    "rates": st.builds(Rates, NAMES, COUNTS, st.floats(0, 1e9)),
    "flush": st.just(Flush()),
    "refuse": st.builds(Refuse, NAMES, NAMES),
}
ANY_MESSAGE = st.one_of(*MESSAGES.values())
#: What JSON can say: bodies of text are damaged by putting any of these in the place of what belongs there.
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)
