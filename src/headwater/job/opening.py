"""A job against the world: whether its source can be opened, its queries fit the columns, its sinks take rows, its host runs it.

Nothing is run, and nothing of a user's is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from headwater.errors import HeadwaterError, QueryError
from headwater.job.file.description import Job, ToTable
from headwater.job.file.documents import dotted
from headwater.job.file.job_file import JobFile
from headwater.job.file.problems import JobError, JobProblem
from headwater.job.sinks import sink_problems
from headwater.job.sources import open_source, time_arguments
from headwater.language.homes import homed
from headwater.language.query import Query
from headwater.language.schemas import check_schema, check_unit_of
from headwater.spark.doors import check_installed
from headwater.spark.result_rows import spark_shape
from headwater.spark.setup import SetupError, check_java, check_libraries
from headwater.spark.streaming.inputs.input import Input
from headwater.spark.streaming.start.prepare import checked_ahead

HostName: TypeAlias = Literal["engine", "spark"]


@dataclass(frozen=True, slots=True)
class HostChoice:
    """What runs a job; ``note``: what its user has to be told about the choice."""

    name: HostName
    note: str = ""


def choose_host(file: JobFile, asked: HostName | None) -> HostChoice:
    """Spark where the file speaks of it or keeps a checkpoint, else this process; what is asked for counts first.

    A job that only prefers Spark runs in this process where none can start; one that needs it is refused there.
    """
    needs = _needs_spark(file.job)
    if asked == "engine" or (asked is None and not needs and file.job.spark is None):
        if asked == "engine" and needs:
            raise JobError(
                [
                    file.problem(field, f"{why}; run it with --on spark, or leave {dotted(field)} out")
                    for field, why in needs
                ]
            )
        return HostChoice("engine")
    try:
        check_libraries()
        check_installed("hw.stream")
        check_java()
    except SetupError as error:
        if asked is None and not needs:
            return HostChoice("engine", f"Spark cannot start here, so the job runs in this process ({error})")
        raise
    return HostChoice("spark")


def _needs_spark(job: Job) -> list[tuple[list[str], str]]:
    """The fields that this process cannot serve, each with the reason."""
    found = []
    if job.checkpoint is not None:
        found.append((["checkpoint"], "a run in this process keeps nothing for the next one"))
    tables = [name for name, target in job.sinks.items() if isinstance(target, ToTable)]
    found += [(["sinks", name], "tables are written by Spark") for name in tables]
    if job.page is not None:
        found.append((["page"], "the page is served by streams on Spark"))
    return found


def open_job(file: JobFile, host: HostChoice, kept: Path) -> Input:
    """The opened source of a job; a JobError with everything that would go wrong. ``kept``: a folder for what a look leaves."""
    problems = list(sink_problems(file))
    opened = None
    try:
        opened = open_source(file, kept)
        problems += _query_problems(file, opened, host)
    except QueryError as error:
        problems.append(file.query_problem(error))
    except HeadwaterError as error:
        field = "rename" if str(error).startswith("rename ") else "source"
        problems.append(file.problem([field], error))
    if problems or opened is None:
        raise JobError(list(dict.fromkeys(problems)))
    return opened


def _query_problems(file: JobFile, opened: Input, host: HostChoice) -> Iterator[JobProblem]:
    """Queries that do not fit the columns of the source, each with its first misfit; else what all are told together."""
    time, unit = time_arguments(file.job)
    schema = opened.schema
    home = file.job.home if isinstance(file.job.home, str) else None
    asked = homed(file.queries, home)
    found = [file.query_problem(error) for query in asked if (error := _misfit(query, schema, time)) is not None]
    yield from found
    if found:
        return
    try:
        check_unit_of("disorder", file.job.disorder, schema, time)
        checked_ahead(file.job.ahead_max if file.job.ahead_max not in (None, "any") else None, None, opened, time, unit)
        _check_all(asked, schema, time, unit, host)
    except QueryError as error:
        yield file.query_problem(error)


def _check_all(asked: Sequence[Query], schema: object, time: str, unit: str, host: HostChoice) -> None:
    if host.name == "spark":
        spark_shape(asked, schema, time, unit, is_stream=True)
    else:
        from headwater.local.engine import Engine

        Engine(asked, time=time, unit=unit, schema=schema)


def _misfit(query: Query, schema: object, time: str) -> QueryError | None:
    try:
        check_schema(query, schema, time)
    except QueryError as error:
        return error
    return None
