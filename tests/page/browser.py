"""A headless Chromium for the tests of the page; they are skipped, with the reason, where it cannot be had."""

import shutil
from pathlib import Path

import pytest

#: Debian calls it chromium, others chromium-browser or google-chrome.
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = """
    --no-sandbox --headless --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync
""".split()
#: What Chromium itself writes to the console while nobody answers.
SILENCE = ("net::ERR_CONNECTION_REFUSED", "net::ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR_CONNECTION_RESET")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One Chromium with a profile of its own."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium: apt-get install chromium (Debian), or put chromium on the PATH")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'headwater[page-test]'")
    with playwright.sync_playwright() as driver:
        profile = tmp_path_factory.mktemp("profile")
        context = driver.chromium.launch_persistent_context(profile, executable_path=found, args=FLAGS)
        yield context
        context.close()


class Visit:
    """One page in the browser, with all that it asked for and all that went wrong in it."""

    def __init__(self, browser, url: str, scheme: str, width: int) -> None:
        self.home = url.partition("?")[0]
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page = browser.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heard)
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.goto(url)

    def _heard(self, message) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def wait(self, script: str, argument: object = None) -> None:
        """Until a function in the page says so. Far more time than anything takes: whoever waits longer waits in vain."""
        self.page.wait_for_function(script, arg=argument, timeout=120_000)

    def wait_for_state(self, state: str) -> None:
        self.wait("state => document.body.dataset.state === state", state)

    def wait_for_text(self, selector: str, text: str) -> None:
        self.wait(
            "([s, t]) => [...document.querySelectorAll(s)].some(e => e.textContent.includes(t))", [selector, text]
        )

    def check(self, *, was_silent: bool) -> None:
        """Nothing went wrong, and nothing was asked of another host. ``was_silent``: the server was away for a while."""
        excused = SILENCE if was_silent else ()
        wrong = [error for error in self.errors if not any(reason in error for reason in excused)]
        assert wrong == []
        assert [url for url in self.requests if not url.startswith((self.home, "data:"))] == []


@pytest.fixture
def visit(browser):
    """Opens pages; at the end all of them are looked through."""
    visits: list[tuple[Visit, bool]] = []

    def opened(url: str, *, scheme: str = "light", width: int = 1440, was_silent: bool = False) -> Visit:
        visits.append((Visit(browser, url, scheme, width), was_silent))
        return visits[-1][0]

    yield opened
    for one, was_silent in visits:
        one.check(was_silent=was_silent)
        one.page.close()


@pytest.fixture
def pictures() -> Path:
    """Where screenshots are kept for people to look at."""
    folder = Path(__file__).parent.parent.parent / "build" / "page"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
