"""Assignments: who owns which chain under which epoch, and what each owner is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.engine.intake.widening import have_one_type, is_kept_as, united_schema
from headwater.engine.tree.root import RootHalf
from headwater.engine.wire.query_set import query_set_text
from headwater.errors import QueryError
from headwater.language.times import NEVER
from headwater.node.count_rounds import CountRounds
from headwater.node.cut_rounds import CutRounds
from headwater.node.routes import Routes
from headwater.protocols.actions import Action, Noted, SendMessage
from headwater.protocols.ledger import Ledger
from headwater.protocols.membership import Membership
from headwater.protocols.messages import Assign, Hello, SourceState, encode
from headwater.protocols.tree.rereading import Reread, rereads


@dataclass(slots=True)
class Assignments:
    """Where each owner goes on, and with which queries.

    Invariants: a chain has one owner, and a new epoch whenever its owner, its sources or the queries change: what was cut before
    is void then, and a node that sends it is a zombie. No chain is assigned before the columns of events are known.
    """

    half: RootHalf
    members: Membership
    ledger: Ledger
    routes: Routes
    cuts: CutRounds
    counts: CountRounds
    #: The columns of events, as far as leaves have told.
    schema: pa.Schema | None = None
    #: The columns whose types were told by leaves: they grow where another leaf has a wider one.
    told: set[str] = field(default_factory=set)
    #: How often the queries have changed, from 1.
    version: int = 1
    has_grown: bool = False  # whether the columns that queries read have, with what was taken over last
    _versions: dict[str, int] = field(default_factory=dict)  # of the queries that each chain's leaf has
    _text: str | None = None

    # --- queries ---

    def give(self, schema: pa.Schema) -> None:
        """Take over columns of events whose types hold, whatever leaves have."""
        self._take(schema)

    def learn(self, schema: pa.Schema) -> bool:
        """Take over the columns of a leaf; where leaves differ the wider type holds. Returns whether there was anything new."""
        known = pa.schema([]) if self.schema is None else self.schema
        self._refuse_strangers(known, schema)
        new = [column for column in schema if column.name in self.told or column.name not in known.names]
        united = schema if self.schema is None else united_schema(known, pa.schema(new))
        if united is known:
            return False
        self._take(united)
        self.told.update(column.name for column in new)
        return True

    def _take(self, schema: pa.Schema) -> None:
        self.half.check(schema)
        self.has_grown = self.half.grow(schema)
        self.schema = schema
        self._text = None

    def _refuse_strangers(self, known: pa.Schema, schema: pa.Schema) -> None:
        """Refuse columns that have no type in common with those of other leaves: whose values count would be a race."""
        for column in schema:
            if column.name not in self.told or column.name not in self.half.columns:
                continue
            before = known.field(column.name).type
            is_kept_alike = have_one_type(before, column.type)
            if self.half.counting():
                is_kept_alike &= is_kept_as(before, column.type)
            if not is_kept_alike:
                raise QueryError(
                    f"column {column.name!r} is {column.type} here and {before} at other leaves: give it one type, "
                    "or give the root a schema that says which"
                )

    @property
    def query_text(self) -> str:
        """The queries as leaves are told them."""
        if self._text is None:
            self._text = query_set_text(self.half.query_set())
        return self._text

    def has_queries(self, chain: str, version: int) -> None:
        """The owner of a chain says that it has the queries of this version; 0: none."""
        self._versions[chain] = version

    def change_queries(self) -> list[Action]:
        """The queries have changed: assign all chains anew, from behind what was accepted."""
        self.version += 1
        self._text = None
        actions: list[Action] = []
        for chain, known in sorted(self.members.chains.items()):
            if self.half.reads_again and not known.marks:
                self.members.mark(chain)
            actions.extend(self.begin_anew(chain))
        return actions

    # --- owners ---

    def is_settled(self, hello: Hello) -> bool:
        """Whether a `Hello` changes nothing: its sender owns the chain and brings no new source."""
        known = self.members.chains.get(hello.chain)
        if known is None:
            return False
        names = {self.members.names[number] for number in known.sources.tolist()}
        is_owner = (known.node, self.ledger.positions[hello.chain].epoch) == (hello.node, hello.epoch)
        return is_owner and names.issuperset(name for name, _ in hello.sources)

    def begin_anew(self, chain: str) -> list[Action]:
        """Assign a chain to its owner once more, under a new epoch, from behind what was accepted."""
        self.ledger.new_epoch(chain)
        return self.tell(chain)

    def tell(self, chain: str) -> list[Action]:
        """Tell the owner of a chain where to go on."""
        if self.schema is None:
            return []
        text = None if self._versions.get(chain) == self.version else self.query_text
        self._versions[chain] = self.version
        assign = self.of(chain, text)
        note = Noted("assigned", {"chain": chain, "epoch": assign.epoch, "node": assign.node})
        frames = [encode(assign), *self.counts.frames()]
        return [note, *(action for frame in frames for action in self.routes.down(chain, frame))]

    def remind(self, chain: str, link: str) -> list[Action]:
        """Somebody on this link has not heard of a chain's epoch: the owner is told where to go on, others that it is not theirs.

        To go on may take a long message, of thousands of sources; whoever has a link could ask for it again and again.
        """
        if self.routes.of(chain) == link:
            return self.tell(chain)
        owner, epoch = self.members.chains[chain].node, self.ledger.positions[chain].epoch
        return [SendMessage(link, encode(Assign(chain, owner, epoch, 0, 0, NEVER, (), version=0)))]

    def tell_waiting(self, chain: str) -> list[Action]:
        """Tell the owner of a chain, and the owners that had to wait until the columns of events were known."""
        waiting = [other for other in sorted(self.members.chains) if other == chain or self._versions.get(other) == 0]
        return [action for other in waiting for action in self.tell(other)]

    # --- what is told ---

    def of(self, chain: str, queries: str | None = None) -> Assign:
        """The assignment of a chain; with the queries if its owner does not have them."""
        known, position = self.members.chains[chain], self.ledger.positions[chain]
        covered, looks = self.half.covered(chain), self.counts.looks_of(chain)
        states = tuple(self.members.states(chain, bool(looks) or self._reads_all(chain, covered)))
        places = (position.epoch, position.at, *self.cuts.standing(chain))
        return Assign(chain, known.node, *places, states, self.version, queries, known.latest, covered, looks)

    def _reads_all(self, chain: str, covered: Mapping[int, int]) -> bool:
        """Whether all events are read again: windows that markers cut need them all, count windows those in no piece."""
        latest = self.members.chains[chain].latest
        return self.half.has_cuts or any(time <= latest for time in covered.values())

    def all(self) -> list[Assign]:
        """The assignments of all chains, without the queries."""
        return [self.of(chain) for chain in sorted(self.members.chains)]

    def first(self) -> Assign:
        """What the first leaf with one source would be told; for other leaves only the names differ."""
        watermark = self.members.watermark()
        state = SourceState("", 0, watermark, 0, watermark)
        return Assign("", "", 1, 0, self.cuts.last_number, self.cuts.time, (state,), self.version, None, NEVER)

    def rereads(self, chain: str) -> list[Reread]:
        """The stretches that hold the pieces the root asks about; none if the chain is read from where its assignment says."""
        looks, known = self.half.looks(chain), self.members.chains[chain]
        if not looks or not known.marks or self._reads_all(chain, self.half.covered(chain)):
            return []
        spans = [(int(look.first[0]), int(look.last[0])) for some in looks.values() for look in some]
        return rereads(known.marks, self.members.offsets[known.sources], spans)

    # --- snapshots ---

    def state(self) -> dict[str, Any]:
        schema = None if self.schema is None else schema_to_bytes(self.schema)
        told = {"told": sorted(self.told)} if self.told else {}
        return {"schema": schema, "version": self.version, **told}

    def restore(self, state: Mapping[str, Any]) -> None:
        schema = state["schema"]
        self.schema = None if schema is None else schema_from_bytes(schema)
        self.version = state["version"]
        self.told = set(state.get("told", ()))
