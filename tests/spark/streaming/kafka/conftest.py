"""One broker for all tests of this folder, started by scripts/kafka and stopped again."""

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from waiting import wait_until

SCRIPT = Path(__file__).parents[4] / "scripts" / "kafka"
#: What the script ends with where there can be no broker.
UNAVAILABLE = 3


def _run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(SCRIPT), *arguments]
    # The first time Maven fetches the broker.
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """Where a broker listens."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    data = tmp_path_factory.mktemp("kafka")
    started = _run("start", "--port", "0", "--data", str(data))
    if started.returncode == UNAVAILABLE:
        pytest.skip(started.stderr.strip())
    assert started.returncode == 0, started.stderr
    yield (data / "address").read_text().strip()
    stopped = _run("stop", "--data", str(data))
    assert stopped.returncode == 0, stopped.stderr


class Broker:
    """What tests do with a broker."""

    def __init__(self, servers: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})

    def topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic."""
        from confluent_kafka.admin import NewTopic

        name = f"t{uuid.uuid4().hex[:12]}"
        self.make(NewTopic(name, partitions, 1, config=config))
        return name

    def make(self, topic) -> None:
        for future in self.admin.create_topics([topic]).values():
            future.result()

    def delete(self, topic: str) -> None:
        for future in self.admin.delete_topics([topic]).values():
            future.result()

    def add_partitions(self, topic: str, count: int) -> None:
        from confluent_kafka.admin import NewPartitions

        for future in self.admin.create_partitions([NewPartitions(topic, count)]).values():
            future.result()

    def drop_before(self, topic: str, partition: int, offset: int) -> None:
        """What retention does: records before an offset are gone."""
        from confluent_kafka import TopicPartition

        for future in self.admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            future.result()

    def send(self, topic: str, values, partition: int = 0, key: bytes | None = None) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers})
        self._produce(producer, topic, values, partition, key)
        assert producer.flush(30) == 0

    def transact(self, topic: str, values, partition: int = 0, *, commit: bool = True) -> None:
        """A transaction, which also takes an offset for its end."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(30)
        producer.begin_transaction()
        self._produce(producer, topic, values, partition, None)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
        self.settle(topic)

    def open_transaction(self, topic: str, values, partition: int = 0):
        """A transaction that goes on; who takes it ends it."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(30)
        producer.begin_transaction()
        self._produce(producer, topic, values, partition, None)
        producer.flush(30)
        return producer

    def _produce(self, producer, topic, values, partition, key) -> None:
        for value in values:
            text = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            producer.produce(topic, text, key=key, partition=partition)

    def settle(self, topic: str) -> None:
        """Until readers see the ends of all transactions: a broker says that one has ended before its partitions know."""
        wait_until(
            lambda: self._ends(topic, "READ_COMMITTED") == self._ends(topic, "READ_UNCOMMITTED"),
            f"no transaction is open in {topic}",
        )

    def _ends(self, topic: str, isolation: str) -> dict[int, int]:
        """How far each partition goes for readers of this kind."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        partitions = self.admin.list_topics(topic, 30).topics[topic].partitions
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions}
        found = self.admin.list_offsets(asked, isolation_level=IsolationLevel[isolation])
        return {place.partition: future.result().offset for place, future in found.items()}

    def messages(self, topic: str, *, is_open: bool = False) -> list:
        """All settled messages of a topic, partition by partition, by a client of their own; ``is_open``: a transaction is."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        if not is_open:
            self.settle(topic)
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            }
        )
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(30)
            assert message is not None, "the broker does not answer"
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                ended += 1
        consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))


@pytest.fixture(scope="session")
def broker(servers) -> Broker:
    return Broker(servers)
