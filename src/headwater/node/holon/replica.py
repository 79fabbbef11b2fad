"""A replica: what one node knows of the chains of a level, and the steps that it has executed by that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import DataError, FormatError
from headwater.node.holon.executed_steps import ExecutedSteps, StepRows
from headwater.node.holon.kept_steps import KeptSteps
from headwater.node.holon.tables import SharedTable
from headwater.protocols.steps import END, StepGrid
from headwater.protocols.windowed_crdt import (
    Limit,
    Prefix,
    PrefixDelta,
    Prefixes,
    StepPart,
    prefix_from_bytes,
    prefix_to_bytes,
)


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
        #: Of each chain the shortest prefix that one who has executed these steps can have, made under the decisions that were
        #: taken: who has to begin anew begins there.
        self.cuts = dict(self.prefixes.chains)

    def apply(self, delta: PrefixDelta) -> str | None:
        """Add what a stretch of a chain adds; returns why that is not possible."""
        return self.prefixes.apply(delta)

    def merge(self, others: Mapping[str, Prefix]) -> list[str]:
        """Take over prefixes that are further than ours; returns their chains."""
        return self.prefixes.merge(others, self.steps.step)

    # --- decisions ---

    def limit(self, chain: str, limit: Limit) -> Prefix:
        """It was decided that a chain comes to this limit: its prefix, made under one decision more than those that were taken.

        What was made without it and went beyond the limit is void: the chain goes on from where it was last executed.
        """
        decided, prefix = self.cuts[chain].version.decisions + 1, self.prefixes.chains[chain]
        if prefix.version.decisions < decided:
            shortest = prefix if prefix.version.at <= limit.index else self.cuts[chain]
            if shortest.version.at > limit.index:
                raise DataError(
                    f"partition {chain!r} was decided to end at {limit.index}, but has events beyond, up to "
                    f"{shortest.version.at}, which are in rows: flush once the input is complete"
                )
            self.prefixes.chains[chain] = shortest.limited(limit)
        return self.prefixes.chains[chain]

    def resume(self, chain: str) -> None:
        """It was decided that a chain that was left out goes on, behind the steps that were executed."""
        step, time = self.steps.step, self.steps.time
        self.cuts[chain] = cut = self.cuts[chain].returned(step, time).without(step)
        prefix = self.prefixes.chains[chain]
        if prefix.version.decisions < cut.version.decisions:
            self.prefixes.chains[chain] = prefix.returned(step, time)

    def end(self, chain: str, index: int) -> bool:
        """It was decided that the chain ends at this index; returns whether that is known of all its events here."""
        limit = Limit(index, END)
        if self.cuts[chain].limit != limit:
            self.limit(chain, limit)
            self.cuts[chain] = self.cuts[chain].limited(limit)
        return self.prefixes.chains[chain].step == END

    # --- steps ---

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
        while not self.has_ended and not self.behind:
            yield self.execute(self.prefixes.chains)

    def execute(self, chains: Mapping[str, Prefix], left_out: Mapping[str, Prefix] | None = None) -> StepRows:
        """Execute the next step: these chains have reached it. ``left_out``: those that are left out of it from now on, with what
        they have until then."""
        step, parts = self.steps.step + 1, {}
        for chain, prefix in (*chains.items(), *(left_out or {}).items()):
            part = prefix.covering(step)
            assert part is not None, f"{chain} has not reached step {step}"
            parts[chain] = part
        rows = self.steps.execute(parts, min(parts[chain].high for chain in chains))
        for chain, part in parts.items():
            if part.low == step:
                self._cut(chain, part, left_out or {})
            self.cuts[chain] = self.cuts[chain].without(self.steps.step)
        self.kept.add(rows)
        return rows

    def _cut(self, chain: str, part: StepPart, left_out: Mapping[str, Prefix]) -> None:
        """The chain was executed up to the index of a part."""
        cut = self.cuts[chain]
        version = cut.version._replace(at=part.index)
        if chain in left_out:
            cut = replace(cut, limit=left_out[chain].limit)
            version = version._replace(decisions=version.decisions + 1)
        closed = (replace(part, parts=()),)
        self.cuts[chain] = replace(cut, version=version, reach=part.reach, closed=closed, open=(), step=part.high)

    def forget(self, step: int, number: int) -> None:
        """All others have executed the steps up to ``step``; rows up to step number ``number`` were read."""
        self.prefixes.without(min(step, self.steps.step))
        self.kept.forget(number)

    # --- the world: for those who are too far behind ---

    def world(self) -> bytes:
        """What came of all steps so far, and where each chain was then."""
        cuts = {chain: prefix_to_bytes(cut) for chain, cut in self.cuts.items()}
        return to_bytes({"steps": self.steps.snapshot(), "cuts": cuts})

    def read_world(self, data: bytes) -> tuple[ExecutedSteps, dict[str, Prefix]]:
        """What `world` wrote, to be taken."""
        state = from_bytes(data)
        cuts = {chain: prefix_from_bytes(cut) for chain, cut in state["cuts"].items()}
        if cuts.keys() != self.cuts.keys():
            raise FormatError(f"a world of {sorted(cuts)} is none of {sorted(self.cuts)}")
        return ExecutedSteps.restored(self.steps, state["steps"]), cuts

    def take_world(self, world: tuple[ExecutedSteps, dict[str, Prefix]], kept: Iterable[StepRows]) -> bool:
        """Go on where another replica of the same program is, if that is further. ``kept``: the rows that it still holds."""
        further, cuts = world
        if further.count <= self.steps.count:
            return False
        steps = list(kept)
        # Where it goes on behind a gap of ours, what we hold is of no use.
        has_gap = (steps[0].number if steps else further.count + 1) > self.steps.count + 1
        known = {step.number: step for step in (*steps, *(() if has_gap else self.kept))}
        self.kept.replace(known[number] for number in sorted(known))
        self.steps, self.cuts = further, cuts
        self.prefixes.without(self.steps.step)
        self.merge(cuts)
        return True
