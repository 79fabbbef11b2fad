"""What shows itself in a notebook: escaped, complete in itself, and plain text stays as it was."""

from xml.etree import ElementTree

import pytest

import headwater as hw
from headwater.spark.explain.explanation import Planned, SparkExplanation, Travel
from headwater.spark.streaming.watch.standstill import Standstill
from headwater.spark.streaming.watch.status import QueryStatus, StreamStatus

EVIL = "<script>alert('1')</script>"
QUERY = hw.query(
    EVIL, hw.sliding("1 min", "10 s"), keys=[EVIL], where=hw.col("load") > 0, lateness="5 s", mean=hw.avg(EVIL)
)
SHOWN = {
    "query": QUERY,
    "explanation": hw.explain(QUERY),
    "explanation on Spark": SparkExplanation(
        (Planned(EVIL, "native", EVIL, "exact"),), (Travel("native", (EVIL,), None, EVIL),)
    ),
    "status": StreamStatus(
        EVIL, 3, 7, queries={EVIL: QueryStatus(3, {"late": 1})}, standstill=Standstill(12.0, (EVIL,), 1)
    ),
    "status before the first batch": StreamStatus(EVIL),
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_what_is_shown_is_whole_and_escaped(shown):
    text = shown._repr_html_()
    ElementTree.fromstring(f"<div>{text}</div>")  # every element is closed
    assert "<script" not in text and "&lt;script&gt;" in text
    # No colour of its own, so that it reads on a dark ground, and nothing from elsewhere.
    assert not any(word in text for word in ("color", "background", "src=", "http", "<style"))


def test_a_query_says_what_it_asks():
    cells = [cell.text for cell in ElementTree.fromstring(QUERY._repr_html_()).iter() if cell.tag in ("th", "td")]
    told = dict(zip(cells[::2], cells[1::2]))
    assert (told["window"], told["lateness"]) == ("sliding 1 min every 10 s", "5 s")
    assert told["where"] == "col('load') > 0"
    assert "scope" not in told and "distinct" not in told


def test_a_status_shows_what_its_line_shows():
    text = SHOWN["status"]._repr_html_()
    assert "no window can close before" in text and "running" in text and ">7, " in text


def test_plain_text_stays_as_it_is():
    assert repr(QUERY).startswith("Query(name=") and str(hw.explain(QUERY)).startswith("query ")
    assert repr(SHOWN["status"]).startswith("StreamStatus(stream=")
