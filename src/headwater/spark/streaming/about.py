"""What a stream is, fixed when it begins: the file ``about.json`` of its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.node.splitting import Sharing
from headwater.protocols.count_windows import Counting


@dataclass(frozen=True, slots=True)
class About:
    """``kind`` and ``input``: what is read; ``settings``: time, unit, disorder, strict, idle_ns, which cannot change.

    ``chains``: how many leaves share the sources; ``roots``: how many roots share the keys, ``sharing``: how, and ``why``.
    ``counting``: what leaves send for count windows; None in checkpoints of releases that knew no schemes. ``born_ms``: when it
    began, since 1970.
    """

    id: str
    kind: str
    input: Mapping[str, Any]
    schema: pa.Schema
    settings: Mapping[str, Any]
    chains: int
    roots: int
    sharing: Sharing
    why: str
    counting: Counting | None
    born_ms: int

    @property
    def schema_bytes(self) -> bytes:
        return schema_to_bytes(self.schema)

    @property
    def count_scheme(self) -> Counting:
        """How the stream counts; without a scheme, and with several roots, events travel."""
        return Counting("central") if self.counting is None or self.roots > 1 else self.counting

    def to_data(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "input": dict(self.input),
            "schema": self.schema_bytes.hex(),
            "settings": dict(self.settings),
            "strict": self.settings["strict"],
            "chains": self.chains,
            "roots": self.roots,
            "sharing": asdict(self.sharing),
            "why": self.why,
            "counting": None if self.counting is None else asdict(self.counting),
            "born_ms": self.born_ms,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> About:
        sharing, counting = data["sharing"], data.get("counting")
        read = {
            "schema": schema_from_bytes(bytes.fromhex(data["schema"])),
            "sharing": Sharing(tuple(sharing["raw_keys"]), tuple(map(tuple, sharing["together"]))),
            "counting": None if counting is None else Counting(**counting),
        }
        plain = ("id", "kind", "input", "settings", "chains", "roots", "why", "born_ms")
        return cls(**read, **{name: data[name] for name in plain})
