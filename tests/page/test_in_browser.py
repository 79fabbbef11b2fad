"""The live page as a browser shows it: what a stream does is on it, whatever happens to the stream."""

import time

import pytest

import headwater as hw
from headwater.page import Page
from page.live import LOAD, LiveStream

pytestmark = pytest.mark.page

WINDOWS = "[data-query=load] tbody td"


@pytest.fixture
def live(tmp_path):
    stream = LiveStream(tmp_path / "checkpoint", Page())
    yield stream
    stream.stop()


def feed_a_minute(live: LiveStream, begin: float = 0.0) -> None:
    """Windows of ten seconds: the means of the first are 1.5 and 40."""
    for at in range(0, 60, 5):
        live.feed("elm/1", (begin + at, "elm", 1.0), (begin + at + 1, "elm", 2.0))
        live.feed("oak/2", (begin + at, "oak", 40.0 + begin + at - at % 10))
    live.run()


def test_a_window_is_on_the_page_within_five_seconds_of_its_end(live, visit):
    seen = visit(live.url)
    seen.wait_for_state("waiting")
    assert "No window has closed yet" in seen.text("#no-windows")
    live.feed("elm/1", (1, "elm", 1.25), (2, "elm", 3.5))
    live.feed("oak/2", (3, "oak", 7.0))
    live.run()
    seen.wait_for_state("running")
    assert seen.page.query_selector(WINDOWS) is None
    live.feed("elm/1", (10, "elm", 0.0))
    live.feed("oak/2", (10, "oak", 0.0))
    live.run()
    closed_ms = time.time_ns() // 1_000_000
    seen.wait_for_text(WINDOWS, "2.375")
    # By the clock of the messages that brought it: one comes each second.
    assert int(seen.page.get_attribute("html", "data-beat")) - closed_ms <= 5_000


def test_the_tiles_say_how_the_stream_is(live, visit):
    feed_a_minute(live)
    live.feed("elm/1", (1, "elm", 9.0), (62, "elm", 1.0))
    live.run()
    seen = visit(live.url)
    seen.wait_for_text("#events", "38 events so far")
    assert (seen.text("#state"), seen.text("#stream")) == ("running", "readings")
    assert "waits for oak/2" in seen.text("#waits")
    assert seen.text("#sources") == "2"
    assert "2 too late" in seen.text("#aside-sub")
    assert "too late" in seen.text("#reasons") and "elm/1" in seen.text("#reasons")
    line = seen.text("#queries tbody tr:first-child")
    assert line.startswith("load") and "avg(load), count(), tumbling 10 s, by house" in line
    assert "started" in seen.text("#happened")


def test_the_page_goes_on_when_the_stream_is_started_again(live, visit):
    feed_a_minute(live)
    seen = visit(live.url, was_silent=True)
    seen.wait_for_text(WINDOWS, "1.5")
    live.stop()
    seen.wait_for_state("stopped")
    assert "The stream has stopped" in seen.text("#banner")
    live.restart()
    feed_a_minute(live, begin=60.0)
    seen.wait_for_state("running")
    seen.wait_for_text(WINDOWS, "140")
    assert "started again (start 2)" in seen.text("#happened")


def test_a_server_that_goes_without_a_word_is_missed_and_found_again(live, visit):
    feed_a_minute(live)
    seen = visit(live.url, was_silent=True)
    seen.wait_for_state("running")
    live.observer.page.close()
    seen.wait_for_state("lost")
    assert "No connection" in seen.text("#banner")
    live.restart()
    live.feed("elm/1", (70, "elm", 1.0))
    live.run()
    seen.wait_for_state("running")
    assert not seen.page.is_visible("#banner")


def test_a_standstill_is_shown_until_it_is_over(live, visit):
    feed_a_minute(live)
    live.ahead_us += 60_000_000
    live.observer.look()
    seen = visit(live.url)
    seen.wait_for_state("waits")
    assert "no window can close before" in seen.text("#banner")
    feed_a_minute(live, begin=60.0)
    live.observer.look()
    seen.wait_for_state("running")
    seen.wait_for_text("#happened", "progress again")
    assert "no progress: waits" in seen.text("#happened")


def test_what_stopped_the_stream_is_said(live, visit):
    feed_a_minute(live)
    seen = visit(live.url)
    seen.wait_for_state("running")
    live.observer.begin(None, "query", end=lambda: "the disk is full")
    seen.wait_for_state("failed")
    assert seen.text("#banner") == "the disk is full"
    assert "stopped by an error: the disk is full" in seen.text("#happened")


