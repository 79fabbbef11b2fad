"""The Kafka client library: its import, settings of clients, and their connections to brokers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headwater.errors import DataError, HeadwaterError
from headwater.spark.setup import SetupError

#: How many seconds a broker may take to answer.
TIMEOUT_S = 60.0
PARTITIONS_MAX = 100_000


class BrokerError(HeadwaterError):
    """A broker that does not answer or refuses, or a topic that is not there."""


def library() -> Any:
    """The client library, an extra."""
    try:
        import confluent_kafka
    except ImportError:
        raise SetupError("confluent-kafka is not installed: install with: pip install 'headwater[kafka]'") from None
    return confluent_kafka


def source_name(topic: str, partition: int) -> str:
    """How a partition is called among sources: padded, so that names sort as numbers do.

    >>> source_name("loads", 7)
    'loads/00007'
    """
    if partition >= PARTITIONS_MAX:
        raise DataError(f"topic {topic!r} has a partition {partition}: headwater reads {PARTITIONS_MAX} of a topic")
    return f"{topic}/{partition:05d}"


@dataclass(frozen=True)
class KafkaSettings:
    """Where the brokers are and how to speak with them; travels as JSON.

    ``config``: of values, or of {"env": NAME} for what must not be written down anywhere.
    """

    servers: str
    config: Mapping[str, Any]
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        if not self.servers or not hasattr(self.servers, "encode"):
            raise DataError(f"servers is {self.servers!r}: give brokers as 'host:port', several with commas between")
        for name, value in self.config.items():
            is_plain = isinstance(value, str | int | float | bool)
            if not is_plain and not (isinstance(value, Mapping) and list(value) == ["env"]):
                raise DataError(
                    f"config[{name!r}] is {value!r}: give text, a number, or {{'env': NAME}} for a variable of the environment"
                )

    def error(self, what: str) -> BrokerError:
        """The error for something wrong at these brokers."""
        return BrokerError(f"Kafka at {self.servers}: {what}")


def _resolved(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    found = os.environ.get(value["env"])
    if found is None:
        raise DataError(f"config[{name!r}] is to come from the environment, where {value['env']!r} is not set")
    return found


class Connection:
    """The connection of one client to the brokers: its configuration, its calls, and their errors as one sentence."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        #: A client that says something only when it is asked; not a consumer, whose messages would be lost.
        self.client: Any = None
        self._last = ""

    def config(self, own: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
        """``own``: what a user may say otherwise; ``fixed``: what must be so, or results would be wrong."""
        given = {name: _resolved(name, value) for name, value in self.settings.config.items()}
        wrong = [name for name in given if name in fixed and given[name] != fixed[name]]
        if wrong:
            raise DataError(f"config[{wrong[0]!r}] is set: headwater needs it to be {fixed[wrong[0]]!r}; leave it out")
        servers = self.settings.servers
        common = {"bootstrap.servers": servers, "client.id": "headwater", "error_cb": self._on_error, "log_level": 0}
        return {**common, **own, **given, **fixed}

    def _on_error(self, error: Any) -> None:
        # That all are down says less than what was said of each before.
        if error.name() != "_ALL_BROKERS_DOWN":
            self._last = error.str()

    def error(self, what: str) -> BrokerError:
        """The error for ``what``, with what the client last said about its connections: calls that time out do not know why."""
        if self.client is not None:
            # A client that was shut out says so again here.
            with suppress(library().KafkaException):
                self.client.poll(0)
        return self.settings.error(f"{what} ({self._last})" if self._last else what)

    def asked(self, what: str, call: Callable[[], Any]) -> Any:
        """What a broker answers; an error in one sentence if it does not."""
        kafka = library()
        try:
            return call()
        except kafka.KafkaException as error:
            raise self.error(f"{what}: {said(error)}") from error


def said(error: Exception) -> str:
    """What the library says, without the numbers around it."""
    inner = error.args[0] if error.args else error
    return inner.str() if hasattr(inner, "str") else str(inner)
