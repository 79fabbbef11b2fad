"""Processing functions: what they consist of, and what their instances are with and without a run."""

from __future__ import annotations

import operator
from typing import Any

import pytest

import headwater as hw
from headwater.language.functions.function import bound, name_of
from headwater.language.functions.handlers import WindowRead
from headwater.language.functions.program import program_of
from headwater.language.functions.states import UnboundState

BID = hw.col("kind") == "bid"


class BidShare(hw.ProcessingFunction):
    """The paper's Query 1, listing 2: the share of each partition in all bids."""

    total = hw.WindowedCRDT(hw.count(), hw.tumbling("1 s"), where=BID)
    mine = hw.WindowedLocal(hw.count(), hw.tumbling("1 s"), where=BID)
    seen = hw.Local(0)

    @hw.when_final(total, mine)
    def share(self, w: WindowRead, total: int, mine: int) -> Any:
        self.seen.value += 1
        yield {"window_end": w.end, "share": mine / total, "windows": self.seen.value}


class BidShareByBatch(hw.ProcessingFunction):
    """The same with batches that are inserted, as listing 2 does with events."""

    total = hw.WindowedCRDT(hw.crdts.GCounter(None), hw.tumbling("1 s"), inserted_by="events")
    mine = hw.WindowedLocal(hw.crdts.GCounter(None), hw.tumbling("1 s"), inserted_by="events")

    def events(self, batch: Any) -> None:
        bids = batch.where(BID)
        self.total.insert(bids)
        self.mine.insert(bids)

    @hw.when_final(total, mine)
    def share(self, w: WindowRead, total: int, mine: int) -> Any:
        yield {"window_end": w.end, "share": mine / total}


class BidShareByEvent(hw.ProcessingFunction):
    """And one event after the other: the listing itself."""

    total = hw.WindowedCRDT(hw.crdts.GCounter(), hw.tumbling("1 s"), inserted_by="event", columns={"value": int})
    mine = hw.WindowedLocal(hw.crdts.GCounter(), hw.tumbling("1 s"), inserted_by="event", columns={"value": int})

    def event(self, e: Any) -> None:
        if e.kind == "bid":
            self.total.insert(1, e.time)
            self.mine.insert(1, e.time)
        self.total.increment_watermark(e.time)
        self.mine.increment_watermark(e.time)

    @hw.when_final(total, mine)
    def share(self, w: WindowRead, total: int, mine: int) -> Any:
        yield {"window_end": w.end, "share": mine / total}


class HotItems(hw.ProcessingFunction):
    counts = hw.WindowedCRDT({"n": hw.count()}, hw.tumbling("1 s"), keys="auction")
    limit = 1

    def __init__(self, limit: int = 1) -> None:
        self.limit = limit

    @hw.when_final(counts)
    def report(self, w: WindowRead, counts: Any) -> Any:
        yield {"limit": self.limit}


class Shop(hw.ProcessingFunction):
    shares = BidShare()
    hot = HotItems(limit=3)
    bids = hw.WindowedLocal(hw.count(), hw.tumbling("1 s"))

    @hw.when_final(hot.counts, bids, shares.total)
    async def compare(self, w: WindowRead, counts: Any, bids: int, total: int) -> None: ...


class Mall(hw.ProcessingFunction):
    shop = Shop()

    @hw.when_final(shop.hot.counts)
    def report(self, w: WindowRead, counts: Any) -> None: ...


class Cell:
    value = 0


def test_query_1_of_the_paper_reads_both_counts_of_a_window_that_is_final() -> None:
    cell = Cell()
    share = bound(BidShare, {"total": None, "mine": None, "seen": cell})
    rows = [*share.share(WindowRead(0, 10), 4, 1), *share.share(WindowRead(10, 20), 2, 2)]
    assert rows == [{"window_end": 10, "share": 0.25, "windows": 1}, {"window_end": 20, "share": 1.0, "windows": 2}]
    assert cell.value == 2


@pytest.mark.parametrize(
    ("function", "feeding", "tables"),
    [
        (BidShare, None, [("total", "mine")]),
        (BidShareByBatch, "events", [("total",), ("mine",)]),
        (BidShareByEvent, "event", [("total",), ("mine",)]),
    ],
)
def test_query_1_in_its_three_ways_of_inserting_has_two_stages(function: Any, feeding: Any, tables: Any) -> None:
    program = program_of(function)
    assert (program.has_events, program.levels) == (feeding, 2)
    assert [table.states for table in program.tables] == tables
    assert {table.level for table in program.tables} == {0}
    assert {table.inserted_by for table in program.tables} == {feeding}
    assert [(handler.name, handler.stage) for handler in program.handlers] == [("share", 1)]
    assert {query.scope for table in program.tables for query in table.queries} == {"global", "node"}


def test_the_stages_of_nested_functions_are_those_of_the_whole() -> None:
    class Days(hw.ProcessingFunction):
        shop = Shop()
        week = hw.WindowedCRDT(hw.sum("n"), hw.tumbling("1 d"), inserted_by="daily", columns={"n": int})

        @hw.when_final(shop.bids)
        def daily(self, w: WindowRead, bids: int) -> None:
            self.week.insert(bids, time=w.end - 1)

        @hw.when_final(week)
        def weekly(self, w: WindowRead, n: int) -> None: ...

    stages = {handler.name: handler.stage for handler in program_of(Days).handlers}
    assert stages == {"shop.shares.share": 1, "shop.hot.report": 1, "shop.compare": 1, "daily": 1, "weekly": 2}


