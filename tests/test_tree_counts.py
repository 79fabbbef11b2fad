"""Count windows over a tree, under every scheme that has to be right, against the reference: each row, at each step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agreement import assert_agreement
from headwater.base.count_limits import CountLimits
from headwater.cases.tree_host import TreeHost
from headwater.node import NodeSettings
from headwater.protocols.count_windows import Counting
from strategies import bulk_scenarios, queries, scenarios
from test_tree import arrangements, until_the_end

KINDS = ("count_tumbling", "count_sliding")
SCHEMES = [Counting(scheme) for scheme in ("monitor", "monitor_local", "sync", "async", "auto")]
#: `auto` leaves small windows to events that travel: of those with as few events as there are here, no pieces would be left.
FEW = NodeSettings(counts=CountLimits(small_max=2))
SCHEMES += [Counting("auto", prefer="bytes"), Counting("sync", forecast="sizes"), Counting("async", forecast="sizes")]


def named(counting: Counting) -> str:
    return f"{counting.scheme}-{counting.prefer}-{counting.forecast}"


@pytest.mark.parametrize("counting", SCHEMES, ids=named)
@settings(max_examples=40)
@given(data=st.data())
def test_count_windows_are_those_of_the_reference(counting: Counting, data: st.DataObject):
    scenario = data.draw(scenarios(queries(kinds=KINDS)))
    host = TreeHost(data.draw(arrangements), counting=counting, settings=FEW)
    assert_agreement(until_the_end(scenario), host, ends_at_once=False)


@pytest.mark.parametrize("counting", SCHEMES, ids=named)
@settings(max_examples=15)
@given(data=st.data())
def test_count_windows_of_hundreds_of_events_are_those_of_the_reference(counting: Counting, data: st.DataObject):
    scenario = data.draw(bulk_scenarios(queries(kinds=KINDS, scopes=("global", "node"))))
    host = TreeHost(data.draw(arrangements), counting=counting, settings=FEW)
    assert_agreement(until_the_end(scenario), host, ends_at_once=False)


@settings(max_examples=40)
@given(scenarios(), arrangements, st.sampled_from(SCHEMES))
def test_count_schemes_change_no_other_window(scenario, arrangement, counting: Counting):
    assert_agreement(
        until_the_end(scenario), TreeHost(arrangement, counting=counting, settings=FEW), ends_at_once=False
    )
