"""Session settings that stateful streams need: set if the user has not chosen others, else an error in one sentence."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headwater.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_DEFAULT_PROVIDER = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
#: Each with what Spark has by itself.
_WANTED = {
    # Only changes are written at each batch, not the whole state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": ("true", "false"),
    # Versions of state have names of their own: a task that runs twice cannot write over the other's.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": ("2", "1"),
}
_TASKS = "spark.sql.shuffle.partitions"
#: Every task behind the shuffle opens and commits a state store at every batch, also one without a bucket.
_TASKS_PER_BUCKET_MAX = 4


def prepare(spark: SparkSession, buckets: int) -> None:
    """Set what can be set; a state store that cannot do it is refused."""
    provider = spark.conf.get(_PROVIDER, _DEFAULT_PROVIDER)
    if provider not in (_DEFAULT_PROVIDER, _ROCKSDB) and "RocksDB" not in str(provider):
        raise DataError(
            f"{_PROVIDER} is {provider!r}, which Spark's transformWithState cannot use: set it to {_ROCKSDB!r}"
        )
    if provider == _DEFAULT_PROVIDER:
        spark.conf.set(_PROVIDER, _ROCKSDB)
    for name, (wanted, default) in _WANTED.items():
        if str(spark.conf.get(name, default)) == default:
            spark.conf.set(name, wanted)
    tasks = int(str(spark.conf.get(_TASKS, "200")))
    if tasks > max(8, buckets * _TASKS_PER_BUCKET_MAX):
        logging.getLogger("headwater").warning(
            "%s is %d for %d buckets of state, and each task takes its time at every batch: set it to %d before the start",
            _TASKS,
            tasks,
            buckets,
            buckets,
        )
