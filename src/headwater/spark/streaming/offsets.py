"""The offset of a stream as Spark stores it: everything that decides a batch, so that a batch that runs again is the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Offset:
    """The end of a batch, and the number of that batch.

    ``now_ns``: the time at which it was planned, which is the time for all that happens in it. ``ends``: up to which event each
    source is read. ``joining``: sources that come with this batch, by chain; they are read from the next on. ``done``: sources
    that nobody has to wait for behind their end. ``commands``: how many of the users' commands it knows. ``flush``: sources end
    where they are. ``directive``: the hash of what the root said after the batch before.
    """

    batch: int = -1
    now_ns: int = 0
    ends: Mapping[str, int] = field(default_factory=dict)
    joining: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    done: Mapping[str, bool] = field(default_factory=dict)
    commands: int = 0
    flush: bool = False
    directive: str = ""

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Offset:
        return cls(**data)
