"""How much nodes may hold: nothing for events, unless windows may wait for ever."""

import pytest

from headwater.language import aggregations as agg
from headwater.language import windows as win
from headwater.language.query import query
from headwater.simulator.checks.memory import MemoryBound
from headwater.simulator.checks.truth import ViolationError

PLAIN = query("plain", win.tumbling(10), n=agg.count())
COUNTED = query("counted", win.count_tumbling(7), n=agg.count())


def allows(bound, role, held_bytes):
    try:
        bound.check("n", role, held_bytes)
    except ViolationError:
        return False
    return True


@pytest.mark.parametrize("role", ["root", "leaf", "relay"])
def test_events_that_no_window_needs_take_no_room(role):
    few, many = (MemoryBound([PLAIN], 3, 4, events, 2) for events in (10, 10**6))
    assert few._allowed(role) == many._allowed(role)
    assert allows(few, role, few._allowed(role)) and not allows(few, role, few._allowed(role) + 1)


def test_events_may_wait_for_a_window_that_is_not_full():
    assert MemoryBound([COUNTED], 3, 4, 1000, 2)._allowed("root") > 100_000
