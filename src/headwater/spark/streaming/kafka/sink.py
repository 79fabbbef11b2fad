"""Result rows into a topic of Kafka, exactly once with transactions.

Each batch is one transaction, and its number is committed in it as the offset of a consumer group of the topic's own. So the
rows of a batch and the note that it is written appear together or not at all, and a batch that is run again is known by the note.
The note also says which stream wrote it, in which of its lives, and a digest of the rows: a topic belongs to one stream,
unless it is shared, and to one past of it. A sink that starts with the same identity first ends what its predecessor left open,
and shuts out one that still lives.

Kafka forgets such notes some days after the last one. Then the messages themselves tell: each carries its batch in a header.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.errors import DataError, HeadwaterError
from headwater.spark.streaming.kafka.client import TIMEOUT_S, Connection, KafkaSettings, library, said
from headwater.spark.streaming.kafka.reading import Place, messages_of, new_client
from headwater.spark.streaming.kafka.rows import json_rows, row_keys
from headwater.spark.streaming.sinks.noted import Note, NotedBatches
from headwater.spark.streaming.sinks.sink import Sink
from headwater.spark.streaming.sinks.timeline import Claimant

_log = logging.getLogger(__name__)

#: The header that names the stream and the batch of a message.
HEADER = "headwater"
#: How often a batch that the broker could not take is tried before the stream stops.
TRIES = 3
WRITE_OWN = {"linger.ms": 5, "compression.type": "lz4", "queue.buffering.max.messages": 500_000}
WRITE_FIXED = {"enable.idempotence": True}


def note_text(note: Note) -> str:
    """A note as it stands beside a committed offset."""
    return f"{note.stream}:{note.life}:{note.digest}"


def note_of(offset: int, text: str | None) -> Note:
    """The note in a committed offset.

    >>> note_of(8, "s:l:d"), note_of(8, None).batch
    (Note(batch=7, stream='s', life='l', digest='d'), 7)
    """
    parts = (text or "").split(":")
    return Note(offset - 1, *parts) if len(parts) == 3 else Note(offset - 1)


class KafkaSink(Sink):
    """A message for each row: JSON, with the key (query, window, keys, revision), in the partition of its query and keys.

    ``transactions=False`` writes at least once: after a crash a batch may come again, with the same keys. ``shared=True`` is for
    a topic that several streams write: a header of each message says whose it is.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        transactions: bool = True,
        shared: bool = False,
        config: Mapping[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._settings = KafkaSettings(servers, dict(config or {}), timeout_s)
        self._topic = topic
        self._transactions = transactions
        self._shared = shared
        self._stream: Claimant | None = None
        self._notes: NotedBatches | None = None
        self._producer: Any = None
        self._connection = Connection(self._settings)
        self._partitions = 0
        self._group: Any = None
        self._undelivered: list[str] = []

    def open(self, stream: Claimant) -> None:
        """Called before the first batch: whose rows it gets."""
        library()
        self._stream = stream
        shared = "give another topic, or write it with KafkaSink(..., shared=True) from all of them"
        self._notes = NotedBatches(f"topic {self._topic!r}", stream, shared, "give another topic")

    def write(self, batch: int, rows: pa.Table) -> None:
        """Write the rows of a batch, if they are not there; afterwards they are, and stay."""
        if not rows.num_rows:
            return
        if not self._transactions:
            self._write_again(batch, rows)
            return
        values = json_rows(rows)
        digest = hashlib.sha256(b"\n".join(values)).hexdigest()[:32]
        for left in reversed(range(TRIES)):
            if self._producer is None:
                self._start()
            if self._noted.has(batch, digest):
                return
            if self._write_once(self._noted.next(batch, digest), rows, values, is_last=left == 0):
                return

    def close(self) -> None:
        """Nothing is open between batches; a batch that was not finished is given up."""
        self._drop()

    # --- once ---

    def _write_once(self, note: Note, rows: pa.Table, values: Sequence[bytes], *, is_last: bool) -> bool:
        """One transaction; False if it was given up and may be tried again."""
        kafka, batch = library(), note.batch
        try:
            self._producer.begin_transaction()
            self._produce(batch, rows, values)
            self._note(note)
            self._commit()
        except kafka.KafkaException as error:
            may_try = error.args[0].txn_requires_abort() and not is_last and self._is_aborted()
            if not may_try:
                # What became of the transaction is found out when the sink starts again.
                self._drop()
                raise self._refused(batch, error) from error
            _log.warning("batch %d is written to Kafka again: %s", batch, said(error))
            return False
        except BaseException:
            self._drop()
            raise
        self._noted.last = note
        return True

    def _is_aborted(self) -> bool:
        try:
            self._again(lambda: self._producer.abort_transaction(self._settings.timeout_s))
        except library().KafkaException:
            return False
        return True

    def _note(self, note: Note) -> None:
        """Commit the note of the batch as part of the transaction."""
        place = library().TopicPartition(self._topic, 0, note.batch + 1, note_text(note))
        self._again(lambda: self._producer.send_offsets_to_transaction([place], self._group, self._settings.timeout_s))

    def _commit(self) -> None:
        self._again(lambda: self._producer.commit_transaction(self._settings.timeout_s))

    def _again(self, call: Callable[[], Any]) -> None:
        """Calls that may be resumed where they stopped."""
        kafka = library()
        for left in reversed(range(TRIES)):
            try:
                call()
                return
            except kafka.KafkaException as error:
                if not left or not error.args[0].retriable():
                    raise

    def _refused(self, batch: int, error: Exception) -> HeadwaterError:
        kafka = library()
        codes = (kafka.KafkaError._FENCED, kafka.KafkaError.INVALID_PRODUCER_EPOCH, kafka.KafkaError.PRODUCER_FENCED)
        if error.args[0].code() in codes:
            taken = "another run of the same stream has taken over; let only one run at a time"
            return self._settings.error(f"batch {batch} is not written to {self._topic!r}: {taken}")
        return self._connection.error(f"batch {batch} cannot be written to {self._topic!r}: {said(error)}")

    # --- at least once ---

    def _write_again(self, batch: int, rows: pa.Table) -> None:
        if self._producer is None:
            self._start()
        kafka = library()
        self._undelivered = []
        try:
            self._produce(batch, rows, json_rows(rows))
            left = self._producer.flush(self._settings.timeout_s)
        except kafka.KafkaException as error:
            self._drop()
            raise self._refused(batch, error) from error
        if left or self._undelivered:
            why = self._undelivered[0] if self._undelivered else "no answer in time"
            self._drop()
            raise self._connection.error(f"{why}: batch {batch} is not written to {self._topic!r}")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._undelivered.append(error.str())

    # --- messages ---

    def _produce(self, batch: int, rows: pa.Table, values: Sequence[bytes]) -> None:
        headers = [(HEADER, f"{self._own.stream}:{batch}".encode())]
        keys, numbers = self._keys(batch, rows)
        for value, key, number in zip(values, keys, numbers, strict=True):
            message = {"key": key, "partition": number % self._partitions, "headers": headers}
            while True:
                try:
                    self._producer.produce(self._topic, value, on_delivery=self._delivered, **message)
                    break
                except BufferError:
                    self._producer.poll(1.0)
        self._producer.poll(0)

    def _keys(self, batch: int, rows: pa.Table) -> tuple[Sequence[bytes], Sequence[int]]:
        if "window_start" in rows.column_names:
            return row_keys(rows, self._own.keys_of, self._own.only)
        # Events that were set aside: nothing else is theirs alone.
        return [f'["{self._own.stream}",{batch},{row}]'.encode() for row in range(rows.num_rows)], range(rows.num_rows)

    # --- clients ---

    def _start(self) -> None:
        """A producer, and which batch was written last."""
        kafka, identity = library(), f"headwater-{self._own.stream}-{self._topic}"
        fixed = {**WRITE_FIXED, "transactional.id": identity} if self._transactions else WRITE_FIXED
        self._connection = Connection(self._settings)
        reader = new_client(self._settings, group=identity if self._shared else f"headwater-sink-{self._topic}")
        try:
            self._partitions = self._partition_count(reader.consumer)
            producer = kafka.Producer(self._connection.config(WRITE_OWN, fixed))
            self._connection.client = producer
            if self._transactions:
                # Before the note is read: this ends what a predecessor left open, one way or the other.
                self._asked("no transaction can begin", lambda: producer.init_transactions(self._settings.timeout_s))
                self._group = reader.consumer.consumer_group_metadata()
            self._noted.last = self._claimed(reader)
        finally:
            reader.consumer.close()
        self._producer = producer

    def _partition_count(self, consumer: Any) -> int:
        found = self._asked("it does not answer", lambda: consumer.list_topics(self._topic, self._settings.timeout_s))
        topic = found.topics[self._topic]
        if topic.error is not None or not topic.partitions:
            raise self._settings.error(f"topic {self._topic!r} does not exist; create it first")
        return len(topic.partitions)

    @property
    def _own(self) -> Claimant:
        if self._stream is None:
            raise _unopened()
        return self._stream

    @property
    def _noted(self) -> NotedBatches:
        if self._notes is None:
            raise _unopened()
        return self._notes

    def _claimed(self, reader: Any) -> Note:
        """The last note of a topic that is this stream's own, as it is from now on if it was nobody's."""
        note = self._found(reader)
        if note is not None:
            self._noted.check(note)
            return note
        note = self._unsigned(reader) if self._transactions else Note(-1)
        self._noted.check(note)
        text = note_text(self._noted.next(note.batch))
        place = library().TopicPartition(self._topic, 0, note.batch + 1, text)
        self._asked("it is not claimed", lambda: reader.consumer.commit(offsets=[place], asynchronous=False))
        # Looked at again: of two streams that begin at once one has come last.
        self._noted.check(self._found(reader) or note)
        return note

    def _found(self, reader: Any) -> Note | None:
        place = library().TopicPartition(self._topic, 0)
        (noted,) = self._asked(
            "it does not say which batch was written last",
            lambda: reader.consumer.committed([place], self._settings.timeout_s),
        )
        return note_of(noted.offset, noted.metadata) if noted.offset >= 0 else None

    def _unsigned(self, reader: Any) -> Note:
        """The last batch of this stream in a topic without a note: by that of an older release, or by messages."""
        older = new_client(self._settings, group=f"headwater-{self._own.stream}-{self._topic}")
        try:
            return self._found(older) or Note(self._last_seen(reader))
        finally:
            older.consumer.close()

    def _last_seen(self, reader: Any) -> int:
        """The last batch of this stream of which there are messages."""
        kafka = library()
        wanted = [kafka.TopicPartition(self._topic, number, self._own.born_ms) for number in range(self._partitions)]
        begins = self._asked(
            "it does not say where to look", lambda: reader.consumer.offsets_for_times(wanted, self._settings.timeout_s)
        )
        return max([-1, *(self._last_in(reader, place.partition, place.offset) for place in begins)])

    def _last_in(self, reader: Any, partition: int, begin: int) -> int:
        if begin < 0:
            return -1  # nothing is as young
        where = Place(self._topic, partition, passes_lost=True)
        low, high = self._asked(
            "it does not say how far it goes",
            lambda: reader.consumer.get_watermark_offsets(where.at(begin), self._settings.timeout_s, cached=False),
        )
        chunks = messages_of(reader, where, max(low, begin), high)
        return max([-1, *(self._batch_of(message) for chunk in chunks for message in chunk)])

    def _batch_of(self, message: Any) -> int:
        for name, value in message.headers() or ():
            stream, _, batch = (value or b"").decode("utf-8", "replace").rpartition(":")
            if name == HEADER and stream == self._own.stream and batch.isdigit():
                return int(batch)
        return -1

    def _asked(self, what: str, call: Callable[[], Any]) -> Any:
        return self._connection.asked(f"topic {self._topic!r}: {what}", call)

    def _drop(self) -> None:
        """The producer is not used any more; what it still has is forgotten."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()


def _unopened() -> DataError:
    return DataError("the sink was not opened: call open(stream) before the first batch")
