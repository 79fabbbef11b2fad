"""The queries of a root as text, for its leaves: under the same numbers, with the same lives and the same types of columns."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.engine.windows.registered import Registered
from headwater.errors import FormatError, HeadwaterError, QueryError
from headwater.language.files.queries import from_json, named_code, to_json
from headwater.language.query import Query
from headwater.language.times import TICK_NANOS
from headwater.language.user_code import is_within

VERSION = 1


@dataclass(frozen=True, slots=True)
class QuerySet:
    """What a leaf has to know to cut events as the root expects it. ``names``: of every number ever given."""

    time: str
    unit: str
    disorder: int | None
    strict: bool
    entries: Sequence[Registered]
    names: Sequence[str]
    types: Mapping[str, pa.DataType]
    #: Whether the root can answer while events come; if not, nothing waits for its word.
    round_trips: bool = True
    #: Whether leaves cut events into pieces for count windows, and whether only for large ones.
    counts: bool = False
    large_only: bool = False


def query_set_text(queries: QuerySet) -> str:
    """The versioned text form."""
    schema = schema_to_bytes(pa.schema(list(queries.types.items())))
    return json.dumps(
        {
            "version": VERSION,
            "time": queries.time,
            "unit": queries.unit,
            "disorder": queries.disorder,
            "strict": queries.strict,
            "queries": to_json([entry.query for entry in queries.entries]),
            "entries": [[entry.number, entry.begin, entry.stop] for entry in queries.entries],
            "names": list(queries.names),
            "types": schema.hex(),
            "round_trips": queries.round_trips,
            "counts": queries.counts,
            "large_only": queries.large_only,
        }
    )


def read_query_set(text: str, modules: Collection[str] | None = None) -> QuerySet:
    """The query set of which this is the text; anything else is a `FormatError`.

    Users' code may be named in these ``modules`` only; None: anywhere, which is for text that this process has written itself.
    """
    try:
        tree = json.loads(text)
        if modules is not None:
            for path in named_code(tree["queries"]):
                if not is_within(path, modules):
                    raise QueryError(f"the queries name {path!r}; allow its module here, or take them from nobody else")
        if tree["version"] != VERSION:
            raise FormatError(f"queries of version {tree['version']}; this release reads version {VERSION}")
        entries = [
            Registered(query, number, begin, stop)
            for query, (number, begin, stop) in zip(_queries(tree["queries"]), tree["entries"], strict=True)
        ]
        schema = schema_from_bytes(bytes.fromhex(tree["types"]))
        types = {field.name: field.type for field in schema}
        settings = tree["time"], tree["unit"], tree["disorder"], tree["strict"]
        ways = tree.get("round_trips", True), tree.get("counts", False), tree.get("large_only", False)
        if not _are_settings(*settings, *ways) or not _are_entries(entries, tree["names"]):
            raise FormatError("these are no queries: a field has a value of another type")
        if not types.keys() >= {name for entry in entries for name in entry.query.columns()}:
            raise FormatError("these are no queries: the type of a column that they read is missing")
        return QuerySet(*settings, entries, tree["names"], types, *ways)
    except HeadwaterError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OSError, pa.ArrowException) as error:
        raise FormatError(f"these are no queries: {error}") from error


def _are_settings(time: Any, unit: Any, disorder: Any, *flags: Any) -> bool:
    is_disorder = disorder is None or (_is_number(disorder) and disorder >= 0)
    return (
        isinstance(time, str) and unit in TICK_NANOS and is_disorder and all(isinstance(flag, bool) for flag in flags)
    )


def _are_entries(entries: Sequence[Registered], names: Any) -> bool:
    """Whether queries are numbered by the list of all names that were ever given, each under its own."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False
    numbers = [entry.number for entry in entries]
    are_numbers = all(_is_number(number) and 0 <= number < len(names) for number in numbers)
    times = [time for entry in entries for time in (entry.begin, entry.stop)]
    return are_numbers and len(set(numbers)) == len(numbers) and all(map(_is_number, times))


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


@lru_cache(maxsize=8)
def _queries(text: str) -> Sequence[Query]:
    """The queries of a text. Cached: leaves in Spark begin anew with every batch, nearly always with the same queries."""
    return tuple(from_json(text))
