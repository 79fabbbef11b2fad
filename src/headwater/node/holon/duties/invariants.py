"""What holds of a node between two events, whatever happened: to be asserted by whoever drives it in a test."""

from __future__ import annotations

from itertools import pairwise

from headwater.node.holon.duties.knowledge import Knowledge
from headwater.protocols.windowed_crdt import Version


class Invariants:
    """Remembers where a node was, and says that it has not gone back."""

    def __init__(self, known: Knowledge, by_entries: bool) -> None:
        self._known, self._by_entries = known, by_entries
        self._versions: dict[str, Version] = {}
        self._executed: tuple[tuple[int, int], ...] = ()

    def check(self) -> None:
        """To be called after each event; AssertionError if the node has broken its word."""
        self._prefixes_only_grow()
        self._steps_are_in_order()
        self._rows_are_kept()

    def _prefixes_only_grow(self) -> None:
        """I5: a prefix is never replaced by one that is less in the order (generation, decisions, index)."""
        for chain, prefix in self._known.chains().items():
            before = self._versions.get(chain, prefix.version)
            assert prefix.version >= before, f"{chain} was at {before} and is at {prefix.version}"
            self._versions[chain] = prefix.version
            ends = [part.high for part in prefix.closed]
            assert ends == sorted(ends) and all(part.low <= part.high for part in prefix.closed), (
                f"{chain}: steps fall back"
            )

    def _steps_are_in_order(self) -> None:
        """I6: steps are executed in their order. I8: where entries close them, each has one."""
        levels = self._known.program.levels
        executed = tuple([(replica.steps.count, replica.steps.step) for replica in levels])
        for (count, step), (count_before, before) in zip(executed, self._executed):
            assert count >= count_before and (step > before) == (count > count_before), "steps went back"
        self._executed = executed
        decided = self._known.program.decided
        if self._by_entries and not decided.ends:
            assert levels[0].steps.count <= decided.position, "a step was executed that no entry has closed"

    def _rows_are_kept(self) -> None:
        """I7: the rows of a step are kept until every chain above has taken it, wherever it may have to begin anew."""
        levels, starts = self._known.program.levels, self._known.rows.starts()
        for replica, above in pairwise(levels):
            numbers = [step.number for step in replica.kept]
            first = min([starts[chain] for chain in above.prefixes.chains], default=replica.steps.count)
            assert not numbers or numbers == list(range(numbers[0], replica.steps.count + 1)), "rows are missing"
            assert first >= replica.steps.count or (numbers and numbers[0] <= first + 1), "rows were forgotten too soon"
