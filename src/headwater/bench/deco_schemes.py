"""The schemes that are compared, and the one place that says how a root is told of a scheme."""

from __future__ import annotations

from typing import Any

import headwater as hw

#: Those that must be right; `approx` is the one that may be wrong.
EXACT = ("central", "monitor", "monitor_local", "sync", "async", "auto")
APPROX = "approx"
SCHEMES = (APPROX, *EXACT)
#: Those whose throughput is compared over real links, beside `approx`.
RIVALS = ("central", "monitor", "sync", "async")
BYTES = "bytes"


def has_schemes() -> bool:
    """Whether nodes know of schemes; otherwise all events travel, whatever scheme is asked for."""
    from importlib.util import find_spec

    return find_spec("headwater.protocols.count_windows") is not None


def root_settings(scheme: str, prefer: str = "speed") -> dict[str, Any]:
    """What a `RootNode` is given beside its queries. Sources are in order: nothing is late."""
    settings: dict[str, Any] = {"disorder": 0}
    if has_schemes():
        from headwater.protocols.count_windows import Counting

        settings["counting"] = Counting(scheme=scheme, prefer=prefer)
    return settings


def checked_query(window: int, step: int | None = None) -> hw.Query:
    """Counts, members and values: rows that say which events they hold."""
    kind = hw.count_tumbling(window) if step is None else hw.count_sliding(window, step)
    return hw.query("checked", kind, n=hw.count(), member=hw.sum("member"), value=hw.sum("value"))


def plain_query(window: int) -> hw.Query:
    """The paper's: a sum."""
    return hw.query("plain", hw.count_tumbling(window), value=hw.sum("value"))