def test_queries_and_sources_come_and_go(live, visit):
    feed_a_minute(live)
    seen = visit(live.url)
    seen.wait_for_text("#queries", "active")
    live.loop.checkpoint.ask({"what": "add", "queries": hw.to_json([hw.query("n", hw.tumbling("5 s"), n=hw.count())])})
    live.loop.checkpoint.ask({"what": "remove", "name": "active", "drain": False})
    live.feed("ash/3", (61, "ash", 5.0))
    feed_a_minute(live, begin=60.0)
    live.run()
    seen.wait_for_text("#happened", "source 'ash/3")
    seen.wait_for_text("#happened", "query 'active' was removed")
    seen.wait_for_text("#happened", "query 'n' was added")
    seen.wait("() => !document.querySelector('#queries').innerText.includes('active')")


def test_a_page_with_a_token_shows_itself_only_to_those_who_know_it(tmp_path, visit, browser):
    live = LiveStream(tmp_path / "checkpoint", Page(token="open sesame"))
    try:
        refused = browser.new_page()
        answer = refused.goto(live.url)
        assert (answer.status, "wants a token" in answer.text()) == (401, True)
        assert refused.goto(f"{live.url}?token=open").status == 401
        refused.close()
        seen = visit(f"{live.url}?token=open%20sesame")
        seen.wait_for_state("waiting")
        assert seen.page.url == live.url  # the token is in no history
    finally:
        live.stop()


def test_whatever_events_are_called_is_shown_as_text(tmp_path, visit):
    name = "<img src=x onerror=alert(1)>"
    query = hw.query(name, hw.tumbling("10 s"), keys=["house"], n=hw.count())
    live = LiveStream(tmp_path / "checkpoint", Page(), [query], [f"{name}/1"])
    try:
        live.feed(f"{name}/1", (1, "<script>alert(2)</script>", 1.0), (11, name, 2.0))
        live.run()
        live.feed(f"{name}/1", (3, name, 2.0), (21, name, 2.0))
        live.run()
        seen = visit(live.url)
        seen.wait_for_text("article.card td", "<script>alert(2)</script>")
        seen.wait_for_text("#reasons", name)
        assert seen.page.query_selector("main img") is None
    finally:
        live.stop()


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_reads_well_in_both_themes_and_at_every_width(live, visit, pictures, scheme, width):
    seen = visit(live.url, scheme=scheme, width=width)
    feed_a_minute(live)
    seen.wait_for_text(WINDOWS, "1.5")
    seen.wait("() => document.querySelectorAll('canvas').length >= 5")
    seen.page.screenshot(path=pictures / f"{scheme}-{width}-one.png", full_page=True)
    assert seen.text("[data-query=load] .when") == "2026-01-01 UTC"
    live.feed("elm/1", (62, "elm", None), (1, "elm", 9.0), (90, "elm", 1.0))
    live.feed("oak/2", (90, "oak", 1.0))
    live.run()
    feed_a_minute(live, begin=100.0)
    seen.wait_for_text("[data-query=active] tbody td", "1")
    seen.wait_for_text("#reasons", "too late")
    seen.page.screenshot(path=pictures / f"{scheme}-{width}.png", full_page=True)
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    faint = seen.page.evaluate(CONTRASTS)
    assert faint == []


#: Texts of the page whose contrast with what is behind them is below 4.5, as WCAG counts it.
CONTRASTS = """() => {
  const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const behind = e => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c; } };
  const texts = 'h1, h2, h3, .big, .sub, th, td, .asks, #happened span, #happened time, #state, #totals, footer p, button';
  const seen = e => e.textContent.trim() && e.offsetParent && !e.closest('.zero');
  return [...document.querySelectorAll(texts)].filter(seen).flatMap(e => {
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    return ratio < 4.5 ? [[e.className || e.tagName, e.textContent.slice(0, 20), ratio.toFixed(2)]] : [];
  });
}"""


def test_a_pick_draws_another_aggregate(live, visit):
    feed_a_minute(live)
    seen = visit(live.url)
    seen.wait_for_text(WINDOWS, "1.5")
    assert [alias for alias, _ in LOAD.aggregates] == seen.text("[data-query=load] .picks").split()
    seen.page.click("[data-query=load] button:has-text('readings')")
    assert seen.page.get_attribute("[data-query=load] .chart", "aria-label").startswith("readings of the last")
