"""Revisions and replacements against the rule in words."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.windows.revisions import Changes, Current, WindowHistory

#: What holds at a step: content by key and bounds.
State = dict[tuple[int, int, int], int]
bounds_of = st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(0, 5)).map(lambda b: (b[0], b[1], b[1] + b[2]))
states = st.dictionaries(bounds_of, st.integers(0, 2), max_size=5)
NOTHING: State = {}


def current(state: State) -> Current:
    rows = sorted(state)
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
    return Current(
        columns[0].astype(np.int32), columns[1], columns[2], np.array([state[row] for row in rows], np.int64)
    )


class Rule:
    """Every window ever told, with its last revision, and what holds now."""

    def __init__(self) -> None:
        self.now: State = {}
        self.told: dict[tuple[int, int, int], int] = {}

    def step(self, state: State) -> tuple[dict, list]:
        """What is told now: bounds -> (revision, what they replace), and the windows that are gone."""
        vanished = [window for window in self.now if window not in state]
        emitted, replaced = {}, set()
        for window in sorted(state):
            if window not in self.now:
                over = [old for old in vanished if overlap(old, window)]
                replaced.update(over)
                earlier = [self.told[old] for old in over] + ([self.told[window]] if window in self.told else [])
                emitted[window] = (
                    1 + max(earlier) if earlier else 0,
                    sorted((*old[1:], self.told[old]) for old in over),
                )
            elif state[window] != self.now[window]:
                emitted[window] = (self.told[window] + 1, [])
        gone = [(*window, self.told[window] + 1) for window in vanished if window not in replaced]
        self.told |= {window: revision for window, (revision, _) in emitted.items()}
        self.told |= {(key, start, end): revision for key, start, end, revision in gone}
        self.now = state
        return emitted, sorted(gone)


def overlap(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    """Whether windows of one key share a time; one of an instant holds that instant."""
    moments = [set(range(start, max(end, start + 1))) for _, start, end in (a, b)]
    return a[0] == b[0] and bool(moments[0] & moments[1])


def told(state: State, changes: Changes) -> tuple[dict, list]:
    windows = sorted(state)
    emitted = {
        windows[row]: (int(revision), sorted(changes.replaces.get(place, [])))
        for place, (row, revision) in enumerate(zip(changes.rows.tolist(), changes.revision.tolist()))
    }
    return emitted, sorted(changes.gone)


@given(st.lists(states, max_size=6))
def test_what_is_told_follows_the_rule(steps: list[State]):
    rule, history = Rule(), WindowHistory()
    for state in steps:
        assert told(state, history.compare(current(state))) == rule.step(state)
        assert len(history) == len(state)


@given(st.lists(states, max_size=5))
def test_a_restored_history_tells_the_same(steps: list[State]):
    history, other = WindowHistory(), WindowHistory()
    for state in steps:
        kept, other = other.state(), WindowHistory()
        other.restore(kept)
        assert told(state, other.compare(current(state))) == told(state, history.compare(current(state)))


@given(st.lists(states, max_size=5))
def test_renumbered_keys_are_the_same_keys(steps: list[State]):
    history, swapped = WindowHistory(), WindowHistory()
    for number, state in enumerate(steps):
        turned = number % 2 == 1  # keys 0 and 1 change places before every step but the first
        other = {(1 - key if turned else key, start, end): content for (key, start, end), content in state.items()}
        if number:
            swapped.renumber(np.array([1, 0], np.int32))
        emitted, gone = told(other, swapped.compare(current(other)))
        back = {(1 - key if turned else key, *bounds): found for (key, *bounds), found in emitted.items()}
        gone = sorted((1 - key if turned else key, *rest) for key, *rest in gone)
        assert (back, gone) == told(state, history.compare(current(state)))
    assert set(swapped.keys_in_use()) <= {0, 1}


def test_settled_windows_are_forgotten_without_a_word():
    history = WindowHistory()
    history.compare(current({(0, 0, 10): 1, (0, 20, 30): 1}))
    history.forget(np.array([True, False]), before=15)
    changes = history.compare(current({(0, 20, 30): 1}))
    assert told({(0, 20, 30): 1}, changes) == ({}, [])


def test_what_vanished_long_ago_is_forgotten():
    history = WindowHistory()
    history.compare(current({(0, 0, 10): 1}))
    history.compare(current(NOTHING))
    assert history.keys_in_use() == [0]
    history.forget(np.empty(0, bool), before=11)
    assert history.keys_in_use() == []
