"""Functions that cannot be run are refused when their class is made, with function, state or handler, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw

SECOND = hw.tumbling("1 s")


def state(**options: Any) -> Any:
    return hw.WindowedCRDT(hw.count(), SECOND, **options)


def local(**options: Any) -> Any:
    return hw.WindowedLocal(hw.count(), SECOND, **options)


def handler(*states: Any, once: bool = False) -> Any:
    def report(self: Any, w: Any, *values: Any) -> Any:
        yield {}

    return hw.when_final(*states, once=once)(report)


class Batches(hw.ProcessingFunction):
    counts = state(inserted_by="events")
    cut = 4096

    def events(self, batch: Any) -> Any:
        self.counts.insert(batch)


class Counts(hw.ProcessingFunction):
    counts = state()
    seen = hw.Local(0)


def function(**attributes: Any) -> Callable[[], type]:
    return lambda: type("Bids", (hw.ProcessingFunction,), attributes)


def several(make: Callable[[], dict[str, Any]]) -> Callable[[], type]:
    return lambda: type("Bids", (hw.ProcessingFunction,), make())


def same_object_twice() -> dict[str, Any]:
    total = state()
    return {"total": total, "again": total}


def nested_twice() -> dict[str, Any]:
    hot = Counts()
    return {"hot": hot, "again": hot}


def by_another_window() -> dict[str, Any]:
    total, daily = state(), hw.WindowedCRDT(hw.count(), hw.tumbling("1 d"))
    return {"total": total, "daily": daily, "report": handler(total, daily)}


def with_too_few_arguments() -> dict[str, Any]:
    total, mine = state(), local()

    def share(self: Any, w: Any, total: Any) -> None: ...

    return {"total": total, "mine": mine, "share": hw.when_final(total, mine)(share)}


def once_with_a_local() -> dict[str, Any]:
    mine = local()
    return {"mine": mine, "report": handler(mine, once=True)}


def once_into_a_local() -> dict[str, Any]:
    total = state()
    return {"total": total, "days": local(inserted_by="report"), "report": handler(total, once=True)}


def insert_of_what_is_late() -> dict[str, Any]:
    total = state(lateness="5 s")
    return {"total": total, "days": state(inserted_by="report"), "report": handler(total)}


def loop_of_one() -> dict[str, Any]:
    total = state(inserted_by="report")
    return {"total": total, "report": handler(total)}


def loop_of_two() -> dict[str, Any]:
    days, weeks = state(inserted_by="weekly"), state(inserted_by="daily")
    return {"days": days, "weeks": weeks, "daily": handler(days), "weekly": handler(weeks)}


def state_of_another_instance() -> dict[str, Any]:
    return {"hot": Counts(), "report": handler(Counts().counts)}


def local_of_a_nested_function() -> dict[str, Any]:
    hot = Counts()
    return {"hot": hot, "report": handler(hot.seen)}


def taken_out_of_a_nested_function() -> dict[str, Any]:
    hot = Counts()
    return {"hot": hot, "counts": hot.counts}


def takes_events(self: Any, batch: Any) -> None: ...


def takes_nothing(self: Any) -> None: ...


async def waits(self: Any, batch: Any) -> None: ...


SUM = hw.sum("price")
DEEP: list[Any] = []
for _ in range(60):
    DEEP = [DEEP]

REFUSED: list[tuple[Callable[[], Any], str]] = [
    # States are queries, and refused in the words of queries.
    (
        function(total=hw.WindowedCRDT(hw.count(), hw.sliding("1 s", 0))),
        "function Bids: state 'total': window.slide is 0: give a duration above 0, such as '10 s', or an integer of ticks",
    ),
    (function(total=hw.WindowedCRDT(hw.count(), "1 s")), "state 'total': window is '1 s': give a window, such as"),  # type: ignore[arg-type]
    (
        function(total=hw.WindowedCRDT(hw.quantile("a", 2), SECOND)),
        "state 'total': aggregate 'value'.q is 2.0: give a number from 0 to 1, such as 0.99",
    ),
    (function(total=hw.WindowedCRDT({}, SECOND)), "state 'total': aggregates is (): ask for at least one"),
    (
        function(total=hw.WindowedCRDT({"n": "count"}, SECOND)),  # type: ignore[dict-item]
        "state 'total': aggregate 'n' is 'count': give an aggregate",
    ),
    (function(total=state(keys="node")), "state 'total': keys is 'node': results have a column of this name"),
    (function(total=state(keys="value")), "state 'total': aggregate 'value' is 'value': a key column has this name"),
    (function(total=state(lateness="soon")), "state 'total': lateness is 'soon': write a duration such as"),
    (function(total=state(where=1)), "state 'total': where is 1: write a condition over columns"),
    # Columns of what is inserted.
    (
        function(total=hw.WindowedCRDT(SUM, SECOND, inserted_by="events"), events=takes_events),
        "function Bids: state 'total': columns is {}: 'price' is missing: it is read, and what is inserted has no such "
        "column; say its type, columns={'price': int}",
    ),
    (
        function(total=state(columns={"price": int})),
        "state 'total': columns is {'price': <class 'int'>}: the columns are those of the input; leave it out, or say "
        "inserted_by=",
    ),
    (
        function(total=state(inserted_by="events", columns={"price": dict}), events=takes_events),
        "state 'total': columns['price'] is <class 'dict'>: give int, float, str, bool or an Arrow type",
    ),
    (
        function(total=state(inserted_by="events", columns=["price"]), events=takes_events),
        "state 'total': columns is ['price']: give names and types, such as columns={'price': int}",
    ),
    (
        function(total=state(inserted_by="events", columns={1: int}), events=takes_events),
        "state 'total': columns is 1: name columns with text",
    ),
    (
        function(total=hw.WindowedCRDT(SUM, SECOND, inserted_by="events", columns={"price": str}), events=takes_events),
        "state 'total': aggregate 'value'.column is 'price': sum needs numbers, the column holds string",
    ),
    (
        function(total=state(inserted_by="events", keys="price", columns={"price": pa.float32()}), events=takes_events),
        "state 'total': keys is 'price': keys are text, integers",
    ),
    # Who inserts.
    (
        function(total=state(inserted_by="events")),
        "function Bids: state 'total' is inserted by 'events', which is not there: write def events(self, batch), or leave "
        "inserted_by out",
    ),
    (
        function(total=state(inserted_by="event"), events=takes_events),
        "state 'total' is inserted by 'event', which is not there: it has events; name that",
    ),
    (
        function(total=state(), days=state(inserted_by="reprot"), report=handler(state())),
        "state 'days' is inserted by 'reprot', which is no handler of it: name one of 'events', 'event', 'report'",
    ),
    (
        function(total=state(inserted_by=["events"]), events=takes_events),
        "state 'total' is inserted by ['events'], which is no handler of it",
    ),
    # Local values.
    (
        function(seen=hw.Local({"ids": {1}})),  # type: ignore[dict-item]
        "function Bids: state 'seen': initial['ids'] is {1}: give what is JSON: None, a bool, a number, text, lists and "
        "dicts of these",
    ),
    (function(seen=hw.Local((1, 2))), "state 'seen': initial is (1, 2): give what is JSON"),  # type: ignore[arg-type]
    (function(seen=hw.Local({1: 2})), "state 'seen': a key of initial is 1: JSON has text as keys"),  # type: ignore[dict-item]
    (function(seen=hw.Local([float("nan")])), "state 'seen': initial[0] is nan: JSON has no such number"),
    (function(seen=hw.Local(DEEP)), "nest at most 50 deep"),
    # Names.
    (several(same_object_twice), "function Bids: state 'again' is the same object as 'total': write one for each name"),
    (several(nested_twice), "'again' is the same object as 'hot': write one for each name"),
    (function(cut=hw.Local(0)), "cut is Local("),
    (function(layout=state()), "'layout' means something else in a function: give what it holds another name"),
    (
        several(taken_out_of_a_nested_function),
        "'counts' is a state of a nested function: name it where it is read",
    ),
    (function(hot=Counts), "'hot' is the class Counts: write hot = Counts() for a nested function"),
    # Settings, and what takes the input.
    (
        function(cut=0),
        "function Bids: cut is 0: give the number of events of a batch, an integer above 0, or leave it out",
    ),
    (function(unsafe=1), "function Bids: unsafe is 1: use True or False"),
    (
        function(events=takes_events, event=takes_events),
        "it has both events and event: keep one; events takes Arrow batches and is the fast one",
    ),
    (
        function(events=waits),
        "events is async: a partition does not wait while it reads; write def events(self, batch) and read in a "
        "@hw.when_final handler",
    ),
    (function(event=takes_nothing), "event takes (self: 'Any') -> 'None': write def event(self, e)"),
    (function(events=[]), "events is []: it takes the input; write def events(self, batch)"),
    (function(events=handler(state())), "events takes the input and is no handler: call the handler something else"),
    # Handlers.
    (function(report=handler()), "handler 'report' names no state: write @hw.when_final(total) above it"),
    (function(report=handler("total")), "handler 'report' names 'total': name states of the class, such as"),
    (
        function(report=handler(state())),
        "handler 'report' names a state without a name: this class has no such state; name its own, or those of a nested",
    ),
    (
        function(report=handler(Counts.counts)),
        "handler 'report' names the state 'counts': this class has no such state; name its own",
    ),
    (
        several(state_of_another_instance),
        "handler 'report' names Counts.counts: it is a state of an instance that is no attribute of this class; write "
        "hot = HotItems(), and name hot.counts",
    ),
    (
        several(local_of_a_nested_function),
        "handler 'report' names 'hot.seen', a Local, which has no windows: leave it out and read self.hot.seen.value inside",
    ),
    (
        several(with_too_few_arguments),
        "handler 'share' takes (self: 'Any', w: 'Any', total: 'Any') -> 'None': write def share(self, w, total, mine), with "
        "one argument for each state",
    ),
    (
        several(by_another_window),
        "handler 'report' reads 'total' by Sliding(size='1 s', slide='1 s', offset=0) and 'daily' by Sliding(size='1 d', "
        "slide='1 d', offset=0): give both the same window, or write a handler for each",
    ),
    (function(report=handler(state(), once=1)), "handler 'report': once is 1: use True or False"),  # type: ignore[arg-type]
    (
        several(once_with_a_local),
        "handler 'report' runs once for all and reads 'mine', which is of one partition: make it a hw.WindowedCRDT, or leave "
        "once out",
    ),
    (
        several(once_into_a_local),
        "handler 'report' runs once for all and inserts into 'days', which is of one partition: make it a hw.WindowedCRDT",
    ),
    (
        several(insert_of_what_is_late),
        "handler 'report' inserts into 'days' and reads 'total', which has lateness: a window that changes would be inserted "
        "twice; leave the lateness of 'total' out, or only yield rows here",
    ),
    (
        several(loop_of_one),
        "function Bids: handler 'report' inserts into state 'total', which handler 'report' reads: a window would wait for "
        "itself; insert into a state that no earlier handler reads, or carry the value in a hw.Local",
    ),
    (
        several(loop_of_two),
        "inserts into state 'weeks', which handler 'weekly' reads, handler 'weekly' inserts into state 'days', which handler "
        "'daily' reads: a window would wait for itself",
    ),
    # Nested functions.
    (
        function(hot=Batches()),
        "nested function 'hot' has events, which nobody calls: write def events(self, batch): yield from "
        "self.hot.events(batch)",
    ),
    (
        function(hot=Batches(), events=takes_events),
        "nested function 'hot' has batches cut at 4096 events, and this one has not: write cut = 4096",
    ),
]


@pytest.mark.parametrize(("make", "sentence"), REFUSED, ids=[sentence[:60] for _, sentence in REFUSED])
def test_what_cannot_be_run_is_refused_when_the_class_is_made(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(hw.QueryError, match=re.escape(sentence)) as caught:
        make()
    assert str(caught.value).startswith("function Bids: ")
    assert caught.value.query == "Bids"


def test_a_decorator_without_states_is_refused_where_it_stands() -> None:
    def report(self: Any, w: Any) -> None: ...

    with pytest.raises(
        hw.QueryError, match=r"handler 'report': when_final names no state: write @hw.when_final\(total\)"
    ):
        hw.when_final(report)
    with pytest.raises(hw.QueryError, match="when_final stands above 7: write it above a method"):
        hw.when_final(state())(7)  # type: ignore[type-var]
    marked = hw.when_final(state())(report)
    with pytest.raises(
        hw.QueryError, match="handler 'report': when_final stands above it twice: name all states in one"
    ):
        hw.when_final(state())(marked)


def test_a_class_written_inside_of_another_is_a_definition() -> None:
    class Shop(hw.ProcessingFunction):
        class Hot(hw.ProcessingFunction):
            counts = state()

        hot = Hot()

    assert [each.name for each in Shop.layout.states] == ["hot.counts"]
