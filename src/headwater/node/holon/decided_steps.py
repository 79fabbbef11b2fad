"""Which steps are executed, and what becomes of partitions, by the decision log: level 0 of a program."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from headwater.errors import HeadwaterError
from headwater.node.holon.executed_steps import StepRows
from headwater.node.holon.replica import Replica
from headwater.protocols.peers.decisions import JobStopped, LogEntry, PartitionEnded, PartitionReturned, StepClosed
from headwater.protocols.windowed_crdt import Limit, Prefix


class DecidedSteps:
    """Takes the entries of the decision log in their order, each at its step, so that all who took as many are at one point.

    ``by_entries``: every step is closed by an entry, as it has to be where a partition may be left out: otherwise one node could
    close a step with events of a partition that others have left out of it. Once all partitions have an end, no step needs one.
    """

    def __init__(self, replica: Replica, by_entries: bool) -> None:
        self.replica = replica
        #: How many entries were taken.
        self.position = 0
        #: The partitions that are left out, and with how many events of each.
        self.out: dict[str, int] = {}
        #: Where partitions end, once that was decided.
        self.ends: Mapping[str, int] = {}
        #: The step behind which none is executed, once that was decided.
        self.stop: int | None = None
        self._by_entries = by_entries
        self._entries: deque[LogEntry] = deque()

    def learn(self, number: int, entry: LogEntry) -> None:
        """The next entry of the log; those that are known are passed over."""
        known = self.position + len(self._entries)
        assert number <= known, f"entry {number} does not follow {known}"
        if number == known:
            self._entries.append(entry)

    def can_be(self, entry: LogEntry) -> bool:
        """Whether an entry speaks of partitions that there are."""
        match entry:
            case StepClosed(_, out):
                return out.keys() <= self.replica.cuts.keys()
            case PartitionReturned(partition):
                return partition in self.replica.cuts
            case PartitionEnded(ends):
                return ends.keys() == self.replica.cuts.keys()
        return True

    @property
    def known(self) -> int:
        """How many entries were taken or wait to be."""
        return self.position + len(self._entries)

    @property
    def _needs_entries(self) -> bool:
        return self._by_entries and not self.ends

    def advance(self) -> Iterator[StepRows]:
        """Take all entries and execute all steps that can be."""
        while (rows := self._next()) is not None:
            yield rows

    def _next(self) -> StepRows | None:
        while self._entries and not self._closes(self._entries[0]):
            self._take(self._entries.popleft())
            self.position += 1
        if self.replica.has_ended or self.is_over:
            return None
        if not self._needs_entries:
            return None if self.replica.behind else self.replica.execute(self.replica.prefixes.chains)
        return self._close() if self._entries else None

    @property
    def is_over(self) -> bool:
        """Whether all steps up to the last one that was decided on have been executed."""
        if self.stop is None:
            return False
        step = self.replica.steps.step
        parts = [prefix.covering(step + 1) for prefix in self._waited(set(self.out)).values()]
        highs = [part.high for part in parts if part is not None]
        return step >= self.stop or (len(highs) == len(parts) and min(highs, default=step) > self.stop)

    def _closes(self, entry: LogEntry) -> bool:
        """Whether an entry closes a step that has not been executed; others of its kind came too late."""
        is_next = isinstance(entry, StepClosed) and entry.step > self.replica.steps.step
        return is_next and self._needs_entries

    def _take(self, entry: LogEntry) -> None:
        match entry:
            case PartitionReturned(partition, index) if self.out.get(partition) == index:
                del self.out[partition]
                self.replica.resume(partition)
            case PartitionEnded(ends) if not self.ends:
                self.ends = dict(sorted(ends.items()))
                for partition, index in self.ends.items():
                    if self.out.pop(partition, None) is not None:
                        self.replica.resume(partition)
                    self.replica.end(partition, index)
            case JobStopped(step) if self.stop is None:
                # What is closed was done by some: all do it.
                self.stop = max(step, self.replica.steps.step)

    def _close(self) -> StepRows | None:
        """Execute the step that the next entry closes, if everything that counts in it is known."""
        entry = self._entries[0]
        assert isinstance(entry, StepClosed)
        step = self.replica.steps.step + 1
        leaving = {p: Limit(index, entry.step) for p, index in sorted(entry.out.items()) if p not in self.out}
        left = {partition: self.replica.limit(partition, limit) for partition, limit in leaving.items()}
        waited = self._waited({*self.out, *leaving})
        parts = [prefix.covering(step) for prefix in waited.values()]
        if None in parts or any(prefix.covering(step) is None for prefix in left.values()):
            return None
        high = min(part.high for part in parts if part is not None)
        if high != entry.step:
            raise HeadwaterError(
                f"entry {self.position} closes step {entry.step}, but the partitions have reached {high}"
            )
        rows = self.replica.execute(waited, left)
        self._entries.popleft()
        self.position += 1
        self.out |= {partition: limit.index for partition, limit in leaving.items()}
        return rows

    def _waited(self, out: set[str]) -> dict[str, Prefix]:
        return {chain: prefix for chain, prefix in self.replica.prefixes.chains.items() if chain not in out}

    # --- what could be decided next ---

    def closing(self, silent: Mapping[str, int], read: Mapping[str, int]) -> StepClosed | None:
        """The entry that would close the next step, if it can be; None too while an entry waits to be taken, or none is needed.

        ``silent``: partitions of which nothing has come for long, each with its end; they are left out if they are waited for and
        everything of them is known, or has been read here (``read``: how many events, by partition).
        """
        if self._entries or not self._needs_entries or self.replica.has_ended or self.is_over:
            return None
        step = self.replica.steps.step + 1
        waited = self._waited(set(self.out))
        behind = {
            chain: max(prefix.version.at, read.get(chain, 0))
            for chain, prefix in waited.items()
            if prefix.covering(step) is None
        }
        parts = [part for prefix in waited.values() if (part := prefix.covering(step)) is not None]
        if not parts or any(silent.get(chain) != at for chain, at in behind.items()):
            return None
        return StepClosed(min(part.high for part in parts), dict(sorted((self.out | behind).items())))

    def returning(self, ends: Mapping[str, int]) -> PartitionReturned | None:
        """The entry with which a partition returns of which there are events again."""
        if self._entries or not self._needs_entries:
            return None
        back = [partition for partition, index in sorted(self.out.items()) if ends.get(partition, 0) > index]
        return PartitionReturned(back[0], self.out[back[0]], self.replica.steps.step) if back else None

    # --- the world ---

    def state(self) -> dict[str, Any]:
        """What goes with the world of the level."""
        return {"position": self.position, "out": self.out, "ends": dict(self.ends), "stop": self.stop}

    def follow(self, state: Mapping[str, Any]) -> None:
        """Go on where the world is that was taken."""
        for _ in range(min(state["position"] - self.position, len(self._entries))):
            self._entries.popleft()
        if state["position"] >= self.position:
            self.position, self.out, self.ends = state["position"], dict(state["out"]), dict(state["ends"])
            self.stop = state["stop"]
        else:
            # It was made by one who has not heard yet where partitions end, and does not need to for these steps.
            for partition, index in self.ends.items():
                self.replica.end(partition, index)
