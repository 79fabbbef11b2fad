"""`headwater.aggregate` of a streaming DataFrame: any window, as a streaming DataFrame.

Each partition of a micro-batch packs its events, by the keys that queries have, and says how far its sources came. Behind a
shuffle stands a root for each bucket of keys, whose state is one packed value in Spark's state store. Events have to travel:
who is late is a matter of the watermark that the last batch left, and only the roots know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from headwater.engine.intake.arrival_columns import with_limits
from headwater.engine.results.side_output import SCHEMA as ASIDE
from headwater.errors import DataError, QueryError
from headwater.language.query import Query
from headwater.language.time_columns import ARRIVAL
from headwater.node.micro_batches.frames import frames
from headwater.spark.batch.partition_leaves import gathered
from headwater.spark.dataframe_streams import plan as plans
from headwater.spark.dataframe_streams.plan import KIND, StreamOptions, StreamPlan
from headwater.spark.doors import check_spark
from headwater.spark.native.choice import Asked
from headwater.spark.native.types import functions_of, quoted
from headwater.spark.result_rows import shown_all, shown_aside, shown_rows, spark_shape
from headwater.spark.shipped import refuse_shipped
from headwater.spark.shuffles import bucket_labels
from headwater.spark.tasks import in_tasks
from headwater.spark.types import spark_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


FRAMES = pa.schema([("bucket", pa.int32()), ("partition", pa.int32()), ("number", pa.int32()), ("frame", pa.binary())])


def stream_aggregate(
    df: DataFrame,
    queries: Sequence[Query],
    asked: Asked,
    ties: Sequence[str],
    options: StreamOptions,
    output: str,
    homes: Mapping[str, str],
) -> DataFrame:
    """Result rows of all queries, as they come out; see `headwater.aggregate`."""
    from headwater.spark.dataframe_streams.state import unpacked

    check_spark(df.sparkSession, "hw.aggregate of a streaming DataFrame")
    refuse_shipped(queries, "a streaming DataFrame")
    if output not in plans.OUTPUTS:
        raise QueryError(f"output is {output!r}: give one of {', '.join(map(repr, plans.OUTPUTS))}")
    if asked.sums != "exact":
        raise QueryError(f"sums is {asked.sums!r}: streams have exact sums; leave it out")
    plans.check_columns(df, options)
    root = asked.root(queries)
    shape = spark_shape(queries, asked.schema, asked.time, asked.unit, is_stream=True, is_live=options.live)
    settings = plans.stream_settings(queries, asked, ties, options, homes)
    rows = plans.output_schema(root.result_schema, output)
    wanted = spark_types(rows)[0]
    columns = plans.read_columns(settings)
    has_source, has_last = options.source is not None, options.flush_when is not None
    ahead_max = plans.checked_ahead(asked, options)
    text = StreamPlan(settings, columns, wanted, output, has_source, has_last, ahead_max).to_text()
    plans.prepare(df.sparkSession, settings.buckets)
    sent = in_tasks(_selected(df, columns, options), FRAMES, sent_frames, text)
    found = in_tasks(_with_state(sent, text), rows, unpacked)
    if output == "all":
        return shown_all(found, queries, shape, ASIDE.names)
    if output == "aside":
        return shown_aside(found, shape)
    return shown_rows(found, queries, shape) if output == "results" else found


def _selected(df: DataFrame, columns: Sequence[str], options: StreamOptions) -> DataFrame:
    """The columns that travel, by numbers: mapInArrow does not take every name."""
    f = functions_of(df)
    # The time of the batch, which Spark writes down before it runs: a batch that runs again has the same.
    arrival = f.unix_micros(f.current_timestamp())
    read = (arrival if name == ARRIVAL else df[quoted(name)] for name in columns)
    chosen = [column.alias(f"c{number}") for number, column in enumerate(read)]
    if options.source is not None:
        chosen.append(df[quoted(options.source)].cast("string").alias("source"))
    if options.flush_when is not None:
        when = f.expr(options.flush_when) if isinstance(options.flush_when, str) else options.flush_when
        if df.select(when.alias("last")).schema["last"].dataType.typeName() != "boolean":
            raise DataError(f"flush_when is {options.flush_when!r}: give a condition, such as \"kind = 'end'\"")
        chosen.append(when.alias("last"))
    return df.select(*chosen)


def _with_state(sent: DataFrame, plan: str) -> DataFrame:
    from headwater.spark.dataframe_streams.state import PACKED, BucketProcessor

    parsed = StreamPlan.from_text(plan)
    mode = "Update" if parsed.settings.is_live else "Append"
    clock = "ProcessingTime" if parsed.uses_clock else "None"
    return sent.groupBy("bucket").transformWithState(BucketProcessor(plan), PACKED, mode, clock)


def sent_frames(text: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The frames of this partition for each bucket."""
    from pyspark import TaskContext

    plan = StreamPlan.from_text(text)
    settings = plan.settings
    labels = bucket_labels(settings.buckets)
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    for number, batch in enumerate(gathered(batches)):
        more: dict[str, Any] = {}
        if plan.has_source:
            more["sources"] = batch.column("source")
        if plan.has_last:
            more["last"] = batch.column("last")
        events = pa.RecordBatch.from_arrays(batch.columns[: len(plan.columns)], names=list(plan.columns))
        events = with_limits(events, plan.ahead_max, settings.unit)
        told = frames(events, settings.groups, settings.buckets, time=settings.time, unit=settings.unit, **more)
        rows = [(labels[bucket], partition, number, frame.to_bytes()) for bucket, frame in told]
        arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), FRAMES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=FRAMES)


class Parts(NamedTuple):
    """The three kinds of rows of ``output="all"``, each as a DataFrame."""

    results: DataFrame
    aside: DataFrame
    accounts: DataFrame


def split_output(rows: DataFrame) -> Parts:
    """The rows of ``output="all"``, each kind in its own columns; within `foreachBatch`, or of a table that holds them."""
    results = [quoted(name) for name in rows.columns if name not in (KIND, "aside", "account")]
    return Parts(
        rows.where(f"{KIND} = 'result'").select(*results),
        rows.where(f"{KIND} = 'aside'").select("aside.*"),
        rows.where(f"{KIND} = 'account'").select("account.*"),
    )
