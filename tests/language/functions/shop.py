"""Functions, flows and queries that another process finds by import path."""

from __future__ import annotations

from typing import Any

import headwater as hw

SECOND = hw.tumbling("1 s")
BID = hw.col("kind") == "bid"


class Trend(hw.ProcessingFunction):
    """Three stages: events, seconds, minutes."""

    bids = hw.WindowedCRDT(hw.count(), SECOND, where=BID, keys="auction")
    prices = hw.WindowedCRDT(
        {"total": hw.sum("eur"), "n": hw.count()}, SECOND, inserted_by="events", columns={"eur": float}
    )
    minutes = hw.WindowedCRDT(hw.max("n"), hw.tumbling("1 min"), inserted_by="second", columns={"n": int})
    mine = hw.WindowedLocal(hw.count(), SECOND)
    seen = hw.Local({"windows": 0})
    cut = 4096

    def events(self, batch: Any) -> Any:
        self.prices.insert(batch)

    @hw.when_final(bids)
    def second(self, w: Any, bids: Any) -> Any:
        self.minutes.insert(bids, time=w.end - 1)

    @hw.when_final(minutes, once=True)
    async def minute(self, w: Any, best: int) -> Any:
        yield {"window_end": w.end, "best": best}


def most(window: Any) -> Any:
    return window.sort_by([("n", "descending")]).slice(0, 1)


hot = (
    hw.flow("hot items")
    .where(BID)
    .key_by("auction")
    .window(hw.sliding("10 s", "2 s"), lateness="5 s")
    .aggregate(n=hw.count())
    .per_window("language.functions.shop:most")
)
load = hw.query("load", SECOND, n=hw.count())
both = [load, hw.query("far", hw.session("30 s"), best=hw.max("price"))]
text = "language.functions.shop:load"
