"""What comes out of a root: windows that close, cuts that leaves are told, the end of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwater.engine.counting.root import CountRootGroup
from headwater.language.times import FOREVER, NEVER
from headwater.node.root_members import RootMembers
from headwater.node.root_state import PendingCut
from headwater.protocols.actions import (
    Action,
    EmitAside,
    EmitRows,
    Finished,
    Noted,
    SendMessage,
    SetTimer,
)
from headwater.protocols.delta import CUT_SUFFIX
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Cuts, Flush, LookInto, encode


class RootWindows(RootMembers):
    """Closes windows as the watermark of all rises."""

    def _advance(self) -> list[Action]:
        """The watermark may have risen: close what it has passed."""
        members = self._members
        notes: list[Action] = []
        if self._flushing and not members.active.any() and members.watermark() < FOREVER:
            members.finish()
            notes.append(self._noted("flushed"))
        if members.watermark() == FOREVER:
            # Windows without events come out as far as the watermark came before the end, and several decisions may
            # have been taken since it was looked at.
            self._half.raise_to(members.finite, members.latest)
            self._half.close()
        self._half.raise_to(members.watermark(), members.latest)
        self._half.close()
        return [*notes, *self._put_out()]

    def _put_out(self) -> list[Action]:
        """What has closed, cuts that are done, cuts that are due, the end."""
        return [*self._cut_done(), *self._emit(), *self._cut_soon(), *self._plan_counts(), *self._finish()]

    def _emit(self) -> list[Action]:
        rows, side = self._half.take_rows(), self._half.side_output()
        if rows is None and not len(side):
            return []
        self._step += 1
        actions: list[Action] = [] if rows is None else [EmitRows(self._step, rows)]
        return [*actions, *([EmitAside(self._step, side)] if len(side) else [])]

    def _finish(self) -> list[Action]:
        done = self._members.watermark() == FOREVER and (not self._half.has_cuts or self._cut_time == FOREVER)
        done = done and self._half.counts_are_done
        # Without being asked it is the end only if no source is left that may return.
        done = done and (self._flushing or bool((self._members.watermarks == FOREVER).all()))
        if not done or self._finished:
            return []
        self._finished = True
        return [self._noted("flushed"), Finished()]

    # --- count windows ---

    def _plan_counts(self) -> list[Action]:
        """Count windows came out, or cannot yet: tell leaves where the next will end, and what to look into."""
        plans = self._plans
        if plans is None:
            return []
        groups = self._half.counting()
        proven = self._half.take_proven()
        for family, cuts in proven.items():
            plans.told(family, groups[family].largest_window, [(cut.position, cut.time, cut.counts) for cut in cuts])
            if plans.counting.scheme == "approx" and groups[family].shares is None:
                groups[family].fix_shares(cuts)
        looks = self._look()
        is_stuck = any(groups[n].frontier >= at for n, at in self._horizons.items() if n in groups) and not looks
        if not proven and not is_stuck:
            return [*looks, *self._tell_watermark(groups)]
        self._horizons = plans.next_horizons({n: group.frontier for n, group in groups.items()})
        self._settle_marks()
        plan = self._plan()
        if plans.is_known(plan.forecasts):
            return [*looks, *self._tell_watermark(groups)]
        plans.number += 1
        told = self._broadcast(encode(replace(plan, number=plans.number)))
        plans.flows.down += len(told)
        return [*looks, *told]

    def _tell_watermark(self, groups: Mapping[int, CountRootGroup]) -> list[Action]:
        """A leaf that waits for a source, for which nobody else waits any more, holds all windows up: tell it."""
        members = self._members
        watermark = members.watermark()
        if bool(members.active.all()) or all(group.frontier >= watermark for group in groups.values()):
            return []
        assert self._plans is not None
        if watermark <= self._told_watermark:
            return []
        self._told_watermark = watermark
        self._plans.number += 1
        return self._broadcast(encode(self._plan()))

    def _look(self) -> list[Action]:
        """Ask the owners of chains what lies in pieces in which a window may end, once each."""
        pieces = self._half.looked_into()
        fresh = pieces.keys() - self._looked
        self._looked = set(pieces)
        actions: list[Action] = []
        for chain in sorted({pieces[piece] for piece in fresh}):
            frame = encode(LookInto(chain, self._looks_of(chain)))
            actions.extend(SendMessage(link, frame) for link in self._routes.of(chain))
        if actions and self._plans is not None:
            self._plans.flows.down += len(actions)
        return [*([Noted("look", {"pieces": len(fresh)})] if fresh else []), *actions]

    def _settle_marks(self) -> None:
        """Moments from which nobody reads again any more are forgotten."""
        self._members.settle(min(self._cut_time if self._half.has_cuts else FOREVER, self._half.settled_time()))

    def count_report(self) -> dict[str, float]:
        """What count windows have cost so far."""
        if self._plans is None:
            return {}
        groups = self._half.counting().values()
        counted = ("cut_count", "corrections", "raw_count")
        windows, corrections, raw = (sum(getattr(group, name) for group in groups) for name in counted)
        return self._plans.flows.report({"windows": windows, "corrections": corrections, "raw_events": raw})

    # --- cuts ---

    def _cut_soon(self) -> list[Action]:
        """Windows that markers cut may be over: announce cuts after a while."""
        due = self._half.has_cuts and self._pending is None and self._members.watermark() > self._cut_time
        if not due or self._cut_timer:
            return []
        self._cut_timer = True
        return [SetTimer("cut", self.settings.linger_ns)]

    def _announce(self) -> list[Action]:
        until = self._members.watermark()
        if not self._half.has_cuts or self._pending is not None or until <= self._cut_time:
            return []
        self._changed = True
        members = self._members
        idle = {
            members.names[number]: int(members.offsets[number])
            for number in range(len(members.names))
            if not members.active[number]
        }
        message = Cuts(self._cut + 1, until, idle, self._half.announce(until))
        # A chain whose events were all cut before has nothing to send, and may be gone.
        awaited = tuple(
            sorted(c for c, known in members.chains.items() if known.latest >= max(self._cut_time, NEVER + 1))
        )
        self._pending = PendingCut(message, awaited)
        note = self._noted("cut announced", number=message.number, until=until)
        return [note, *self._broadcast(encode(message)), *self._put_out()]

    def _cut_done(self) -> list[Action]:
        pending = self._pending
        if pending is None:
            return []
        number, until = pending.message.number, pending.message.until
        positions = self._ledger.positions
        if any(positions[chain + CUT_SUFFIX].at < number for chain in pending.awaited):
            return []
        for chain in self._members.chains:
            position = positions[chain + CUT_SUFFIX]
            positions[chain + CUT_SUFFIX] = Position(position.epoch, max(position.at, number))
        self._half.finish_cut(until)
        self._cut, self._cut_time, self._pending = number, until, None
        self._settle_marks()
        return [self._noted("cut done", number=number, until=until)]

    def _on_tend_timer(self) -> list[Action]:
        """Say again what may not have been heard."""
        actions: list[Action] = [SetTimer("tend", self.settings.resend_ns), *self._cut_soon()]
        if self._pending is not None:
            # Whoever does not answer may not have heard of its epoch.
            for chain in self._pending.awaited:
                if self._ledger.positions[chain + CUT_SUFFIX].at < self._pending.message.number:
                    actions.extend(self._assign(chain))
            actions.extend(self._broadcast(encode(self._pending.message)))
        if self._plans is not None and not self._finished:
            self._looked.clear()
            actions.extend([*self._look(), *self._broadcast(encode(self._plan()))])
        if self._flushing and not self._finished:
            actions.extend(self._broadcast(encode(Flush())))
        return actions
