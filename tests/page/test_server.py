"""The page's server without a browser: what it sends, whom it lets in, and that nothing of it reaches the stream."""

import json
import logging
from http.client import HTTPConnection

import pytest

from headwater.errors import DataError
from headwater.page import Page
from headwater.page.board import WindowTable
from headwater.page.guard import POLICY
from headwater.page.server import FILES, PageServer
from page.boards import MadeUpBoard
from waiting import wait_until


@pytest.fixture
def board():
    return MadeUpBoard()


@pytest.fixture
def opened(board):
    """Opens pages of the board, and closes them."""
    servers = []

    def server(page: Page | None = None, **more) -> PageServer:
        servers.append(PageServer(board, (page or Page()).listen(), **more))
        return servers[-1]

    yield server
    for each in servers:
        each.close()


def asked(server: PageServer, path: str = "/", **headers: str):
    """Status, headers and text of an answer."""
    host, port = server.url.removeprefix("http://").rstrip("/").rsplit(":", 1)
    connection = HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


class Listener:
    """Somebody who reads the server-sent events."""

    def __init__(self, server: PageServer) -> None:
        host, port = server.url.removeprefix("http://").rstrip("/").rsplit(":", 1)
        self._connection = HTTPConnection(host, int(port), timeout=60)
        self._connection.request("GET", "/events")
        self._answer = self._connection.getresponse()

    def next(self) -> dict | None:
        """The next message; None: there is none any more."""
        for line in iter(self._answer.readline, b""):
            if line.startswith(b"data: "):
                return json.loads(line.removeprefix(b"data: "))
        return None

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def listening():
    listeners = []

    def one(server: PageServer) -> Listener:
        listeners.append(Listener(server))
        return listeners[-1]

    yield one
    for each in listeners:
        each.close()


@pytest.mark.parametrize("path", FILES)
def test_every_file_says_what_a_browser_may_do_with_it(opened, path):
    status, headers, text = asked(opened(), path)
    assert (status, headers["content-security-policy"], headers["x-content-type-options"]) == (200, POLICY, "nosniff")
    assert headers["cache-control"] == "no-store" and text
    # Nothing is asked of other hosts; what is a name of a document or a licence is no request.
    assert "//" not in text.replace("//www.w3.org", "").replace("https://github.com", "") or path.endswith(".js")


@pytest.mark.parametrize("path", ["/server.py", "/static/index.html", "/../settings.py", "/vendor/", "/metrics"])
def test_nothing_else_can_be_had(opened, path):
    assert asked(opened(), path)[0] == 404


def test_a_listener_is_told_everything_and_then_what_is_new(board, opened, listening):
    board.diary.note(1, "start", "started")
    board.tables.append(WindowTable("load", (("n", "value"),), ((3,),), version=1))
    listener = listening(opened())
    first = listener.next()
    assert (first["is_first"], first["reading"]["events"]) == (True, 7)
    assert [each["text"] for each in first["happenings"]] == ["started"]
    assert [table["rows"] for table in first["windows"]] == [[[3]]]
    board.tables.append(WindowTable("peak", (("n", "value"),), ((4,),), version=2))
    board.diary.note(2, "query", "query 'peak' was added")
    board.change(events=9)
    told: list[dict] = []
    wait_until(lambda: told.append(listener.next()) or told[-1]["reading"]["events"] == 9, "the new reading is told")
    assert not any(each["is_first"] for each in told)
    assert [table["query"] for each in told for table in each["windows"]] == ["peak"]
    assert [each["text"] for one in told for each in one["happenings"]] == ["query 'peak' was added"]
    times = [point[0] for each in (first, *told) for point in each["points"]]
    assert times == sorted(set(times))


def test_the_last_message_says_how_it_ended(board, opened, listening):
    server = opened()
    listener = listening(server)
    assert listener.next()["reading"]["is_active"]
    board.change(is_active=False)
    server.close()
    messages = list(iter(listener.next, None))
    assert messages[-1]["reading"]["is_active"] is False


