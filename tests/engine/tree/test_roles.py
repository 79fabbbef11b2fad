"""Who computes what: both halves come to the same families, each by its own kind of group."""

import pytest

import headwater as hw
from headwater.base.count_limits import CountLimits
from headwater.engine.counting.leaf import CountLeafGroup
from headwater.engine.counting.root import CountRootGroup
from headwater.engine.groups.replay.group import ReplayGroup
from headwater.engine.halves import LeafGroup, SlicedRootGroup
from headwater.engine.tree.marker_cuts import CutLeafGroup, CutRootGroup
from headwater.engine.tree.roles import Role
from headwater.engine.windows.registered import Registered

SLICED = hw.query("sliced", hw.tumbling(10), n=hw.count())
MARKED = hw.query("marked", hw.punctuated(hw.col("k") == "x"), n=hw.count())
COUNTED = hw.query("counted", hw.count_tumbling(100), n=hw.count())
REPLAYED = hw.query("replayed", hw.tumbling(10), n=hw.count(), distinct="id")


@pytest.mark.parametrize(
    "name", ["root", "root_one_way", "root_counting", "root_counting_large", "leaf", "leaf_one_way", "leaf_counting"]
)
def test_a_role_has_the_name_that_snapshots_say(name: str):
    assert Role.named(name, CountLimits()).name == name


@pytest.mark.parametrize(
    ("query", "leaf", "root"),
    [
        (SLICED, LeafGroup, SlicedRootGroup),
        (MARKED, CutLeafGroup, CutRootGroup),
        (COUNTED, CountLeafGroup, CountRootGroup),
        (REPLAYED, None, ReplayGroup),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_each_way_has_a_group_on_either_half(query: hw.Query, leaf: type | None, root: type):
    entry = Registered(query, 0)
    below, above = Role(True, counts=True), Role(False, counts=True)
    assert type(above.root_groups().make_group(entry)) is root
    if leaf is None:
        assert below.family_of(entry) is None
    else:
        assert type(below.leaf_groups().make_group(entry)) is leaf
        assert below.family_of(entry) == above.family_of(entry)


@pytest.mark.parametrize(
    ("query", "role"),
    [
        (MARKED, Role(True, round_trips=False)),
        (COUNTED, Role(True)),
        (COUNTED, Role(True, counts=True, large_only=True)),
    ],
    ids=["no way back", "no pieces", "pieces of large windows only"],
)
def test_events_travel_where_the_root_cannot_help(query: hw.Query, role: Role):
    assert role.way(query) == "raw"
    assert role.family_of(Registered(query, 0)) is None


def test_what_travels_in_another_way_is_another_family():
    role, of_all = Role(False, counts=True), Registered(COUNTED, 0)
    of_each = Registered(hw.query("each", hw.count_tumbling(100, per="key"), n=hw.count()), 1)
    assert len({role.family_of(entry) for entry in (of_all, of_each, Registered(SLICED, 2))}) == 3
