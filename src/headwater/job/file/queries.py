"""The queries of a job, in its file or in one of their own: read by the reader of queries, with the lines of what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from headwater.errors import HeadwaterError, QueryError
from headwater.job.file.description import ASIDE
from headwater.job.file.documents import Located, read_document
from headwater.job.file.problems import FilePlace, JobError, JobProblem
from headwater.language.files.queries import VERSION, from_yaml
from headwater.language.query import Query

#: As errors name an aggregate: by its name, where a file has it below `aggregates`.
_AGGREGATE = re.compile(r"aggregate '(?P<name>[^']*)'(\.(?P<field>.*))?")


class JobQueries:
    """The queries of a job, what is wrong with them, and where each stands."""

    def __init__(self, found: Located, folder: Path) -> None:
        """``found``: what stands at `queries`: a list of them, or the name of a file below ``folder``."""
        self.queries: list[Query] = []
        self.problems: list[JobProblem] = []
        #: The names of all, also of those that are wrong.
        self.names: list[str] = []
        self._located: dict[str, Located] = {}
        if isinstance(found.value, str):
            try:
                found = self._of_file(found, folder)
            except JobError as error:
                self.problems += error.problems
                return
        for number, each in found.inner.items():
            self._read(each, number + 1)

    def place(self, error: QueryError) -> FilePlace | None:
        """Where that stands of which an error speaks; None if it names none of these queries."""
        located = self._located.get(str(error.query))
        return None if located is None else _place_in(located, error)

    def _of_file(self, found: Located, folder: Path) -> Located:
        named = folder / found.value
        if not named.is_file():
            form = "there is no such file; name one beside the job file, such as queries.yaml"
            raise JobError([JobProblem(found.place, f"queries is {found.value!r}: {form}")])
        document = read_document(named)
        listed = document.found(["queries"])
        version = document.found(["headwater"]).value
        if set(document.inner) != {"headwater", "queries"} or version != VERSION or not isinstance(listed.value, list):
            form = f"a file of queries is written as headwater: {VERSION} and queries: [...]"
            raise JobError([JobProblem(document.place, form)])
        return listed

    def _read(self, located: Located, number: int) -> None:
        name = located.value.get("name") if isinstance(located.value, dict) else None
        self.names += [name] if isinstance(name, str) and name not in (*self.names, ASIDE) else []
        try:
            (query,) = from_yaml(_document_of(located.node))
        except HeadwaterError as error:
            place = _place_in(located, error) if isinstance(error, QueryError) else located.place
            # A query without a name is called by its place, of which the reader saw one at a time.
            told = str(error).replace("query 'number 1':", f"query 'number {number}':")
            self.problems.append(JobProblem(place, told))
            return
        self.problems += self._name_problems(query, located)
        self._located.setdefault(query.name, located)
        self.queries.append(query)

    def _name_problems(self, query: Query, located: Located) -> Iterator[JobProblem]:
        place = located.found(["name"]).place
        if query.name in self._located:
            line = self._located[query.name].place.line
            yield JobProblem(
                place, f"query {query.name!r}: another query has this name, in line {line}; name each once"
            )
        if query.name == ASIDE:
            yield JobProblem(
                place, f"query {ASIDE!r}: sinks.{ASIDE} takes the events that are in no result; take another name"
            )


def _place_in(query: Located, error: QueryError) -> FilePlace:
    """Where the field of a query stands of which an error speaks, or the name that is none."""
    found = query.found(_path(error.field))
    return found.names.get(error.value, found.place) if isinstance(error.value, str) else found.place


def _document_of(node: yaml.Node) -> str:
    """One query as a file of its own, as it is written: a date stays a date."""
    pairs: list[tuple[Any, Any]] = [
        (_text("headwater"), yaml.ScalarNode("tag:yaml.org,2002:int", str(VERSION))),
        (_text("queries"), yaml.SequenceNode("tag:yaml.org,2002:seq", [node])),
    ]
    text: str = yaml.serialize(yaml.MappingNode("tag:yaml.org,2002:map", pairs), Dumper=yaml.SafeDumper)
    return text


def _text(value: str) -> yaml.ScalarNode:
    return yaml.ScalarNode("tag:yaml.org,2002:str", value)


def _path(field: str | None) -> list[str]:
    """The way to a field of a query, as it stands in a file.

    >>> _path("window.slide"), _path("aggregate 'mean'.column"), _path(None)
    (['window', 'slide'], ['aggregates', 'mean', 'column'], [])
    """
    if not field:
        return []
    if found := _AGGREGATE.fullmatch(field):
        return ["aggregates", found["name"], *_path(found["field"])]
    return field.split(".")
