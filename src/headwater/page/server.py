"""Serves a live page from a thread of its own: files, server-sent events, and metrics if the host has some.

Nothing of it reaches the stream: it reads the board, and whatever goes wrong here is one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from hashlib import blake2b
from importlib.resources import files
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.page.board import Board
from headwater.page.feed import BEAT_SECONDS, PageFeed, Seen, as_message
from headwater.page.guard import HEADERS, Guard
from headwater.page.settings import ListeningPage

LOGGER = logging.getLogger("headwater.page")
#: Where each file of the page is, and what it is. Nothing else of the package can be asked for.
FILES = {
    "/": ("static/index.html", "text/html; charset=utf-8"),
    "/page.css": ("static/page.css", "text/css; charset=utf-8"),
    "/page.js": ("static/page.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("static/charts.js", "text/javascript; charset=utf-8"),
    "/windows.js": ("static/windows.js", "text/javascript; charset=utf-8"),
    "/words.js": ("static/words.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("static/icon.svg", "image/svg+xml"),
    "/uplot.js": ("vendor/uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    "/uplot.css": ("vendor/uPlot.min.css", "text/css; charset=utf-8"),
}
#: Whoever closes waits so long for browsers to be told, and for the thread to end.
GOODBYE_SECONDS, END_SECONDS = 1, 5.0

#: The text of metrics, and its content type.
Metrics = Callable[[], tuple[bytes, str]]


class PageServer:
    """A page that is open until it is closed. ``listening``: what `Page.listen` gave; it is closed with the server."""

    def __init__(self, board: Board, listening: ListeningPage, *, metrics: Metrics | None = None) -> None:
        self.url = listening.url
        self._listening = listening
        self._files = {path: (_bytes_of(name), kind) for path, (name, kind) in FILES.items()}
        # A browser that has a page of another release loads it anew.
        version = blake2b(b"".join(data for data, _ in self._files.values()), digest_size=6).hexdigest()
        self._feed = PageFeed(board, lambda: time.time_ns() // 1_000_000, version)
        self._guard = Guard(listening.page, listening.port)
        self._metrics = metrics
        self._closing = False
        config = uvicorn.Config(
            self._app(), log_config=None, access_log=False, lifespan="off", ws="none", server_header=False,
            timeout_graceful_shutdown=GOODBYE_SECONDS,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="headwater page", daemon=True)
        self._thread.start()
        _say_where(listening)

    def close(self) -> None:
        """Tell browsers how it ended, and stop answering; a second call does nothing."""
        self._closing = True
        self._server.should_exit = True
        self._thread.join(END_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the thread ---

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            LOGGER.warning("the page at %s has ended by an error; the stream goes on", self.url, exc_info=True)
        finally:
            self._listening.close()

    async def _serve(self) -> None:
        self._look()
        beating = asyncio.create_task(self._beat())
        try:
            await self._server.serve(sockets=[self._listening.socket])
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self._look()

    def _look(self) -> None:
        try:
            self._feed.look()
        except Exception:
            # The page keeps what it knew; the next look may be better.
            LOGGER.warning("the page at %s cannot see how the stream is", self.url, exc_info=True)

    # --- what it answers ---

    def _app(self) -> ASGIApp:
        routes = [Route(path, self._file) for path in FILES]
        routes += [Route("/events", self._events)]
        routes += [] if self._metrics is None else [Route("/metrics", self._scraped)]
        return _Guarded(Starlette(routes=routes), self._guard)

    def _file(self, request: Request) -> Response:
        data, kind = self._files[request.url.path]
        return Response(data, media_type=kind)

    def _scraped(self, request: Request) -> Response:
        assert self._metrics is not None
        text, kind = self._metrics()
        return Response(text, headers={"Content-Type": kind})

    def _events(self, request: Request) -> Response:
        return StreamingResponse(self._messages(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _messages(self) -> AsyncIterator[bytes]:
        """Everything at once, and then what is new, once a second; the last message says how it ended."""
        yield b"retry: 1000\n\n"
        seen: Seen | None = None
        while True:
            is_last = self._closing
            # Whoever comes, and whoever is left behind, sees how it is at that very moment.
            if is_last or seen is None:
                self._look()
            told, seen = self._feed.news(seen)
            yield as_message(told)
            if is_last:
                return
            await self._until_next()

    async def _until_next(self) -> None:
        """A beat, or less if the server closes."""
        for _ in range(10):
            if self._closing:
                return
            await asyncio.sleep(BEAT_SECONDS / 10)


class _Guarded:
    """An app that only those reach who may look, and whose answers say what a browser may do with them."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def send_with_headers(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                given = message.setdefault("headers", [])
                assert isinstance(given, list)
                given += [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        answer = self._answer(Request(scope)) or self._app
        return await answer(scope, receive, send_with_headers)  # type: ignore[arg-type]

    def _answer(self, request: Request) -> Response | None:
        """What somebody gets who is not let in, or comes with the token in the address; None: the page itself."""
        guard = self._guard
        if guard.is_token(request.query_params.get("token", "")):
            # On to the same address without it, so that it stays in no history.
            answer = RedirectResponse(request.url.path.rpartition("/")[2] or "./", status_code=303)
            answer.set_cookie(guard.cookie, guard.cookie_value, httponly=True, samesite="lax", max_age=30 * 86_400)
            return answer
        headers = request.headers
        refused = guard.objection(
            headers.get("host", ""), headers.get("authorization", ""), request.cookies.get(guard.cookie, "")
        )
        return None if refused is None else PlainTextResponse(refused[1], status_code=refused[0])


def _bytes_of(name: str) -> bytes:
    return files("headwater.page").joinpath(name).read_bytes()


def _say_where(listening: ListeningPage) -> None:
    url, page = listening.url, listening.page
    LOGGER.info("the page of the stream is at %s", url)
    if not page.is_loopback and page.token is None:
        LOGGER.warning(
            "the page at %s can be read by everybody who reaches %s: give hw.Page(token=...), or leave host out",
            url,
            page.host,
        )
