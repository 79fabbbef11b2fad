"""The demo by example: its own aggregate, its streets, and how rows are shown."""

import io
import re
from xml.etree import ElementTree

import pyarrow as pa
from rich.console import Console

import headwater as hw
from headwater.demo import engine
from headwater.demo.drawing import bars, lines
from headwater.demo.houses import HOUSES, PLUGS, streets
from headwater.demo.queries import peak_factor, queries
from headwater.demo.tables import show_query
from headwater.testing import check_laws


def shown(query: hw.Query, rows: pa.Table) -> str:
    out = io.StringIO()
    show_query(query, "what it asks", rows, Console(file=out, width=120))
    return out.getvalue()


def test_each_query_has_a_name_of_its_own_and_says_what_it_asks():
    asked = queries()
    assert len({query.name for query in asked}) == len(asked) == 6
    assert all(meaning for meaning in asked.values())


def test_the_peak_factor_is_the_highest_load_by_the_mean():
    query = hw.query("peak", hw.tumbling(10), peak=hw.apply(peak_factor, "load"))
    rows = hw.run(pa.table({"time": [1, 2, 11], "load": [2.0, 6.0, 5.0]}), [query], time="time").table
    assert rows["peak"].to_pylist() == [1.5, 1.0]


def test_the_peak_factor_obeys_the_laws():
    check_laws(peak_factor, [1.0, 2.5, 8.0, None])


def test_streets_of_one_seed_send_the_same_events():
    one, other = (streets(1_000, seed=5, rate=100)[0] for _ in range(2))
    assert pa.Table.from_batches(one.batches(50)) == pa.Table.from_batches(other.batches(50))


def test_streets_share_the_events_and_number_their_sensors():
    some = streets(80_000, seed=7, rate=1_000)
    assert {street.seconds for street in some} == {10}
    assert [street.first_sensor for street in some] == [number * HOUSES * PLUGS for number in range(len(some))]


def test_rows_show_clock_times_and_few_digits():
    query = hw.query("load", hw.tumbling("1 s"), mean=hw.avg("load"))
    rows = pa.table({"window_start": [0], "window_end": [1_500_000], "mean": [12_345.678], "event_count": [4_321]})
    lines = shown(query, rows).splitlines()
    assert "load: what it asks" in lines[1] and "1 rows; the last ones:" in lines[2]
    assert lines[-1].split() == ["00:00:00.0", "00:00:01.5", "12,345.68", "4,321"]


def test_positions_of_count_windows_are_no_clock_times():
    query = hw.query("counted", hw.count_tumbling(1_000), n=hw.count())
    bounds = dict.fromkeys(("window_start", "window_end"), pa.nulls(1, pa.int64()))
    rows = pa.table({**bounds, "position_start": [1_000], "position_end": [2_000], "n": [1_000]})
    assert shown(query, rows).splitlines()[-1].split() == ["1,000", "2,000", "1,000"]


def test_the_demo_in_one_process_shows_every_query():
    out = io.StringIO()
    engine.run(events=20_000, console=Console(file=out, width=120))
    assert [query.name for query in queries() if f"\n{query.name}: " not in out.getvalue()] == []
    assert "6 queries" in out.getvalue()


def test_the_demo_ends_with_a_page_that_needs_nothing_else(tmp_path):
    out, page = io.StringIO(), tmp_path / "demo.html"
    engine.run(events=20_000, console=Console(file=out, width=120), page=page)
    text = page.read_text()
    assert page.as_uri() in out.getvalue()
    assert [query.name for query in queries() if f"<h2>{query.name}</h2>" not in text] == []
    assert text.count("<svg") == len(queries())
    assert "<script" not in text and "http" not in text.replace("http-equiv", "") and "src=" not in text
    ElementTree.fromstring(re.sub(r"(?s)^.*?(?=<main>)|(?<=</main>).*$", "", text))  # every drawing is whole


def test_a_query_without_rows_is_drawn_as_such():
    query = hw.query("load", hw.tumbling("1 s"), mean=hw.avg("load"))
    empty = pa.table({name: pa.array([], pa.int64()) for name in ("window_start", "window_end", "mean")})
    assert "no window yet" in lines(query, empty) and "no window yet" in bars(query, empty)


def test_keys_and_values_are_escaped_in_drawings():
    query = hw.query("load", hw.session("1 s"), keys=["house"], n=hw.count())
    rows = pa.table({"window_start": [0], "window_end": [1_000_000], "house": ["<b>"], "n": [1]})
    for drawing in (lines(query, rows), bars(query, rows)):
        assert "<b>" not in drawing and "&lt;b&gt;" in drawing
