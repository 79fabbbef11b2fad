"""The roles in a tree: which half of an engine computes a query how, and by what groups.

Both halves come to the same families, for they agree on the way of each query (`placement`): slices, cuts of markers, pieces for
count windows, or the events themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from headwater.base.count_limits import CountLimits
from headwater.engine.counting.leaf import CountLeafGroup
from headwater.engine.counting.root import CountRootGroup
from headwater.engine.families import FamilyName, GroupMaker
from headwater.engine.groups.replay.group import ReplayGroup
from headwater.engine.halves import LeafGroup, SlicedRootGroup
from headwater.engine.modes import family_of, group_keys, group_settings
from headwater.engine.placement import Way, needs_replay, placement
from headwater.engine.tree.marker_cuts import CutLeafGroup, CutRootGroup
from headwater.engine.windows.registered import Registered
from headwater.language.query import Query
from headwater.language.windows import CountWindow

#: What a root computes by: rows of leaves, or events that travelled as themselves.
RootGroup: TypeAlias = SlicedRootGroup | ReplayGroup


@dataclass(frozen=True, slots=True)
class Role:
    """One half of an engine, and what the root can do for its leaves.

    ``round_trips``: it can answer while events come; without, as within one batch job, nothing may wait for its word. ``counts``:
    leaves cut events into pieces for count windows (else these events travel); ``large_only``: not for windows of few events.
    ``limits`` say how few, and how large pieces are.
    """

    is_leaf: bool
    round_trips: bool = True
    counts: bool = False
    large_only: bool = False
    limits: CountLimits = field(default=CountLimits(), repr=False)

    @property
    def name(self) -> str:
        """The name of the role in snapshots.

        >>> Role(is_leaf=False, counts=True).name
        'root_counting'
        """
        half = "leaf" if self.is_leaf else "root"
        if self.counts:
            return f"{half}_counting_large" if self.large_only else f"{half}_counting"
        return half if self.round_trips else f"{half}_one_way"

    @classmethod
    def named(cls, name: str, limits: CountLimits) -> Role:
        """
        >>> Role.named("root_one_way", CountLimits())
        Role(is_leaf=False, round_trips=False, counts=False, large_only=False)
        """
        half, *more = name.split("_")
        return cls(half == "leaf", "way" not in more, "counting" in more, "large" in more, limits)

    def way(self, query: Query) -> Way:
        """How a query is computed."""
        return placement(query, self.round_trips, self.counts, self.limits.small_max if self.large_only else 0).way

    def family_of(self, entry: Registered) -> FamilyName | None:
        """What travels in the same way is computed together; nothing is computed at a leaf of events that travel."""
        query, way = entry.query, self.way(entry.query)
        if self.is_leaf and way == "raw":
            return None
        if needs_replay(query):
            return family_of(entry)
        # Positions over all events and those of each key are proven apart.
        per = (query.window.per,) if isinstance(query.window, CountWindow) else ()
        # Where the root says where windows end, a value of a wrong type cannot be left to it: queries that go without other
        # events than their neighbours are apart from the start.
        reads = (query.columns(),) if way in ("cuts", "counts") else ()
        return (*family_of(entry), way, *per, *reads)

    def leaf_groups(self) -> GroupMaker[LeafGroup]:
        """The groups of a leaf."""
        return GroupMaker(self.name, self.family_of, self._leaf_group)

    def _leaf_group(self, entry: Registered) -> LeafGroup:
        way, settings = self.way(entry.query), group_settings(entry)
        if way == "counts":
            return CountLeafGroup(*settings, self.limits)
        return CutLeafGroup(*settings) if way == "cuts" else LeafGroup(*settings)

    def root_groups(self) -> GroupMaker[RootGroup]:
        """The groups of the root."""
        return GroupMaker(self.name, self.family_of, self._root_group)

    def _root_group(self, entry: Registered) -> RootGroup:
        if needs_replay(entry.query):
            return ReplayGroup(entry, group_keys(entry.query))
        way, settings = self.way(entry.query), group_settings(entry)
        if way == "counts":
            return CountRootGroup(*settings, self.limits)
        # Events that travel are cut into slices only here.
        return CutRootGroup(*settings) if way == "cuts" else SlicedRootGroup(*settings)