def test_members_of_nested_functions_have_dotted_names_and_stand_where_the_function_stands() -> None:
    layout = Mall.layout
    names = ["shares.total", "shares.mine", "shares.seen", "hot.counts", "bids"]
    assert [each.name for each in layout.states] == [f"shop.{name}" for name in names]
    assert [(each.name, each.states, each.is_async) for each in layout.handlers] == [
        ("shop.shares.share", ("shop.shares.total", "shop.shares.mine"), False),
        ("shop.hot.report", ("shop.hot.counts",), False),
        ("shop.compare", ("shop.hot.counts", "shop.bids", "shop.shares.total"), True),
        ("report", ("shop.hot.counts",), False),
    ]


def test_a_state_is_the_description_on_the_class_and_what_the_host_gave_on_an_instance() -> None:
    assert isinstance(BidShare.total, hw.WindowedCRDT)
    made = bound(Mall, {"shop.hot.counts": "counts", "shop.shares.seen": "cell", "shop.bids": "bids"})
    assert (made.shop.hot.counts, made.shop.shares.seen, made.shop.bids) == ("counts", "cell", "bids")
    assert list(operator.attrgetter("shop.hot.report")(made)(WindowRead(0, 1), None)) == [{"limit": 3}]


def test_instances_share_no_nested_function() -> None:
    one, other = bound(Mall, {"shop.bids": 1}), bound(Mall, {"shop.bids": 2})
    assert (one.shop.bids, other.shop.bids) == (1, 2)
    assert one.shop.hot is not other.shop.hot
    assert isinstance(Mall().shop.bids, UnboundState)


@pytest.mark.parametrize("use", ["value", "then", "peek", "insert", "global_watermark"])
def test_a_state_outside_of_a_run_says_so(use: str) -> None:
    with pytest.raises(hw.QueryError, match=rf"BidShare.total.{use}: a state has values only in a run"):
        getattr(BidShare().total, use)
    with pytest.raises(hw.QueryError, match=r"BidShare.seen.value: a state has values only in a run"):
        BidShare().seen.value = 3


def test_a_state_is_not_replaced_on_an_instance() -> None:
    with pytest.raises(hw.QueryError, match=r"BidShare.seen is a state and stays one: write self.seen.value = ..."):
        BidShare().seen = 3  # type: ignore[assignment]
    with pytest.raises(hw.QueryError, match=r"BidShare.total is a state and stays one: write self.total.insert\(...\)"):
        BidShare().total = 3  # type: ignore[assignment]


def test_what_would_be_forgotten_in_a_run_is_refused() -> None:
    hot = bound(HotItems, {"counts": None})
    with pytest.raises(
        hw.QueryError, match=r"HotItems.limit is set in a run, and would be gone when another node takes"
    ):
        hot.limit = 5
    with pytest.raises(
        hw.QueryError, match=r"HotItems.inner is set on an instance: declare states and nested functions"
    ):
        HotItems().inner = BidShare()  # type: ignore[attr-defined]


def test_a_function_inherits_members_and_may_replace_them() -> None:
    class Better(BidShare):
        extra = hw.Local([])

        @hw.when_final(BidShare.total, BidShare.mine)
        def share(self, w: WindowRead, total: int, mine: int) -> Any:
            yield {"share": mine / total}

    assert [each.name for each in Better.layout.states] == ["total", "mine", "seen", "extra"]
    assert [each.name for each in Better.layout.handlers] == ["share"]


def test_a_handler_whose_state_a_subclass_replaced_is_refused() -> None:
    with pytest.raises(
        hw.QueryError, match="function Other: handler 'share' names the state 'total': this class has no"
    ):

        class Other(BidShare):
            total = hw.WindowedCRDT(hw.sum("price"), hw.tumbling("1 s"))


def test_a_local_value_is_a_copy_for_each_partition() -> None:
    given: Any = {"seen": [1]}

    class Keeps(hw.ProcessingFunction):
        memory = hw.Local(given)

    given["seen"].append(2)
    one, other = Keeps.memory.fresh(), Keeps.memory.fresh()
    assert one == {"seen": [1]}
    assert one is not other


def test_a_function_takes_no_arguments_that_nobody_reads() -> None:
    with pytest.raises(TypeError):
        BidShare(3)  # type: ignore[call-arg]


def test_a_nested_function_that_is_unsafe_makes_the_whole_unsafe() -> None:
    class Peeks(hw.ProcessingFunction):
        unsafe = True

        def events(self, batch: Any) -> None: ...

    class Outer(hw.ProcessingFunction):
        peeks = Peeks()

        def events(self, batch: Any) -> None: ...

    assert Outer.layout.unsafe
    assert not BidShare.layout.unsafe


def test_a_continuation_is_known_by_its_name() -> None:
    mall, other = Mall(), Mall()
    assert name_of(mall, mall.shop.hot.report) == "shop.hot.report"
    assert name_of(mall, mall.report) == "report"
    for method in (other.report, BidShare.share, print, 7, lambda w: None):
        with pytest.raises(hw.QueryError, match=r"function Mall: .* is no method of the function: give a method of it"):
            name_of(mall, method)
