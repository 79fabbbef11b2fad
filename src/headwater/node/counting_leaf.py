"""Count windows at a leaf: the root's plan for them, and the rates that leaves tell each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

from headwater.engine.counting.approx import LocalWindows
from headwater.engine.counting.forecast_zones import ForecastLine
from headwater.engine.counting.pieces import Zoning
from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.wire.looks import looks_from_bytes
from headwater.language.times import FOREVER
from headwater.node.settings import NodeSettings
from headwater.protocols.count_windows import Forecast
from headwater.protocols.messages import CountPlan, Rates


@dataclass(slots=True)
class CountingLeaf:
    """What a leaf was told about count windows. It outlives epochs; the half of each epoch follows it."""

    chain: str
    settings: NodeSettings
    #: The last one that was heard.
    plan: CountPlan | None = None
    #: Of all leaves, by family and chain, where they tell each other.
    rates: dict[int, dict[str, float]] = field(default_factory=dict)

    def begin(self, half: LeafHalf, covered: Mapping[int, int], looks: bytes) -> None:
        """Tell a new half which events are in pieces already, and which pieces the root asks about."""
        asked = looks_from_bytes(looks) if looks else {}
        settings = self.settings
        half.begin_counting(covered, asked, settings.held_max, settings.is_brief)
        self.follow(half)

    def hear_plan(self, plan: CountPlan) -> bool:
        """Remember a plan; returns whether it is newer than the last one."""
        if self.plan is not None and plan.number <= self.plan.number:
            return False
        self.plan = plan
        return True

    def hear_rates(self, rates: Rates) -> None:
        """Remember a rate that the plan asks for, of as many leaves as it says there are: anybody may send others."""
        forecast = None if self.plan is None else self.plan.forecasts.get(rates.family)
        known = self.rates.get(rates.family, {})
        if forecast is not None and (rates.chain in known or len(known) < forecast.peers):
            self.rates[rates.family] = {**known, rates.chain: rates.rate}

    def follow(self, half: LeafHalf) -> None:
        """Give the half the zones and times that follow from the plan and the rates."""
        plan = self.plan
        if plan is None:
            return
        zones: dict[int, Zoning] = {}
        for family, forecast in plan.forecasts.items():
            windows = half.count_windows(family)
            if windows is not None:
                told = self._by_rates(family, forecast)
                if self.chain in told.shares:
                    zones[family] = LocalWindows(*told.shares[self.chain])
                    continue
                spread = inf if told.spread is None else told.spread
                # A leaf of one batch waits for no plan: it hears only one.
                horizon = FOREVER if told.horizon is None or self.settings.is_brief else told.horizon
                zones[family] = ForecastLine(
                    windows, told.position, told.time, told.per_event, spread, told.is_raw,
                    piece_max=told.piece_max, horizon=horizon, patience=told.patience, raw_max=told.raw_max,
                )  # fmt: skip
        half.follow(zones, plan.until, plan.settled)

    def _by_rates(self, family: int, told: Forecast) -> Forecast:
        """The same forecast by the rates that leaves have told each other, once all have."""
        known = self.rates.get(family, {})
        total = sum(known.values())
        return replace(told, per_event=1 / total) if 0 < told.peers <= len(known) and total > 0 else told

    def take_rates(self, half: LeafHalf) -> list[Rates]:
        """The rates of events here, for all other leaves, if the plan asks for them; this leaf uses them at once."""
        forecasts = {} if self.plan is None else self.plan.forecasts
        taken = []
        for family in [family for family, forecast in forecasts.items() if forecast.peers]:
            rate = half.take_rate(family)
            if rate is not None:
                taken.append(Rates(self.chain, family, rate))
                self.hear_rates(taken[-1])
                self.follow(half)
        return taken
