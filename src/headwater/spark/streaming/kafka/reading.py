"""Reads an offset range of a Kafka partition as batches of events, in a worker.

The offset of an event is Kafka's own. Kafka uses some offsets for itself (the ends of transactions), others are of transactions
that were given up, or of records that compaction took away: there are no events there, and that is what is said of them. Only
settled records are read, so a stretch gives the same whenever it is read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from headwater.errors import DataError
from headwater.spark.formats import Batches, Passed, Wanted
from headwater.spark.streaming.kafka.client import Connection, KafkaSettings, library, source_name
from headwater.spark.streaming.kafka.values import batches_of

#: Messages, or bytes of them, that are parsed at once.
CHUNK_MESSAGES = 1 << 16
CHUNK_BYTES = 1 << 24
#: Messages that are taken over from the library at once.
TAKEN_AT_ONCE = 10_000
#: Seconds the library waits for that many; it waits only where offsets are missing.
WAIT_S = 0.05

#: What a user may say otherwise. The end of a partition is told when a request comes back empty, so it does not wait long.
READ_OWN = {
    "group.id": "headwater",
    "fetch.wait.max.ms": 20,
    "queued.min.messages": 200_000,
    "socket.nagle.disable": True,
    "check.crcs": True,
}
READ_FIXED = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}


@dataclass(frozen=True, slots=True)
class Client:
    """A consumer, and its connection."""

    consumer: Any
    connection: Connection


#: Consumers that wait for their next stretch, by their settings: Spark's workers live on, and connecting takes its time.
_waiting: dict[str, list[Client]] = {}


@contextmanager
def client(settings: KafkaSettings) -> Iterator[Client]:
    """A consumer for one stretch at a time; after an error it is not used again."""
    name = json.dumps(asdict(settings), sort_keys=True)
    waiting = _waiting.setdefault(name, [])
    taken = waiting.pop() if waiting else new_client(settings)
    try:
        yield taken
        taken.consumer.unassign()
    except BaseException:
        taken.consumer.close()
        raise
    waiting.append(taken)


def new_client(settings: KafkaSettings, group: str | None = None) -> Client:
    """A consumer; its group matters only to who commits something."""
    connection = Connection(settings)
    fixed = READ_FIXED if group is None else {**READ_FIXED, "group.id": group}
    return Client(library().Consumer(connection.config(READ_OWN, fixed)), connection)


def read(stretch: Mapping[str, Any], wanted: Wanted) -> Batches:
    """The events of a stretch, and where there are none."""
    place = Place(stretch["topic"], stretch["partition"], stretch["on_data_loss"] == "pass")
    at, end = stretch["start"], stretch["end"]
    begin = min(max(at, stretch["begin"]), end)
    if begin < end:
        with client(KafkaSettings(**stretch["settings"])) as taken:
            for messages in messages_of(taken, place, begin, end):
                for offset, batch in batches_of(messages, place.source, wanted):
                    if offset > at:
                        yield Passed(offset - at)
                    yield batch
                    at = offset + len(batch)
    if at < end:
        yield Passed(end - at)


@dataclass(frozen=True, slots=True)
class Place:
    """A partition, and whether what it has lost is passed over."""

    topic: str
    partition: int
    passes_lost: bool = False

    @property
    def source(self) -> str:
        return source_name(self.topic, self.partition)

    def at(self, offset: int) -> Any:
        return library().TopicPartition(self.topic, self.partition, offset)


def messages_of(taken: Client, place: Place, begin: int, end: int) -> Iterator[Sequence[Any]]:
    """The messages of offsets [begin, end), some at a time."""
    reading = _Reading(taken, place, begin, end)
    chunk: list[Any] = []
    size = 0
    taken.consumer.assign([place.at(begin)])
    while reading.at < end:
        some = reading.more()
        chunk += some
        size += sum(map(len, some))
        if len(chunk) >= CHUNK_MESSAGES or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _Reading:
    """How far a stretch is read; ``at`` is the next offset that may hold a message."""

    def __init__(self, taken: Client, place: Place, at: int, end: int) -> None:
        self._consumer, self._connection, self._place = taken.consumer, taken.connection, place
        self._timeout_s = taken.connection.settings.timeout_s
        self.at, self._end = at, end
        self._eof: int | None = None
        self._moved_s = time.monotonic()
        self._codes = library().KafkaError

    def more(self) -> list[Any]:
        """The next messages, none if there are none yet."""
        before, found = self.at, []
        for message in self._consumer.consume(min(TAKEN_AT_ONCE, self._end - self.at), WAIT_S):
            error = message.error()
            if error is not None:
                self._on_error(error, message.offset())
            elif message.offset() >= self._end:
                self.at = self._end
            elif message.offset() >= self.at:
                found.append(message)
                self.at = message.offset() + 1
        if self.at != before:
            self._moved_s = time.monotonic()
        elif time.monotonic() - self._moved_s > self._timeout_s:
            self._give_up()
        return found

    def _on_error(self, error: Any, offset: int) -> None:
        code = error.code()
        if code == self._codes._PARTITION_EOF:
            # Behind a change of the leader the end may be told too low for a moment.
            self._eof = offset
            if offset >= self._end:
                self.at = self._end
        elif code in (self._codes._AUTO_OFFSET_RESET, self._codes.OFFSET_OUT_OF_RANGE):
            self._on_lost()
        elif not error.retriable():
            raise self._connection.settings.error(f"{self._place.source} cannot be read: {error.str()}")

    def _on_lost(self) -> None:
        here = self._place.at(self.at)
        low, high = self._connection.asked(
            f"{self._place.source} does not say which offsets it holds",
            lambda: self._consumer.get_watermark_offsets(here, self._timeout_s, cached=False),
        )
        if self.at > high:
            raise ends_early(self._place.source, high, self._end)
        if self.at < low:
            if not self._place.passes_lost:
                raise lost(self._place.source, self.at, min(low, self._end))
            self.at = min(low, self._end)
        self._consumer.assign([self._place.at(self.at)])

    def _give_up(self) -> None:
        if self._eof is not None and self._eof < self._end:
            raise ends_early(self._place.source, self._eof, self._end)
        nothing = f"gave nothing at offset {self.at} for {self._timeout_s:g} seconds"
        raise self._connection.error(f"{self._place.source} {nothing}")


def lost(source: str, start: int, end: int) -> DataError:
    return DataError(
        f"{source}: offsets [{start}, {end}) are gone from Kafka before they were read (retention, or records were deleted);"
        " on_data_loss='pass' goes on without them and counts them"
    )


def ends_early(source: str, found: int, expected: int) -> DataError:
    return DataError(
        f"{source}: Kafka ends at offset {found}, but went to {expected} before: the topic was made again, or a broker lost data"
    )
