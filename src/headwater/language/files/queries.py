"""Queries as JSON and YAML: versioned, exact in both directions, users' code by import path only.

    {"headwater": 1, "queries": [{"name": "load", "window": {"type": "sliding", "size": "1 min", "slide": "5 s"},
      "aggregates": {"p99": {"function": "quantile", "column": "load", "q": 0.99}}, "keys": ["house"],
      "where": {"column": "load", ">": 0}}]}

Fields that hold their default are left out. What is wrong in a file is refused as in Python, with the query's name, the
field, the value and the right form; an unknown or doubled field is an error, never ignored. How conditions are written
is said in `conditions.py`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final

import yaml

from headwater.errors import FormatError, Problem, QueryError, shown
from headwater.language import aggregations, windows
from headwater.language.aggregations import Aggregation
from headwater.language.expressions import Expr
from headwater.language.files.conditions import condition_from_data, condition_to_data
from headwater.language.query import Query, query_of
from headwater.language.times import Nanos
from headwater.language.user_code import checked_path
from headwater.language.windows import CountWindow, Custom, Sliding, Window

VERSION: Final = 1
_FORM: Final = f'{{"headwater": {VERSION}, "queries": [...]}}'

#: Window types: what makes one, and its fields; "?" marks a field that may be left out.
WINDOWS: Final[dict[str, tuple[Callable[..., Window], str]]] = {
    "tumbling": (windows.tumbling, "size offset?"),
    "sliding": (windows.sliding, "size slide offset?"),
    "band": (windows.band, "start size"),
    "session": (windows.session, "gap max_duration?"),
    "punctuated": (windows.punctuated, "marker include_markers? max_duration?"),
    "between": (windows.between, "start end max_duration?"),
    "custom": (windows.custom, "function closes_after? columns?"),
    "count_tumbling": (windows.count_tumbling, "size per?"),
    "count_sliding": (windows.count_sliding, "size step per?"),
}
#: Functions under the names they have in files: what makes one, and its fields. `median` is read as the quantile it is.
_NAMES_IN_CODE: Final = {"range": "value_range", "user": "apply"}
FUNCTIONS: Final[dict[str, tuple[Callable[..., Aggregation], str]]] = {
    "median": (aggregations.median, "column method?"),
    **{
        ("apply" if name == "user" else name): (getattr(aggregations, _NAMES_IN_CODE.get(name, name)), function.fields)
        for name, function in aggregations.FUNCTIONS.items()
    },
}
QUERY_FIELDS: Final = "name window aggregates keys? where? distinct? lateness? emit_empty? scope? sums? home?"


def to_json(queries: Query | Iterable[Query]) -> str:
    """The queries as JSON text; `from_json` gives equal ones back.

    >>> from headwater.language.query import query
    >>> text = to_json(query("load", windows.tumbling("10 s"), n=aggregations.count()))
    >>> json.loads(text)["queries"]
    [{'name': 'load', 'window': {'type': 'tumbling', 'size': '10 s'}, 'aggregates': {'n': {'function': 'count'}}}]
    """
    return json.dumps(_document(queries), indent=2, allow_nan=False) + "\n"


def to_yaml(queries: Query | Iterable[Query]) -> str:
    """The queries as YAML text; `from_yaml` gives equal ones back."""
    text: str = yaml.dump(_document(queries), Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


def from_json(text: str | bytes) -> list[Query]:
    """The queries of a JSON text.

    >>> from_json('{"headwater": 1, "queries": []}')
    []
    >>> from_json('{"headwater": 2, "queries": []}')
    Traceback (most recent call last):
    headwater.errors.FormatError: the version is 2, this release reads 1: {"headwater": 1, "queries": [...]}
    """
    try:
        data = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is not JSON ({error}); queries are written as {_FORM}") from error
    return _read_document(data)


def named_code(text: str | bytes) -> set[str]:
    """The import paths that a JSON text of queries names, without loading any; whatever else it says is read by `from_json`.

    >>> named_code('{"queries": [{"window": {"type": "custom", "function": "shop:cuts"}, "aggregates": {}}]}')
    {'shop:cuts'}
    """
    found: set[str] = set()

    def look(value: object) -> object:
        for name in ("function", "aggregate"):
            path = value.get(name) if isinstance(value, dict) else None
            # An aggregate is a function of ours under its plain name.
            found.update({path} if isinstance(path, str) and ":" in path else ())
        return value

    json.loads(text, object_hook=look)
    return found


def modules_of(queries: Query | Iterable[Query]) -> frozenset[str]:
    """The modules in which queries name users' code: what a node has to allow that takes them from another."""
    return frozenset(path.partition(":")[0] for path in named_code(to_json(queries)))


