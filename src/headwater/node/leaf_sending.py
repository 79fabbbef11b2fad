"""How a leaf sends: deltas are kept until they are accepted, sent again when they got lost, and bounded."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any, Self

import numpy as np

from headwater.engine.counting.forecast_zones import ForecastLine, LocalWindows
from headwater.engine.counting.pieces import Zoning
from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.tree.leaf_sources import Standing
from headwater.engine.wire.looks import looks_from_bytes
from headwater.engine.wire.part_bytes import part_to_bytes
from headwater.engine.wire.parts import HEAD_ANSWERS, EventsPart, LatePart, MarkersPart, Part, PiecesPart, RowsPart
from headwater.engine.wire.query_set import read_query_set
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.language.times import FOREVER, NEVER
from headwater.node.settings import NodeSettings
from headwater.node.splitting import Sharing, Splitting, bundle, part_shares
from headwater.protocols.actions import (
    Action,
    Finished,
    Noted,
    PauseReading,
    ReadFrom,
    ResumeReading,
    SendMessage,
    SetTimer,
)
from headwater.protocols.advances import Advance, wrapped
from headwater.protocols.count_windows import Forecast
from headwater.protocols.delta import CUT_SUFFIX, ChainRange, Delta
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Assign, CountPlan, Cuts, Hello, LookInto, Positions, Rates, decode, encode
from headwater.protocols.outbox import Outbox


class LeafSending:
    """What a leaf knows, its deltas under way, and its snapshot. Events are not in it: they are read again.

    With several ``roots``, which share keys, its frames are bundles of one for each; ``sharing`` is what they agreed on, where
    queries may change.
    """

    def __init__(
        self,
        name: str,
        parent: str,
        *,
        chain: str | None = None,
        settings: NodeSettings | None = None,
        roots: int = 1,
        sharing: Sharing | None = None,
    ) -> None:
        self.name = name
        self.parent = parent
        self.chain = name if chain is None else chain
        self.settings = NodeSettings() if settings is None else settings
        self.roots = roots
        self.sharing = sharing
        self._homes: dict[str, str] = {}
        self._schema = b""
        self._ends: dict[str, int] = {}
        self._flushing = False
        self._stopped = False
        self._version = 0
        self._queries: str | None = None
        self._assigned: Assign | None = None
        self._half: LeafHalf | None = None
        self._outbox = Outbox()
        self._cut_outbox = Outbox()
        self._sent = 0  # the position up to which the outbox was sent at least once
        self._paused = False
        self._send_timer = False
        self._calm_timer = False
        self._finished = False
        self._splitting = Splitting()  # among the roots that share keys
        self._plan: CountPlan | None = None  # the last one heard, for count windows
        self._rates: dict[int, dict[str, float]] = {}  # of all leaves, by family and chain, where they tell each other
        self._answered: dict[str, Position] = {}  # from where frames were sent again since the timer fired

    def _hello(self, epoch: int, version: int = 0) -> SendMessage:
        """Ask to be assigned the chain, anew if this leaf has it; with the queries unless it says which it has."""
        hello = Hello(self.chain, self.name, epoch, version, tuple(self._homes.items()), self._schema)
        return SendMessage(self.parent, encode(hello))

    def _reads(self) -> list[Action]:
        assert self._assigned is not None and self._half is not None
        return [ReadFrom(s.name, self._half.next_offset(s.name)) for s in self._assigned.sources]

    def _soon(self) -> list[Action]:
        """Send after a while what has come together by then."""
        if self._send_timer or self._half is None or not self._half.has_news:
            return []
        if not self._paused and not self._half.is_awaited:
            self._half.cut_early()
            is_set, self._calm_timer = self._calm_timer, True
            return [] if is_set else [SetTimer("calm", self.settings.calm_ns)]
        self._send_timer = True
        return [SetTimer("send", self.settings.linger_ns)]

    # --- sending ---

    def _send(self) -> list[Action]:
        half, assigned = self._half, self._assigned
        notes = [] if half is None or assigned is None or self._must_wait() else self._gather(half, assigned)
        frames = self._outbox.frames_from(self._sent)
        self._sent = self._outbox.end
        told = self._tell_rates() if frames else []
        return [*notes, *(SendMessage(self.parent, frame) for frame in frames), *told, *self._balance()]

    def _gather(self, half: LeafHalf, assigned: Assign, is_last: bool = False) -> list[Action]:
        """Put what has come together into the outbox."""
        # Who ends has to send what waits, though nothing has come since the last time.
        has_news = half.has_news or (is_last and half.is_waiting)
        if not has_news or half.is_between:
            return []
        moved, parts = half.take(is_last)
        if not moved.sources and not parts:
            return []
        lost: list[Action] = []
        if half.has_lost:
            # Somebody looks into events that are not in memory any more: begin anew, and read them again.
            half.has_lost = False
            lost = [Noted("looked too far back", {}), self._hello(0)]
        position = self._outbox.end
        advance = Advance(
            np.array(moved.sources, np.int64),
            np.array(moved.counts, np.int64),
            np.array([wrapped(rise) for rise in moved.rises], np.int64),
            wrapped(moved.latest),
        )
        stretch = ChainRange(assigned.epoch, position, position + 1)
        shares = [part_shares(part, self._splitting) for part in parts]
        for part, share in zip(parts, shares, strict=True):
            if isinstance(part, RowsPart):
                half.weigh(part.family, sum(map(len, share.values())))
        deltas = [
            encode(Delta({self.chain: stretch}, {self.chain: advance}, [s[root] for s in shares if root in s]))
            for root in range(self._splitting.roots)
        ]
        self._outbox.add(deltas[0] if len(deltas) == 1 else bundle(deltas))
        notes = {_note_of(part) for part in parts} - {None}
        return [*(Noted(what, {}) for what in sorted(map(str, notes))), *lost]

    # --- count windows ---

    def _on_plan(self, plan: CountPlan) -> list[Action]:
        if self._plan is not None and plan.number <= self._plan.number:
            return []
        self._plan = plan
        if self._half is None:
            return []
        self._follow(self._half, plan)
        return [*self._soon(), *self._balance()]

    def _follow(self, half: LeafHalf, plan: CountPlan) -> None:
        zones: dict[int, Zoning] = {}
        for family, fields in plan.forecasts.items():
            windows = half.count_windows(family)
            if windows is not None:
                told = self._by_rates(family, Forecast.from_list(fields))
                if self.chain in told.shares:
                    zones[family] = LocalWindows(*told.shares[self.chain])
                    continue
                places = (told.position, told.time, told.per_event, told.spread, told.piece_max)
                # A leaf of one batch waits for no plan: it hears only one.
                horizon = FOREVER if told.horizon is None or self.settings.is_brief else told.horizon
                zones[family] = ForecastLine(windows, *places, horizon, told.is_raw, told.patience, told.raw_max)
        half.follow(zones, plan.until, plan.settled)

    def _by_rates(self, family: int, told: Forecast) -> Forecast:
        """The same forecast by the rates that leaves have told each other, once all have."""
        known = self._rates.get(family, {})
        total = sum(known.values())
        return replace(told, per_event=1 / total) if 0 < told.peers <= len(known) and total > 0 else told

    def _on_rates(self, rates: Rates) -> list[Action]:
        self._rates.setdefault(rates.family, {})[rates.chain] = rates.rate
        if self._half is not None and self._plan is not None:
            self._follow(self._half, self._plan)
        return []

    def _tell_rates(self) -> list[Action]:
        """Tell all other leaves how fast events come here, if they are to know."""
        plan, half, actions = self._plan, self._half, []
        asked = [] if plan is None else [f for f, fields in plan.forecasts.items() if Forecast.from_list(fields).peers]
        for family in asked:
            rate = None if half is None else half.take_rate(family)
            if rate is not None:
                rates = Rates(self.chain, family, rate)
                actions.extend([SendMessage(self.parent, encode(rates)), *self._on_rates(rates)])
        return actions

    def _on_look(self, look: LookInto) -> list[Action]:
        if self._half is None or look.chain != self.chain or not self._half.look(looks_from_bytes(look.looks)):
            return []
        return [Noted("looked into", {}), *(self._send() if self._half.has_news else [])]

    def _begin_counting(self, half: LeafHalf, assign: Assign) -> None:
        looks = looks_from_bytes(assign.looks) if assign.looks else {}
        half.begin_counting(assign.covered, looks, self.settings.held_max, self.settings.is_brief)
        if self._plan is not None:
            self._follow(half, self._plan)

    def watermark(self, source: str) -> int:
        """How far a source has come, as far as it was read."""
        return NEVER if self._half is None else self._half.watermark_of(source)

    def count_report(self) -> dict[str, float]:
        """What count windows have cost here."""
        return {} if self._half is None else self._half.count_report()

    def _on_cuts(self, cuts: Cuts) -> list[Action]:
        half, assigned = self._half, self._assigned
        if half is None or assigned is None:
            return []
        if cuts.number <= self._cut_outbox.end:
            # Asked again: the answer may have been lost.
            return [SendMessage(self.parent, frame) for frame in self._cut_outbox.frames_from(cuts.number - 1)]
        if cuts.number > self._cut_outbox.end + 1:
            # Cuts were done that this leaf had nothing for and did not hear of: begin anew behind them.
            return [self._hello(0)]
        if not half.is_past_rereads():
            return []  # the root asks again; until then what was accepted is read again
        parts = half.cut(cuts.until, cuts.cuts, cuts.idle)
        stretch = ChainRange(assigned.epoch, cuts.number - 1, cuts.number)
        frame = encode(Delta({self.chain + CUT_SUFFIX: stretch}, {}, [part_to_bytes(part) for part in parts]))
        self._cut_outbox.add(frame)
        return [Noted("cut", {"number": cuts.number}), SendMessage(self.parent, frame), *self._balance()]

    def _on_positions(self, positions: Positions) -> list[Action]:
        actions: list[Action] = []
        for chain, outbox in ((self.chain, self._outbox), (self.chain + CUT_SUFFIX, self._cut_outbox)):
            position = positions.chains.get(chain)
            if position is None or self._assigned is None:
                continue
            if position.epoch != self._assigned.epoch:
                if positions.resend and position.epoch == 0 and chain == self.chain:
                    actions.append(self._hello(0))
                elif positions.resend and position.epoch > self._assigned.epoch:
                    # What was assigned since has not arrived; the root will say it again, to whoever owns the chain now.
                    actions.append(self._hello(self._assigned.epoch))
                continue
            if positions.resend:
                # Once for each position until the timer fires: each frame that comes too early is answered, all alike.
                frames = [] if self._answered.get(chain) == position else outbox.frames_from(position.at)
                self._answered[chain] = position
                actions.extend(SendMessage(self.parent, frame) for frame in frames)
                if frames:
                    actions.append(Noted("resent", {"frames": len(frames)}))
            else:
                outbox.accepted(position.at)
        return [*actions, *self._soon_again(), *self._balance(), *self._finish()]

    def _soon_again(self) -> list[Action]:
        """There is room again: send what could not be sent."""
        return self._soon() if not self._must_wait() else []

    def _on_resend_timer(self) -> list[Action]:
        timer = SetTimer("resend", self.settings.resend_ns)
        self._answered.clear()
        if self._assigned is not None and not self._outbox.frames and not self._cut_outbox.frames:
            # A relay that forgot who is there hears it from those who speak.
            quiet = Positions(False, {self.chain: Position(self._assigned.epoch, self._outbox.end)})
            return [SendMessage(self.parent, encode(quiet)), timer]
        frames = [*self._outbox.overdue(), *self._cut_outbox.overdue()]
        note = [Noted("resent", {"frames": len(frames)})] if frames else []
        return [*note, *(SendMessage(self.parent, frame) for frame in frames), timer]

    # --- bounds ---

    def _must_wait(self) -> bool:
        return len(self._outbox.frames) >= self.settings.steps_max

    def _is_full(self) -> bool:
        if self._half is None:
            return False
        if self._must_wait():
            return True
        # What is read again was held before; the cuts that let go of it need all of it.
        held_max = self.settings.held_max
        return self._half.held(held_max) >= held_max and self._half.is_past_rereads()

    def _balance(self) -> list[Action]:
        """Stop reading while too much is held, and go on when there is room."""
        full = self._is_full()
        if full == self._paused:
            return []
        self._paused = full
        if full:
            return [Noted("paused", {}), PauseReading(), *self._soon()]
        return [Noted("resumed", {}), *self._reads(), ResumeReading()]

    def _finish(self) -> list[Action]:
        half = self._half
        done = half is not None and half.has_ended and not half.has_news and not self._outbox.frames
        if done and not self._finished:
            self._finished = True
            return [Finished()]
        return []

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """What the leaf knows. Events are not in it: they are read again."""
        state: dict[str, Any] = {
            "names": [self.name, self.parent, self.chain],
            "settings": list(astuple(self.settings)),
            "roots": self.roots,
            "homes": [list(home) for home in self._homes.items()],
            "ends": [list(end) for end in self._ends.items()],
            "flags": [self._flushing, self._stopped, self._paused, self._finished],
            "schema": self._schema,
            "queries": [self._version, self._queries],
            "assigned": None,
        }
        if self._assigned is not None and self._half is not None:
            self._gather(self._half, self._assigned)
            told, latest = self._half.told()
            state |= {
                "assigned": encode(self._assigned),
                "outbox": [self._outbox.at, self._outbox.frames, self._sent],
                "cuts": [self._cut_outbox.at, self._cut_outbox.frames, self._half.cut_time],
                "told": [[name, *place] for name, place in told.items()],
                "covered": [list(pair) for pair in self._half.covered().items()],
                "plan": None if self._plan is None else encode(self._plan),
                "latest": latest,
            }
        return to_bytes(state)

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """A leaf that goes on where ``snapshot`` was taken; the next event is `Started`."""
        state = from_bytes(data)
        name, parent, chain = state["names"]
        leaf = cls(name, parent, chain=chain, settings=NodeSettings(*state["settings"]), roots=state.get("roots", 1))
        leaf._homes, leaf._ends = dict(map(tuple, state["homes"])), dict(map(tuple, state["ends"]))
        leaf._flushing, leaf._stopped, leaf._paused, leaf._finished = state["flags"]
        leaf._schema = state["schema"]
        leaf._version, leaf._queries = state["queries"]
        if state["assigned"] is not None:
            assigned = decode(state["assigned"])
            assert isinstance(assigned, Assign) and leaf._queries is not None
            leaf._assigned = assigned
            at, frames, leaf._sent = state["outbox"]
            leaf._outbox = Outbox(at, frames)
            cut_at, cut_frames, cut_time = state["cuts"]
            leaf._cut_outbox = Outbox(cut_at, cut_frames)
            told = {name: (offset, watermark) for name, offset, watermark in state["told"]}
            standings = [
                Standing(s.name, s.home, *told[s.name], s.hold, s.hold_watermark, s.floors) for s in assigned.sources
            ]
            queries = read_query_set(leaf._queries)
            leaf._half = LeafHalf(queries, chain, standings, state["latest"], cut_time)
            leaf._splitting = Splitting.of(queries, leaf.roots)
            if state.get("plan") is not None:
                plan = decode(state["plan"])
                assert isinstance(plan, CountPlan)
                leaf._plan = plan
            covered = dict(map(tuple, state.get("covered", ())))
            leaf._begin_counting(leaf._half, replace(assigned, covered=covered, looks=b""))
        return leaf


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
