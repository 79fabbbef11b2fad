"""The modes of an engine in one process: its own way to compute, and the papers' baselines, to show what sharing brings."""

from __future__ import annotations

from typing import Final

from headwater.engine.families import FamilyName, Group, GroupMaker
from headwater.engine.groups.baselines.buckets import BucketGroup, can_split, overlap
from headwater.engine.groups.replay.group import ReplayGroup
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.intake.keys import node_key
from headwater.engine.placement import needs_replay
from headwater.engine.windows.registered import Registered
from headwater.errors import QueryError
from headwater.language.expressions import Expr
from headwater.language.query import Query
from headwater.language.times import NEVER
from headwater.language.windows import Band, Session, Sliding

#: cebuffer: a buffer per window, aggregated when it ends. debucket: each window for itself, incrementally. scotty: slices shared
#: by queries of the same function and measure (the papers' DeSW too). desis: everything shared, the default.
MODES: Final = ("cebuffer", "debucket", "scotty", "desis")


def group_maker(mode: str) -> GroupMaker[Group]:
    """How an engine in one process shares work in this mode.

    >>> group_maker("desis").name
    'desis'
    """
    if mode not in MODES:
        raise QueryError(f"mode is {mode!r}: give one of {', '.join(map(repr, MODES))}")
    if mode == "cebuffer":
        return GroupMaker(mode, lambda entry: (mode, entry.number), _buffer)
    if mode == "debucket":
        return GroupMaker(mode, lambda entry: (mode, entry.number), _buckets)
    return GroupMaker(mode, _same_functions if mode == "scotty" else family_of, _shared)


def family_of(entry: Registered) -> FamilyName:
    """Queries with the same keys and condition share everything; one that needs its events again shares nothing."""
    query = entry.query
    if needs_replay(query):
        return ("replay", entry.number)
    keys, where, begin = group_settings(entry)
    return ("shared", keys, None if where is None else where.key(), begin)


def _same_functions(entry: Registered) -> FamilyName:
    query, name = entry.query, family_of(entry)
    if needs_replay(query):
        return name
    return (*name, query.window.measure, tuple(aggregation for _, aggregation in query.aggregates))


def group_settings(entry: Registered) -> tuple[tuple[str, ...], Expr | None, int]:
    """The keys of a query's group, its condition, and the time before which it wants no event."""
    # Windows that need the final order count from their begin: those that come later count for themselves.
    begin = NEVER if isinstance(entry.query.window, Sliding | Band | Session) else entry.begin
    return group_keys(entry.query), entry.query.where, begin


def group_keys(query: Query) -> tuple[str, ...]:
    """The key columns, and behind them the node where each node's windows stand for themselves."""
    return (*query.keys, node_key(query.home)) if query.scope == "node" else query.keys


def _shared(entry: Registered) -> Group:
    return _buffer(entry) if needs_replay(entry.query) else QueryGroup(*group_settings(entry))


def _buffer(entry: Registered) -> Group:
    return ReplayGroup(entry, group_keys(entry.query))


def _buckets(entry: Registered) -> Group:
    query = entry.query
    if needs_replay(query) or overlap(query) == 1:
        return _shared(entry)
    keys, _, begin = group_settings(entry)
    return BucketGroup(entry, keys, begin) if can_split(query) else _buffer(entry)
