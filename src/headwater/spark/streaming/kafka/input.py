"""Topics of Kafka as the input of a stream: each partition is a source, and the offsets of its events are Kafka's own.

Only what is settled is read: up to the last stable offset, without transactions that were given up. A partition that is added is
a new source. A topic that is gone, or was made again, is an error that names it; so are events that Kafka dropped before they
were read, unless ``on_data_loss="pass"`` says to go on without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.base.offsets import check_offset
from headwater.errors import DataError
from headwater.language.homes import home_of_partition
from headwater.spark.streaming.inputs.input import Extent
from headwater.spark.streaming.kafka import reading as kafka_reading
from headwater.spark.streaming.kafka.client import TIMEOUT_S, Connection, KafkaSettings, library, said, source_name
from headwater.spark.streaming.kafka.values import BESIDE, KEY, TIMESTAMP, schema_of

#: Messages of a partition from which the columns are told.
LOOK_MESSAGES = 1000


class KafkaInput:
    """Events of some topics, each message a JSON object.

    ``schema``: the columns of events; without it they are told from the first messages. ``begin``: "earliest", "latest", or by
    source ("topic/00003") the offset to begin with; partitions that are added later are read from their first message on.
    ``key`` and ``timestamp``: events also have the columns "kafka_key" (text) and "kafka_timestamp". ``on_data_loss``: "error",
    or "pass" to go on without events that Kafka dropped before they were read. ``config``: what else the client needs; a value
    {"env": NAME} is taken from the environment of each process and written down nowhere.
    """

    kind = "kafka"
    stores_arrivals = True  # the timestamps of messages

    def __init__(
        self,
        servers: str,
        topics: str | Sequence[str],
        *,
        schema: pa.Schema | None = None,
        begin: str | Mapping[str, int] = "earliest",
        key: bool = False,
        timestamp: bool = False,
        on_data_loss: str = "error",
        config: Mapping[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        if not self._topics or len(set(self._topics)) < len(self._topics):
            raise DataError(f"topics is {topics!r}: give the name of a topic, or several, each once")
        if on_data_loss not in ("error", "pass"):
            raise DataError(f"on_data_loss is {on_data_loss!r}: give 'error' or 'pass'")
        self._settings = KafkaSettings(servers, dict(config or {}), timeout_s)
        self._on_data_loss = on_data_loss
        self._lows: dict[str, int] = {}
        self._beside = [name for name, is_asked in ((KEY, key), (TIMESTAMP, timestamp)) if is_asked]
        #: The identity of each topic, and where each partition that was there begins: fixed once, a restart does not move them.
        self._ids: dict[str, str] = {}
        self._begins: dict[str, int] = {}
        self._given = schema
        self._begin(begin)

    def _begin(self, begin: str | Mapping[str, int]) -> None:
        partitions = self._partitions()
        lows, highs = self._offsets(partitions, is_low=True), self._offsets(partitions, is_low=False)
        if isinstance(begin, str):
            if begin not in ("earliest", "latest"):
                raise DataError(f"begin is {begin!r}: give 'earliest', 'latest' or an offset for each source")
            self._begins = dict(lows if begin == "earliest" else highs)
            return
        for name, offset in begin.items():
            if name not in lows:
                raise DataError(f"begin names {name!r}: there is no such source; there is {', '.join(sorted(lows))}")
            if not lows[name] <= check_offset(name, offset) <= highs[name]:
                raise DataError(f"begin[{name!r}] is {offset}: Kafka holds [{lows[name]}, {highs[name]})")
        self._begins = {**lows, **begin}

    # --- what it is ---

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of events, those beside the values last."""
        found = self._look() if self._given is None else self._given
        taken = [name for name in self._beside if name in found.names]
        if taken:
            raise DataError(
                f"column {taken[0]!r} is in the values too; leave out that of Kafka, or give schema= without it"
            )
        for name in self._beside:
            found = found.append(pa.field(name, BESIDE[name]))
        return found

    def _look(self) -> pa.Schema:
        """The columns of the first messages of the first partition that has any."""
        partitions = self._partitions()
        lows, highs = self._offsets(partitions, is_low=True), self._offsets(partitions, is_low=False)
        for name in sorted(highs.keys() & lows.keys()):
            end = min(highs[name], lows[name] + LOOK_MESSAGES)
            if lows[name] == end:
                continue
            place = kafka_reading.Place(*partitions[name])
            with kafka_reading.client(self._settings) as taken:
                chunks = kafka_reading.messages_of(taken, place, lows[name], end)
                values = [message.value() for chunk in chunks for message in chunk if message.value()]
            if values:
                try:
                    return schema_of(values)
                except (ValueError, pa.ArrowException):
                    raise DataError(f"{name}: none of its first messages is a JSON object; give schema=") from None
        raise DataError(
            f"topics {', '.join(self._topics)} are empty, so nothing says which columns there are; give schema="
        )

    def to_data(self) -> dict[str, Any]:
        return {
            "topics": self._topics,
            "schema": schema_to_bytes(self.schema).hex(),
            "beside": self._beside,
            "on_data_loss": self._on_data_loss,
            "settings": asdict(self._settings),
            "began": {"ids": self._ids, "offsets": self._begins},
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> KafkaInput:
        made = cls.__new__(cls)
        made._topics, made._beside = list(data["topics"]), list(data["beside"])
        made._settings, made._on_data_loss = KafkaSettings(**data["settings"]), data["on_data_loss"]
        made._ids, made._begins, made._lows = dict(data["began"]["ids"]), dict(data["began"]["offsets"]), {}
        made.__dict__["schema"] = schema_from_bytes(bytes.fromhex(data["schema"]))
        return made

    # --- in the planner ---

    def extents(self) -> dict[str, Extent]:
        partitions = self._partitions()
        self._lows |= self._offsets(partitions, is_low=True)
        ends = self._offsets(partitions, is_low=False)
        return {name: Extent(ends[name], home_of_partition(name)) for name in sorted(ends)}

    def stretches(self, source: str, start: int, end: int) -> list[dict[str, Any]]:
        """One description; its ``lost`` says how many events are gone."""
        topic, _, partition = source.rpartition("/")
        first = max(start, min(self._begins.get(source, 0), end))
        begin = max(first, min(self._lows.get(source, 0), end))
        if begin > first and self._on_data_loss == "error":
            raise kafka_reading.lost(source, first, begin)
        return [
            {
                "topic": topic,
                "partition": int(partition),
                "start": start,
                "begin": begin,
                "end": end,
                "lost": begin - first,
                "on_data_loss": self._on_data_loss,
                "settings": asdict(self._settings),
            }
        ]

    #: In a worker.
    read = staticmethod(kafka_reading.read)

    # --- what a broker is asked ---

    @cached_property
    def _connection(self) -> Connection:
        return Connection(self._settings)

    @cached_property
    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        # Settings that only a consumer knows are not this client's.
        made = AdminClient(self._connection.config({"socket.nagle.disable": True}, {}))
        self._connection.client = made
        return made

    def _partitions(self) -> dict[str, tuple[str, int]]:
        """The partitions of all topics by the names of sources. A topic that is not there, or no longer the same, is an error."""
        library()
        found: dict[str, tuple[str, int]] = {}
        for topic, answer in self._described().items():
            known = self._ids.setdefault(topic, str(answer.topic_id))
            if known != str(answer.topic_id):
                raise DataError(
                    f"topic {topic!r} was deleted and made again: its offsets mean other events now; begin a new stream with"
                    " another checkpoint"
                )
            found |= {source_name(topic, each.id): (topic, each.id) for each in answer.partitions}
        return found

    def _described(self) -> dict[str, Any]:
        """What the brokers say of each topic."""
        kafka, timeout_s = library(), self._settings.timeout_s
        topics = kafka.TopicCollection(self._topics)
        futures = self._connection.asked(
            "topics cannot be asked for", lambda: self._admin.describe_topics(topics, request_timeout=timeout_s)
        )
        found = {}
        for topic, future in futures.items():
            try:
                found[topic] = future.result()
            except kafka.KafkaException as error:
                if error.args[0].code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    gone = "is gone" if topic in self._ids else "does not exist"
                    raise self._settings.error(f"topic {topic!r} {gone}") from None
                raise self._connection.error(f"topic {topic!r} cannot be looked at: {said(error)}") from None
        return found

    def _offsets(self, partitions: Mapping[str, tuple[str, int]], *, is_low: bool) -> dict[str, int]:
        """The first offsets, or those behind the last settled events. Who has no leader just now is left out: it comes back."""
        if not partitions:
            return {}
        from confluent_kafka.admin import OffsetSpec

        kafka = library()
        spec = OffsetSpec.earliest() if is_low else OffsetSpec.latest()
        wanted = {kafka.TopicPartition(*place): spec for place in partitions.values()}
        level = kafka.IsolationLevel.READ_COMMITTED
        futures = self._connection.asked(
            "offsets cannot be asked for",
            lambda: self._admin.list_offsets(wanted, isolation_level=level, request_timeout=self._settings.timeout_s),
        )
        found = {}
        for place, future in futures.items():
            try:
                found[source_name(place.topic, place.partition)] = future.result().offset
            except kafka.KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() != kafka.KafkaError.LEADER_NOT_AVAILABLE:
                    what = f"the offsets of {place.topic}/{place.partition} cannot be asked for: {said(error)}"
                    raise self._connection.error(what) from None
        return found
