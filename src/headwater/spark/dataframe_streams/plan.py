"""Arguments of `aggregate` over a streaming DataFrame: checked, serialized for tasks, and with what they ask of the session."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.engine.results.side_output import SCHEMA as ASIDE
from headwater.errors import DataError, QueryError
from headwater.language.arguments import check_ahead, check_disorder
from headwater.language.files.queries import from_json, to_json
from headwater.language.query import Query
from headwater.language.schemas import check_unit_of
from headwater.language.time_columns import ARRIVAL, LIMIT, time_column
from headwater.language.times import Nanos, duration
from headwater.node.micro_batches.frames import BatchSettings, EventGroup, group_name
from headwater.spark.batch.partition_leaves import depends_on_order
from headwater.spark.batch.root import ACCOUNTS, plain_rows
from headwater.spark.native.choice import Asked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


#: Roots that share the keys, unless said otherwise: fixed for the life of a checkpoint, so no function of the cluster.
BUCKETS = 8
#: What a stream can give; ``all``: each row with its kind.
OUTPUTS = ("results", "aside", "accounts", "all")
KIND = "kind"
#: What Spark notes at a column of times that has a watermark: its delay in milliseconds.
_DELAY = "spark.watermarkDelayMs"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Arguments of `aggregate` that only streaming DataFrames take."""

    disorder: object = None
    source: str | None = None
    idle: object = None
    flush_when: str | Column | None = None
    flush_after: object = None
    live: bool = False
    buckets: int | None = None
    ahead_max: object = "auto"

    def with_watermark(self, df: DataFrame, time: str) -> StreamOptions:
        """The same; ``withWatermark`` on the column of times says the disorder if nothing else does."""
        fields = {field.name: field for field in df.schema}
        delay_ms = fields[time].metadata.get(_DELAY) if time in fields else None
        if delay_ms is None or self.disorder is not None:
            return self
        return replace(self, disorder=f"{delay_ms} ms")

    def refuse_batch(self) -> None:
        """A batch DataFrame has all rows at once and none is late."""
        for name in self.__slots__:
            if name == "ahead_max" and self.ahead_max == "auto":
                continue
            # By identity: 0 is equal to False, and a Column to nothing that could be asked.
            if getattr(self, name) is not None and getattr(self, name) is not False:
                raise DataError(f"{name} is for streaming DataFrames, and this is a batch DataFrame: leave it out")


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """``columns``: those that are read, by number; ``rows``: what comes out; ``ahead_max``: of times, in ticks."""

    settings: BatchSettings
    columns: tuple[str, ...]
    rows: pa.Schema
    output: str
    has_source: bool
    has_last: bool
    ahead_max: int | None = None

    @property
    def uses_clock(self) -> bool:
        return self.settings.idle_ms is not None or self.settings.flush_after_ms is not None

    def to_text(self) -> str:
        settings = self.settings
        plain = {name: getattr(settings, name) for name in settings.__slots__ if name != "groups"}
        groups = [[g.name, to_json(g.queries), list(g.columns), g.ties] for g in settings.groups]
        rows = schema_to_bytes(self.rows).hex()
        rest = {"columns": self.columns, "output": self.output, "source": self.has_source, "last": self.has_last}
        ahead = {"ahead_max": self.ahead_max}
        return json.dumps({"settings": plain, "groups": groups, "rows": rows, **rest, **ahead})

    @classmethod
    def from_text(cls, text: str) -> StreamPlan:
        tree: dict[str, Any] = json.loads(text)
        groups = tuple(
            EventGroup(name, tuple(from_json(queries)), tuple(columns), None if ties is None else tuple(ties))
            for name, queries, columns, ties in tree["groups"]
        )
        rows = schema_from_bytes(bytes.fromhex(tree["rows"]))
        settings = BatchSettings(groups, **tree["settings"])
        told = tree["output"], tree["source"], tree["last"], tree["ahead_max"]
        return cls(settings, tuple(tree["columns"]), rows, *told)


