"""A job file, read and checked as a whole; nothing is opened or run for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headwater.errors import QueryError
from headwater.job.file.description import ASIDE, Job, Target, ToFolder, ToLog, ToPostgres, ToTable
from headwater.job.file.documents import Located, dotted, read_document
from headwater.job.file.problems import JobError, JobProblem, meant
from headwater.job.file.queries import JobQueries
from headwater.job.file.structure import structure_problems
from headwater.language.query import Query

#: Fields that all queries share: what is wrong with them is said once.
OF_THE_JOB = ("time", "disorder", "ahead_max")


@dataclass(frozen=True)
class JobFile:
    """A job whose file is in order. Paths in it are below the folder of the file, wherever it is run from."""

    path: Path
    job: Job
    found: JobQueries
    document: Located

    @property
    def queries(self) -> Sequence[Query]:
        return self.found.queries

    @property
    def name(self) -> str:
        return self.job.name or self.path.stem

    @property
    def folder(self) -> Path:
        return self.path.absolute().parent

    def below(self, path: str) -> str:
        """A path of the file as this process has to know it; a URL stays one, to be refused by whoever opens it."""
        return path if "://" in path else str(self.folder / path)

    def problem(self, path: Sequence[object], told: object) -> JobProblem:
        """What was found out about a field when it was opened or built."""
        return JobProblem(self.document.found(path).place, f"{dotted(path)}: {told}")

    def query_problem(self, error: QueryError) -> JobProblem:
        """What was found out about a query, or about a field of the job of the same name, of which no query speaks."""
        field = str(error.field)
        if field in OF_THE_JOB:
            return JobProblem(self.document.found([field]).place, str(error).removeprefix(f"query {error.query!r}: "))
        place = self.found.place(error)
        return JobProblem(self.document.found([field]).place if place is None else place, str(error))


def load_job(path: str | Path) -> JobFile:
    """The job of a file; a JobError with all its mistakes if there are any."""
    path = Path(path)
    document = read_document(path)
    problems = list(structure_problems(document))
    queries = None
    if isinstance(document.value, Mapping) and isinstance(document.value.get("queries"), str | list):
        queries = JobQueries(document.inner["queries"], path.absolute().parent)
        problems += queries.problems
        problems += _sink_names(document, queries)
    if not problems:
        job = msgspec.convert(document.value, Job)
        problems += _clashes(job, document)
    if problems:
        raise JobError(problems)
    assert queries is not None, "it was there, or missed"
    return JobFile(path, job, queries, document)


def _sink_names(document: Located, queries: JobQueries) -> Iterator[JobProblem]:
    """Every query has a sink, and every sink a query."""
    sinks = document.inner.get("sinks")
    names = queries.names
    if sinks is None or not isinstance(sinks.value, Mapping) or not names:
        return  # which is said elsewhere
    for name in sinks.inner:
        if name not in (*names, ASIDE):
            hint = meant(name, [*names, ASIDE])
            right = f"{hint}{'There' if hint else 'there'} is {', '.join([*map(repr, names), repr(ASIDE)])}"
            yield JobProblem(sinks.names[name], f"{dotted(('sinks', name))} is no query: {right}")
    for name in names:
        if name not in sinks.inner:
            right = f"say where its rows go, such as {name}: out/{name}"
            yield JobProblem(sinks.place, f"{dotted(('sinks', name))} is missing: {right}")


def _clashes(job: Job, document: Located) -> Iterator[JobProblem]:
    """Fields that are right alone and wrong together."""
    places: dict[tuple[str, ...], str] = {}
    for name, target in job.sinks.items():
        at = document.found(["sinks", name])
        if (place := _place_of(target)) is not None:
            what, *_, shown = place
            if place in places:
                right = f"sinks.{places[place]} has this {what}; give each its own"
                yield JobProblem(at.place, f"{dotted(('sinks', name))} is {shown!r}: {right}")
            places.setdefault(place, name)
        yield from _clashes_of(name, target, job, at)


def _clashes_of(name: str, target: Target, job: Job, at: Located) -> Iterator[JobProblem]:
    """What is wrong with one sink for what it is to take."""
    if isinstance(target, ToFolder) and target.replace and job.checkpoint is not None:
        right = "with a checkpoint rows are added to those of earlier runs; leave replace out"
        yield JobProblem(at.found(["replace"]).place, f"{dotted(('sinks', name, 'replace'))} is True: {right}")
    if isinstance(target, ToTable | ToPostgres) and target.mode == "upsert" and name == ASIDE:
        right = "events that are in no result have no revisions; write mode: append"
        yield JobProblem(at.found(["mode"]).place, f"{dotted(('sinks', name, 'mode'))} is 'upsert': {right}")


def _place_of(target: Target) -> tuple[str, ...] | None:
    """The kind of place, whose it is if that counts, and its name; None for what several may share."""
    match target:
        case str():
            return None if target == "console" else ("folder", str(Path(target)))
        case ToFolder() | ToLog():
            return "folder", str(Path(target.path))
        case ToTable():
            return "table", target.name
        case ToPostgres():
            return "table", target.dsn, target.table
        case _:
            return None
