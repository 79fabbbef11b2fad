"""The JSON Schema of job files, for editors: the structs of a job, and the tables from which files of queries are read."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import msgspec

from headwater.job.file.description import ASIDE, Job
from headwater.language.aggregations import METHODS, TOP_MAX
from headwater.language.comparisons import COMPARISONS
from headwater.language.files.queries import FUNCTIONS, QUERY_FIELDS, WINDOWS
from headwater.language.query import SCOPES, Sums
from headwater.language.windows import Per

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_REF: Final = "#/$defs/{name}"

_TEXT: Final = {"type": "string"}
_YES_NO: Final = {"type": "boolean"}
_DURATION: Final = {"type": ["string", "integer"], "description": "a duration such as '10 s', or a number of ticks"}
_CONDITION: Final = {"$ref": _REF.format(name="condition")}
_COLUMN: Final = {"type": "string", "description": "a column of the data"}
#: What the fields of windows hold, by their names; `start` is a time in a band, and elsewhere a condition.
_WINDOW_FIELDS: Final[dict[str, Any]] = {
    "size": _DURATION,
    "slide": _DURATION,
    "offset": _DURATION,
    "gap": _DURATION,
    "max_duration": _DURATION,
    "closes_after": _DURATION,
    "marker": _CONDITION,
    "start": _CONDITION,
    "end": _CONDITION,
    "include_markers": _YES_NO,
    "function": {"type": "string", "description": "an import path, package.module:function"},
    "columns": {"type": "array", "items": _TEXT},
    "step": {"type": "integer", "minimum": 1},
    "per": {"enum": list(get_args(Per)), "description": "positions are counted over all events, or for each key"},
}
_COUNT_SIZE: Final = {"type": "integer", "minimum": 1, "description": "how many events"}
_BAND_START: Final = {"type": "integer", "description": "where the band begins"}
_FUNCTION_FIELDS: Final[dict[str, Any]] = {
    "column": _COLUMN,
    "columns": {"type": "array", "items": _COLUMN, "minItems": 1},
    "by": _COLUMN,
    "k": {"type": "integer", "minimum": 1, "maximum": TOP_MAX, "description": "how many events are kept"},
    "ties": {"type": "boolean", "description": "whether all that are equal to the last of them are kept too"},
    "keep": {
        "type": "array",
        "items": _COLUMN,
        "description": "columns that are kept beside the one they are judged by",
    },
    "q": {"type": "number", "minimum": 0, "maximum": 1},
    "method": {"enum": list(METHODS)},
    "error": {"type": "number", "exclusiveMinimum": 0},
    "precision": {"type": "integer"},
    "aggregate": {"type": "string", "description": "an import path, package.module:name"},
}
_OF_QUERIES: Final[dict[str, Any]] = {
    "name": {"type": "string", "minLength": 1},
    "window": {"$ref": _REF.format(name="window")},
    "aggregates": {"type": "object", "additionalProperties": {"$ref": _REF.format(name="aggregate")}},
    "keys": {"type": "array", "items": _COLUMN},
    "where": _CONDITION,
    "distinct": _COLUMN,
    "lateness": _DURATION,
    "emit_empty": {"type": ["boolean", "integer"]},
    "scope": {"enum": list(SCOPES)},
    "sums": {"enum": list(get_args(Sums))},
    "home": _COLUMN,
}


def schema_text() -> str:
    """The schema as `headwater schema` prints it."""
    return json.dumps(job_schema(), indent=2) + "\n"


def job_schema() -> dict[str, Any]:
    """The schema of a job file, by the draft of 2020-12."""
    _, parts = msgspec.json.schema_components([Job], ref_template=_REF)
    job = parts.pop("Job")
    own = next(each for each in job["properties"]["queries"]["anyOf"] if each["type"] == "array")
    own["items"] = {"$ref": _REF.format(name="query")}
    job["properties"]["sinks"]["propertyNames"] = {
        "description": f"the name of a query, or {ASIDE} for events that are in no result"
    }
    defined = {
        **{name: _plain(part) for name, part in parts.items()},
        "query": _object(QUERY_FIELDS, _OF_QUERIES),
        "window": {"oneOf": [_window(name, names) for name, (_, names) in WINDOWS.items()]},
        "aggregate": {"oneOf": [_function(name, names) for name, (_, names) in FUNCTIONS.items()]},
        "condition": _condition(),
    }
    about = {"$schema": DRAFT, "title": "A job of headwater"}
    return {**about, **_plain(job), "title": "A job of headwater", "$defs": defined}


def _plain(part: Any) -> Any:
    """Without `discriminator`, which JSON Schema does not know, and without null: what is not there is left out."""
    if isinstance(part, dict):
        kept = {name: _plain(value) for name, value in part.items() if name != "discriminator" and value is not None}
        if "anyOf" in kept:
            kept["anyOf"] = [each for each in kept["anyOf"] if each != {"type": "null"}]
        return kept
    return [_plain(value) for value in part] if isinstance(part, list) else part


def _object(names: str, known: dict[str, Any], **fixed: Any) -> dict[str, Any]:
    """An object with fields as the reader of queries lists them: those with a question mark may be left out.

    >>> _object("size offset?", {"size": {}, "offset": {}}, type={"const": "tumbling"})["required"]
    ['type', 'size']
    """
    fields = {name.rstrip("?"): name.endswith("?") for name in names.split()}
    properties = {**fixed, **{name: known[name] for name in fields}}
    required = [*fixed, *(name for name, is_optional in fields.items() if not is_optional)]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _window(name: str, names: str) -> dict[str, Any]:
    own = {"size": _COUNT_SIZE} if name.startswith("count_") else {"start": _BAND_START} if name == "band" else {}
    return _object(names, _WINDOW_FIELDS | own, type={"const": name})


def _function(name: str, names: str) -> dict[str, Any]:
    return _object(names, _FUNCTION_FIELDS, function={"const": name})


def _condition() -> dict[str, Any]:
    some = {"type": "array", "items": _CONDITION, "minItems": 2}
    chains = [
        {"type": "object", "properties": {word: some}, "required": [word], "additionalProperties": False}
        for word in ("and", "or")
    ]
    never = {"type": "object", "properties": {"not": _CONDITION}, "required": ["not"], "additionalProperties": False}
    tests: dict[str, Any] = {
        **dict.fromkeys(COMPARISONS, True),
        "in": {"type": "array"},
        "between": {"type": "array", "minItems": 2, "maxItems": 2},
        "is_null": _YES_NO,
        "matches": _TEXT,
    }
    comparison = {
        "type": "object",
        "properties": {"column": _COLUMN, "value": True, **tests},
        "minProperties": 2,
        "maxProperties": 2,
        "additionalProperties": False,
    }
    return {"anyOf": [*chains, never, comparison]}
