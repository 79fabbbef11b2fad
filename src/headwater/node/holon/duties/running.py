"""Running units: from where they begin, what is read for them, and when they have to begin anew because others went on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from headwater.node.holon.duties.knowledge import Knowledge
from headwater.node.holon.happenings import AppendRows, HolonAction, StopReading
from headwater.node.holon.stages import Output
from headwater.protocols.actions import ReadFrom
from headwater.protocols.windowed_crdt import PrefixDelta


class BeatStand(NamedTuple):
    """Where a partition was at a beat: where its next delta begins, what comes next, and for how many beats it has made none."""

    start: int
    next_index: int
    beats: int


class Running:
    """The units that run here. What they give waits until its rows are there, and is known then."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._known, self._program, self._rows = knowledge, knowledge.program, knowledge.rows
        self._partitions = frozenset(self._program.plan.partitions)
        self._stands: dict[str, BeatStand] = {}

    @property
    def units(self) -> list[str]:
        """The units that run here."""
        return sorted(self._program.running)

    @property
    def partitions(self) -> list[str]:
        """The partitions that are read here."""
        return [unit for unit in self.units if unit in self._partitions]

    # --- beginning and stopping ---

    def run(self, units: Iterable[str]) -> Iterator[HolonAction]:
        """These are to run, and no others."""
        wanted, running = set(units), set(self.units)
        for unit in sorted(running - wanted):
            yield from self._stop(unit)
        for unit in sorted(wanted - running):
            yield from self._begin(unit)

    def _begin(self, unit: str) -> Iterator[HolonAction]:
        for chain in self._program.plan.units[unit]:
            self._rows.drop(chain)
        self._program.begin(unit, self._rows.start)
        if unit in self._partitions:
            yield ReadFrom(unit, self._program.next_index(unit))

    def _stop(self, unit: str) -> Iterator[HolonAction]:
        for chain in self._program.plan.units[unit]:
            self._rows.drop(chain)
        self._program.stop(unit)
        if unit in self._partitions:
            yield StopReading(unit)

    def begin_unsafe_anew(self) -> Iterator[HolonAction]:
        """Rows that are not durable may be lost: units whose rows these are begin anew behind those that are."""
        for unit in self.units:
            chains = self._program.plan.units[unit]
            if any(len(self._rows.places_of(chain)) > 1 for chain in chains):
                yield from self._begin(unit)

    def realign(self) -> Iterator[HolonAction]:
        """Begin anew what others have gone on with, so that what it would give fits nowhere."""
        for unit in self.units:
            if not self._is_aligned(unit):
                yield from self._begin(unit)

    def _is_aligned(self, unit: str) -> bool:
        positions = self._program.positions(unit)
        return all(self._fits(chain, *position) for chain, position in positions.items())

    def _fits(self, chain: str, decisions: int, start: int, index: int) -> bool:
        """Whether what a runner of a chain gives next, from ``start`` on, will fit; ``index``: what it is to be given next."""
        prefix = self._program.prefix(chain)
        assert prefix is not None
        at = prefix.version.at
        if decisions != prefix.version.decisions or self._rows.starts()[chain] > start:
            return False
        if chain not in self._partitions:
            # Stages take step by step: there is nothing that could lie askew.
            return True
        waiting = self._rows.next_start(chain, at)
        return waiting == at if waiting is not None else at == start or at >= index

    # --- what they do ---

    def take_in(self, partition: str, offset: int, batch: pa.RecordBatch) -> Iterator[HolonAction]:
        """Events of a partition. Those that are not the next ones were read for a run that is over."""
        if partition not in self._partitions or partition not in self._program.running:
            return
        if offset <= self._program.next_index(partition) < offset + len(batch):
            yield from self._offer(self._program.take_in(partition, offset, batch))

    def take_open(self, patience: int) -> Iterator[HolonAction]:
        """A beat: what came of partitions since their last deltas is to be known, unless steps that end will tell it soon.

        A partition is waited for if it goes on and has made a delta within so many beats: what is told twice a step would
        be most of all that nodes tell. Where a function may have yielded rows, nobody is to wait for them.
        """
        stands = {partition: self._stand(partition) for partition in self.partitions}
        for partition, stand in stands.items():
            before = self._stands.get(partition)
            goes_on = before is None or before.next_index < stand.next_index
            if goes_on and stand.beats < patience and self._program.plan.events is None:
                continue
            output = self._program.take_open(partition)
            yield from self._offer([] if output is None else [output])
        self._stands = stands

    def _stand(self, partition: str) -> BeatStand:
        _, start, index = self._program.positions(partition)[partition]
        before = self._stands.get(partition)
        return BeatStand(start, index, before.beats + 1 if before is not None and before.start == start else 0)

    def advance(self) -> Iterator[HolonAction]:
        """Execute steps, and let stages take them."""
        chains = self._program.levels[0].prefixes.chains
        before = dict(chains)
        yield from self._offer(self._program.advance())
        # Decisions were taken on the way.
        self._known.noticed_all([chain for chain, prefix in chains.items() if prefix is not before[chain]])

    def _offer(self, outputs: Iterable[Output]) -> Iterator[AppendRows]:
        for output in outputs:
            if (append := self._rows.offer(output)) is not None:
                yield append

    def confirm(self) -> Iterator[PrefixDelta]:
        """What has its rows is known from now on. Gives what is new."""
        for output in self._rows.ready():
            if self._known.confirm(output.delta) is None:
                yield output.delta

    def indexes(self) -> Mapping[str, int]:
        """By partition that is read here, the event that comes next."""
        return {partition: self._program.next_index(partition) for partition in self.partitions}
