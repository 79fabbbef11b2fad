"""Who is there: leaves come and go, sources join, fall idle and return; the root decides, and tells each leaf where to go on."""

from __future__ import annotations

import pyarrow as pa

from headwater.engine.wire.looks import looks_to_bytes
from headwater.errors import QueryError
from headwater.language.times import NEVER
from headwater.node.root_state import RootState
from headwater.protocols.actions import (
    Action,
    Noted,
    SendMessage,
)
from headwater.protocols.delta import CUT_SUFFIX
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Assign, CountPlan, Hello, Positions, Refuse, SourceState, encode
from headwater.protocols.rereading import Reread, rereads


class RootMembers(RootState):
    """Assigns chains, each time under a new epoch."""

    def _on_hello(self, sender: str, hello: Hello, now_ns: int) -> list[Action]:
        chain = hello.chain
        self._routes.heard(chain, sender)
        problem = self._members.problems(chain, hello.sources) or self._misfit(hello.schema)
        if problem is not None:
            return [
                Noted("refused", {"chain": chain, "why": problem}),
                SendMessage(sender, encode(Refuse(chain, problem))),
            ]
        self._versions[chain] = hello.version
        known = self._members.chains.get(chain)
        current = self._ledger.positions.get(chain)
        names = set() if known is None else {self._members.names[number] for number in known.sources.tolist()}
        fresh = [name for name, _ in hello.sources if name not in names]
        if known is not None and hello.node in known.former:
            return self._assign(chain)  # to its owner of now; whoever lost it hears so
        is_owner = (
            current is not None and known is not None and (known.node, current.epoch) == (hello.node, hello.epoch)
        )
        if is_owner and not fresh:
            return self._assign(chain)
        self._changed = True
        decided = len(self._members.decisions)
        self._members.join(chain, hello.node, hello.sources, now_ns)
        if known is None:
            self._ledger.positions[chain] = Position(0, 0)
            self._ledger.positions[chain + CUT_SUFFIX] = Position(0, self._last_announced())
            if self._half.reads_again:
                self._members.mark(chain)
        self._new_epoch(chain)
        return [*self._note_decisions(decided), *self._assign_known(chain, hello.schema)]

    def _on_quiet_leaf(self, sender: str, positions: Positions) -> list[Action]:
        """A leaf that has nothing to send says where it stands: one that missed its assignment is told again."""
        actions: list[Action] = []
        for chain, position in positions.chains.items():
            self._routes.heard(chain, sender)
            current = self._ledger.positions.get(chain)
            if chain in self._members.chains and current is not None and current.epoch > position.epoch:
                actions.extend(self._assign(chain))
        return actions

    def _misfit(self, schema: bytes) -> str | None:
        """Why the queries do not fit a leaf's columns."""
        if not schema:
            return None
        try:
            self._learn(pa.ipc.read_schema(pa.py_buffer(schema)))
        except (QueryError, pa.ArrowException, OSError, ValueError) as error:
            return str(error)
        return None

    def _assign_known(self, chain: str, schema: bytes) -> list[Action]:
        """Assign the chain; with the first columns that are heard of also those that had to wait for them."""
        if self._schema is None:
            return []
        chains = sorted(self._members.chains) if schema else [chain]
        waiting = [other for other in chains if other == chain or self._versions.get(other) == 0]
        return [action for other in waiting for action in self._assign(other)]

    def _new_epoch(self, chain: str) -> None:
        """What was cut under older epochs is void from now on."""
        for name in (chain, chain + CUT_SUFFIX):
            position = self._ledger.positions[name]
            self._ledger.positions[name] = Position(position.epoch + 1, position.at)

    def _assign(self, chain: str) -> list[Action]:
        """Tell the owner of a chain where to go on."""
        if self._schema is None:
            return []
        text = None if self._versions.get(chain) == self._version else self._query_text()
        self._versions[chain] = self._version
        assign = self._assignment(chain, text)
        frame = encode(assign)
        note = Noted("assigned", {"chain": chain, "epoch": assign.epoch, "node": assign.node})
        frames = [frame, *([] if self._plans is None else [encode(self._plan())])]
        return [note, *(SendMessage(link, frame) for frame in frames for link in self._routes.of(chain))]

    def _assignment(self, chain: str, queries: str | None) -> Assign:
        known, position = self._members.chains[chain], self._ledger.positions[chain]
        cut = self._ledger.positions[chain + CUT_SUFFIX].at
        pending = self._pending
        ahead = pending is not None and cut == pending.message.number
        cut_time = pending.message.until if pending is not None and ahead else self._cut_time
        covered, looks = self._half.covered(chain), self._looks_of(chain)
        # Windows that markers cut need all events; count windows those in no piece, and those that are looked into.
        reads_again = self._half.has_cuts or bool(looks) or any(time <= known.latest for time in covered.values())
        states = tuple(self._members.states(chain, reads_again))
        places = (position.epoch, position.at, cut, cut_time)
        return Assign(chain, known.node, *places, states, self._version, queries, known.latest, covered, looks)

    def _looks_of(self, chain: str) -> bytes:
        """What the owner of a chain has to look into, with its own numbers of sources."""
        asked = self._half.looks(chain)
        if not asked:
            return b""
        numbers = self._members.chains[chain].sources
        return looks_to_bytes({family: [look.renumbered(numbers) for look in looks] for family, looks in asked.items()})

    def _plan(self, has_guesses: bool = False) -> CountPlan:
        """What all leaves are told of count windows; with ``has_guesses``, also by cuts that are not proven yet."""
        plans, groups = self._plans, self._half.counting()
        assert plans is not None
        for family, group in groups.items():
            if family not in plans.forecasters and not group.counts_by_key:
                plans.know(family, group.largest_window, len(self._members.chains))
        shares = {
            family: {name: group.shares.of(number) for name, number in group.chains.items()}
            for family, group in groups.items()
            if group.shares is not None
        }
        guesses = {family: group.guesses() for family, group in groups.items()} if has_guesses else {}
        forecasts = {f: told for f, told in plans.forecasts(self._horizons, shares, guesses).items() if f in groups}
        return CountPlan(plans.number, self._members.watermark(), self._half.settled_time(), forecasts)

    def rereads(self, chain: str) -> list[Reread]:
        """What holds the pieces of a chain that are looked into; none if it is to be read from where its assignment says."""
        looks, known = self._half.looks(chain), self._members.chains[chain]
        reads_all = self._half.has_cuts or any(time <= known.latest for time in self._half.covered(chain).values())
        if not looks or reads_all or not known.marks:
            return []
        spans = [(int(look.first[0]), int(look.last[0])) for some in looks.values() for look in some]
        return rereads(known.marks, self._members.offsets[known.sources], spans)

    @property
    def count_plan(self) -> CountPlan | None:
        """What leaves are told of count windows that are asked no sooner than in the next batch; None if nothing is."""
        return None if self._plans is None else self._plan(has_guesses=True)

    def first_assignment(self) -> Assign:
        """What a root that has met nobody would answer a leaf with one source; of others only the names differ."""
        state = SourceState("", 0, self.watermark, 0, self.watermark)
        return Assign("", "", 1, 0, self._last_announced(), self._cut_time, (state,), self._version, None, NEVER)

    def assignments(self) -> list[Assign]:
        """Where each chain goes on, without the queries: for a host whose leaves begin anew at every step."""
        return [self._assignment(chain, None) for chain in sorted(self._members.chains)]

    def _number_of(self, source: str) -> int:
        if source not in self._members.numbers:
            raise QueryError(f"there is no source {source!r}; there are {len(self._members.names)} others")
        return self._members.numbers[source]
