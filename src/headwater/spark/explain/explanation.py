"""`headwater.explain` of a DataFrame: which plan each query gets, why, what its values guarantee, and what will cross."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow.types as pt

from headwater.language.aggregations import Aggregation
from headwater.language.homes import Home
from headwater.language.notebooks.html import html_table
from headwater.language.query import Query
from headwater.language.time_columns import time_column
from headwater.spark.aggregate import Call, arrow_schema, divided, renamed_frame
from headwater.spark.batch.partition_leaves import depends_on_order
from headwater.spark.batch.root import cores_of
from headwater.spark.dataframe_streams.plan import StreamOptions, check_columns, stream_settings
from headwater.spark.explain.crossings import WHERES, Crossing, Where, native_crossings, python_crossings
from headwater.spark.explain.profile import FrameProfile, Grouping, groupings, is_text, profiled
from headwater.spark.native.choice import EXACT, Asked, choice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POSITIONS_NOTE = "how many events lie near cuts and are sorted is found when it runs"
STREAM_WHY = (
    "who is late depends on the watermark that the last batch left, which only the roots know: events travel to them"
)
STREAM_ORDER = "columns decide between events of one time within a batch; an event of a later batch is behind them"


@dataclass(frozen=True, slots=True)
class Planned:
    """One query: ``plan`` is native or python, ``why``, what its values ``guarantee``, and a ``warning`` or nothing."""

    query: str
    plan: str
    why: str
    guarantee: str
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Travel:
    """Queries that share a pass over the events, and what crosses for them; None: not predicted, ``note`` says why."""

    plan: str
    queries: tuple[str, ...]
    crossings: tuple[Crossing, ...] | None = None
    note: str = ""

    def total(self, where: Where) -> tuple[int, int] | None:
        """Rows and bytes of all that crosses at a place; None if not predicted."""
        if self.crossings is None:
            return None
        there = [crossing for crossing in self.crossings if crossing.where == where]
        return sum(one.rows for one in there), sum(one.bytes for one in there)


@dataclass(frozen=True, slots=True)
class SparkExplanation:
    """Each query by itself, and which of them travel together; printed, it is for people."""

    queries: tuple[Planned, ...]
    travels: tuple[Travel, ...]

    def __iter__(self) -> Iterator[Planned]:
        return iter(self.queries)

    def __getitem__(self, name: str) -> Planned:
        return {planned.query: planned for planned in self.queries}[name]

    def __str__(self) -> str:
        return "\n".join([*map(_query_text, self.queries), *map(_travel_text, self.travels)])

    def _repr_html_(self) -> str:
        planned = [(each.query, each.plan, each.why, each.guarantee, each.warning) for each in self.queries]
        travels = "\n".join(map(_travel_text, self.travels))
        return html_table(("query", "plan", "why", "guarantee", "warning"), planned) + f"<pre>{escape(travels)}</pre>"


def explain(
    df: DataFrame,
    queries: Query | Iterable[Query],
    *,
    order: str | Sequence[str] | None = None,
    measure: bool = True,
    home: Home = None,
    **settings: Any,
) -> SparkExplanation:
    """What `aggregate` would do with the same arguments, and what would cross for it.

    For the figures Spark looks at the data once, and where Python is needed leaves run here over a sample of some ten thousand
    events. ``measure=False`` leaves figures out and runs no job.
    """
    options = StreamOptions(**{name: settings.pop(name) for name in StreamOptions.__slots__ if name in settings})
    df = renamed_frame(df, settings.pop("rename", None))
    call = Call.of(df, queries, order, Asked(arrow_schema(df), **settings), options, home)
    call.asked.root(call.queries)  # queries that do not fit the columns are refused
    if df.isStreaming:
        return _of_stream(call, options)
    parts = _parts(call)
    by_name = {query.name: part for part in parts for query in part.queries}
    planned = tuple(_planned(query, by_name[query.name], call.asked) for query in call.queries)
    return SparkExplanation(planned, tuple(_travels(call, parts, measure)))


# --- how queries are divided: as `aggregate` does it ---


@dataclass(frozen=True, slots=True)
class _Part:
    """Queries that `aggregate` answers in one go: ``grouping`` for native slices, ``sort`` if Python needs its events sorted."""

    plan: str
    queries: tuple[Query, ...]
    grouping: Grouping | None = None
    sort: tuple[str, ...] = ()


def _parts(call: Call) -> list[_Part]:
    asked, division = call.asked, divided(call.queries, call.asked)
    found = groupings(division.fixed, asked)
    parts = [_Part("native", tuple(member.query for member in one.grid.members), one) for one in found]
    parts += [_Part("native, positions", tuple(family)) for family in division.native_counts]
    parts += [_Part("python, positions", tuple(family)) for family in division.python_counts]
    if others := division.others:
        sort = (time_column(asked.time).name, *call.ties) if any(map(depends_on_order, others)) else ()
        parts.append(_Part("python, sorted" if sort else "python", tuple(others), sort=sort))
    return parts


def _planned(query: Query, part: _Part, asked: Asked) -> Planned:
    chosen = choice(query, asked)
    guarantee = chosen.guarantee if chosen.is_native else _guarantee(query, asked)
    warning = ""
    if depends_on_order(query):
        warning = "columns decide between events of one time; read of the same files goes by file and row"
    return Planned(query.name, part.plan, chosen.why, guarantee, warning)


def _guarantee(query: Query, asked: Asked) -> str:
    said = dict.fromkeys(filter(None, (_less_than_exact(a, asked) for _, a in query.aggregates)))
    others = "; the others exact, to the last bit" if said and len(query.aggregates) > 1 else ""
    return "; ".join(said) + others if said else EXACT


def _less_than_exact(aggregation: Aggregation, asked: Asked) -> str | None:
    match aggregation.function:
        case "product" | "geometric_mean":
            assert aggregation.column is not None
            is_product = aggregation.function == "product"
            if is_product and not pt.is_floating(asked.schema.field(aggregation.column).type):
                return None
            return f"{aggregation.function}: within 1e-12 relative"
        case "approx_distinct":
            return f"approx_distinct: standard error {1.04 / 2 ** (aggregation.parameter / 2):.1%}, the same bits in any order"
        case "approx_quantile":
            return f"approx_quantile: relative error {aggregation.parameter[1]:.1%}, the same bits in any order"
        case "user":
            return "own aggregates: as good as their laws"
    return None


# --- figures ---


def _travels(call: Call, parts: Sequence[_Part], measure: bool) -> Iterator[Travel]:
    """What crosses for each part, from one profile of the data and samples of it."""
    cores = cores_of(call.df.sparkSession)
    profile = _profile(call, parts) if measure else None
    for part in parts:
        names = tuple(query.name for query in part.queries)
        if part.plan.endswith("positions"):
            yield Travel(part.plan, names, None, POSITIONS_NOTE)
        elif profile is None:
            yield Travel(part.plan, names)
        elif part.grouping is not None:
            crossings = native_crossings(part.grouping, profile, call.asked.schema, cores)
            yield Travel(part.plan, names, tuple(crossings))
        else:
            crossings = python_crossings(call.df, part.queries, profile, call.asked, part.sort, cores)
            yield Travel(part.plan, names, tuple(crossings))


def _profile(call: Call, parts: Sequence[_Part]) -> FrameProfile | None:
    """One look at the data; None where no part needs it."""
    if all(part.plan.endswith("positions") for part in parts):
        return None
    found = [part.grouping for part in parts if part.grouping is not None]
    for part in parts:
        if part.plan.startswith("python"):
            found += groupings(part.queries, call.asked)
    read = set().union(*({*query.columns(), *part.sort} for part in parts for query in part.queries))
    texts = [name for name in sorted(read) if is_text(call.asked.schema.field(name).type)]
    return profiled(call.df, call.asked.ticks, found, texts)


# --- streams ---


def _of_stream(call: Call, options: StreamOptions) -> SparkExplanation:
    """No job runs: nothing is known of events that have not come."""
    check_columns(call.df, options)
    settings = stream_settings(call.queries, call.asked, call.ties, options)
    keyed = {query.name: bool(group.keys) for group in settings.groups for query in group.queries}
    planned = []
    for query in call.queries:
        plan = f"stream, keys on {settings.buckets} roots" if keyed[query.name] else "stream, one root"
        warning = STREAM_ORDER if depends_on_order(query) else ""
        planned.append(Planned(query.name, plan, STREAM_WHY, _guarantee(query, call.asked), warning))
    travels = (
        Travel("stream", tuple(q.name for q in group.queries), None, f"of each event: {_named(group.travelling)}")
        for group in settings.groups
    )
    return SparkExplanation(tuple(planned), tuple(travels))


# --- for people ---


def _named(columns: Iterable[str]) -> str:
    """Names of columns; those that headwater adds begin with what none of a user's does."""
    return ", ".join(name.lstrip("\0") for name in columns)


def _query_text(planned: Planned) -> str:
    lines = [f"{planned.query}: {planned.plan}", f"    why: {planned.why}", f"    guarantee: {planned.guarantee}"]
    return "\n".join([*lines, f"    warning: {planned.warning}"] if planned.warning else lines)


def _travel_text(travel: Travel) -> str:
    names = ", ".join(travel.queries[:5]) + (f" and {len(travel.queries) - 5} more" if len(travel.queries) > 5 else "")
    lines = [f"together ({travel.plan}): {names}"]
    if travel.crossings is None:
        return "\n".join([*lines, f"    {travel.note or 'not measured'}"])
    for where in WHERES:
        total = travel.total(where)
        assert total is not None
        lines.append(f"    {where}: " + (f"{total[0]:,} rows, {_size(total[1])}" if total[0] else "nothing"))
        there = [crossing for crossing in travel.crossings if crossing.where == where]
        if len(there) > 1:
            lines += [f"        {one.what}: {one.rows:,} rows, {_size(one.bytes)}" for one in there]
    return "\n".join(lines)


def _size(count: float) -> str:
    """Bytes in the unit that suits them.

    >>> _size(999), _size(4_906_000)
    ('999 B', '4.9 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
