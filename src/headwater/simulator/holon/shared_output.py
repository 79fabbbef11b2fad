"""The output that all nodes share: chains of rows, of which each index holds one row for ever, whoever writes it.

Every writer has files of its own, so that two of them never disturb one another; readers take a row from any file that has it.
A kill leaves what was appended. A loss of power leaves of each file what was synced, and perhaps more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from headwater.simulator.checks.truth import ViolationError

#: The name of a node, and which of its lives it is.
Life = tuple[str, int]


@dataclass(slots=True)
class OutputFile:
    """Rows of a chain that one life of a node wrote, without gaps: [start, end), of which those below ``synced`` are safe."""

    start: int
    end: int
    synced: int


@dataclass(slots=True)
class OutputChain:
    """The rows of a chain. ``said``: every row that was ever there, as it will be there for ever."""

    name: str
    said: list[dict[str, Any]] = field(default_factory=list)
    files: dict[Life, list[OutputFile]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Up to where readers find every row."""
        return _covered((file.start, file.end) for files in self.files.values() for file in files)

    @property
    def durable(self) -> int:
        """Up to where every row survives a loss of power."""
        return _covered((file.start, file.synced) for files in self.files.values() for file in files)

    def append(self, writer: Life, index: int, rows: list[dict[str, Any]]) -> int:
        """Put rows where they belong; those that are there already have to be the same. Returns how many were new."""
        # Rows that a loss of power took are made again by who learns of it: until then there may be a gap.
        if index > len(self.said):
            raise ViolationError(
                f"{writer[0]} appends to {self.name} from {index} on, but there were only {len(self.said)} rows: some are missing"
            )
        for at, row in enumerate(rows, start=index):
            self._check_same(writer, at, row)
        new = [at for at in range(index, index + len(rows)) if not self._holds(at)]
        self.said.extend(rows[len(self.said) - index :] if index + len(rows) > len(self.said) else [])
        for at in new:
            self._put(writer, at)
        return len(new)

    def _check_same(self, writer: Life, at: int, row: dict[str, Any]) -> None:
        if at >= len(self.said) or repr(self.said[at]) == repr(row):
            return
        there = self.said[at]
        column = next((name for name in there if repr(there[name]) != repr(row.get(name))), "the order of columns")
        raise ViolationError(
            f"two different rows for one index: {self.name} has {there} at {at}, and {writer[0]} says {row} ({column} differs)"
        )

    def _holds(self, at: int) -> bool:
        return any(file.start <= at < file.end for files in self.files.values() for file in files)

    def _put(self, writer: Life, at: int) -> None:
        files = self.files.setdefault(writer, [])
        if files and files[-1].end == at:
            files[-1].end += 1
        else:
            files.append(OutputFile(at, at + 1, at))

    def sync(self, writer: Life) -> None:
        """What this writer has appended survives from now on."""
        for file in self.files.get(writer, ()):
            file.synced = file.end

    def lose(self, dice: Random, node: str | None) -> int:
        """The power is lost: each file keeps what was synced, and any beginning of the rest. Returns how many rows are gone."""
        before = self.end
        for (writer, _), files in self.files.items():
            for file in files if node in (None, writer) else ():
                file.end = file.synced = dice.randint(file.synced, file.end)
        return before - self.end


def _covered(stretches: Iterable[tuple[int, int]]) -> int:
    """Up to where stretches cover everything from 0 on.

    >>> _covered([(4, 9), (0, 3), (2, 5)]), _covered([(1, 2)])
    (9, 0)
    """
    end = 0
    for start, stop in sorted(stretches):
        if start > end:
            break
        end = max(end, stop)
    return end


class SharedOutput:
    """All chains.

    >>> output = SharedOutput()
    >>> output.append(("one", 1), "*/1", 0, pa.table({"n": [1, 2]})), output.append(("two", 1), "*/1", 1, pa.table({"n": [2, 3]}))
    (2, 1)
    >>> output.sync(("one", 1)); output.durable(), output.ends()
    ({'*/1': 2}, {'*/1': 3})
    """

    def __init__(self) -> None:
        self.chains: dict[str, OutputChain] = {}

    def append(self, writer: Life, chain: str, index: int, rows: pa.Table) -> int:
        """Append rows to a chain, the first of them under this index; returns how many were not there."""
        return self.chains.setdefault(chain, OutputChain(chain)).append(writer, index, rows.to_pylist())

    def sync(self, writer: Life) -> None:
        """What this writer has appended survives from now on."""
        for chain in self.chains.values():
            chain.sync(writer)

    def ends(self) -> Mapping[str, int]:
        """Up to where every row of each chain is there."""
        return {name: chain.end for name, chain in sorted(self.chains.items())}

    def durable(self) -> Mapping[str, int]:
        """Up to where the rows of each chain survive a loss of power."""
        return {name: chain.durable for name, chain in sorted(self.chains.items())}

    def lose_power(self, dice: Random, node: str | None = None) -> int:
        """A node loses its power, or (None) all do. Returns how many rows are gone for readers."""
        return sum(chain.lose(dice, node) for _, chain in sorted(self.chains.items()))
