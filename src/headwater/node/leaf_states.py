"""The states of a leaf, what is handled in each, and where that may lead: dispatch, assertions and docs from one table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from headwater.protocols import events
from headwater.protocols.messages import Assign, CountPlan, Cuts, Flush, LookInto, Positions, Rates, Refuse


class LeafState(Enum):
    """Where a leaf stands. Of several that hold, the last one named here: who flushes may be paused, or read again, as well."""

    #: It owns no chain: it asks the root for one, and remembers what it is told meanwhile.
    WAITING = "waiting"
    #: Everything it reads is new.
    RUNNING = "running"
    #: It reads events once more that were accepted before, for windows whose ends are not known yet.
    REREADING = "reading again"
    #: It holds as much as it may, and has told its host to stop reading.
    PAUSED = "paused"
    #: The stream has ended: it takes in nothing new and sends what it has.
    FLUSHING = "flushing"
    #: Its sources have ended, and all that they said is accepted.
    DONE = "done"
    #: Another leaf owns the chain, or the root refuses it: nothing happens here any more.
    STOPPED = "stopped"


#: What can happen: events of the host, and the messages that come in them.
Kinds = tuple[type, ...]
EVENTS: Kinds = (events.BatchArrived, events.MixedBatchArrived, events.EventsPassed)
QUESTIONS: Kinds = (Cuts, CountPlan, LookInto)
OCCASIONS: Kinds = (events.TimerFired, events.Leaving)
REMEMBERED: Kinds = (events.Started, events.SourceOpened, events.SourceEnded, Rates)

_WAITING, _RUNNING, _REREADING, _PAUSED, _FLUSHING, _DONE, _STOPPED = LeafState
_TABLE: dict[LeafState, dict[Kinds, tuple[LeafState, ...]]] = {
    _WAITING: {
        (*REMEMBERED, events.TimerFired, CountPlan, Flush, Refuse): (),
        (Assign,): (_RUNNING, _REREADING, _FLUSHING),
    },
    _RUNNING: {
        REMEMBERED: (),
        (*OCCASIONS, *EVENTS, *QUESTIONS): (_PAUSED,),
        (Positions,): (_PAUSED, _DONE),
        (Flush,): (_FLUSHING,),
        (Assign,): (_REREADING, _STOPPED),
        (Refuse,): (_STOPPED,),
    },
    _REREADING: {
        REMEMBERED: (),
        (*OCCASIONS, *QUESTIONS): (_PAUSED,),
        EVENTS: (_RUNNING, _PAUSED),
        (Positions,): (_PAUSED, _DONE),
        (Flush,): (_FLUSHING,),
        (Assign,): (_RUNNING, _STOPPED),
        (Refuse,): (_STOPPED,),
    },
    _PAUSED: {
        REMEMBERED: (),
        (*OCCASIONS, *EVENTS, *QUESTIONS): (_RUNNING, _REREADING),
        (Positions,): (_RUNNING, _REREADING, _DONE),
        (Flush,): (_FLUSHING,),
        (Assign,): (_RUNNING, _REREADING, _STOPPED),
        (Refuse,): (_STOPPED,),
    },
    _FLUSHING: {
        (*REMEMBERED, *OCCASIONS, *EVENTS, *QUESTIONS, Flush): (),
        (Positions,): (_DONE,),
        (Assign, Refuse): (_STOPPED,),
    },
    _DONE: {
        (*REMEMBERED, *OCCASIONS, *EVENTS, *QUESTIONS, Positions, Flush): (),
        (Assign,): (_RUNNING, _REREADING, _FLUSHING, _STOPPED),
        (Refuse,): (_STOPPED,),
    },
    _STOPPED: {},
}
#: By state, what is handled in it, and the other states that this may lead to. What has no entry is passed over.
TRANSITIONS: Mapping[LeafState, Mapping[type, frozenset[LeafState]]] = {
    state: {kind: frozenset(after) for kinds, after in row.items() for kind in kinds} for state, row in _TABLE.items()
}
