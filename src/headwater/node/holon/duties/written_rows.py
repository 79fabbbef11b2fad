"""Rows before positions: what stages gave is told only when its rows are in the output, and a chain is taken over from where its
rows are safe.

Rows that were appended survive a kill. A loss of power may take those that no file was synced with, although what they stand for
is known to others. So whoever begins to run a chain begins behind the last rows that are durable: rows that are there are the
same, and passed over; those that were lost are there again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from headwater.node.holon.happenings import AppendRows
from headwater.node.holon.stages import Output
from headwater.protocols.windowed_crdt import Prefix


class WrittenRows:
    """What of each chain is appended, durable, or waits for its rows.

    >>> from headwater.protocols.windowed_crdt import PrefixDelta, Reach, Version
    >>> import pyarrow as pa
    >>> rows = WrittenRows({"*/1": Prefix(Version(1, 0, 0))}, {"*/1": "*/1"})
    >>> first = Output(PrefixDelta("*/1", 1, 0, 0, 1, Reach(rows=2)), "*/1", 0, pa.table({"n": [1, 2]}))
    >>> second = Output(PrefixDelta("*/1", 1, 0, 1, 2, Reach(rows=2)))
    >>> [rows.offer(output) is not None for output in (first, second)], len(list(rows.ready()))
    ([True, False], 0)
    >>> rows.appended("*/1", 2); len(list(rows.ready()))
    2
    """

    def __init__(self, chains: Mapping[str, Prefix], outputs: Mapping[str, str]) -> None:
        """``outputs``: the chain of output that the rows of each chain are in."""
        self._pending: dict[str, deque[Output]] = {}
        self._appended: dict[str, int] = {}
        self._outputs = outputs
        #: Up to which row each chain of output is safe.
        self.durable: dict[str, int] = {}
        #: By chain, the places from which it can be run: the first is behind durable rows, the last is where it is known.
        self._places: dict[str, deque[Prefix]] = {
            chain: deque([prefix.bare()]) for chain, prefix in sorted(chains.items())
        }

    # --- rows that are on their way ---

    def offer(self, output: Output) -> AppendRows | None:
        """What a chain that is run here gave next; returns what is to be appended for it."""
        self._pending.setdefault(output.delta.chain, deque()).append(output)
        if output.rows is None or not len(output.rows):
            return None
        return AppendRows(output.chain, output.index, output.rows)

    def appended(self, chain: str, end: int) -> None:
        """The rows of a chain of output are there up to this index."""
        self._appended[chain] = max(self._appended.get(chain, 0), end)

    def ready(self) -> Iterator[Output]:
        """The outputs whose rows are there, those of a chain in their order; they wait no longer."""
        for chain in sorted(self._pending):
            while (pending := self._pending.get(chain)) and self._is_there(pending[0]):
                yield pending.popleft()

    def _is_there(self, output: Output) -> bool:
        if output.rows is None or not len(output.rows):
            return True
        return self._appended.get(output.chain, 0) >= output.index + len(output.rows)

    def next_start(self, chain: str, at: int) -> int | None:
        """Where the first output of a chain begins that waits for its rows, those that are known up to an index left aside; None
        if none waits."""
        return next((output.delta.start for output in self._pending.get(chain, ()) if output.delta.end > at), None)

    def drop(self, chain: str) -> None:
        """The chain is run here no longer, or anew: what was given waits for nothing, and rows have to be seen again."""
        self._pending.pop(chain, None)
        self._appended.pop(self._outputs[chain], None)

    @property
    def has_ready(self) -> bool:
        """Whether `ready` would give something."""
        return any(pending and self._is_there(pending[0]) for pending in self._pending.values())

    # --- rows that are safe ---

    def synced(self, ends: Mapping[str, int]) -> None:
        """Rows are safe up to these indexes, as our host or a peer says."""
        for chain in ends.keys() & self._outputs.values():
            self.durable[chain] = max(self.durable.get(chain, 0), ends[chain])
        for chain in self._places:
            self._trim(chain)

    def known(self, chain: str, prefix: Prefix) -> None:
        """What is known of a chain ends here now."""
        places, place = self._places[chain], prefix.bare()
        while places and (places[-1].version >= place.version or places[-1].version[:2] != place.version[:2]):
            places.pop()
        places.append(place)
        self._trim(chain)

    def _trim(self, chain: str) -> None:
        places = self._places[chain]
        durable = self.durable.get(self._outputs[chain], 0)
        while len(places) > 1 and places[1].reach.rows <= durable:
            places.popleft()

    def start(self, chain: str, _: Prefix) -> Prefix:
        """From where a chain is to be run by one who takes it over."""
        return self._places[chain][0]

    def places_of(self, chain: str) -> Sequence[Prefix]:
        """The places from which one chain can be run."""
        return self._places[chain]

    def starts(self) -> dict[str, int]:
        """From where chains may be run once more, by chain."""
        return {chain: places[0].version.at for chain, places in self._places.items()}

    def places(self) -> dict[str, list[Prefix]]:
        """By chain, the places from which it can be run."""
        return {chain: list(places) for chain, places in self._places.items()}

    def follow(self, others: Mapping[str, Sequence[Prefix]]) -> None:
        """Take over from another from where chains can be run; where we know one further, it is the last place still."""
        for chain, places in others.items():
            last = max(places[-1], self._places[chain][-1], key=lambda place: place.version)
            self._places[chain] = deque([*places, last] if last.version > places[-1].version else places)
            self._trim(chain)