def test_a_page_is_closed_twice_and_its_port_is_free(board):
    server = PageServer(board, Page().listen())
    port = int(server.url.rstrip("/").rsplit(":", 1)[1])
    server.close()
    server.close()
    again = Page(port).listen()
    assert again.port == port
    again.close()


def test_a_port_that_is_taken_is_one_sentence():
    with_it = Page().listen()
    try:
        with pytest.raises(
            DataError, match=rf"page: port {with_it.port} of 127\.0\.0\.1 cannot be had .*: give another, or 0"
        ):
            Page(with_it.port).listen()
    finally:
        with_it.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"port": 70_000}, "port is 70000: give an integer from 0"),
        ({"port": "80"}, "port is '80'"),
        ({"host": ""}, "host is ''"),
        ({"token": " "}, "the token is empty"),
    ],
)
def test_a_page_that_cannot_be_is_refused(given, message):
    with pytest.raises(DataError, match=message):
        Page(**given)


def test_a_host_that_is_not_of_this_machine_is_one_sentence():
    with pytest.raises(DataError, match=r"page: .*192\.0\.2\.1"):
        Page(host="192.0.2.1").listen()


def test_a_page_shows_no_token():
    assert "sesame" not in repr(Page(token="open sesame"))


def test_without_the_token_nothing_is_told(opened):
    server = opened(Page(token="open sesame"), metrics=lambda: (b"up 1\n", "text/plain"))
    for path in (*FILES, "/events", "/metrics", "/nothing"):
        assert asked(server, path)[0] == 401
        assert asked(server, path, Authorization="Bearer open")[0] == 401
        assert asked(server, path, Cookie=f"headwater-{server.url.rstrip('/').rsplit(':', 1)[1]}=open sesame")[0] == 401
    assert asked(server, "/?token=open")[0] == 401


def test_the_token_lets_in_by_header_and_by_address(opened):
    server = opened(Page(token="öffne dich"), metrics=lambda: (b"up 1\n", "text/plain"))
    plain = opened(Page(token="open sesame"))
    assert asked(plain, "/page.js", Authorization="Bearer open sesame")[0] == 200
    status, headers, _ = asked(server, "/?token=%C3%B6ffne%20dich")
    assert (status, headers["location"]) == (303, "./")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "dich" not in cookie
    assert asked(server, "/metrics", Cookie=cookie.partition(";")[0])[0] == 200


def test_another_name_for_this_machine_is_refused_without_a_token(opened):
    server = opened()
    port = server.url.rstrip("/").rsplit(":", 1)[1]
    assert asked(server, Host=f"evil.example:{port}")[0] == 403
    assert asked(server, Host=f"localhost:{port}")[0] == 200
    with_token = opened(Page(token="t"))
    assert asked(with_token, Host="proxy.example", Authorization="Bearer t")[0] == 200


def test_whoever_listens_to_all_without_a_token_is_told(opened, caplog):
    with caplog.at_level(logging.INFO, "headwater.page"):
        opened()
        opened(Page(host="0.0.0.0", token="t"))
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
        opened(Page(host="0.0.0.0"))
    (warned,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "can be read by everybody who reaches 0.0.0.0" in warned
    assert "the page of the stream is at http://127.0.0.1:" in caplog.text


def test_a_board_that_fails_leaves_the_page_as_it_was(board, opened, listening, caplog):
    server = opened()
    listener = listening(server)
    assert listener.next()["reading"]["events"] == 7
    board.is_broken = True
    wait_until(lambda: "cannot see how the stream is" in caplog.text, "the page has looked")
    assert listener.next()["reading"]["events"] == 7
    board.is_broken = False
    board.change(events=8)
    wait_until(lambda: listener.next()["reading"]["events"] == 8, "the page sees again")
