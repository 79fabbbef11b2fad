"""What a node knows: of its own doing, by peers, by checkpoints. All of it is merged, and what peers say is looked at first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import FormatError, HeadwaterError
from headwater.language.times import FOREVER, NEVER
from headwater.node.holon.duties.gossip import Place
from headwater.node.holon.duties.written_rows import WrittenRows
from headwater.node.holon.shared_program import SharedProgram
from headwater.protocols.windowed_crdt import Prefix, PrefixDelta, prefix_from_bytes, prefix_to_bytes

#: What reading a state that is none can end in.
_DAMAGES = (HeadwaterError, ValueError, TypeError, AttributeError, ArithmeticError, LookupError)


class Knowledge:
    """The prefixes of all chains, the world, and the places from which chains can be run.

    >>> import headwater as hw, pyarrow as pa
    >>> from headwater.node.holon.shared_program import ProgramPlan
    >>> from headwater.node.holon.tables import SharedTable
    >>> from headwater.protocols.steps import StepGrid
    >>> from headwater.protocols.windowed_crdt import Reach
    >>> table = SharedTable(0, (hw.query("q", hw.tumbling(10), n=hw.count()),), pa.schema({"time": pa.int64()}), disorder=0)
    >>> plan = ProgramPlan(("p",), StepGrid(10), (table,))
    >>> one, other = Knowledge(SharedProgram(plan)), Knowledge(SharedProgram(plan))
    >>> one.take(PrefixDelta("p", 1, 0, 0, 3, Reach(5, 5))), one.take(PrefixDelta("p", 1, 0, 3, 4, Reach(6, 6), (b"x",)))
    (None, 'unreadable')
    >>> other.take_state(one.state()), other.program.prefix("p").version.at
    (['p'], 3)
    """

    def __init__(self, program: SharedProgram) -> None:
        self.program = program
        self.rows = WrittenRows(self.chains(), program.plan.outputs)
        self._levels = {chain: level for level in range(len(program.levels)) for chain in program.plan.chains(level)}

    def chains(self) -> dict[str, Prefix]:
        """The prefix of each chain of all levels."""
        return {chain: prefix for one in self.program.levels for chain, prefix in sorted(one.prefixes.chains.items())}

    def places(self) -> dict[str, Place]:
        """As digests have them."""
        return {chain: (prefix.version.decisions, prefix.version.at) for chain, prefix in self.chains().items()}

    def level(self, chain: str) -> int:
        """The level of a chain."""
        return self._levels[chain]

    @property
    def executed(self) -> tuple[int, ...]:
        """By level, the last step that was executed."""
        return tuple([one.steps.step for one in self.program.levels])

    # --- what becomes known ---

    def take(self, delta: PrefixDelta) -> str | None:
        """What a peer says that a stretch of a chain adds; returns why it was not taken."""
        prefix = self.program.prefix(delta.chain)
        if prefix is None or delta.generation != self.program.plan.generation:
            return "foreign"
        objection = prefix.objection(delta)
        if objection is not None:
            return objection
        highs = [] if delta.steps is None else [delta.steps[1]]
        if self._problem(delta.chain, delta.parts, highs) is not None:
            return "unreadable"
        return self.confirm(delta)

    def confirm(self, delta: PrefixDelta) -> str | None:
        """What a stretch of a chain adds; returns why it was not taken."""
        objection = self.program.apply(delta)
        if objection is None:
            self._noticed(delta.chain)
        return objection

    def take_prefix(self, chain: str, prefix: Prefix) -> str | None:
        """What a peer says that is known of a chain; returns why it was not taken."""
        mine = self.program.prefix(chain)
        if mine is None or prefix.version.generation != self.program.plan.generation:
            return "foreign"
        if prefix.version <= mine.version:
            return "duplicate"
        if self._prefix_problem(chain, prefix) is not None:
            return "unreadable"
        return None if self._merge({chain: prefix}) else "gap"

    def _prefix_problem(self, chain: str, prefix: Prefix) -> str | None:
        parts = [part for one in prefix.closed for part in one.parts]
        return self._problem(chain, [*parts, *prefix.open], [prefix.step, prefix.base])

    def _problem(self, chain: str, parts: Sequence[bytes], steps: Iterable[int]) -> str | None:
        """What is wrong with parts, and with the last steps that they take a chain to."""
        grid = self.program.plan.grid
        if any(not NEVER <= grid.time_of(step) <= FOREVER for step in steps):
            return "a step lies behind the end of time"
        return self.program.levels[self._levels[chain]].steps.problem(chain, parts)

    def _merge(self, prefixes: Mapping[str, Prefix]) -> list[str]:
        taken = self.program.merge(prefixes)
        for chain in taken:
            self._noticed(chain)
        return taken

    def _noticed(self, chain: str) -> None:
        prefix = self.program.prefix(chain)
        assert prefix is not None
        self.rows.known(chain, prefix)

    def noticed_all(self, chains: Iterable[str]) -> None:
        """Decisions may have changed what is known of these."""
        for chain in chains:
            self._noticed(chain)

    # --- all of it, for those who are too far behind, and for checkpoints ---

    def state(self) -> bytes:
        """The world with the prefixes."""
        prefixes = {chain: prefix_to_bytes(prefix) for chain, prefix in self.chains().items()}
        places = {chain: [prefix_to_bytes(p) for p in some] for chain, some in self.rows.places().items()}
        generation = self.program.plan.generation
        state = {"generation": generation, "world": self.program.world(), "prefixes": prefixes, "places": places}
        return to_bytes(state | {"durable": self.rows.durable})

    def take_state(self, data: bytes) -> list[str] | None:
        """Merge what another knows, or what was known before; returns the chains that are known further. None: it is of another
        program, and none of it was taken. FormatError: it cannot be read."""
        try:
            state = from_bytes(data)
            if state["generation"] != self.program.plan.generation:
                return None
            return self._take_state(state)
        except FormatError:
            raise
        except _DAMAGES as error:
            raise FormatError(f"a state cannot be read: {error}") from error

    def _take_state(self, state: dict[str, Any]) -> list[str]:
        prefixes = {chain: prefix_from_bytes(prefix) for chain, prefix in state["prefixes"].items()}
        places = {chain: [prefix_from_bytes(p) for p in some] for chain, some in state["places"].items()}
        durable = {str(chain): int(index) for chain, index in state["durable"].items()}
        if prefixes.keys() != self._levels.keys() or places.keys() != self._levels.keys() or not all(places.values()):
            raise FormatError(f"a state of {sorted(prefixes)} is none of {sorted(self._levels)}")
        for chain, prefix in prefixes.items():
            if problem := self._prefix_problem(chain, prefix):
                raise FormatError(f"a state with parts of {chain!r} that cannot be: {problem}")
        before = self.chains()
        for level in self.program.take_world(state["world"]):
            # The rows that stages have still to take are the other's, so their places are, too.
            self.rows.follow({chain: some for chain, some in places.items() if self._levels[chain] == level + 1})
        self.rows.synced(durable)
        self._merge(prefixes)
        changed = [chain for chain, prefix in self.chains().items() if prefix.version != before[chain].version]
        self.noticed_all(changed)
        return changed

    def needed(self) -> dict[str, int]:
        """How many rows of each chain of output stand for what is known."""
        outputs = self.program.plan.outputs
        return {outputs[chain]: prefix.reach.rows for chain, prefix in self.chains().items() if prefix.reach.rows}

    def forget(self, executed: Sequence[Sequence[int]], parts_max: int) -> None:
        """Forget parts of steps that all these have executed, and those of which there are too many."""
        steps = [
            min([mine, *(one[level] for one in executed if level < len(one))])
            for level, mine in enumerate(self.executed)
        ]
        for level, replica in enumerate(self.program.levels):
            for prefix in replica.prefixes.chains.values():
                if len(prefix.closed) > parts_max:
                    steps[level] = max(steps[level], min(prefix.closed[-parts_max].low - 1, self.executed[level]))
        self.program.forget(steps, self.rows.starts())