def from_yaml(text: str | bytes) -> list[Query]:
    """The queries of a YAML text."""
    try:
        data = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"this is not YAML ({error}); queries are written as {_FORM}") from error
    return _read_document(data)


def load(path: str | Path) -> list[Query]:
    """The queries of a file: .json, .yaml or .yml."""
    path = Path(path)
    read = {".json": from_json, ".yaml": from_yaml, ".yml": from_yaml}.get(path.suffix.lower())
    if read is None:
        raise FormatError(f"{path} is neither JSON nor YAML by its name: call it .json, .yaml or .yml")
    return read(path.read_bytes())


def _document(queries: Query | Iterable[Query]) -> dict[str, Any]:
    listed = [queries] if isinstance(queries, Query) else list(queries)
    _refuse_doubles(listed)
    return {"headwater": VERSION, "queries": [_query_to_data(one) for one in listed]}


def _query_to_data(query: Query) -> dict[str, Any]:
    aggregates = {alias: _aggregation_to_data(query, alias, found) for alias, found in query.aggregates}
    data = {"name": query.name, "window": _window_to_data(query), "aggregates": aggregates}
    return data | {name: _plain(value) for name, value in _not_default(query).items() if name not in data}


def _window_to_data(query: Query) -> dict[str, Any]:
    window = query.window
    given = _not_default(window)
    if isinstance(window, Custom):
        given["function"] = _path(query, "window.function", window.load())
    data = {name: _plain(value) for name, value in given.items()}
    if isinstance(window, Sliding | CountWindow):
        # Size and slide alike is what tumbling means; both constructors give the same window.
        name = "sliding" if isinstance(window, Sliding) else "count_sliding"
        if not window.is_tumbling:
            return {"type": name} | data
        return {"type": name.replace("sliding", "tumbling")} | {
            k: v for k, v in data.items() if k not in ("slide", "step")
        }
    return {"type": type(window).__name__.lower()} | data


def _aggregation_to_data(query: Query, alias: str, aggregation: Aggregation) -> dict[str, Any]:
    function, column, parameter = aggregation.function, aggregation.column, aggregation.parameter
    if function == "user":
        return {"function": "apply", "aggregate": _path(query, f"aggregate {alias!r}", parameter), "column": column}
    data = {"function": function} | ({} if column is None else {"column": column})
    match function:
        case "quantile":
            return data | {"q": parameter[0]} | ({} if parameter[1] == "linear" else {"method": parameter[1]})
        case "approx_quantile":
            return data | {"q": parameter[0], "error": parameter[1]}
        case "approx_distinct":
            return data | {"precision": parameter}
        case "top":
            k, ties, keep = parameter
            return data | {"k": k} | ({"ties": True} if ties else {}) | ({"keep": list(keep)} if keep else {})
        case "max_by" | "min_by":
            return data | {"by": parameter}
        case "rows":
            return {"function": function, "columns": list(aggregation.columns)}
    return data


def _not_default(described: Any) -> dict[str, Any]:
    values = {field.name: (getattr(described, field.name), field.default) for field in fields(described)}
    return {name: value for name, (value, default) in values.items() if default is MISSING or value != default}


def _plain(value: Any) -> Any:
    if isinstance(value, Nanos):
        return str(value)
    return condition_to_data(value) if isinstance(value, Expr) else list(value) if isinstance(value, tuple) else value


def _path(query: Query, field: str, code: object) -> str:
    path = checked_path(field, code)
    if isinstance(path, Problem):
        raise QueryError.of(path, query.name)
    return path


class _Object(dict[Any, Any]):
    """An object of a file that remembers which of its names occurred twice."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        super().__init__()
        self.doubled: list[Any] = []
        for name, value in pairs:
            if name in self:
                self.doubled.append(name)
            self[name] = value


class _Dumper(yaml.SafeDumper):
    """YAML's safe dumper, with every line break of Unicode escaped: between single quotes they come back as spaces."""

    def text(self, text: str) -> yaml.ScalarNode:
        """One text, in the style that keeps it."""
        style = '"' if any(sign in text for sign in "\x85\u2028\u2029") else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.text)


