"""`headwater.explain` of a streaming DataFrame: where each query is computed, and what travels for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.language.query import Query
from headwater.node.micro_batches.frames import EventGroup
from headwater.node.micro_batches.settings import BatchSettings
from headwater.spark.aggregate import arrow_schema
from headwater.spark.batch.partition_leaves import depends_on_order
from headwater.spark.batch.plan import initial_root
from headwater.spark.dataframe_streams.plan import StreamOptions, check_columns, stream_settings
from headwater.spark.explain.explanation import Planned, SparkExplanation, Travel, guarantee_of
from headwater.spark.native.choice import Asked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WHY = "who is late depends on the watermark that the last batch left, which only the roots know: events travel to them"
ORDER = "columns decide between events of one time within a batch; an event of a later batch is behind them"


def explain_stream(
    df: DataFrame,
    queries: Sequence[Query],
    ties: Sequence[str],
    options: StreamOptions,
    *,
    time: str,
    unit: str,
    strict: bool,
) -> SparkExplanation:
    """No job runs: nothing is known of events that have not come."""
    check_columns(df, options)
    asked = Asked(arrow_schema(df), time, unit)
    initial_root(queries, asked.schema, time=time, unit=unit, strict=strict)
    settings = stream_settings(queries, ties, options, time=time, unit=unit, strict=strict)
    group_of = {query.name: group for group in settings.groups for query in group.queries}
    planned = tuple(_planned(query, group_of[query.name], settings, asked) for query in queries)
    return SparkExplanation(planned, tuple(map(_travel, settings.groups)))


def _planned(query: Query, group: EventGroup, settings: BatchSettings, asked: Asked) -> Planned:
    plan = f"stream, keys on {settings.buckets} roots" if group.keys else "stream, one root"
    warning = ORDER if depends_on_order(query) else ""
    return Planned(query.name, plan, WHY, guarantee_of(query, asked), warning)


def _travel(group: EventGroup) -> Travel:
    names = tuple(query.name for query in group.queries)
    return Travel("stream", names, None, f"of each event: {', '.join(group.travelling)}")
