"""How a leaf sends deltas: each is kept until it is accepted, sent again if it was lost, and their number is bounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.wire.part_bytes import part_to_bytes
from headwater.engine.wire.parts import HEAD_ANSWERS, EventsPart, LatePart, MarkersPart, Part, PiecesPart, RowsPart
from headwater.node.settings import NodeSettings
from headwater.node.splitting import Splitting, bundle, part_shares
from headwater.protocols.actions import Action, Noted, ReadFrom, SendMessage, SetTimer
from headwater.protocols.advances import Advance, wrapped
from headwater.protocols.delta import CUT_SUFFIX, ChainRange, Delta
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Assign, Cuts, Positions, decode, encode
from headwater.protocols.tree.outbox import Outbox


@dataclass(slots=True)
class DeltaSender:
    """The deltas of a leaf's chain under one epoch, and the half of an engine that they are taken from.

    Invariant: the outboxes hold consecutive positions, of which those below ``sent`` were sent at least once.
    """

    parent: str
    settings: NodeSettings
    assigned: Assign
    half: LeafHalf
    splitting: Splitting
    outbox: Outbox
    #: Answers to cuts are a chain of their own, whose positions are the numbers of cuts.
    cut_outbox: Outbox
    sent: int
    #: From where frames were sent again since the timer fired.
    _answered: dict[str, Position] = field(default_factory=dict)

    @property
    def chain(self) -> str:
        return self.assigned.chain

    def reads(self) -> list[Action]:
        """Where each source has to be read on."""
        return [ReadFrom(source.name, self.half.sources.next_offset(source.name)) for source in self.assigned.sources]

    # --- bounds ---

    @property
    def must_wait(self) -> bool:
        """Whether too many deltas are not accepted to gather another."""
        return len(self.outbox.frames) >= self.settings.steps_max

    @property
    def is_full(self) -> bool:
        """Whether no more events should come for now."""
        if self.must_wait:
            return True
        # What is read again was held before; the cuts that let go of it need all of it.
        held_max = self.settings.held_max
        return self.half.held(held_max) >= held_max and self.half.sources.are_past_reread()

    @property
    def has_much(self) -> bool:
        """Whether enough has come together to be sent without waiting: one frame has to hold all of it."""
        half, settings = self.half, self.settings
        return half.pending >= settings.pending_max or half.pending_bytes >= settings.pending_bytes_max

    @property
    def is_done(self) -> bool:
        """Whether the sources have ended and all that they said is accepted."""
        return self.half.sources.has_ended and not self.half.has_news and not self.outbox.frames

    # --- sending ---

    def gather(self, is_last: bool = False) -> list[Action]:
        """Put what has come together into the outbox; ``is_last``: also what would wait, for this leaf ends."""
        half = self.half
        # Who ends has to send what waits, though nothing has come since the last time.
        has_news = half.has_news or (is_last and half.is_waiting)
        if not has_news or half.is_between:
            return []
        moved, parts = half.take(is_last)
        if not moved.sources and not parts:
            return []
        position = self.outbox.end
        rises = [wrapped(rise) for rise in moved.rises]
        advance = Advance.of(moved.sources, moved.counts, rises, wrapped(moved.latest))
        stretch = ChainRange(self.assigned.epoch, position, position + 1)
        shares = [part_shares(part, self.splitting) for part in parts]
        for part, share in zip(parts, shares, strict=True):
            if isinstance(part, RowsPart):
                half.weigh(part.family, sum(map(len, share.values())))
        deltas = [
            encode(Delta({self.chain: stretch}, {self.chain: advance}, [s[root] for s in shares if root in s]))
            for root in range(self.splitting.roots)
        ]
        self.outbox.add(deltas[0] if len(deltas) == 1 else bundle(deltas))
        notes = {_note_of(part) for part in parts} - {None}
        return [Noted(what, {}) for what in sorted(map(str, notes))]

    def sends(self, frames: Iterable[bytes]) -> list[Action]:
        return [SendMessage(self.parent, frame) for frame in frames]

    def send(self) -> list[Action]:
        """What is in the outbox and was never sent."""
        frames = self.outbox.frames_from(self.sent)
        self.sent = self.outbox.end
        return self.sends(frames)

    def cut(self, cuts: Cuts) -> list[Action]:
        """Answer the next cut."""
        parts = self.half.cut(cuts.until, cuts.cuts, cuts.idle)
        stretch = ChainRange(self.assigned.epoch, cuts.number - 1, cuts.number)
        frame = encode(Delta({self.chain + CUT_SUFFIX: stretch}, {}, [part_to_bytes(part) for part in parts]))
        self.cut_outbox.add(frame)
        return [Noted("cut", {"number": cuts.number}), SendMessage(self.parent, frame)]

    # --- answers ---

    def outboxes(self) -> dict[str, Outbox]:
        return {self.chain: self.outbox, self.chain + CUT_SUFFIX: self.cut_outbox}

    def resend(self, chain: str, position: Position) -> list[Action]:
        """The other side stands here: send what lies behind.

        Once for each position until the timer fires: each frame that comes too early is answered, all alike.
        """
        frames = [] if self._answered.get(chain) == position else self.outboxes()[chain].frames_from(position.at)
        self._answered[chain] = position
        return [*self.sends(frames), Noted("resent", {"frames": len(frames)})] if frames else []

    def resend_overdue(self) -> list[Action]:
        """The timer fired: send again what was not answered, and set the timer anew."""
        timer = SetTimer("resend", self.settings.resend_ns)
        self._answered.clear()
        if not self.outbox.frames and not self.cut_outbox.frames:
            # A relay that forgot who is there hears it from those who speak.
            quiet = Positions(False, {self.chain: Position(self.assigned.epoch, self.outbox.end)})
            return [SendMessage(self.parent, encode(quiet)), timer]
        frames = [*self.outbox.overdue(), *self.cut_outbox.overdue()]
        return [*([Noted("resent", {"frames": len(frames)})] if frames else []), *self.sends(frames), timer]

    def let_go(self) -> None:
        """The chain is another's, or nobody wants it: what was not accepted will not be asked for any more."""
        self.outbox, self.cut_outbox = Outbox(self.outbox.end), Outbox(self.cut_outbox.end)
        self.sent = self.outbox.end

    # --- invariants ---

    def check(self) -> None:
        """Assert what holds after each event."""
        assert self.outbox.at <= self.sent <= self.outbox.end, f"sent {self.sent}, which is not in {self.outbox}"
        # One more than it may send: who leaves, or is written down, gathers once more.
        assert len(self.outbox.frames) <= self.settings.steps_max + 1, f"{len(self.outbox.frames)} deltas are held"
        assert self.must_wait or self.half.is_between or not self.has_much, "what should have been sent was not"
        for chain, outbox in self.outboxes().items() if self.splitting.roots == 1 else ():
            # Those in between are consecutive if these two are.
            for at in {outbox.at, outbox.end - 1} if outbox.frames else ():
                delta = decode(outbox.frames_from(at)[0])
                assert isinstance(delta, Delta) and set(delta.ranges) == {chain}
                found, right = delta.ranges[chain], ChainRange(self.assigned.epoch, at, at + 1)
                assert found == right, f"{found} of {chain!r} lies where {right} belongs"


def _note_of(part: Part) -> str | None:
    match part:
        case LatePart():
            return "late travels"
        case MarkersPart():
            return "markers travel"
        case PiecesPart():
            return None if bool((part.heads[HEAD_ANSWERS] < 0).all()) else "looked"
        case EventsPart(family):
            return "raw travels" if family < 0 else "raw instead"
    return None
