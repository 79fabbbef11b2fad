"""Disco's strings as queries, as its tests and scripts write them."""

from __future__ import annotations

import re

import pytest

import headwater.language.aggregations as hw
from headwater.errors import QueryError
from headwater.language.files.disco import from_disco
from headwater.language.windows import CountWindow, Session, Sliding, count_sliding, session, sliding, tumbling


def test_strings_of_disco_are_queries_in_time_and_in_events() -> None:
    found = from_disco("TUMBLING,100,0;SESSION,60,2;TUMBLING,3,0,COUNT", "SUM;AVG;MEDIAN", keys=["key"])
    assert [one.name for one in found] == ["TUMBLING,100,0", "SESSION,60,2", "TUMBLING,3,0,COUNT"]
    assert [one.window for one in found] == [tumbling("100 ms"), session("60 ms"), CountWindow(3, 3)]
    expected = (("sum", hw.sum("value")), ("avg", hw.avg("value")), ("median", hw.median("value", "upper")))
    assert {one.aggregates for one in found} == {expected}
    assert {one.keys for one in found} == {("key",)}


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("TUMBLING,1000", tumbling("1 s")),
        ("TUMBLING,1000,7,TIME", tumbling("1 s")),
        ("SLIDING,100,50", sliding("100 ms", "50 ms")),
        ("SLIDING,100,50,1", sliding("100 ms", "50 ms")),
        (" SLIDING, 100, 50, 1, COUNT ", count_sliding(100, 50)),
        ("SESSION,60", session("60 ms")),
        ("SESSION,60,2,TIME", session("60 ms")),
    ],
)
def test_parts_of_a_string_of_disco_may_be_left_out(text: str, window: Sliding | Session | CountWindow) -> None:
    (found,) = from_disco(text, "MAX;MIN", column="load")
    assert found.window == window
    assert found.aggregates == (("max", hw.max("load")), ("min", hw.min("load")))


def test_milliseconds_fit_any_stream_and_ticks_are_possible() -> None:
    (found,) = from_disco("TUMBLING,100,0", "SUM")
    assert found.resolved("us").window == tumbling(100_000)
    (found,) = from_disco("TUMBLING,100,0", "SUM", unit_ticks=1)
    assert found.window == tumbling(100)


@pytest.mark.parametrize(
    ("windows", "functions", "message"),
    [
        ("HOPPING,5,0", "SUM", "query 'HOPPING,5,0': window is 'HOPPING,5,0': write TUMBLING,size,id"),
        ("TUMBLING", "SUM", "query 'TUMBLING': window is 'TUMBLING': write TUMBLING,size,id"),
        ("TUMBLING,x,0", "SUM", "window is 'TUMBLING,x,0'"),
        ("TUMBLING,5,0,COUNT,1", "SUM", "window is 'TUMBLING,5,0,COUNT,1'"),
        ("TUMBLING,5,0,BYTES", "SUM", "window is 'TUMBLING,5,0,BYTES'"),
        ("SESSION,5,0,COUNT", "SUM", "window is 'SESSION,5,0,COUNT'"),
        ("SLIDING,5", "SUM", "window is 'SLIDING,5'"),
        ("", "SUM", "window is ''"),
        ("TUMBLING,0,0", "SUM", "query 'TUMBLING,0,0': window.size is"),
        ("TUMBLING,-5,0", "SUM", "query 'TUMBLING,-5,0': window.size is '-5 ms'"),
        ("SLIDING,5,0,1", "SUM", "query 'SLIDING,5,0,1': window.slide is"),
        ("TUMBLING,5,0;TUMBLING,5,0", "SUM", "this window is there twice"),
        ("TUMBLING,5,0", "MODE", "function is 'MODE': Disco has SUM, AVG, MIN, MAX, MEDIAN"),
        ("TUMBLING,5,0", "", "function is ''"),
        ("TUMBLING,5,0", "SUM;SUM", "query 'TUMBLING,5,0': aggregate 'sum' is 'sum': an aggregate of this name exists"),
    ],
)
def test_what_is_no_string_of_disco_is_refused(windows: str, functions: str, message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(message)):
        from_disco(windows, functions)
