"""headwater: any number of window queries over many streams, in one pass, exact to the last bit."""

from typing import Any

from headwater.aggregations import (
    apply,
    approx_distinct,
    approx_quantile,
    avg,
    collect,
    count,
    count_distinct,
    first,
    geometric_mean,
    last,
    max,
    median,
    min,
    mode,
    product,
    quantile,
    stddev,
    sum,
    value_range,
    variance,
)
from headwater.disco import from_disco
from headwater.errors import DataError, FormatError, HeadwaterError, QueryError
from headwater.explanation import explain
from headwater.expressions import col
from headwater.live import Engine, run
from headwater.own import Aggregate, Operator, aggregate_of
from headwater.query import Query, query
from headwater.query_io import from_json, from_yaml, load, to_json, to_yaml
from headwater.results import Results
from headwater.windows import (
    band,
    between,
    count_sliding,
    count_tumbling,
    custom,
    punctuated,
    session,
    sliding,
    tumbling,
)

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "DataError",
    "Engine",
    "FormatError",
    "HeadwaterError",
    "Operator",
    "Query",
    "QueryError",
    "Results",
    "aggregate_of",
    "apply",
    "approx_distinct",
    "approx_quantile",
    "avg",
    "band",
    "between",
    "col",
    "collect",
    "count",
    "count_distinct",
    "count_sliding",
    "count_tumbling",
    "custom",
    "explain",
    "first",
    "from_disco",
    "from_json",
    "from_yaml",
    "geometric_mean",
    "last",
    "load",
    "max",
    "median",
    "min",
    "mode",
    "product",
    "punctuated",
    "quantile",
    "query",
    "run",
    "session",
    "sliding",
    "stddev",
    "sum",
    "testing",
    "to_json",
    "to_yaml",
    "tumbling",
    "value_range",
    "variance",
]


def __getattr__(name: str) -> Any:
    """`headwater.testing` is imported when first used: it needs Hypothesis, which only tests have."""
    if name == "testing":
        import importlib

        return importlib.import_module("headwater.testing")
    raise AttributeError(f"module 'headwater' has no attribute {name!r}")
