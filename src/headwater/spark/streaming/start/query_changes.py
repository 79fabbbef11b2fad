"""Queries of a stream: which it answers now, and how they change when it is started again with others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.engine.results.shape import ResultShape
from headwater.engine.results.side_output import SCHEMA as ASIDE
from headwater.engine.wire.query_set import read_query_set
from headwater.errors import QueryError
from headwater.language.files.queries import from_json, to_json
from headwater.language.homes import refuse_homeless
from headwater.language.query import Query
from headwater.language.schemas import check_schemas
from headwater.spark.batch.initial_root import initial_root
from headwater.spark.batch.root import plain_rows
from headwater.spark.result_rows import spark_shape
from headwater.spark.streaming.checkpoint import ROW_FORM, About, StreamCheckpoint


def running_queries(checkpoint: StreamCheckpoint) -> dict[str, Query]:
    """The queries of a stream by name, once everything that users have asked for is done."""
    last = checkpoint.last_batch()
    data = None if last is None else checkpoint.directive(last)
    assert data is not None, "a stream that has begun has a directive"
    running = {entry.query.name: entry.query for entry in read_query_set(checkpoint.queries(data["queries"])).entries}
    for number in range(data["commands"], checkpoint.command_count()):
        if checkpoint.refused(number) is None:
            _apply(running, checkpoint.command(number))
    return running


def _apply(running: dict[str, Query], command: Mapping[str, Any]) -> None:
    if command["what"] == "add":
        running.update({query.name: query for query in from_json(command["queries"])})
    elif command["what"] == "remove":
        running.pop(command["name"], None)


def row_columns(checkpoint: StreamCheckpoint, query: str | None = None) -> pa.Schema:
    """The columns of the rows to come, as sinks get them: of one query, or of all."""
    about, queries = checkpoint.begun(), running_queries(checkpoint)
    engine = {name: about.settings[name] for name in ("time", "unit", "disorder", "strict")}
    inside = plain_rows(initial_root(queries.values(), about.schema, **engine).result_schema)
    shape = stream_shape(about, queries.values())
    shown = inside if shape is None else shape.rows(inside.empty_table()).schema
    if query is None or query not in queries:
        return shown
    own = queries[query].own_columns(may_revise="replaces" in shown.names)
    return pa.schema([shown.field(name) for name in own if name in shown.names])


def aside_columns(checkpoint: StreamCheckpoint, query: str | None = None) -> pa.Schema:
    """The columns of the side output, as its sink gets them."""
    shape = stream_shape(checkpoint.begun(), running_queries(checkpoint).values())
    return ASIDE if shape is None else shape.aside(ASIDE.empty_table()).schema


def stream_shape(about: About, queries: Iterable[Query]) -> ResultShape | None:
    """How the rows of queries look; None in a stream that began with the columns of an earlier release."""
    if about.row_form != ROW_FORM:
        return None
    time, unit = about.settings["time"], about.settings["unit"]
    return spark_shape(list(queries), about.schema, time, unit, is_stream=True)


def change_queries(checkpoint: StreamCheckpoint, about: About, asked: Sequence[Query]) -> None:
    """Change the queries of a stopped stream to those asked for now: new ones begin, missing ones end."""
    running, unit = running_queries(checkpoint), about.settings["unit"]
    for query in asked:
        before = running.get(query.name)
        # In ticks: that is how the root keeps durations.
        if before is not None and to_json([before.resolved(unit)]) != to_json([query.resolved(unit)]):
            raise QueryError(
                f"query {query.name!r} is another than when the stream stopped: give the new one another name, or begin a new"
                " stream with another checkpoint"
            )
    fresh = [query for query in asked if query.name not in running]
    check_schemas(fresh, about.schema, about.settings["time"])
    for query in fresh:
        check_shown(query, about)
        check_shared(query, about)
    for query in fresh:
        checkpoint.ask({"what": "add", "queries": to_json([query])})
    for name in running.keys() - {query.name for query in asked}:
        checkpoint.ask({"what": "remove", "name": name, "drain": False})


def check_shown(query: Query, about: About | None) -> None:
    """Refuse a query whose bounds the sink's column of times cannot hold."""
    if about is not None:
        stream_shape(about, [query])


def check_homes(queries: Iterable[Query], checkpoint: StreamCheckpoint) -> None:
    """Refuse scopes over nodes in a stream that knows sources from a release that gave them no home."""
    last = checkpoint.last_batch()
    assigns = {} if last is None else checkpoint.said(last).assigns
    homeless = [source.name for assign in assigns.values() for source in assign.sources if not source.home]
    if homeless:
        why = f"source {homeless[0]!r} of this stream is from a release in which it had no home; begin a new stream"
        refuse_homeless(queries, f"{why} for this query, with another checkpoint")


def check_shared(query: Query, about: About | None) -> None:
    """Refuse a query for which the roots of a stream would have to share their keys in another way."""
    if about is None or about.roots == 1:
        return
    problem = about.sharing.problem(query, round_trips=False)
    if problem is not None:
        raise QueryError(
            f"query {query.name!r}: {problem}; start a stream of its own for it, or one with root='driver'"
        )
