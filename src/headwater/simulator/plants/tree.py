"""Known mistakes, planted one at a time: a simulator that does not find them finds nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from headwater.engine.groups.shared import QueryGroup
from headwater.engine.slices.store import RowStore
from headwater.engine.windows.sessions import SessionWindows
from headwater.language.times import FOREVER, NEVER
from headwater.logs import entries as log_entries
from headwater.node import RootNode
from headwater.protocols.actions import Action, Checkpoint, Record
from headwater.protocols.ledger import Ledger
from headwater.protocols.membership import Membership
from headwater.simulator.plants.count_windows import COUNT_PLANTS
from headwater.simulator.plants.planting import Plant, instead
from headwater.simulator.world.disk import Disk


def planted(name: str | None, scenario: str = "tree") -> AbstractContextManager[Any]:
    """While this lasts, the mistake of this name is made; None: none."""
    return nullcontext() if name is None else find_plant(name, scenario)()


def find_plant(name: str, scenario: str = "tree") -> Plant:
    """The plant of this name: of trees and of count windows, of streams, or of nodes without a root."""
    known = PLANTS | COUNT_PLANTS
    if scenario == "stream":
        from headwater.simulator.plants.stream import STREAM_PLANTS

        known = STREAM_PLANTS
    elif scenario == "holon":
        from headwater.simulator.plants.holon import HOLON_PLANTS

        known = HOLON_PLANTS
    if name not in known:
        raise ValueError(f"there is no plant {name!r}; there are {', '.join(known)}")
    return known[name]


def _overlooked(objection: str) -> Plant:
    """The rule of acceptance, blind to one objection."""

    def wrong(right: Any, ledger: Ledger, ranges: Any) -> dict[str, str]:
        return {chain: reason for chain, reason in right(ledger, ranges).items() if reason != objection}

    return instead(Ledger, "objections", wrong)


def _half_accepted(right: Any, ledger: Ledger, ranges: Any) -> dict[str, str]:
    """A combined delta is taken if only one of its stretches fits."""
    found: dict[str, str] = right(ledger, ranges)
    return found if len(found) == len(ranges) else {}


def _one_more(right: Any, members: Membership) -> int:
    watermark: int = right(members)
    return watermark + 1 if NEVER < watermark < FOREVER else watermark


def _none_at_the_end(right: Any, windows: SessionWindows, view: Any, after: int, until: int) -> Any:
    closed = right(windows, view, after, until)
    return [] if until == FOREVER else closed


def _on_time(right: Any, group: QueryGroup, chunk: Any, keys: Any, watermarks: Any) -> Any:
    return right(group, chunk, keys, np.minimum(watermarks, chunk.times))


def _record_last(right: Any, root: RootNode, *arguments: Any) -> list[Action]:
    actions: list[Action] = right(root, *arguments)
    return sorted(actions, key=lambda action: (isinstance(action, Checkpoint), isinstance(action, Record)))


def _half_as_patient(right: Any, members: Membership, now_ns: int, silence_ns: int, *more: bool) -> Any:
    return right(members, now_ns, silence_ns // 2, *more)


def _records_unsynced(right: Any, disk: Disk, name: str) -> None:
    if not name.startswith("records"):
        right(disk, name)


PLANTS: dict[str, Plant] = {
    # A delta that was accepted comes again and is counted again.
    "double-count": _overlooked("duplicate"),
    # Sessions that only the end of the stream closes never come out.
    "lost-last-session": instead(SessionWindows, "close", _none_at_the_end),
    # Windows close one tick too early.
    "watermark-off-by-one": instead(Membership, "watermark", _one_more),
    # The root waits for a silent source for ever.
    "idle-leaf-blocks": instead(Membership, "decide_idle", lambda right, *arguments, **named: []),
    # A delta is accepted although one before it is missing.
    "gap-accepted": _overlooked("gap"),
    # A delta is accepted although part of it was before.
    "overlap-merged": _overlooked("overlap"),
    # A combined delta is accepted although some of its chains do not fit.
    "half-accepted": instead(Ledger, "objections", _half_accepted),
    # What a leaf says whose chain another has taken over still counts.
    "epoch-unchecked": _overlooked("old epoch"),
    # A source that joins late drags the watermark down.
    "join-at-minus-infinity": instead(Membership, "first_watermark", lambda right, *_: NEVER),
    # A late event counts in a window that its source had closed.
    "late-counted": instead(QueryGroup, "add_late", _on_time),
    # Rows and answers leave before what they follow from is on disk.
    "rows-before-the-record": instead(RootNode, "handle", _record_last),
    # Records are written, but not synced.
    "fsync-left-out": instead(Disk, "sync", _records_unsynced),
    # Behind a record that the disk has changed nothing is read, and nobody is told.
    "damage-taken-for-torn": instead(log_entries, "_refuse_damage", lambda right, *_: None),
    # Sources are called idle after half of the time.
    "idle-too-early": instead(Membership, "decide_idle", _half_as_patient),
    # Rows of windows that have closed are kept for ever.
    "memory-grows": instead(RowStore, "keep", lambda right, *_: None),
}
