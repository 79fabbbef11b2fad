"""What the root tells the leaves after a batch: where each chain goes on, queries, cuts, whether it waits."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from headwater.protocols.messages import Assign, decode, encode


@dataclass(frozen=True)
class Directive:
    """``queries`` names their text in the checkpoint, ``columns`` are those they read. ``cuts``: the
    frame of a cut that leaves have to answer.

    ``wants_batch``: the root waits for something that does not depend on new events. ``silent_at_ns``: when it will have waited
    too long for some source. ``status``: how the stream is doing, for people.
    """

    batch: int
    queries: str
    columns: list[str]
    assigns: Mapping[str, Assign]
    cuts: bytes | None = None
    wants_batch: bool = False
    silent_at_ns: int | None = None
    is_finished: bool = False
    commands: int = 0
    status: Mapping[str, Any] = field(default_factory=dict)

    def sources(self) -> dict[str, list[str]]:
        """The sources of each chain."""
        return {chain: [source.name for source in assign.sources] for chain, assign in self.assigns.items()}

    def chain_of(self) -> dict[str, str]:
        """The chain of each source that is there."""
        return {name: chain for chain, names in self.sources().items() for name in names}

    @cached_property
    def hash(self) -> str:
        """Of all that decides something; how the stream is doing depends on the clock."""
        decisive = {name: value for name, value in self.to_data().items() if name != "status"}
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]

    def to_data(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "queries": self.queries,
            "columns": self.columns,
            "assigns": {chain: _text(encode(assign)) for chain, assign in self.assigns.items()},
            "cuts": None if self.cuts is None else _text(self.cuts),
            "wants_batch": self.wants_batch,
            "silent_at_ns": self.silent_at_ns,
            "is_finished": self.is_finished,
            "commands": self.commands,
            "status": dict(self.status),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Directive:
        assigns: dict[str, Assign] = {}
        for chain, text in data["assigns"].items():
            message = decode(base64.b64decode(text))
            assert isinstance(message, Assign)
            assigns[chain] = message
        cuts = None if data["cuts"] is None else base64.b64decode(data["cuts"])
        return cls(**{**data, "assigns": assigns, "cuts": cuts})


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
