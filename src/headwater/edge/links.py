"""Links to neighbours over ZeroMQ: frames out and in, counted, bounded, and as slow as they are told to be.

A node binds one ROUTER, where those who have its address find it, and dials a DEALER to each neighbour whose address it has, when
it first has something to say there. A dialled link carries frames both ways; the name of who dialled is its identity.

Nothing here waits to send. What a link cannot take now waits in a queue of its own, so a slow neighbour holds up no
other; `is_full` tells the host to stop reading events. Nothing is dropped, unless the neighbour is not there.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.base.packing import Bytes
from headwater.edge.errors import EdgeError
from headwater.edge.rates import FAR_NS, SECOND_NS, TokenBucket, wire_bytes
from headwater.protocols.frames import FRAME_BYTES_MAX, HEADER

if TYPE_CHECKING:
    import zmq

#: Any free port, for this machine only.
LOOPBACK = "tcp://127.0.0.1:*"
#: The most frames of a link that ZeroMQ itself holds at either end; the rest stays where it can be counted.
FRAMES_HELD_MAX = 16
#: Longer frames are not copied on their way; for shorter ones a copy is cheaper.
COPY_BYTES_MAX = 1 << 16
#: How soon to try again while ZeroMQ has no room. It mostly says so itself; a ROUTER does not for each of its links.
RETRY_NS = SECOND_NS // 1000


def zeromq() -> Any:
    """The module; one clear sentence where it is missing."""
    try:
        import zmq
    except ImportError:
        raise EdgeError("links need ZeroMQ: pip install 'headwater[edge]'") from None
    return zmq


@dataclass(slots=True)
class Traffic:
    """What went over a link in one direction; ``wire_bytes`` with ZeroMQ's own, without TCP's."""

    frames: int = 0
    bytes: int = 0
    wire_bytes: int = 0

    def add(self, size: int) -> None:
        """One more frame."""
        self.frames += 1
        self.bytes += size
        self.wire_bytes += wire_bytes(size)


@dataclass(slots=True)
class Link:
    """The way to one neighbour: a dialled DEALER, or one of those who dialled our ROUTER."""

    socket: zmq.Socket[bytes]
    #: Whom the ROUTER is to give frames to; None on a link of its own.
    identity: bytes | None
    bucket: TokenBucket | None
    #: Frames that wait, each with the moment at which it may leave.
    queue: deque[tuple[int, bytes]] = field(default_factory=deque)
    queued_bytes: int = 0
    queued_bytes_max: int = 0
    sent: Traffic = field(default_factory=Traffic)
    received: Traffic = field(default_factory=Traffic)


class Links:
    """All links of one node. ``addresses``: of the neighbours to dial, by name; it may grow until the first frame.

    Nodes that share a process share a ``context``, which is then for others to end.
    """

    def __init__(
        self,
        name: str,
        addresses: Mapping[str, str] | None = None,
        *,
        bits_per_s: float | None = None,
        full_bytes: int = 1 << 22,
        context: zmq.Context[Any] | None = None,
    ) -> None:
        self._zmq = zeromq()
        self.name = name
        self.addresses = dict(addresses or {})
        self.links: dict[str, Link] = {}
        self._bits_per_s = bits_per_s
        self._full_bytes = full_bytes
        self._is_alone = context is None
        self._context = self._zmq.Context() if context is None else context
        self._router = self._socket(self._zmq.ROUTER)
        # Else a frame for a link without room would be dropped in silence.
        self._router.setsockopt(self._zmq.ROUTER_MANDATORY, 1)
        self._inlets: list[tuple[str | None, zmq.Socket[bytes], int]] = [(None, self._router, self._router.FD)]
        self._waiting: dict[str, Link] = {}
        self._is_blocked = False

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        socket.setsockopt(self._zmq.LINGER, 0)
        socket.setsockopt(self._zmq.SNDHWM, FRAMES_HELD_MAX)
        socket.setsockopt(self._zmq.RCVHWM, FRAMES_HELD_MAX)
        # Who sends a longer one is cut off before it is in memory: no node would read it.
        socket.setsockopt(self._zmq.MAXMSGSIZE, FRAME_BYTES_MAX + HEADER.size)
        return socket

    def bind(self, address: str = LOOPBACK) -> str:
        """Listen; returns the address at which this node is found."""
        self._router.bind(address)
        return self._router.getsockopt(self._zmq.LAST_ENDPOINT).decode()  # type: ignore[union-attr]

    def _open(self, target: str) -> Link:
        bucket = None if self._bits_per_s is None else TokenBucket(self._bits_per_s)
        address = self.addresses.get(target)
        if address is None:
            link = Link(self._router, target.encode(), bucket)
        else:
            socket = self._socket(self._zmq.DEALER)
            socket.setsockopt(self._zmq.IDENTITY, self.name.encode())
            socket.connect(address)
            self._inlets.append((target, socket, socket.FD))
            link = Link(socket, None, bucket)
        self.links[target] = link
        return link

    # --- out ---

    def send(self, target: str, frame: bytes, now_ns: int) -> None:
        """Send a frame as soon as its link allows; frames of one link keep their order."""
        link = self.links.get(target) or self._open(target)
        size = wire_bytes(len(frame))
        leaves_ns = now_ns if link.bucket is None else link.bucket.leaves_ns(size, now_ns)
        if not link.queue and leaves_ns <= now_ns and self._send_now(link, frame):
            return
        link.queue.append((leaves_ns, frame))
        link.queued_bytes += size
        link.queued_bytes_max = max(link.queued_bytes_max, link.queued_bytes)
        self._waiting[target] = link

    def pump(self, now_ns: int) -> None:
        """Send what may leave by now."""
        self._is_blocked = False
        for target, link in list(self._waiting.items()):
            queue = link.queue
            while queue and queue[0][0] <= now_ns:
                if not self._send_now(link, queue[0][1]):
                    self._is_blocked = True
                    break
                link.queued_bytes -= wire_bytes(len(queue.popleft()[1]))
            if not queue:
                del self._waiting[target]

    def _send_now(self, link: Link, frame: bytes) -> bool:
        """Hand a frame to ZeroMQ; False if it has no room."""
        zmq = self._zmq
        is_short = len(frame) <= COPY_BYTES_MAX
        try:
            if link.identity is None:
                link.socket.send(frame, zmq.DONTWAIT, copy=is_short)
            else:
                link.socket.send(link.identity, zmq.DONTWAIT | zmq.SNDMORE)
                link.socket.send(frame, zmq.DONTWAIT, copy=is_short)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            # A frame for a neighbour that is not there is lost.
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return True
        link.sent.add(len(frame))
        return True

    @property
    def is_full(self) -> bool:
        """Whether so much waits for some link that nothing more should be made."""
        return any(link.queued_bytes >= self._full_bytes for link in self._waiting.values())

    # --- in ---

    def receive(self, frames_max: int) -> list[tuple[str, Bytes]]:
        """Frames that are there, each with the name of its sender; those on links we dialled come first."""
        zmq = self._zmq
        found: list[tuple[str, Bytes]] = []
        for name, socket, _ in reversed(self._inlets):
            while len(found) < frames_max and socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
                *identity, message = socket.recv_multipart(copy=False)
                sender = name if name is not None else _name_of(identity)
                if sender is None or len(identity) != (name is None):
                    continue  # no node sends such
                size = len(message.buffer)
                frame: Bytes = message.bytes if size <= COPY_BYTES_MAX else message.buffer
                link = self.links.get(sender) or self._open(sender)
                link.received.add(size)
                found.append((sender, frame))
        return found

    @property
    def files(self) -> list[int]:
        """File descriptors that can be read when something has changed."""
        return [file for _, _, file in self._inlets]

    def next_ns(self, now_ns: int) -> int:
        """The moment at which there is something to do here without any change: at once, if frames wait to be received."""
        zmq = self._zmq
        # A ZeroMQ file only tells of changes: what it has told before has to be asked for.
        if any(socket.getsockopt(zmq.EVENTS) & zmq.POLLIN for _, socket, _ in self._inlets):
            return now_ns
        if self._is_blocked:
            return now_ns + RETRY_NS
        return min((link.queue[0][0] for link in self._waiting.values()), default=FAR_NS)

    def close(self) -> None:
        """Close all links; frames that are under way are lost."""
        for _, socket, _ in self._inlets:
            socket.close(linger=0)
        if self._is_alone:
            self._context.destroy(linger=0)


def _name_of(identity: Sequence[zmq.Frame]) -> str | None:
    """The name that a peer has given itself; None if it is none."""
    try:
        return b"".join(part.bytes for part in identity).decode()
    except UnicodeDecodeError:
        return None


def wait_for(all_links: Sequence[Links], until_ns: int, other: int) -> bool:
    """Wait until frames come, a queued one may leave, or the file ``other`` can be read: returns whether that is so."""
    now_ns = time.monotonic_ns()
    wait_ns = max(0, min(until_ns, *(links.next_ns(now_ns) for links in all_links)) - now_ns)
    files = [other, *(file for links in all_links for file in links.files)]
    # Not ZeroMQ's own poll: it counts in milliseconds, and results are to come within a few.
    readable, _, _ = select.select(files, [], [], wait_ns / SECOND_NS)
    return other in readable