def stream_settings(
    queries: Sequence[Query],
    asked: Asked,
    ties: Sequence[str],
    options: StreamOptions,
    homes: Mapping[str, str] | None = None,
) -> BatchSettings:
    """The settings of the roots; whatever is wrong with them is said here."""
    disorder = check_disorder(options.disorder, asked.unit)
    check_unit_of("disorder", options.disorder, asked.schema, asked.time)
    if disorder is None and options.flush_when is None and options.flush_after is None:
        raise QueryError(
            "disorder is missing, so no window of this stream would ever close: say how far times may step back, "
            "such as disorder='10 s' ('0 s': never) or df.withWatermark(time, '10 seconds'), or when the stream ends "
            "(flush_when, flush_after)"
        )
    if options.idle is not None and options.source is None:
        raise QueryError("idle is for streams of several sources: name the column that tells them apart, source='...'")
    buckets = BUCKETS if options.buckets is None else options.buckets
    if type(buckets) is not int or not 1 <= buckets <= 1024:
        raise QueryError(f"buckets is {options.buckets!r}: give a whole number from 1 to 1024")
    is_judged = checked_ahead(asked, options) is not None
    groups = _groups(queries, ties, [time_column(asked.time).name, *([LIMIT] if is_judged else [])])
    return BatchSettings(
        groups,
        asked.time,
        asked.unit,
        disorder,
        asked.strict,
        _millis("idle", options.idle),
        _millis("flush_after", options.flush_after),
        buckets if any(group.keys for group in groups) else 1,
        bool(options.live),
        dict(homes or {}),
    )


def checked_ahead(asked: Asked, options: StreamOptions) -> int | None:
    """How far times may be ahead of the batch they came with, in ticks."""
    return check_ahead(options.ahead_max, asked.time, asked.schema, asked.unit)


def read_columns(settings: BatchSettings) -> tuple[str, ...]:
    """The columns that are asked of the DataFrame: limits of times are made of arrivals."""
    travelling = (name for group in settings.groups for name in group.travelling)
    return tuple(dict.fromkeys(ARRIVAL if name == LIMIT else name for name in travelling))


def _groups(queries: Sequence[Query], ties: Sequence[str], times: Sequence[str]) -> tuple[EventGroup, ...]:
    found: dict[str, list[Query]] = {}
    for query in queries:
        found.setdefault(group_name(query), []).append(query)
    made = []
    for name, own in found.items():
        columns = dict.fromkeys([*times, *(column for query in own for column in sorted(query.columns()))])
        in_order = any(map(depends_on_order, own))
        made.append(EventGroup(name, tuple(own), tuple(columns), tuple(ties) if in_order else None))
    return tuple(made)


def _millis(name: str, value: object) -> int | None:
    if value is None:
        return None
    span = duration(value)
    if not isinstance(span, Nanos) or span < 1_000_000:
        raise QueryError(f"{name} is {value!r}: give a duration of real time of at least 1 ms, such as '30 s'")
    return int(span) // 1_000_000


def check_columns(df: DataFrame, options: StreamOptions) -> None:
    if options.source is not None and options.source not in df.columns:
        raise DataError(f"source is {options.source!r}: there is no such column; there is {', '.join(df.columns)}")


def output_schema(results: pa.Schema, output: str) -> pa.Schema:
    """The columns of what comes out."""
    results = plain_rows(results)
    if output != "all":
        return {"results": results, "aside": ASIDE, "accounts": ACCOUNTS}[output]
    taken = {KIND, "aside", "account"} & set(results.names)
    if taken:
        raise QueryError(
            f"output='all' has a column {min(taken)!r} of its own: give that key or aggregate another name"
        )
    optional = [field.with_nullable(True) for field in results]
    more = [pa.field("aside", pa.struct(list(ASIDE))), pa.field("account", pa.struct(list(ACCOUNTS)))]
    return pa.schema([pa.field(KIND, pa.string(), nullable=False), *optional, *more])


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
