"""Rounds of count windows: leaves are told where windows will end, and asked what lies in pieces in which one may end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.engine.counting.root import CountRootGroup
from headwater.engine.tree.root import RootHalf
from headwater.engine.wire.looks import looks_to_bytes
from headwater.language.times import NEVER
from headwater.node.cut_rounds import CutRounds
from headwater.node.routes import Routes
from headwater.protocols.actions import Action, Noted
from headwater.protocols.count_windows import CountPlans
from headwater.protocols.membership import Membership
from headwater.protocols.messages import CountPlan, LookInto, encode


@dataclass(slots=True)
class CountRounds:
    """The plan that leaves follow, and the pieces they have been asked to look into.

    Invariants: the number of the plan and the watermark that leaves were told only rise. A piece is asked about once, until all
    are asked again because an answer may be lost. Neither plans nor looks decide where a window ends: what is lost or old costs
    time, never a wrong row. So only what cannot be asked for again is part of a snapshot.
    """

    #: How leaves are told of count windows; None: their events travel.
    plans: CountPlans | None
    half: RootHalf
    members: Membership
    routes: Routes
    cuts: CutRounds
    _asked: set[tuple[int, int]] = field(default_factory=set)  # pieces that leaves were asked to look into
    _told_watermark: int = NEVER
    _horizons: dict[int, int] = field(default_factory=dict)  # up to where leaves may go without another plan

    # --- plans ---

    def plan(self, has_guesses: bool = False) -> CountPlan:
        """What all leaves are told; with ``has_guesses``, also by cuts that are not proven yet."""
        plans, groups = self.plans, self.half.counting()
        assert plans is not None
        for family, group in groups.items():
            if family not in plans.forecasters and not group.counts_by_key:
                plans.know(family, group.largest_window, len(self.members.chains))
        shares = {
            family: {name: group.shares.of(number) for name, number in group.chains.items()}
            for family, group in groups.items()
            if group.shares is not None
        }
        guesses = {family: group.guesses() for family, group in groups.items()} if has_guesses else {}
        forecasts = {f: told for f, told in plans.forecasts(self._horizons, shares, guesses).items() if f in groups}
        return CountPlan(plans.number, self.members.watermark(), self.half.settled_time(), forecasts)

    def advance(self) -> list[Action]:
        """Count windows came out, or cannot yet: tell leaves where the next will end, and what to look into."""
        plans = self.plans
        if plans is None:
            return []
        groups = self.half.counting()
        proven = self.half.take_proven()
        for family, cuts in proven.items():
            plans.told(family, groups[family].largest_window, [(cut.position, cut.time, cut.counts) for cut in cuts])
            if plans.counting.scheme == "approx" and groups[family].shares is None:
                groups[family].fix_shares(cuts)
        looks = self._look()
        is_stuck = any(groups[n].frontier >= at for n, at in self._horizons.items() if n in groups) and not looks
        if not proven and not is_stuck:
            return [*looks, *self._tell_watermark(plans, groups)]
        self._horizons = plans.next_horizons({n: group.frontier for n, group in groups.items()})
        self.cuts.settle_marks()
        plan = self.plan()
        if plans.is_known(plan.forecasts):
            return [*looks, *self._tell_watermark(plans, groups)]
        plans.number += 1
        told = self.routes.to_all(encode(replace(plan, number=plans.number)))
        plans.down_flows += len(told)
        return [*looks, *told]

    def _tell_watermark(self, plans: CountPlans, groups: Mapping[int, CountRootGroup]) -> list[Action]:
        """A leaf that waits for a source that has fallen idle holds all windows up: tell it how far the others are."""
        watermark = self.members.watermark()
        if self.members.are_all_active or all(group.frontier >= watermark for group in groups.values()):
            return []
        if watermark <= self._told_watermark:
            return []
        self._told_watermark = watermark
        plans.number += 1
        return self.routes.to_all(encode(self.plan()))

    def frames(self) -> list[bytes]:
        """What a leaf is told beside its assignment."""
        return [] if self.plans is None else [encode(self.plan())]

    # --- looks ---

    def looks_of(self, chain: str) -> bytes:
        """What the owner of a chain has to look into, with its own numbers of sources."""
        asked = self.half.looks(chain)
        if not asked:
            return b""
        numbers = self.members.chains[chain].sources
        return looks_to_bytes({family: [look.renumbered(numbers) for look in looks] for family, looks in asked.items()})

    def _look(self) -> list[Action]:
        """Ask the owners of chains what lies in pieces in which a window may end, once each."""
        pieces = self.half.looked_into()
        fresh = pieces.keys() - self._asked
        self._asked = set(pieces)
        actions: list[Action] = []
        for chain in sorted({pieces[piece] for piece in fresh}):
            actions.extend(self.routes.down(chain, encode(LookInto(chain, self.looks_of(chain)))))
        if self.plans is not None:
            self.plans.down_flows += len(actions)
        return [*([Noted("look", {"pieces": len(fresh)})] if fresh else []), *actions]

    def tell_again(self) -> list[Action]:
        """Looks and the plan once more: what was said may not have been heard."""
        if self.plans is None:
            return []
        self._asked.clear()
        return [*self._look(), *self.routes.to_all(encode(self.plan()))]

    # --- costs and snapshots ---

    def count_flows(self, count: int) -> None:
        """So many chains were spoken of in an accepted delta."""
        if self.plans is not None:
            self.plans.up_flows += count

    def report(self) -> dict[str, float]:
        """What count windows have cost so far."""
        if self.plans is None:
            return {}
        plans, groups = self.plans, self.half.counting().values()
        counted = {"windows": "cut_count", "corrections": "corrections", "raw_events": "raw_count"}
        costs = {title: sum(getattr(group, name) for group in groups) for title, name in counted.items()}
        return {"up_flows": plans.up_flows, "down_flows": plans.down_flows, **costs}

    def state(self) -> dict[str, Any]:
        horizons = [list(pair) for pair in self._horizons.items()]
        return {"plans": None if self.plans is None else self.plans.state(), "horizons": horizons}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.plans = None if state.get("plans") is None else CountPlans.restored(state["plans"], self.members.limits)
        self._horizons = dict(map(tuple, state.get("horizons", ())))
