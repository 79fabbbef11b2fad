"""A relay: deltas of its children in, combined deltas out; what the root says goes down."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headwater.base.packing import Bytes, one_peers_room
from headwater.engine.operators.partials import UnknownOperatorError
from headwater.engine.wire.merge import merge_parts
from headwater.engine.wire.part_bytes import part_from_bytes, part_to_bytes
from headwater.engine.wire.parts import Part
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.node.routes import Routes
from headwater.node.settings import NodeSettings
from headwater.protocols import messages
from headwater.protocols.actions import Action, Noted, SendMessage, SetTimer
from headwater.protocols.delta import CUT_SUFFIX, Delta, combine
from headwater.protocols.events import Event, MessageReceived, Started, TimerFired
from headwater.protocols.frames import FrameError
from headwater.protocols.ledger import Ledger
from headwater.protocols.messages import decode, encode
from headwater.protocols.tree.relaying import Held, Holding

#: A child's deltas are held up to this many of the largest frames; more of them wait at the child.
HELD_FRAMES = 4
#: Of many chains that are not let in, so many are named to observers.
SHOWN_MAX = 3


def merged(lists: Sequence[Sequence[Bytes]], modules: Collection[str] | None = ()) -> list[Bytes]:
    """Merge the parts of several deltas into those of one; users' operators are known by these ``modules`` only."""
    if len(lists) == 1:
        return list(lists[0])
    parts: list[Part] = []
    unread: list[Bytes] = []
    for data in (data for encoded in lists for data in encoded):
        try:
            parts.append(part_from_bytes(data, (), modules))
        except UnknownOperatorError:
            # The root has the queries, and with them the operator; here such rows travel side by side.
            unread.append(data)
    return [*(part_to_bytes(part) for part in merge_parts(parts)), *unread]


