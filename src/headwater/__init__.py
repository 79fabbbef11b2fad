"""headwater: any number of window queries over many streams, in one pass, exact to the last bit."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

from headwater.engine.placement import Explanation
from headwater.engine.placement import explain as _explain
from headwater.errors import DataError, FormatError, HeadwaterError, QueryError
from headwater.language.aggregations import (
    apply,
    approx_distinct,
    approx_quantile,
    avg,
    collect,
    count,
    count_distinct,
    distinct,
    first,
    geometric_mean,
    last,
    max,
    max_by,
    median,
    min,
    min_by,
    mode,
    product,
    quantile,
    rows,
    stddev,
    sum,
    top,
    value_range,
    variance,
)
from headwater.language.expressions import col
from headwater.language.files.disco import from_disco
from headwater.language.files.queries import from_json, from_yaml, load, to_json, to_yaml
from headwater.language.functions import crdts
from headwater.language.functions.flow import flow
from headwater.language.functions.function import ProcessingFunction
from headwater.language.functions.handlers import WindowRead, when_final
from headwater.language.functions.states import Local, WindowedCRDT, WindowedLocal
from headwater.language.query import Query, query
from headwater.language.time_columns import arrival, epoch, iso
from headwater.language.user_code import Aggregate, Operator, aggregate_of
from headwater.language.windows import (
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
from headwater.local.engine import Engine, run
from headwater.local.results import Results
from headwater.page.settings import Page

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.spark.aggregate import aggregate
    from headwater.spark.data_sources import register
    from headwater.spark.explain.explanation import SparkExplanation
    from headwater.spark.read import read
    from headwater.spark.result_rows import by_query
    from headwater.spark.shipped import ship
    from headwater.spark.stream import stream
    from headwater.spark.streaming.postgres.sink import postgres
    from headwater.spark.streaming.sinks.foreach_batch import foreach_batch
    from headwater.spark.streaming.sinks.table import to_table

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "DataError",
    "Engine",
    "FormatError",
    "HeadwaterError",
    "Local",
    "Operator",
    "Page",
    "ProcessingFunction",
    "Query",
    "QueryError",
    "Results",
    "WindowRead",
    "WindowedCRDT",
    "WindowedLocal",
    "aggregate",
    "aggregate_of",
    "apply",
    "approx_distinct",
    "approx_quantile",
    "arrival",
    "avg",
    "band",
    "between",
    "by_query",
    "col",
    "collect",
    "count",
    "count_distinct",
    "count_sliding",
    "count_tumbling",
    "crdts",
    "custom",
    "distinct",
    "epoch",
    "explain",
    "first",
    "flow",
    "foreach_batch",
    "from_disco",
    "from_json",
    "from_yaml",
    "geometric_mean",
    "holon",
    "iso",
    "last",
    "load",
    "max",
    "max_by",
    "median",
    "min",
    "min_by",
    "mode",
    "postgres",
    "product",
    "punctuated",
    "quantile",
    "query",
    "read",
    "register",
    "rows",
    "run",
    "session",
    "ship",
    "sliding",
    "stddev",
    "stream",
    "sum",
    "testing",
    "to_json",
    "to_table",
    "to_yaml",
    "top",
    "tumbling",
    "value_range",
    "variance",
    "when_final",
]


#: What is imported when it is first used: Spark and Hypothesis are not there for everyone.
_LATER = {
    "aggregate": "headwater.spark",
    "by_query": "headwater.spark",
    "foreach_batch": "headwater.spark.streaming.sinks.foreach_batch",
    "holon": "headwater.holon",
    "postgres": "headwater.spark.streaming.postgres.sink",
    "read": "headwater.spark",
    "register": "headwater.spark",
    "ship": "headwater.spark.shipped",
    "stream": "headwater.spark.stream",
    "testing": "headwater.testing",
    "to_table": "headwater.spark.streaming.sinks.table",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_LATER[name])
    return module if name in ("holon", "testing") else getattr(module, name)


@overload
def explain(queries: Query | Iterable[Query], round_trips: bool = True) -> Explanation: ...
@overload
def explain(df: "DataFrame", queries: Query | Iterable[Query], **settings: Any) -> "SparkExplanation": ...
def explain(*given: Any, **named: Any) -> Any:
    """Say where queries are computed over a tree; or, with a DataFrame in front, what `aggregate` does with it and them.

    >>> print(explain(query("load", tumbling("1 s"), mean=avg("load"))))
    query  computed     travels   why
    load   distributed  partials  window edges are known ahead
    """
    if "df" not in named and not (given and type(given[0]).__module__.startswith("pyspark.")):
        return _explain(*given, **named)
    from headwater.spark.explain.explanation import explain as explain_frame

    return explain_frame(*given, **named)
