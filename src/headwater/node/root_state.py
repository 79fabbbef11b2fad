"""What a root knows: queries and windows, who is there, what was accepted; all of it can be written down and taken up again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from headwater.engine.tree.root import RootHalf
from headwater.engine.wire.query_set import query_set_text
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.language.query import Query
from headwater.language.times import NEVER
from headwater.node.explanation import Explanation, explain
from headwater.node.relay import Routes
from headwater.node.settings import NodeSettings
from headwater.protocols.actions import (
    Action,
    Noted,
    SendMessage,
)
from headwater.protocols.count_windows import Counting, CountPlans
from headwater.protocols.ledger import Ledger, Position
from headwater.protocols.membership import Decision, Membership
from headwater.protocols.messages import Cuts, decode, encode


@dataclass(frozen=True, slots=True)
class PendingCut:
    """A cut that was announced; ``awaited``: the chains that have events below it and have not sent them."""

    message: Cuts
    awaited: tuple[str, ...]


class RootState:
    """The parts of a root and its snapshot."""

    def __init__(
        self,
        name: str,
        queries: Iterable[Query] = (),
        *,
        time: str = "time",
        unit: str = "us",
        disorder: object = None,
        strict: bool = False,
        schema: pa.Schema | None = None,
        settings: NodeSettings | None = None,
        round_trips: bool = True,
        counting: Counting | None = None,
    ) -> None:
        self.name = name
        self.settings = NodeSettings() if settings is None else settings
        engine: dict[str, Any] = {"time": time, "unit": unit, "disorder": disorder, "strict": strict}
        #: How leaves are told of count windows; None: their events travel.
        self._plans = (
            CountPlans(counting, self.settings.counts) if round_trips and counting and counting.is_distributed else None
        )
        ways = {"counts": self._plans is not None, "large_only": counting is not None and counting.leaves_small_ones}
        self._half = RootHalf(queries, round_trips=round_trips, **ways, **engine)
        self._time = time
        self._members = Membership(self.settings.counts)
        self._ledger = Ledger()
        self._routes = Routes()
        self._schema: pa.Schema | None = None
        self._version = 1
        self._versions: dict[str, int] = {}  # of the queries that each chain's leaf has
        self._text: str | None = None
        self._cut = 0  # the last cut that is done, and up to where it went
        self._cut_time = NEVER
        self._pending: PendingCut | None = None
        self._cut_timer = False
        self._looked: set[tuple[int, int]] = set()  # pieces that leaves were asked to look into
        self._told_watermark = NEVER
        self._horizons: dict[int, int] = {}  # up to where leaves may go without another plan
        self._flushing = False
        self._finished = False
        self._step = 0
        self._records = 0
        self._since_checkpoint = 0
        self._changed = False
        self._share_names()
        if schema is not None:
            self._learn(schema)
        self._query_text()

    def _share_names(self) -> None:
        self._half.names, self._half.homes = self._members.names, self._members.homes

    def _learn(self, schema: pa.Schema) -> None:
        """Columns of events; the first type that is heard of a column holds."""
        if self._schema is not None:
            known = set(self._schema.names)
            new = [field for field in schema if field.name not in known]
            if not new:
                return
            schema = pa.schema([*self._schema, *new])
        self._half.check(schema)
        self._schema = schema
        self._text = None
        self._changed = True

    def _query_text(self) -> str:
        if self._text is None:
            self._text = query_set_text(self._half.query_set())
        return self._text

    @property
    def watermark(self) -> int:
        return self._members.watermark()

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Which sources joined, fell idle and returned, with the offset and the watermark of that moment."""
        return tuple(self._members.decisions)

    @property
    def version(self) -> int:
        """How often the queries have changed, from 1."""
        return self._version

    @property
    def query_text(self) -> str:
        """The queries as leaves are told them."""
        return self._query_text()

    @property
    def queries(self) -> tuple[Query, ...]:
        """Those that are asked at this moment."""
        return tuple(self._half.queries)

    @property
    def announced(self) -> Cuts | None:
        """The cut that leaves have been told of and not answered."""
        return None if self._pending is None else self._pending.message

    @property
    def open_count(self) -> int:
        """Slices and windows, by key, that are held because some window is open."""
        return self._half.open_count

    @property
    def idle_count(self) -> int:
        """Sources that nobody waits for."""
        return int((~self._members.active).sum())

    @property
    def idle_sources(self) -> list[str]:
        """Those that nobody waits for, by name."""
        return [name for name, active in zip(self._members.names, self._members.active) if not active]

    @property
    def is_finished(self) -> bool:
        """Whether the stream has ended: nothing will come out any more."""
        return self._finished

    @property
    def silent_at_ns(self) -> int | None:
        """When the next source will have been silent for too long, if nothing comes."""
        return None if self.settings.idle_ns is None else self._members.silent_at(self.settings.idle_ns)

    def counters(self) -> dict[str, dict[str, int]]:
        """Per query: in = filtered + outside + member + late + dropped + malformed."""
        return self._half.counters()

    def explain(self) -> Explanation:
        """For each query: distributed or central, what travels for it, and why."""
        half = self._half
        return explain(half.queries, half.role.round_trips, half.role.counts, half.role.large_only)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of events that are read at all, the time first."""
        return self._half.columns

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of result rows, once the columns of events are known."""
        return self._half.result_schema

    def _note_decisions(self, since: int) -> list[Action]:
        return [
            self._noted("decided", what=d.what, source=d.source, offset=d.offset, time=d.time)
            for d in self._members.decisions[since:]
        ]

    def _noted(self, title: str, **detail: Any) -> Noted:
        """A note on something durable, with the number of its record: after a recovery it may be told again."""
        return Noted(title, {**detail, "record": self._records})

    def _broadcast(self, frame: bytes) -> list[Action]:
        return [SendMessage(link, frame) for link in self._routes.children]

    def _last_announced(self) -> int:
        return self._cut if self._pending is None else self._pending.message.number

    def snapshot(self) -> bytes:
        """Everything the root knows."""
        pending = self._pending
        return to_bytes(
            {
                "name": self.name,
                "settings": self.settings.state(),
                "half": self._half.snapshot(),
                "members": self._members.state(),
                "positions": [[chain, p.epoch, p.at] for chain, p in self._ledger.positions.items()],
                "routes": self._routes.state(),
                "schema": None if self._schema is None else self._schema.serialize().to_pybytes(),
                "version": self._version,
                "cut": [self._cut, self._cut_time],
                "pending": None if pending is None else [encode(pending.message), list(pending.awaited)],
                "flags": [self._flushing, self._finished],
                "counts": [self._step, self._records],
                "plans": None if self._plans is None else self._plans.state(),
                "horizons": [list(pair) for pair in self._horizons.items()],
            }
        )

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """A root that goes on where ``snapshot`` was taken."""
        state = from_bytes(data)
        root = cls(state["name"], settings=NodeSettings.restored(state["settings"]))
        root._half = RootHalf.restore(state["half"])
        root._plans = None if state.get("plans") is None else CountPlans.restored(state["plans"], root.settings.counts)
        root._horizons = dict(map(tuple, state.get("horizons", ())))
        root._time = root._half.query_set().time
        root._members = Membership.restored(state["members"], root.settings.counts)
        root._share_names()
        root._ledger = Ledger({chain: Position(epoch, at) for chain, epoch, at in state["positions"]})
        root._routes = Routes.restored(state["routes"])
        schema = state["schema"]
        root._schema = None if schema is None else pa.ipc.read_schema(pa.py_buffer(schema))
        root._version, (root._cut, root._cut_time) = state["version"], state["cut"]
        if state["pending"] is not None:
            message = decode(state["pending"][0])
            assert isinstance(message, Cuts)
            root._pending = PendingCut(message, tuple(state["pending"][1]))
        root._flushing, root._finished = state["flags"]
        root._step, root._records = state["counts"]
        root._text = None
        return root
