"""A query as the engine holds it: its number of registration and the stretch of event time in which it lives."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.query import Query
from headwater.times import FOREVER, NEVER


@dataclass(slots=True)
class Registered:
    """``begin``: its windows are those that start at or after it; ``stop``: and before it (a query that is running out).

    ``origin``: the position at which the first of its count windows starts.
    """

    query: Query
    number: int
    begin: int = NEVER
    stop: int = FOREVER
    origin: int = 0
