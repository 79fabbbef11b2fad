"""The root of count windows by itself: pieces in, windows out where their ends are proven, looks where they are not."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from group_events import TYPES, restored, rows
from headwater.base.count_limits import CountLimits
from headwater.base.source_numbers import SourceNumbers
from headwater.engine.counting.root import CountRootGroup
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import read_values
from headwater.engine.operators.partials import lift
from headwater.engine.windows.registered import Registered
from headwater.engine.wire.parts import HEAD_LATEST, PiecesPart, RawRuns
from headwater.language.times import FOREVER, NEVER

#: Events of a chain as (time, value); each of the chains "0" and "1" has the one source of its number.
Events = Sequence[tuple[int, int]]


def resolve(chains: tuple[str, ...]) -> SourceNumbers:
    return SourceNumbers.of([np.array([int(chain)]) for chain in chains])


def group_of(size: int) -> CountRootGroup:
    group = CountRootGroup((), None, NEVER, CountLimits())
    group.names = ["s0", "s1"]
    group.register([Registered(hw.query("q", hw.count_tumbling(size), s=hw.sum("v")), 0)])
    group.prepare(TYPES)
    return group


def part(
    group: CountRootGroup, chain: str, offset: int, pieces: Sequence[Events], until: int, answers: int = -1
) -> PiecesPart:
    """Pieces with their partials; before ``until`` there is nothing else."""
    events = [event for piece in pieces for event in piece]
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    chunk = chunk_of(events, offset)
    starts, of_event = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    partials = lift(group.ops, chunk, of_event, len(sizes))
    ends = chunk.places(starts), chunk.places(starts + sizes - 1)
    latest = max((time for time, _ in events), default=NEVER)
    key = np.zeros(len(sizes), np.int64)
    return PiecesPart.of(
        0, chain, until, latest, False, answers, sizes, *ends, np.arange(len(sizes)), [], key, partials
    )


def raw(chain: str, offset: int, events: Events, until: int) -> PiecesPart:
    """A run of events as themselves."""
    chunk, size = chunk_of(events, offset), np.array([len(events)])
    places = chunk.places(np.arange(len(events)))
    runs = RawRuns(size, places, np.zeros(len(events), np.int64), {"v": pa.array([value for _, value in events])})
    none, nowhere = np.empty(0, np.int64), np.empty((3, 0), np.int64)
    return PiecesPart.of(0, chain, until, events[-1][0], False, -1, none, nowhere, nowhere, none, [], none, {}, runs)


def chunk_of(events: Events, offset: int) -> Chunk:
    """Of the only source of a chain, which has the number 0 there."""
    times, values = (np.array(column, np.int64) for column in zip(*events, strict=True))
    return Chunk(times, offset, 0, ["source"], {"v": read_values(pa.array(values))})


def take_in(group: CountRootGroup, *parts: PiecesPart) -> None:
    """The parts of one delta."""
    group.coverage.begin_delta()
    for each in parts:
        assert group.problem(each, TYPES, resolve) is None
        group.absorb(each, TYPES, resolve)


def test_a_window_ends_between_two_pieces():
    group = group_of(3)
    take_in(group, part(group, "0", 0, [[(1, 1), (2, 2)], [(7, 4)]], 10))
    take_in(group, part(group, "1", 0, [[(4, 8)], [(8, 16)]], 10))
    assert rows(group, 10) == [(0, 3, 0, 3, 11)]
    assert [(cut.position, cut.time, cut.counts) for cut in group.proven] == [(3, 4, {"0": 2, "1": 1})]
    assert group.open_looks.chains() == {}


def test_nothing_is_proven_while_a_chain_has_events_that_are_not_in_pieces():
    group = group_of(2)
    first = part(group, "1", 0, [[(1, 16)]], 2)
    first.heads[HEAD_LATEST] = 9  # it has events from 2 on
    take_in(group, part(group, "0", 0, [[(3, 1)], [(4, 2)]], 10), first)
    assert rows(group, 10) == []
    assert (group.frontier, group.coverage.of("0"), group.coverage.of("1")) == (2, 10, 2)
    take_in(group, part(group, "1", 1, [[(9, 4)]], 10))
    assert rows(group, 10) == [(0, 2, 0, 2, 17), (2, 4, 0, 2, 6)]


def test_where_a_cut_may_lie_in_a_piece_its_leaf_is_asked_and_answers():
    group = group_of(2)
    take_in(group, part(group, "0", 0, [[(1, 1), (5, 2), (6, 4)]], 10), part(group, "1", 0, [[(3, 8)]], 10))
    assert rows(group, 10) == []
    (look,) = group.open_looks.of("0")
    assert (look.number, look.count, group.open_looks.of("1"), group.corrections) == (0, 3, [], 1)
    assert [cut for cut, _ in group.guesses()] == [2]
    take_in(group, part(group, "0", 0, [[(1, 1)], [(5, 2)], [(6, 4)]], NEVER, answers=look.number))
    assert group.open_looks.chains() == {}
    assert rows(group, 10) == [(0, 2, 0, 2, 9), (2, 4, 0, 2, 6)]


def test_an_answer_that_is_not_all_of_the_piece_is_not_taken():
    group = group_of(2)
    take_in(group, part(group, "0", 0, [[(1, 1), (5, 2), (6, 4)]], 10), part(group, "1", 0, [[(3, 8)]], 10))
    rows(group, 10)
    take_in(group, part(group, "0", 0, [[(1, 1)]], NEVER, answers=0))
    assert group.open_looks.chains() == {0: "0"}
    assert rows(group, 10) == []


def test_raw_events_are_cut_without_asking_anybody():
    group = group_of(2)
    take_in(group, raw("0", 0, [(1, 1), (5, 2), (6, 4)], 10), raw("1", 0, [(3, 8)], 10))
    assert rows(group, 10) == [(0, 2, 0, 2, 9), (2, 4, 0, 2, 6)]
    assert (group.raw_count, group.corrections, group.cut_count) == (4, 0, 2)


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_group_goes_on_from_its_snapshot_as_if_it_had_never_stopped(is_answered: bool):
    group = group_of(2)
    take_in(group, part(group, "0", 0, [[(1, 1), (5, 2), (6, 4)]], 10), part(group, "1", 0, [[(3, 8)]], 10))
    rows(group, 10)
    answer = part(group, "0", 0, [[(1, 1)], [(5, 2)], [(6, 4)]], NEVER, answers=0)
    if is_answered:
        take_in(group, answer)
    again = restored(group, group_of(2))
    assert isinstance(again, CountRootGroup)
    assert (again.open_looks.chains(), again.coverage.of("0")) == (group.open_looks.chains(), group.coverage.of("0"))
    if not is_answered:
        take_in(again, answer)
    assert rows(again, FOREVER) == [(0, 2, 0, 2, 9), (2, 4, 0, 2, 6)]


def test_shares_are_believed_whatever_times_say():
    group = group_of(2)
    take_in(group, part(group, "0", 0, [[(1, 1)]], 10), part(group, "1", 0, [[(2, 2)]], 10))
    assert rows(group, 10) == [(0, 2, 0, 2, 3)]
    group.fix_shares(group.proven)
    take_in(group, raw("0", 1, [(11, 4), (12, 8)], 20), raw("1", 1, [(18, 16)], 20))
    # By time the window would be 11 and 12; each chain gives one event to it instead.
    assert rows(group, 20) == [(2, 4, 0, 2, 20)]
