"""Sessions joined from rows against sessions of the events themselves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.windows.sessions import chain, join_rows

events = st.lists(st.tuples(st.integers(0, 2), st.integers(-20, 40)), max_size=25).map(sorted)


def sessions_of(times: list[int], gap: int) -> list[list[int]]:
    """Chains of sorted times at most the gap apart."""
    chains: list[list[int]] = []
    for time in times:
        if chains and time - chains[-1][-1] <= gap:
            chains[-1].append(time)
        else:
            chains.append([time])
    return chains


@given(events, st.integers(1, 9), st.integers(-25, 20), st.data())
def test_rows_join_to_the_sessions_of_their_events(
    drawn: list[tuple[int, int]], gap: int, begin: int, data: st.DataObject
):
    """Whatever chains the events of a key are cut into, long ones over short ones included, sessions are the same."""
    rows = []
    for key in range(3):
        times = [time for k, time in drawn if k == key]
        for times_of_session in sessions_of(times, gap):
            # Neighbours in different rows, as out-of-order arrival leaves them: every row is a chain by itself.
            parts = data.draw(
                st.lists(st.integers(0, 1), min_size=len(times_of_session), max_size=len(times_of_session))
            )
            for part in (0, 1):
                mine = [time for time, where in zip(times_of_session, parts, strict=True) if where == part]
                rows += [(key, piece[0], piece[-1]) for piece in sessions_of(mine, gap)]
    rows.sort()
    key, first, last = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    key_starts = np.searchsorted(key, np.arange(4)).astype(np.int64)
    found = join_rows(first, last, key_starts, gap, -(2**63))
    expected = [
        (k, piece[0], piece[-1] + gap) for k in range(3) for piece in sessions_of([t for q, t in drawn if q == k], gap)
    ]
    assert list(zip(found.key.tolist(), found.start.tolist(), found.end.tolist(), strict=True)) == expected
    covered = [row for low, high in zip(found.lo.tolist(), found.hi.tolist(), strict=True) for row in range(low, high)]
    assert covered == list(range(len(rows)))


@given(st.lists(st.integers(-20, 40), max_size=20).map(sorted), st.integers(1, 9), st.integers(-25, 45))
def test_rows_before_the_begin_of_a_query_do_not_count(times: list[int], gap: int, begin: int):
    at = np.array(times, np.int64)
    found = join_rows(at, at, np.array([0, len(at)]), gap, begin)
    expected = [(piece[0], piece[-1] + gap) for piece in sessions_of([t for t in times if t >= begin], gap)]
    assert list(zip(found.start.tolist(), found.end.tolist(), strict=True)) == expected


def test_a_gap_is_the_last_distance_that_joins():
    at = np.array([0, 10, 21])
    assert chain(at, at, 10).tolist() == [0, 2]
