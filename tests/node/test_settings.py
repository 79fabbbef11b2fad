"""Settings of nodes: those that cannot work are refused by a sentence, and old snapshots that have them go on."""

import pytest

from headwater.errors import QueryError
from headwater.node import NodeSettings


@pytest.mark.parametrize("idle_ns", [1, 99, 399])
def test_sources_that_would_fall_idle_between_two_deltas_are_refused(idle_ns: int) -> None:
    with pytest.raises(
        QueryError, match=f"idle_ns is {idle_ns}: nodes gather for linger_ns = 100 .*; give at least 400"
    ):
        NodeSettings(linger_ns=100, idle_ns=idle_ns)


def test_a_snapshot_of_a_release_that_did_not_refuse_it_goes_on_and_lingers_less() -> None:
    state = NodeSettings(linger_ns=100, idle_ns=400).state()
    state[3] = 40
    assert NodeSettings.restored(state) == NodeSettings(linger_ns=10, idle_ns=40)
    assert NodeSettings.restored(NodeSettings().state()) == NodeSettings()
