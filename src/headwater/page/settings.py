"""Where a live page listens, and who may look at it."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from importlib.util import find_spec
from ipaddress import ip_address

from headwater.errors import DataError

FORM = "give a port, such as page=8080 (0: any that is free), or hw.Page(port=8080, host='127.0.0.1', token=None)"


@dataclass(frozen=True, slots=True)
class Page:
    """A live page: its port (0: any that is free), the address it listens at, and a token that a browser has to know.

    By default only this machine can look. Whoever lets others look gives a token too: the page is opened once with
    ``?token=...``, programs send ``Authorization: Bearer ...``.
    """

    port: int = 0
    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        # Whatever was given, not what should have been.
        port, host, token = (getattr(self, name) for name in ("port", "host", "token"))
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
            raise DataError(f"page: port is {port!r}: give an integer from 0 (any that is free) to 65535")
        if not isinstance(host, str) or not host:
            raise DataError(f"page: host is {host!r}: give an address of this machine, such as '127.0.0.1'")
        if token is not None and (not isinstance(token, str) or not token.strip()):
            raise DataError("page: the token is empty: give some text that nobody guesses, or None")

    @classmethod
    def of(cls, given: object) -> Page:
        """What ``page=`` was given: a port or a page.

        >>> Page.of(8080), Page.of("8080")
        Traceback (most recent call last):
        headwater.errors.DataError: page is '8080': give a port, such as page=8080 (0: any that is free), or
            hw.Page(port=8080, host='127.0.0.1', token=None)
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, bool) or not isinstance(given, int):
            raise DataError(f"page is {given!r}: {FORM}")
        return cls(given)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can look.

        >>> Page().is_loopback, Page(host="localhost").is_loopback, Page(host="::1").is_loopback, Page(host="0.0.0.0").is_loopback
        (True, True, True, False)
        """
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def listen(self) -> ListeningPage:
        """Listen there, before anything else runs; the sentence says what is in the way."""
        missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
        if missing:
            raise DataError(
                f"page is given, but {' and '.join(missing)} cannot be found: pip install 'headwater[page]'"
            )
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = socket.socket(family, kind, protocol)
        except OSError as error:
            raise DataError(f"page: host {self.host!r} is no address of this machine ({error})") from None
        try:
            # A page that was closed a moment ago does not keep its port.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(64)
        except OSError as error:
            listening.close()
            raise DataError(
                f"page: port {self.port} of {self.host} cannot be had ({error.strerror}): give another, or 0 for any that is free"
            ) from None
        return ListeningPage(self, listening)


@dataclass(frozen=True, slots=True)
class ListeningPage:
    """A page that has its port, and nobody yet who answers."""

    page: Page
    socket: socket.socket

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    @property
    def url(self) -> str:
        """The address for a browser. A page that listens everywhere is shown as this machine's."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.page.host, self.page.host)
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    def close(self) -> None:
        self.socket.close()
