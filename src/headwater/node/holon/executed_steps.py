"""The steps that were executed over some chains: windows, and nothing that depends on who executed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.base.packing import Reader, Writer
from headwater.base.source_numbers import SourceNumbers
from headwater.engine.results.side_output import SCHEMA
from headwater.engine.tree.root import RootHalf
from headwater.engine.wire.part_bytes import part_from_bytes, part_to_bytes
from headwater.engine.wire.parts import Part
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import FormatError
from headwater.language.times import NEVER
from headwater.node.holon.tables import LIMITS, SharedTable, named
from headwater.protocols.steps import START, StepGrid
from headwater.protocols.windowed_crdt import StepPart


@dataclass(frozen=True, slots=True)
class StepRows:
    """What came out at a step: by table the rows, in ticks, and the events that were set aside.

    ``number`` counts the steps that were executed; the step took the watermark of all to ``time``.
    """

    number: int
    time: int
    rows: Mapping[int, pa.Table]
    aside: pa.Table


class ExecutedSteps:
    """What comes of the steps up to one: a function of the parts alone, so that it is the same on every node.

    Steps are executed in their order, each when every chain has reached it. Where all chains passed several steps at once these
    are one: nothing lies between.
    """

    def __init__(self, tables: Sequence[SharedTable], chains: Mapping[str, str], grid: StepGrid) -> None:
        """``chains``: with the home of each."""
        self.step = START
        self.count = 0
        self._grid = grid
        self._latest = NEVER
        self._tables = tables
        self._chains = dict(sorted(chains.items()))
        self._numbers = {chain: np.array([number]) for number, chain in enumerate(self._chains)}
        self._halves = {table.number: table.root_half(*self._names()) for table in tables}

    def _names(self) -> tuple[list[str], list[str]]:
        return list(self._chains), list(self._chains.values())

    def _resolve(self, chains: tuple[str, ...]) -> SourceNumbers:
        return SourceNumbers.of([self._numbers.get(chain) for chain in chains])

    @property
    def time(self) -> int:
        """The watermark of all."""
        return self._grid.time_of(self.step)

    def half(self, table: int) -> RootHalf:
        """The windows of a table."""
        return self._halves[table]

    def problem(self, chain: str, parts: Sequence[bytes]) -> str | None:
        """What is wrong with parts that a peer sent; asked before they are kept."""
        try:
            for data in parts:
                table, part = self._read(data)
                found = self._halves[table].problem([part], self._resolve, {chain})
                if found is not None:
                    return found
        except FormatError as error:
            return str(error)
        return None

    def _read(self, data: bytes) -> tuple[int, Part]:
        """A part and its table. Users' operators are those of our own queries: nothing that a peer names is loaded."""
        with Reader(data, "a part of a table") as reader:
            table, part = reader.number(), reader.view()
        half = self._halves.get(table)
        if half is None:
            raise FormatError(f"there is no table {table}")
        return table, part_from_bytes(part, half.operators())

    def execute(self, parts: Mapping[str, StepPart], high: int) -> StepRows:
        """Execute the next step, which takes all to ``high``. ``parts``: with which each chain reached it that is in it."""
        step = self.step + 1
        for chain in self._chains:
            part = parts.get(chain)
            # A chain that reached the step together with one before it added nothing since.
            if part is not None and part.low == step:
                self._latest = max(self._latest, part.reach.latest)
                self._absorb(part)
        self.step, self.count = high, self.count + 1
        rows, aside = {}, []
        for number, half in self._halves.items():
            half.raise_to(self.time, self._latest)
            half.close(is_turn=True)
            while half.is_behind:
                half.close(is_turn=True)
            found = half.take_rows()
            if found is not None and len(found):
                rows[number] = found
            aside.append(half.side_output())
        return StepRows(self.count, self.time, rows, pa.concat_tables(aside) if aside else SCHEMA.empty_table())

    def _absorb(self, part: StepPart) -> None:
        by_table: dict[int, list[Part]] = {}
        for table, one in map(self._read, part.parts):
            by_table.setdefault(table, []).append(one)
        for table, some in by_table.items():
            self._halves[table].absorb(some, self._resolve)

    def counters(self) -> dict[str, dict[str, int]]:
        """Per query: in = filtered + outside + member + late + dropped + malformed."""
        return {name: counts for half in self._halves.values() for name, counts in half.counters().items()}

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Everything as bytes; `restored` goes on from there."""
        halves = {str(number): half.snapshot() for number, half in self._halves.items()}
        return to_bytes({"step": self.step, "count": self.count, "latest": self._latest, "halves": halves})

    @classmethod
    def restored(cls, like: ExecutedSteps, data: bytes) -> ExecutedSteps:
        """The steps of which this is a snapshot, of the same program as ``like``."""
        state = from_bytes(data)
        made = cls(like._tables, like._chains, like._grid)
        made.step, made.count, made._latest = state["step"], state["count"], state["latest"]
        halves = {int(number): RootHalf.restore(half, LIMITS) for number, half in state["halves"].items()}
        made._halves = {number: named(half, *made._names()) for number, half in sorted(halves.items())}
        return made


def written_part(table: int, part: Part) -> bytes:
    """A part as it travels, with the table that it is of."""
    return Writer().number(table).blob(part_to_bytes(part)).finish()
