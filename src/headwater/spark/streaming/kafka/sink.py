"""Result rows into a topic of Kafka, exactly once with transactions.

Each batch is one transaction, and its number is committed in it as the offset of a consumer group of its own. So the
rows of a batch and the note that it is written appear together or not at all, and a batch that is run again is known by the note.
A sink that starts with the same identity first ends what its predecessor left open, and shuts out one that still lives.

Kafka forgets such notes some days after the last one. Then the messages themselves tell: each carries its batch in a header.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.errors import DataError, HeadwaterError
from headwater.spark.streaming.kafka.client import TIMEOUT_S, Connection, KafkaSettings, library, said
from headwater.spark.streaming.kafka.reading import Place, messages_of, new_client
from headwater.spark.streaming.kafka.rows import KeysOf, json_rows, row_keys

_log = logging.getLogger(__name__)

#: The header that names the stream and the batch of a message.
HEADER = "headwater"
#: How often a batch that the broker could not take is tried before the stream stops.
TRIES = 3
WRITE_OWN = {"linger.ms": 5, "compression.type": "lz4", "queue.buffering.max.messages": 500_000}
WRITE_FIXED = {"enable.idempotence": True}


class KafkaSink:
    """A message for each row: JSON, with the key (query, window, keys, revision), in the partition of its query and keys.

    ``transactions=False`` writes at least once: after a crash a batch may come again, with the same keys.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        transactions: bool = True,
        config: Mapping[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._settings = KafkaSettings(servers, dict(config or {}), timeout_s)
        self._topic = topic
        self._transactions = transactions
        self._stream: str | None = None
        self._keys_of: KeysOf = _no_keys
        self._born_ms = 0
        self._producer: Any = None
        self._connection = Connection(self._settings)
        self._partitions = 0
        self._group: Any = None
        self._last = -1
        self._undelivered: list[str] = []

    def open(self, stream: str, keys_of: KeysOf | None = None, born_ms: int = 0) -> None:
        """Called once before the first batch. ``stream`` is the identity that a restart keeps and no other stream has.

        ``keys_of``: the key columns of a query. ``born_ms``: nothing of this stream is older.
        """
        library()
        self._stream, self._keys_of, self._born_ms = stream, keys_of or _no_keys, born_ms

    def write(self, batch: int, rows: pa.Table) -> None:
        """Write the rows of a batch, if they are not there; afterwards they are, and stay."""
        if not rows.num_rows:
            return
        if not self._transactions:
            self._write_again(batch, rows)
            return
        for left in reversed(range(TRIES)):
            if self._producer is None:
                self._start()
            if batch <= self._last:
                return
            if self._write_once(batch, rows, is_last=left == 0):
                self._last = batch
                return

    def close(self) -> None:
        """Nothing is open between batches; a batch that was not finished is given up."""
        self._drop()

    # --- once ---

    def _write_once(self, batch: int, rows: pa.Table, *, is_last: bool) -> bool:
        """One transaction; False if it was given up and may be tried again."""
        kafka = library()
        try:
            self._producer.begin_transaction()
            self._produce(batch, rows)
            self._note(batch)
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
        return True

    def _is_aborted(self) -> bool:
        try:
            self._again(lambda: self._producer.abort_transaction(self._settings.timeout_s))
        except library().KafkaException:
            return False
        return True

    def _note(self, batch: int) -> None:
        """Commit the number of the batch as part of the transaction."""
        place = library().TopicPartition(self._topic, 0, batch + 1)
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
            self._produce(batch, rows)
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

    def _produce(self, batch: int, rows: pa.Table) -> None:
        headers = [(HEADER, f"{self._stream}:{batch}".encode())]
        keys, numbers = self._keys(batch, rows)
        for value, key, number in zip(json_rows(rows), keys, numbers, strict=True):
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
            return row_keys(rows, self._keys_of)
        # Events that were set aside: nothing else is theirs alone.
        return [f'["{self._stream}",{batch},{row}]'.encode() for row in range(rows.num_rows)], range(rows.num_rows)

    # --- clients ---

    def _start(self) -> None:
        """A producer, and which batch was written last."""
        if self._stream is None:
            raise DataError("the sink was not opened: call open(identity) before the first batch")
        kafka = library()
        identity = f"headwater-{self._stream}-{self._topic}"
        fixed = {**WRITE_FIXED, "transactional.id": identity} if self._transactions else WRITE_FIXED
        self._connection = Connection(self._settings)
        reader = new_client(self._settings, group=identity)
        try:
            self._partitions = self._partition_count(reader.consumer)
            producer = kafka.Producer(self._connection.config(WRITE_OWN, fixed))
            self._connection.client = producer
            if self._transactions:
                # Before the note is read: this ends what a predecessor left open, one way or the other.
                self._asked("no transaction can begin", lambda: producer.init_transactions(self._settings.timeout_s))
                self._last = self._last_noted(reader)
                self._group = reader.consumer.consumer_group_metadata()
        finally:
            reader.consumer.close()
        self._producer = producer

    def _partition_count(self, consumer: Any) -> int:
        found = self._asked("it does not answer", lambda: consumer.list_topics(self._topic, self._settings.timeout_s))
        topic = found.topics[self._topic]
        if topic.error is not None or not topic.partitions:
            raise self._settings.error(f"topic {self._topic!r} does not exist; create it first")
        return len(topic.partitions)

    def _last_noted(self, reader: Any) -> int:
        """The last batch that is written; -1 if none is."""
        place = library().TopicPartition(self._topic, 0)
        (noted,) = self._asked(
            "it does not say which batch was written last",
            lambda: reader.consumer.committed([place], self._settings.timeout_s),
        )
        return noted.offset - 1 if noted.offset >= 0 else self._last_seen(reader)

    def _last_seen(self, reader: Any) -> int:
        """The last batch of this stream of which there are messages."""
        kafka = library()
        wanted = [kafka.TopicPartition(self._topic, number, self._born_ms) for number in range(self._partitions)]
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
            if name == HEADER and stream == self._stream and batch.isdigit():
                return int(batch)
        return -1

    def _asked(self, what: str, call: Callable[[], Any]) -> Any:
        return self._connection.asked(f"topic {self._topic!r}: {what}", call)

    def _drop(self) -> None:
        """The producer is not used any more; what it still has is forgotten."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()


def _no_keys(query: str) -> Sequence[str]:
    return ()
