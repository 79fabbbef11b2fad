"""The schemes that are compared, and the one place that says how a root is told of a scheme."""

from __future__ import annotations

from typing import Any

import headwater as hw
from headwater.node import NodeSettings
from headwater.protocols.count_windows import Counting

#: Those that must be right; `approx` is the one that may be wrong.
EXACT = ("central", "monitor", "monitor_local", "sync", "async", "auto")
APPROX = "approx"
SCHEMES = (APPROX, *EXACT)
#: These roots are never restored: what happens to them is not recorded.
UNRECORDED = NodeSettings(is_recorded=False)
#: `auto` that saves bytes rather than time.
FRUGAL = "auto_bytes"


def root_settings(scheme: str) -> dict[str, Any]:
    """What a `RootNode` is given beside its queries. Sources are in order: nothing is late.

    >>> root_settings(FRUGAL)["counting"].prefer, root_settings("sync")["counting"].scheme
    ('bytes', 'sync')
    """
    counting = Counting("auto", "bytes") if scheme == FRUGAL else Counting(scheme)
    return {"disorder": 0, "counting": counting}


def checked_query(window: int) -> hw.Query:
    """Counts, members and values: rows that say which events they hold."""
    return hw.query("checked", hw.count_tumbling(window), n=hw.count(), member=hw.sum("member"), value=hw.sum("value"))


def members_query(window: int) -> hw.Query:
    """Counts and members: the least that says which events a row holds."""
    return hw.query("members", hw.count_tumbling(window), n=hw.count(), member=hw.sum("member"))


def plain_query(window: int) -> hw.Query:
    """The paper's: a sum."""
    return hw.query("plain", hw.count_tumbling(window), value=hw.sum("value"))
