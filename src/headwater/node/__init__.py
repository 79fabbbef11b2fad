"""Leaves, relays and the root: engine and protocols joined, still without I/O. This page is the manual for writing a host.

A node is a function with a memory: ``handle(event, now_ns)`` takes one thing that happened and returns what is to be done
about it. It reads no clock, opens no file and sends nothing. The host turns clocks, sockets and files into events
(`protocols/events.py`), does the actions (`protocols/actions.py`), and decides nothing. There are four hosts: ``spark``,
``edge``, ``simulator`` and, for cases and examples, `simulator/instant.py`.

The loop
========

Here is all of it: a leaf and a root in one process, a link that is a queue, and a log that can be read twice.

>>> from collections import deque
>>> import pyarrow as pa
>>> import headwater as hw
>>> from headwater.protocols.actions import EmitRows, ReadFrom, Record, SendMessage, SetTimer
>>> from headwater.protocols.events import BatchArrived, FlushAsked, MessageReceived, SourceOpened, Started, TimerFired
>>> log = pa.record_batch({"time": [1, 5, 12]})
>>> nodes = {"leaf": LeafNode("leaf", "root"), "root": RootNode("root", [hw.query("q", hw.tumbling(10), n=hw.count())])}
>>> disk, rows, now_ns = [], [], 0
>>> happens = deque([("leaf", Started()), ("root", Started()), ("leaf", SourceOpened("sensor", schema=log.schema))])
>>> def run():
...     global now_ns
...     while happens:
...         name, event = happens.popleft()
...         now_ns += 1
...         for action in nodes[name].handle(event, now_ns):  # in this order, one after the other
...             match action:
...                 case Record(data):
...                     disk.append(data)  # and only when it is there, what follows
...                 case SendMessage(target, frame):
...                     happens.append((target, MessageReceived(name, frame)))
...                 case SetTimer("hello" | "send" | "calm" as timer):  # the others matter when something was lost
...                     happens.append((name, TimerFired(timer)))
...                 case ReadFrom(source, offset):
...                     happens.append((name, BatchArrived(source, offset, log.slice(offset))))
...                 case EmitRows(_, table):
...                     rows.extend(zip(table.column("window_start").to_pylist(), table.column("n").to_pylist()))
>>> run()
>>> happens.append(("root", FlushAsked()))
>>> run()
>>> rows
[(0, 2), (10, 1)]

What a host owes its node
=========================

**One thing at a time.** ``handle`` is called by one thread. ``now_ns`` is of a clock that never goes back while the process
lives; it may leap, begin anew with the machine, and need not agree with that of any other node.

**Actions in their order.** A host that stops has done the first few of them, and none behind. Nothing else is asked: actions
may be lost with the host, and the protocol puts right what comes of that.

**Durable first.** `Record` and `Checkpoint` come from a root, in front of what depends on them. Their bytes are on disk
before the next action is done: what was recorded is told to others (`SendMessage`) and comes out (`EmitRows`) only then. A
checkpoint stands for all records before it, which may be deleted once it is durable. A host without a disk sets
``is_recorded=False`` and begins anew when the root is lost. Leaves and relays ask for nothing durable.

**Timers.** `SetTimer` lets `TimerFired` of that name happen once, after the delay. Setting a timer that runs sets it anew.
Timers end with the process. Late is fine; never is not.

**Frames.** A link may lose, double and reorder them, and deliver half of what was sent before a crash; a frame that arrives
damaged is noted and dropped. ``sender`` is the neighbour that it came from, and no other: a chain comes over one link, and
only the parent gives orders. ``modules`` of leaves and relays say where users' code may be loaded from that a peer names.

**Reading.** A host says `SourceOpened` for each source of a leaf, and feeds events when it is told `ReadFrom`: from that
offset on, in order, as `BatchArrived` (or `MixedBatchArrived`, many sources at once; or `EventsPassed`, for events that need
not be read). A later `ReadFrom` moves the place, forward or back: the same offsets must give the same events and the same told
watermarks; how they are cut into batches is free. So what cannot be read twice goes behind a log (`headwater.logs`).
Between `PauseReading` and `ResumeReading` nothing should be fed; what is fed all the same may be passed over, and the
`ReadFrom` in front of `ResumeReading` asks for it again. `SourceEnded` says how many events there were in all. `Leaving` is
for a leaf that ends before its sources do: it sends what it has.

**The end.** A leaf says `Finished` when its sources have ended and are accepted; the process may go, but a new source or
query may need it again. After `Superseded` (another leaf has its chain) and after `Refused`, if it had a chain, it does
nothing any more. At the root `Finished` means that the stream has ended (`FlushAsked`, or every source did) and everything
is out. `Noted` is for observers.

What survives a crash
=====================

==========  =======================================  ========================================================================
node        nothing is left                          something is left
==========  =======================================  ========================================================================
leaf        a new one says `Hello`, and the root     ``LeafNode.restore(snapshot)``, then `Started`: it goes on under its epoch
            says from where to read                  and asks for its events again, for these are in no snapshot
relay       a new one hears from its children who    ``RelayNode.restore(snapshot)``, then `Started`
            is there, and they send again
root        the stream begins anew                   ``RootNode.recover(checkpoint, records)``, then `Started`: the same steps
                                                     give the same rows again; a sink drops the steps that it has
==========  =======================================  ========================================================================

A snapshot is of the moment of the crash or of no use: a leaf that comes back with what it knew earlier would send other
events under positions that are taken. Then it has to come back with nothing. Two processes with one chain do no harm: of two
with one name and one link the later `Hello` gets the next epoch, and what the other one sends is dropped; of two names one
has to wait until the other is silent.

The messages
============

Up the tree:

- `Hello`: a leaf is there, with these sources and columns. It is said until the root knows all of them, and again when the
  leaf cannot go on from where it stands.
- `Delta`: what a stretch of a chain's events adds, and how far its sources have come. Accepted whole, in order, once; see
  docs/trees.md.
- `Leave`: the owner of a chain gives it up, and whoever asks for it next gets it. Without it the root waits until the owner
  has been silent for `NodeSettings.takeover_ns`.
- `Positions` from a leaf that has nothing to send: so a relay that forgot who is there hears of it.
- `Rates`: how fast events come at a leaf; every other leaf hears it, where count windows are shared out by rates.

Down:

- `Assign`: the chain is this leaf's from now on, under a new epoch: from which offsets, with which queries. To any other
  leaf that had the chain it means: stop.
- `Positions`: up to here deltas are accepted for good; or, with ``resend``, the chain stands here: send what lies behind.
- `Cuts`: markers of all nodes cut windows at these times: send what lies below, cut so. It is said again until all have.
- `CountPlan`: where count windows are expected to end; and before which time the root asks about no piece any more.
- `LookInto`: say what lies in these pieces of count windows; the answer is in a delta.
- `Flush`: the stream is over; take in nothing more.
- `Refuse`: the root will not have this chain, and why.

Time is of the host, and every limit is in `NodeSettings`. ``check`` of each node asserts what holds between two events; the
simulator calls it after each.
"""

from __future__ import annotations

from typing import Protocol

from headwater.node.leaf import LeafNode
from headwater.node.relay import RelayNode
from headwater.node.root import RootNode
from headwater.node.settings import NodeSettings
from headwater.protocols.actions import Action
from headwater.protocols.events import Event

__all__ = ["LeafNode", "Node", "NodeSettings", "RelayNode", "RootNode"]


class Node(Protocol):
    """A leaf, a relay or a root."""

    def handle(self, event: Event, now_ns: int) -> list[Action]:
        """Take one event, at a time of the host's clock, and return the actions that the host has to do, in this order."""
        ...

    def snapshot(self) -> bytes:
        """The state of the node as bytes; ``restore`` of its class makes a node that goes on from there."""
        ...

    def check(self) -> None:
        """Assert what holds between two events; the simulator does so after each."""
        ...
