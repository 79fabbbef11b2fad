"""A leaf node inside a Spark task: batches of events in, frames for the root out.

Each task begins with what the initial root would answer it, and sends what it would have asked in front of its deltas; the one
root behind the shuffle hears it first and answers the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.base.packing import Bytes
from headwater.errors import QueryError
from headwater.node import LeafNode
from headwater.node.splitting import unbundled
from headwater.protocols import events
from headwater.protocols.actions import Action, Finished, Refused, SendMessage
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Hello, Positions, encode
from headwater.spark.batch.initial_root import SETTINGS, assignment
from headwater.spark.formats.file_range import Passed
from headwater.spark.tasks import bug

ROOT = "root"
#: What travels from leaves to roots: frames in the order of their positions, the first of each chain a `Hello`. ``bucket`` says
#: to which root, ``relay`` through which relay, if there are any.
FRAMES = pa.schema(
    [
        ("relay", pa.int32()),
        ("bucket", pa.int32()),
        ("chain", pa.string()),
        ("position", pa.int64()),
        ("frame", pa.binary()),
    ]
)
#: The chain under which a batch of a stream says what it is; relays hand it on.
CONTROL = "\0batch"
#: How many leaves share a relay.
FAN_IN = 32


@dataclass(frozen=True, slots=True)
class SourceFeed:
    """The events of one source, in the order of their offsets."""

    source: str
    home: str
    batches: Iterable[pa.RecordBatch | Passed]


class LeafTask:
    """One leaf over some sources, from their first event to their last.

    Spark delivers whatever a task yields, or runs the whole task again: what was yielded counts as accepted.
    """

    def __init__(self, root: bytes, number: int, sources: Sequence[tuple[str, str]], buckets: int = 1) -> None:
        self._relay = number // FAN_IN
        self._buckets = buckets
        self._chain = chain = f"{number:08d}"
        self._leaf = LeafNode(chain, ROOT, settings=SETTINGS, roots=buckets, modules=None)
        self._sent = 0
        self._is_finished = False
        for source, home in sources:
            self._handle(events.SourceOpened(source, home))
        assign = assignment(root, chain, sources)
        self._epoch = assign.epoch
        # It tells the root behind the shuffle that it has the queries, so that the root need not serialize them again.
        self._hello = encode(Hello(chain, chain, version=assign.version, sources=tuple(sources)))
        self._check(self._leaf.hear(assign))

    def run(self, feeds: Iterable[SourceFeed], flush: bool) -> Iterator[pa.RecordBatch]:
        """The frames of all that the sources hold; ``flush``: nothing will ever follow."""
        yield frame_rows(self._relay, self._chain, 0, [self._hello] * self._buckets)
        for feed in feeds:
            offset = 0
            for batch in feed.batches:
                if isinstance(batch, Passed):
                    yield from self._after(events.EventsPassed(feed.source, offset, batch.count, batch.low, batch.high))
                    offset += batch.count
                else:
                    yield from self._after(events.BatchArrived(feed.source, offset, batch))
                    offset += len(batch)
            if flush:
                yield from self._after(events.SourceEnded(feed.source, offset))
        yield from self._after(events.TimerFired("send"))
        if flush and not self._is_finished:
            raise bug(f"leaf {self._chain!r} has not sent all it has")

    def _after(self, event: events.Event) -> Iterator[pa.RecordBatch]:
        frames = [action.frame for action in self._handle(event) if isinstance(action, SendMessage)]
        for frame in frames:
            self._sent += 1
            yield frame_rows(self._relay, self._chain, self._sent, unbundled(frame, self._buckets))
        if frames:
            accepted = Positions(False, {self._chain: Position(self._epoch, self._sent)})
            self._handle(events.MessageReceived(ROOT, encode(accepted)))

    def _handle(self, event: events.Event) -> list[Action]:
        return self._check(self._leaf.handle(event, 0))

    def _check(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if isinstance(action, Refused):
                raise QueryError(action.reason)
            self._is_finished |= isinstance(action, Finished)
        return actions


def frame_rows(relay: int, chain: str, position: int, shares: Sequence[Bytes]) -> pa.RecordBatch:
    """One frame for each bucket."""
    count = len(shares)
    columns = [[relay] * count, range(count), [chain] * count, [position] * count, shares]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, FRAMES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FRAMES)