# Not the loader in C: a file of a hundred thousand open brackets ends the process there, and here in an error.
class _Loader(yaml.SafeLoader):
    """YAML's safe loader, with objects that remember doubled names."""

    def mapping(self, node: yaml.MappingNode) -> _Object:
        """One object; the values are built before it, so that it sees them complete."""
        self.flatten_mapping(node)
        return _Object(
            (self.construct_object(key, True), self.construct_object(value, True)) for key, value in node.value
        )


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.mapping)


def _read_document(data: object) -> list[Query]:
    if not isinstance(data, _Object) or "headwater" not in data:
        raise FormatError(f"queries are written as {_FORM}, not as {shown(data)}")
    if data["headwater"] != VERSION or isinstance(data["headwater"], bool):
        raise FormatError(f"the version is {shown(data['headwater'])}, this release reads {VERSION}: {_FORM}")
    if set(data) != {"headwater", "queries"} or data.doubled or not isinstance(data["queries"], list):
        raise FormatError(f"queries are written as {_FORM}, not with the fields {', '.join(map(str, data))}")
    queries = [_read_query(entry, position) for position, entry in enumerate(data["queries"], 1)]
    _refuse_doubles(queries)
    return queries


def _read_query(data: Any, position: int) -> Query:
    # A query without a name is called by its place.
    name = data.get("name") if isinstance(data, _Object) and data.get("name") else f"number {position}"
    try:
        given = _fields("query", data, QUERY_FIELDS)
        given["window"] = _read_window(given["window"])
        given["aggregates"] = _read_aggregates(given["aggregates"])
        if given.get("where") is not None:
            given["where"] = condition_from_data(given["where"], "where")
        return query_of(**given)
    except QueryError as error:
        if error.query is not None:
            raise
        raise QueryError(f"query {shown(name)}: {error}", query=name, field=error.field, value=error.value) from None


def _read_window(data: Any) -> Window:
    kind = data.get("type") if isinstance(data, Mapping) else None
    if not isinstance(kind, str) or kind not in WINDOWS:
        raise QueryError.of(Problem("window.type", kind, f"use one of {', '.join(WINDOWS)}"))
    make, names = WINDOWS[kind]
    given = _fields("window", data, f"type {names}")
    del given["type"]
    for marker in ("marker", "start", "end"):
        if marker in given and kind != "band":
            given[marker] = condition_from_data(given[marker], f"window.{marker}")
    return make(**given)


def _read_aggregates(data: Any) -> tuple[tuple[str, Aggregation], ...]:
    if not isinstance(data, _Object):
        raise QueryError.of(Problem("aggregates", data, "write {name: {'function': 'avg', 'column': 'load'}}"))
    if data.doubled:
        raise QueryError.of(Problem("aggregates", data.doubled[0], "name each aggregate once"))
    return tuple((alias, _read_aggregation(f"aggregate {alias!r}", entry)) for alias, entry in data.items())


def _read_aggregation(field: str, data: Any) -> Aggregation:
    function = data.get("function") if isinstance(data, Mapping) else None
    if not isinstance(function, str) or function not in FUNCTIONS:
        raise QueryError.of(Problem(f"{field}.function", function, f"use one of {', '.join(FUNCTIONS)}"))
    make, names = FUNCTIONS[function]
    given = _fields(field, data, f"function {names}")
    del given["function"]
    return make(**given)


def _fields(field: str, data: Any, names: str) -> dict[str, Any]:
    """The fields of an object, all of them known and every needed one there."""
    known = {name.rstrip("?"): name.endswith("?") for name in names.split()}
    if not isinstance(data, _Object):
        raise QueryError.of(Problem(field, data, f"write an object with {', '.join(known)}"))
    if data.doubled:
        raise QueryError.of(Problem(field, data.doubled[0], "name each field once"))
    for name in data:
        if name not in known:
            meant = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {meant[0]!r}? " if meant else ""
            raise QueryError.of(Problem(field, name, f"no such field; {hint}It has {', '.join(known)}"))
    for name, optional in known.items():
        if name not in data and not optional:
            raise QueryError.of(
                Problem(f"{field}.{name}", None, f"this field is missing; {field} has {', '.join(known)}")
            )
    return dict(data)


def _refuse_doubles(queries: list[Query]) -> None:
    seen: set[str] = set()
    for query in queries:
        if query.name in seen:
            raise QueryError.of(Problem("name", query.name, "another query has this name; name each once"), query.name)
        seen.add(query.name)
