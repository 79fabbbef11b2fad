"""What a node proposes for the decision log, and when: one entry at a time, and the first with its number counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.node.holon.happenings import Decide
from headwater.node.holon.settings import HolonSettings
from headwater.protocols.peers.decisions import DecisionLog, LogEntry, PartitionEnded, entry_to_bytes

#: An entry that nobody has answered for so many beats is proposed again.
ANSWER_BEATS = 10
#: A step that nobody has closed for so many beats is closed by the next in turn.
TURN_BEATS = 3
#: So many entries that were taken are kept for peers that lack them; others find them in the log itself.
ENTRIES_KEPT = 256


class QuietPartitions:
    """Which partitions were read to their ends, and nothing came for long: only who looks at them knows that.

    >>> quiet = QuietPartitions()
    >>> for now_ns in (0, 50, 100):
    ...     quiet.looked({"p": 7, "q": now_ns}, now_ns)
    >>> quiet.silent(100)
    {'p': 7}
    """

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, int]] = {}
        self._looked_ns = 0

    def looked(self, ends: Mapping[str, int], now_ns: int) -> None:
        """So many events are there of each partition."""
        self._looked_ns = now_ns
        for partition, end in ends.items():
            if partition not in self._ends or self._ends[partition][0] < end:
                self._ends[partition] = end, now_ns

    def silent(self, idle_ns: int) -> dict[str, int]:
        """The partitions of which nothing has come for so long, each with its end."""
        return {p: end for p, (end, since) in sorted(self._ends.items()) if self._looked_ns - since >= idle_ns}

    @property
    def ends(self) -> dict[str, int]:
        """How many events of each partition have been seen."""
        return {partition: end for partition, (end, _) in self._ends.items()}


class Deciding:
    """The decision log as this node knows it, and what it has asked of it.

    >>> deciding = Deciding(["p"], HolonSettings())
    >>> deciding.flush_asked(); deciding.looked({"p": 3}, 0)
    >>> deciding.ending()
    PartitionEnded(ends={'p': 3})
    """

    def __init__(self, partitions: Iterable[str], settings: HolonSettings) -> None:
        self.log = DecisionLog()
        self.quiet = QuietPartitions()
        self._partitions = sorted(partitions)
        self._settings = settings
        #: The number of the entry that was asked for, and when.
        self._asked: tuple[int, int] | None = None
        #: The step that could be closed, and since when.
        self._closable: tuple[int, int] | None = None
        #: Whether a flush was asked for, and the input was looked at since.
        self._is_flushed = self._is_complete = False

    # --- what happens ---

    def looked(self, ends: Mapping[str, int], now_ns: int) -> None:
        """The input was looked at."""
        self.quiet.looked(ends, now_ns)
        if self._is_flushed and self.quiet.ends.keys() >= set(self._partitions):
            self._is_complete = True

    def flush_asked(self) -> None:
        """The input is complete: the next look at it sees its ends."""
        self._is_flushed = True

    def learn(self, number: int, entry: LogEntry) -> bool:
        """This is the entry with the number; returns whether it is the answer to what was asked here."""
        self.log.learn(number, entry)
        if self._asked is None or self._asked[0] >= self.log.next_number:
            return False
        is_answer = self._asked[0] == number
        self._asked = None
        return is_answer

    # --- what to propose ---

    def ending(self) -> LogEntry | None:
        """The entry that ends all partitions, if a flush was asked for and none has ended them."""
        ends = self.quiet.ends
        if not self._is_complete or any(self.log.end_of(partition) is not None for partition in self._partitions):
            return None
        return PartitionEnded({partition: ends[partition] for partition in self._partitions})

    def may_close(self, step: int, turn: int, now_ns: int) -> bool:
        """Whether this node is to close a step now: the first in turn at once, others if those before them do not."""
        if self._closable is None or self._closable[0] != step:
            self._closable = step, now_ns
        return now_ns - self._closable[1] >= turn * TURN_BEATS * self._settings.beat_ns

    def propose(self, entry: LogEntry, now_ns: int) -> Decide | None:
        """Ask for an entry, unless one has been asked for that may still be answered."""
        number = self.log.next_number
        if self._asked is not None and now_ns - self._asked[1] < ANSWER_BEATS * self._settings.beat_ns:
            return None
        self._asked = number, now_ns
        return Decide(number, entry_to_bytes(entry))

    def forget(self, position: int) -> None:
        """So many entries were taken here: of them only the last are kept."""
        self.log.forget_before(max(position - ENTRIES_KEPT, 0))
