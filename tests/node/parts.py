"""The parts of a root, put together without one."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

import headwater as hw
from headwater.engine.tree.roles import Role
from headwater.engine.tree.root import RootHalf
from headwater.language.query import Query
from headwater.language.times import NEVER
from headwater.node.assignments import Assignments
from headwater.node.count_rounds import CountRounds
from headwater.node.cut_rounds import CutRounds
from headwater.node.routes import Routes
from headwater.protocols.actions import Action, SendMessage
from headwater.protocols.advances import Advance, wrapped
from headwater.protocols.count_windows import Counting, CountPlans
from headwater.protocols.delta import CUT_SUFFIX, ChainRange, Delta
from headwater.protocols.ledger import Ledger
from headwater.protocols.membership import Membership
from headwater.protocols.messages import Message, decode

SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string(), "v": pa.float64()})
SUMS = hw.query("sums", hw.tumbling(10), total=hw.sum("v"))
MARKS = hw.query("marks", hw.punctuated(hw.col("k") == "cut"), n=hw.count())
COUNTS = hw.query("counts", hw.count_tumbling(1000), total=hw.sum("v"))


@dataclass
class Parts:
    """What a root holds, and chains with one source each."""

    half: RootHalf
    plans: CountPlans | None = None
    members: Membership = field(default_factory=Membership)
    ledger: Ledger = field(default_factory=Ledger)
    routes: Routes = field(default_factory=lambda: Routes(silence_ns=100))

    @classmethod
    def of(cls, *queries: Query, counting: Counting | None = None) -> Parts:
        half = RootHalf(queries, Role(False, counts=counting is not None))
        half.check(SCHEMA)
        return cls(half, None if counting is None else CountPlans(counting))

    def __post_init__(self) -> None:
        self.half.names, self.half.homes = self.members.names, self.members.homes
        self.cuts = CutRounds(self.half, self.members, self.ledger)
        self.counts = CountRounds(self.plans, self.half, self.members, self.routes, self.cuts)
        self.assignments = Assignments(self.half, self.members, self.ledger, self.routes, self.cuts, self.counts)

    def join(self, chain: str, node: str = "") -> None:
        """A leaf owns the chain from now on, under a new epoch."""
        if chain not in self.members.chains:
            self.ledger.open(chain, self.cuts.last_number)
        self.members.join(chain, node or chain, [(f"{chain}/s", "")], now_ns=0)
        self.ledger.new_epoch(chain)
        self.routes.admit(chain, f"to-{node or chain}", now_ns=0)

    def advance(self, chain: str, watermark: int, latest: int = NEVER, count: int = 1) -> None:
        """The chain's source went on to this watermark, and the chain's events to this time."""
        known = self.members.chains[chain]
        rise = wrapped(watermark - int(self.members.watermarks[known.sources[0]]))
        moved = Advance.of([0], [count], [rise], wrapped(max(latest, known.latest) - known.latest))
        self.members.advance({chain: moved}, now_ns=0)

    def answer(self, chain: str) -> None:
        """The chain's owner has sent what was cut."""
        epoch, at = self.ledger.positions[chain + CUT_SUFFIX]
        self.ledger.accept(Delta({chain + CUT_SUFFIX: ChainRange(epoch, at, at + 1)}))


def sent(actions: list[Action]) -> list[tuple[str, Message]]:
    """The messages among some actions, and where they go."""
    return [(action.target, decode(action.frame)) for action in actions if isinstance(action, SendMessage)]
