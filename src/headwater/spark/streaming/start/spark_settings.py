"""Spark settings that make micro-batches cheaper, for one stream and not for the session it was started from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark's default writes its logs through Hadoop's FileContext, which for files of this machine starts a program for each file
#: and each checksum, to set their permissions: more than a third of a small batch. This one writes the same files without.
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_WANTED = {
    _FILE_MANAGER: "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
}
#: The class is Spark's own business, and has moved before: elsewhere the default does, only slower.
_VERSIONS = ("4.3.",)


@contextmanager
def cheap_batches(spark: SparkSession) -> Iterator[None]:
    """A stream that is started in this ``with`` keeps the settings; what a user has set stays as it is."""
    if not spark.version.startswith(_VERSIONS):
        yield
        return
    ours = {name: value for name, value in _WANTED.items() if spark.conf.get(name, None) is None}
    for name, value in ours.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in ours:
            spark.conf.unset(name)
