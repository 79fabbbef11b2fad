"""Rounds of cuts, for windows that markers cut: the root announces where, and every leaf sends its events cut there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.engine.tree.root import RootHalf
from headwater.language.times import FOREVER, NEVER
from headwater.protocols.ledger import Ledger
from headwater.protocols.membership import Membership
from headwater.protocols.messages import Cuts, decode, encode


@dataclass(slots=True)
class CutRounds:
    """Which cut is announced, who has answered, and up to where everything is cut.

    Invariants: at most one cut is announced and not done, and its number follows that of the last one that is done. Cuts go up
    to ever later times. No chain has answered a cut that was not announced.
    """

    half: RootHalf
    members: Membership
    ledger: Ledger
    #: Up to where everything is cut.
    time: int = NEVER
    #: The cut that leaves have been told of and not all have answered.
    announced: Cuts | None = None
    _awaited: tuple[str, ...] = ()  # the chains that have events below it
    _number: int = 0  # of the last cut that is done

    @property
    def last_number(self) -> int:
        """The number of the last cut that was announced."""
        return self._number if self.announced is None else self.announced.number

    @property
    def is_due(self) -> bool:
        """Whether windows that markers cut may be over, and no cut is announced that would say so."""
        return self.half.has_cuts and self.announced is None and self.members.watermark() > self.time

    def announce(self) -> Cuts | None:
        """Begin a round, if one is due, and return what to tell all leaves."""
        if not self.is_due:
            return None
        members, until = self.members, self.members.watermark()
        idle = {members.names[number]: int(members.offsets[number]) for number in members.idle_numbers()}
        # A chain whose events were all cut before has nothing to send, and may be gone.
        begin = max(self.time, NEVER + 1)
        self._awaited = tuple(sorted(name for name, chain in members.chains.items() if chain.latest >= begin))
        self.announced = Cuts(self._number + 1, until, idle, self.half.announce(until))
        return self.announced

    def unanswered(self) -> list[str]:
        """The chains whose answers are missing."""
        if self.announced is None:
            return []
        return [chain for chain in self._awaited if self.ledger.cut_of(chain) < self.announced.number]

    def finish(self) -> Cuts | None:
        """End the round, if all leaves have answered, and return it: its windows are over."""
        done = self.announced
        if done is None or self.unanswered():
            return None
        self._pass(done)
        self.half.finish_cut(done.until)
        self.settle_marks()
        return done

    def forget(self) -> None:
        """End the round without answers: no query asks for cuts any more."""
        if self.announced is not None:
            self._pass(self.announced)

    def _pass(self, done: Cuts) -> None:
        for chain in self.members.chains:
            self.ledger.pass_cut(chain, done.number)
        self._number, self.time, self.announced = done.number, done.until, None

    def standing(self, chain: str) -> tuple[int, int]:
        """The last cut that a chain has answered, and its time."""
        number = self.ledger.cut_of(chain)
        is_ahead = self.announced is not None and number == self.announced.number
        return number, self.announced.until if self.announced is not None and is_ahead else self.time

    def settle_marks(self) -> None:
        """Forget the moments from which neither windows that markers cut nor count windows will read again."""
        self.members.settle(min(self.time if self.half.has_cuts else FOREVER, self.half.settled_time()))

    # --- snapshots ---

    def check(self) -> None:
        """Assert what holds after each event."""
        if self.announced is not None:
            assert self.announced.number == self._number + 1, f"cut {self.announced.number} follows {self._number}"
            assert self.announced.until > self.time, f"it ends at {self.announced.until}, before the last one"
            gone = set(self._awaited) - set(self.members.chains)
            assert not gone, f"cuts are awaited of chains that are not there: {gone}"

    def state(self) -> dict[str, Any]:
        pending = None if self.announced is None else [encode(self.announced), list(self._awaited)]
        return {"cut": [self._number, self.time], "pending": pending}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._number, self.time = state["cut"]
        if state["pending"] is not None:
            message = decode(state["pending"][0])
            assert isinstance(message, Cuts)
            self.announced, self._awaited = message, tuple(state["pending"][1])
