"""What happens to a node without a root, and what it asks of its host, besides what all nodes have (`protocols/events.py`,
`protocols/actions.py`).

A host has four things that all nodes share: the input (logs that can be read again), the output (chains of rows, each row under
its index, which holds one row for ever), the decision log (numbered entries, of which the first one with a number counts), and a
store of checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headwater.protocols import actions, events

# --- what happens ---


@dataclass(frozen=True, slots=True)
class InputSeen:
    """The host looked at the input: so many events of each partition are there. Said after each look, whether there is more or
    not: who looked and found nothing knows that a partition is silent."""

    ends: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RowsAppended:
    """All rows that were asked to be appended to a chain up to ``end`` are in the output, where every node can read them. A kill
    leaves them there; a loss of power may not."""

    chain: str
    end: int


@dataclass(frozen=True, slots=True)
class RowsSynced:
    """The output is safe on disk up to these indexes, by chain."""

    ends: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EntryDecided:
    """The decision log has this entry under this number: ours, or one that was there before. Entries are also told when the
    host finds new ones in the log by itself, and all of them, from 0 on, behind `Started`."""

    number: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class PeerJoined:
    """Another node can be reached under this name: frames may be sent to it."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerGone:
    """A peer refused the connection: its process is likely dead. A hint, and no proof."""

    peer: str


HolonEvent = (
    events.Started
    | events.BatchArrived
    | events.MessageReceived
    | events.TimerFired
    | events.FlushAsked
    | InputSeen
    | RowsAppended
    | RowsSynced
    | EntryDecided
    | PeerJoined
    | PeerGone
)

# --- what is asked ---


@dataclass(frozen=True, slots=True)
class AppendRows:
    """Append rows to a chain of the output, the first of them under this index, and answer `RowsAppended`.

    Rows that are there already, by whoever, have to be the same (else the function is not deterministic: the host stops the
    node with the chain, the index and the column) and are passed over.
    """

    chain: str
    index: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Decide:
    """Put an entry into the decision log under this number, if none is there yet, and answer `EntryDecided` with the one that is
    there."""

    number: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class StopReading:
    """Feed no more events of this partition."""

    partition: str


#: `ReadFrom` asks for the events of a partition from an index on; `Checkpoint` is written to the store, under the node's name, in
#: the place of the one before.
HolonAction = (
    actions.SendMessage
    | actions.SetTimer
    | actions.ReadFrom
    | actions.Checkpoint
    | actions.Finished
    | actions.Noted
    | AppendRows
    | Decide
    | StopReading
)