class RelayNode:
    """Merges what its children send, so that a link above it carries a slice once, however many leaves have added to it."""

    def __init__(
        self, name: str, parent: str, *, settings: NodeSettings | None = None, modules: Collection[str] | None = ()
    ) -> None:
        self.name = name
        self.parent = parent
        self.settings = NodeSettings() if settings is None else settings
        #: Where users' operators may be loaded from (None: anywhere); partials of others travel side by side.
        self.modules = modules
        self._routes = Routes(self.settings.takeover_ns)
        self._holding = Holding(bytes_max=HELD_FRAMES * self.settings.frame_bytes_max)
        self._send_timer = False

    def handle(self, event: Event, now_ns: int) -> list[Action]:
        """Take one event and return the actions that the host has to do, in this order."""
        match event:
            case Started():
                self._send_timer = False
                self._routes.listen(now_ns)
                return [SetTimer("resend", self.settings.resend_ns), *self._soon()]
            case MessageReceived(sender, frame):
                return self._on_frame(sender, bytes(frame), now_ns)
            case TimerFired("send"):
                self._send_timer = False
                return self._send()
            case TimerFired("resend"):
                return self._on_resend_timer()
        return []

    def _on_frame(self, sender: str, frame: bytes, now_ns: int) -> list[Action]:
        try:
            message = decode(frame, self.settings.frame_bytes_max)
        except FrameError as error:
            return [Noted("damaged frame", {"why": str(error)})]
        if sender == self.parent:
            return self._on_word(message, frame)
        chains = _named(message)
        strangers = self._routes.strangers(chains, sender)
        if not chains or not self._routes.may_bring(strangers, sender, now_ns):
            return [Noted("not let in", {"link": sender, "chains": strangers[:SHOWN_MAX]})]
        for chain in strangers:
            self._routes.admit(chain, sender, now_ns)
        self._routes.hear(chains, sender, now_ns)
        match message:
            case Delta():
                return self._on_delta(sender, message, len(frame))
            case messages.Rates():
                return [SendMessage(self.parent, frame), *self._routes.to_all(frame, but=sender)]
            case messages.Leave(chain):
                self._routes.leave(chain)
        return [SendMessage(self.parent, frame)]

    def _on_word(self, message: messages.Message, frame: bytes) -> list[Action]:
        """What the parent says goes down."""
        match message:
            case messages.Positions():
                return self._on_positions(message)
            case messages.Refuse(chain):
                self._holding.forget({chain, chain + CUT_SUFFIX})
                told = self._routes.down(chain, frame)
                self._routes.forget([chain])
                return told
            case messages.Assign(chain) | messages.LookInto(chain):
                return self._routes.down(chain, frame)
            case messages.Cuts() | messages.CountPlan() | messages.Flush() | messages.Rates():
                return self._routes.to_all(frame)
        return []

    # --- up ---

    def _on_delta(self, sender: str, delta: Delta, nbytes: int) -> list[Action]:
        if self._holding.take(delta, nbytes, sender):
            return self._soon()
        positions = self._holding.ledger.of(delta.ranges)
        known = {chain: position for chain, position in positions.items() if position.epoch}
        # What the root has accepted too: an acceptance may have been lost on this link.
        answers = (messages.Positions(False, self._holding.safe_of(delta.ranges)), messages.Positions(True, known))
        replies = [SendMessage(sender, encode(answer)) for answer in answers if answer.chains]
        return [Noted("rejected", {"chains": sorted(delta.ranges)}), *replies]

    def _soon(self) -> list[Action]:
        if self._send_timer or not self._holding.has_unsent:
            return []
        self._send_timer = True
        return [SetTimer("send", self.settings.linger_ns)]

    def _send(self) -> list[Action]:
        actions: list[Action] = []
        while deltas := self._holding.next_to_send(self.settings.frame_bytes_max // 2):
            actions.extend(self._combined(deltas))
        return actions

    def _combined(self, deltas: list[Delta]) -> list[Action]:
        if len(deltas) == 1:
            return [SendMessage(self.parent, encode(deltas[0]))]
        try:
            with one_peers_room():
                frame = encode(combine(deltas, lambda lists: merged(lists, self.modules)))
        except Exception as error:
            # One that cannot be read or merged must not stop the others: the root will say what is wrong with it.
            apart = [SendMessage(self.parent, encode(delta)) for delta in deltas]
            return [Noted("unreadable part", {"why": str(error)}), *apart]
        return [SendMessage(self.parent, frame), Noted("combined", {"deltas": len(deltas)})]

    def _on_resend_timer(self) -> list[Action]:
        timer = SetTimer("resend", self.settings.resend_ns)
        count = self._holding.overdue()
        return [Noted("resent", {"deltas": count}), *self._soon(), timer] if count else [*self._soon(), timer]

    # --- down ---

    def _on_positions(self, positions: messages.Positions) -> list[Action]:
        if not positions.resend:
            self._holding.accepted(positions.chains)
            return self._routes.positions(False, positions.chains)
        unknown = {chain: position for chain, position in positions.chains.items() if position.epoch == 0}
        again = self._holding.rejected({c: position for c, position in positions.chains.items() if c not in unknown})
        told = self._routes.positions(True, {**again, **unknown})
        if unknown:
            # Nobody owns these: whoever sent something of them has to ask for them first.
            self._holding.forget(unknown.keys())
            self._routes.forget(unknown)
        note = Noted("recombined", {"chains": sorted(positions.chains)})
        return [note, *told, *self._soon()]

    def check(self) -> None:
        """Assert what holds after each event."""
        self._holding.check()
        # A restored relay is told so by its host, and asks for a new timer.
        assert self._send_timer or not self._holding.has_unsent, f"{self.name} holds deltas that nothing will send"

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Everything the relay knows."""
        return to_bytes(
            {
                "names": [self.name, self.parent],
                "settings": self.settings.state(),
                "routes": self._routes.state(),
                "positions": self._holding.ledger.state(),
                "held": [[encode(one.delta), one.sent] for one in self._holding.held],
            }
        )

    @classmethod
    def restore(cls, data: bytes, modules: Collection[str] | None = ()) -> RelayNode:
        """A relay that goes on where ``snapshot`` was taken; the next event is `Started`."""
        state = from_bytes(data)
        name, parent = state["names"]
        relay = cls(name, parent, settings=NodeSettings.restored(state["settings"]), modules=modules)
        relay._routes = Routes.restored(state["routes"], relay.settings.takeover_ns)
        relay._holding.ledger = Ledger.restored(state["positions"])
        for frame, sent in state["held"]:
            delta = decode(frame)
            assert isinstance(delta, Delta)
            relay._holding.held.append(Held(delta, len(frame), sent))
        return relay


def _named(message: messages.Message) -> tuple[str, ...]:
    """The chains of which a child speaks; none if that is no message for a child to send."""
    match message:
        case Delta():
            return tuple(message.ranges)
        case messages.Positions():
            return tuple(message.chains)
        case messages.Hello(chain) | messages.Leave(chain) | messages.Rates(chain):
            return (chain,)
    return ()
