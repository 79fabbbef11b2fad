"""A replica: what one node knows of the chains of a level, and the steps that it has executed by that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headwater.node.holon.executed_steps import ExecutedSteps, StepRows
from headwater.node.holon.kept_steps import KeptSteps
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import END, StepGrid
from headwater.protocols.windowed_crdt import Prefix, PrefixDelta, Prefixes, StepPart


class Replica:
    """The state of one level, as any number of nodes share it. Merging two replicas is a join: order, loss and repetition of
    what is merged change nothing but when it is known.

    ``chains``: what the level is made of, with the home of each.
    """

    def __init__(
        self,
        tables: Sequence[SharedTable],
        chains: Mapping[str, str],
        grid: StepGrid,
        generation: int = 1,
        retention: int = 0,
    ) -> None:
        self.prefixes = Prefixes.of(chains, generation)
        self.steps = ExecutedSteps(tables, chains, grid)
        self.grid = grid
        #: Rows of steps that somebody has still to read.
        self.kept = KeptSteps(retention)

    def apply(self, delta: PrefixDelta) -> str | None:
        """Add what a stretch of a chain adds; returns why that is not possible."""
        return self.prefixes.apply(delta)

    def merge(self, others: Mapping[str, Prefix]) -> list[str]:
        """Take over prefixes that are further than ours; returns their chains."""
        return self.prefixes.merge(others, self.steps.step)

    def end(self, chain: str, index: int) -> bool:
        """It was decided that the chain ends at this index; returns whether that is known of all its events here."""
        prefix = self.prefixes.chains[chain]
        if prefix.step != END and prefix.version.at == index:
            self.prefixes.chains[chain] = prefix.ended()
        return self.prefixes.chains[chain].step == END

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come out."""
        return self.steps.step == END

    @property
    def behind(self) -> list[str]:
        """The chains that the next step waits for."""
        step = self.steps.step + 1
        return [] if self.has_ended else [c for c, p in self.prefixes.chains.items() if p.covering(step) is None]

    def advance(self) -> Iterator[StepRows]:
        """Execute all steps that every chain has reached, one after the other."""
        while (parts := self._next()) is not None:
            rows = self.steps.execute(parts)
            self.kept.add(rows)
            yield rows

    def _next(self) -> dict[str, StepPart] | None:
        """With which parts the chains reached the next step; None while some have not."""
        if self.has_ended:
            return None
        step = self.steps.step + 1
        found = {}
        for chain, prefix in self.prefixes.chains.items():
            part = prefix.covering(step)
            if part is None:
                return None
            found[chain] = part
        return found

    def forget(self, step: int, number: int) -> None:
        """All others have executed the steps up to ``step``; rows up to step number ``number`` were read."""
        self.prefixes.without(min(step, self.steps.step))
        self.kept.forget(number)

    # --- the world: for those who are too far behind ---

    def world(self) -> bytes:
        """What came of all steps so far."""
        return self.steps.snapshot()

    def take_world(self, data: bytes, kept: Iterable[StepRows]) -> bool:
        """Go on where another replica of the same program is, if that is further. ``kept``: the rows that it still holds."""
        further = ExecutedSteps.restored(self.steps, data)
        if further.count <= self.steps.count:
            return False
        known = {step.number: step for step in (*kept, *self.kept)}
        self.kept.replace(known[number] for number in sorted(known))
        self.steps = further
        self.prefixes.without(self.steps.step)
        return True
