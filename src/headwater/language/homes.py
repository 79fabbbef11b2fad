"""Homes: which node a source belongs to, for queries whose scope is not global. What holds at every door is decided here.

By default a source is at home where it lies: a file in its folder, a partition in its log or topic. What lies in nothing (a
generator, a source of `Engine.push`, a value of ``source=``) is its own home. ``home=`` says it otherwise: a mapping from sources
to nodes, in which those that it does not name stay where they are, or a column, and then each event says itself where it belongs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, TypeAlias

from headwater.errors import Problem, QueryError
from headwater.language.query import Query

#: What ``home=`` takes: the name of a column, or nodes by the names of their sources.
Home: TypeAlias = "str | Mapping[str, str] | None"


def folder_of(name: str) -> str:
    """The folder of a file, by its name below the root.

    >>> folder_of("houses/a/1.csv"), folder_of("1.csv")
    ('houses/a', '.')
    """
    return name.rpartition("/")[0] or "."


def home_of_files(source: str, sources: object) -> str:
    """The home of a source of files: the folder, however files are joined; what a function joins is its own home.

    >>> home_of_files("houses/a/1.csv", "file"), home_of_files("houses/a", "folder"), home_of_files("x", "own:function")
    ('houses/a', 'houses/a', 'x')
    """
    return folder_of(source) if sources == "file" else source


def home_of_log(path: PurePath) -> str:
    """The home of a log's partitions: the log, by the name of its folder."""
    return path.name or str(path)


def home_of_partition(source: str) -> str:
    """The home of a partition of Kafka: its topic.

    >>> home_of_partition("plugs/north/00003")
    'plugs/north'
    """
    return source.rpartition("/")[0]


def check_home(home: Any) -> Home:
    """
    >>> check_home({"a": ""})
    Traceback (most recent call last):
    headwater.errors.QueryError: home gives source 'a' the node '': name it with text, such as 'north'
    """
    if isinstance(home, Mapping):
        for source, node in home.items():
            if not isinstance(source, str):
                raise QueryError(f"home names the source {source!r}: sources are named by text")
            if not isinstance(node, str) or not node:
                raise QueryError(f"home gives source {source!r} the node {node!r}: name it with text, such as 'north'")
        return dict(home)
    if home is not None and not (isinstance(home, str) and home):
        raise QueryError(f"home is {home!r}: name a column, or give a mapping from sources to nodes")
    return home


def check_column(home: Any, what: str) -> str | None:
    """A home for events that have no source of their own: only a column can say it."""
    checked = check_home(home)
    if isinstance(checked, Mapping):
        raise QueryError(f"home is a mapping from sources to nodes, but {what}: name the column that holds the node")
    return checked


def homed(queries: Iterable[Query], home: Home) -> list[Query]:
    """The queries; where ``home`` is a column, those with a scope read the node from it."""
    if not isinstance(home, str):
        return list(queries)
    return [replace(q, home=home) if q.scope != "global" and q.home is None else q for q in queries]


def nodes_in_words(query: Query) -> str:
    """What the nodes of a query with a scope are, for people."""
    return "the homes of sources" if query.home is None else f"the values of {query.home!r}"


def refuse_homeless(queries: Iterable[Query], why: str) -> None:
    """Refuse scopes over nodes where sources have no home; ``why`` says so, and what would help."""
    for query in queries:
        if query.scope != "global" and query.home is None:
            raise QueryError.of(Problem("scope", query.scope, why), query.name)
