"""Who may look at a page: a token if there is one, and no other site's script through a browser of this machine."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.page.settings import Page

#: Nothing but what this server itself sends, and in nobody's frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
#: Names by which a browser calls the machine it runs on.
OWN_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
WANTS_TOKEN = (
    "This page wants a token: open it as /?token=..., with the token that the stream was given; "
    "programs send the header Authorization: Bearer ..."
)
WANTS_OWN_NAME = (
    "This page answers to localhost and 127.0.0.1 only, since it has no token: open it under one of these names, "
    "or give the stream hw.Page(token=...)"
)


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides over requests by what they bring: their Host, a token in a header or in the address, or a cookie."""

    page: Page
    port: int

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers do not tell the ports of a host apart."""
        return f"headwater-{self.port}"

    @property
    def cookie_value(self) -> str:
        """Made from the token, so that it holds over restarts, and nobody reads the token in it."""
        token = (self.page.token or "").encode()
        return hmac.new(token, b"headwater page", hashlib.sha256).hexdigest()

    def objection(self, host: str, authorization: str, cookie: str) -> tuple[int, str] | None:
        """Status and sentence for a request that is refused; None: it may look.

        >>> Guard(Page(token="open sesame"), 80).objection("anywhere", "Bearer open sesame", "") is None
        True
        >>> Guard(Page(), 80).objection("evil.example:80", "", "")[0], Guard(Page(token="t"), 80).objection("h", "", "")[0]
        (403, 401)
        """
        if self.page.token is None:
            # A site elsewhere may let its own name lead to this machine, and then read what its visitors can see.
            is_own = not self.page.is_loopback or _without_port(host) in OWN_NAMES
            return None if is_own else (403, WANTS_OWN_NAME)
        given = authorization.removeprefix("Bearer ") if authorization.startswith("Bearer ") else ""
        is_known = self.is_token(given) or _same(cookie, self.cookie_value)
        return None if is_known else (401, WANTS_TOKEN)

    def is_token(self, given: str) -> bool:
        """Whether this is the token, in a time that does not tell how much of it is right."""
        return self.page.token is not None and _same(given, self.page.token)


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())


def _without_port(host: str) -> str:
    """
    >>> _without_port("localhost:8080"), _without_port("[::1]:8080"), _without_port("127.0.0.1")
    ('localhost', '[::1]', '127.0.0.1')
    """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
