"""`headwater.explain` of a DataFrame: which plan each query gets, why, what its values guarantee, and what will cross."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.types as pt

from headwater.language.aggregations import Aggregation
from headwater.language.arguments import check_queries
from headwater.language.query import Query
from headwater.spark.aggregate import checked, tie_breakers
from headwater.spark.batch.partition_leaves import depends_on_order
from headwater.spark.batch.root import cores_of
from headwater.spark.dataframe_streams.plan import StreamOptions
from headwater.spark.explain.crossings import WHERES, Crossing, SessionSize, Where, native_crossings, python_crossings
from headwater.spark.explain.profile import FrameProfile, Grouping, event_time, groupings, is_text, profiled
from headwater.spark.native.choice import EXACT, Asked, choice
from headwater.spark.native.division import divided

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POSITIONS_NOTE = "how many events lie near cuts and are sorted is found when it runs"


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
        found = {planned.query: planned for planned in self.queries}
        return found[name]

    def __str__(self) -> str:
        return "\n".join([*map(_query_text, self.queries), *map(_travel_text, self.travels)])


def explain(
    df: DataFrame,
    queries: Query | Iterable[Query],
    *,
    time: str = "time",
    unit: str = "us",
    order: str | Sequence[str] | None = None,
    strict: bool = False,
    sums: str = "exact",
    plan: str = "auto",
    measure: bool = True,
    **of_streams: Any,
) -> SparkExplanation:
    """What `aggregate` would do with the same arguments, and what would cross for it.

    For the figures Spark looks at the data once, and where Python is needed leaves run here over a sample of some ten thousand
    events. ``measure=False`` leaves figures out and runs no job.
    """
    listed, ties = check_queries(queries), tie_breakers(df, time, order)
    options = StreamOptions(**of_streams)
    if df.isStreaming:
        from headwater.spark.explain.streams import explain_stream

        return explain_stream(df, listed, ties, options, time=time, unit=unit, strict=strict)
    options.refuse_batch()
    asked, _ = checked(df, listed, time, unit, sums, plan, strict)
    divided = _divided(listed, asked, ties)
    planned = tuple(_planned(query, part, asked) for query, part in _with_parts(listed, divided))
    return SparkExplanation(planned, tuple(_Figures(df, asked, divided, measure).travels()))


# --- how queries are divided: as `aggregate` does it ---


@dataclass(frozen=True, slots=True)
class _Part:
    """Queries that `aggregate` answers in one go: ``grouping`` for native slices, ``sort`` if Python needs its events sorted."""

    plan: str
    queries: tuple[Query, ...]
    grouping: Grouping | None = None
    sort: tuple[str, ...] = ()


def _divided(queries: Sequence[Query], asked: Asked, ties: Sequence[str]) -> list[_Part]:
    division = divided(queries, asked)
    found = groupings(division.fixed, asked.schema, asked.time, asked.unit)
    parts = [_Part("native", tuple(member.query for member in one.grid.members), one) for one in found]
    parts += [_Part("native, positions", tuple(family)) for family in division.native_counts]
    parts += [_Part("python, positions", tuple(family)) for family in division.python_counts]
    if others := division.others:
        sort = (asked.time, *ties) if any(map(depends_on_order, others)) else ()
        parts.append(_Part("python, sorted" if sort else "python", tuple(others), sort=sort))
    return parts


def _with_parts(queries: Sequence[Query], parts: Sequence[_Part]) -> Iterator[tuple[Query, _Part]]:
    by_name = {query.name: part for part in parts for query in part.queries}
    return ((query, by_name[query.name]) for query in queries)


def _planned(query: Query, part: _Part, asked: Asked) -> Planned:
    chosen = choice(query, asked)
    guarantee = chosen.guarantee if chosen.is_native else guarantee_of(query, asked)
    warning = ""
    if depends_on_order(query):
        warning = "columns decide between events of one time; read of the same files goes by file and row"
    return Planned(query.name, part.plan, chosen.why, guarantee, warning)


def guarantee_of(query: Query, asked: Asked) -> str:
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


class _Figures:
    """What crosses, from one profile of the data and samples of it."""

    def __init__(self, df: DataFrame, asked: Asked, parts: Sequence[_Part], measure: bool) -> None:
        self._df = df
        self._asked = asked
        self._parts = parts
        self._seen = self._look() if measure else None

    def _look(self) -> FrameProfile | None:
        parts, asked = self._parts, self._asked
        if all(part.plan.endswith("positions") for part in parts):
            return None
        found = [part.grouping for part in parts if part.grouping is not None]
        for part in parts:
            if part.plan.startswith("python"):
                found += groupings(part.queries, asked.schema, asked.time, asked.unit)
        read = set().union(*({*query.columns(), *part.sort} for part in parts for query in part.queries))
        texts = [name for name in sorted(read) if is_text(asked.schema.field(name).type)]
        return profiled(self._df, event_time(asked.schema, asked.time, asked.unit), found, texts)

    def travels(self) -> Iterator[Travel]:
        for part in self._parts:
            names = tuple(query.name for query in part.queries)
            note = POSITIONS_NOTE if part.plan.endswith("positions") else ""
            crossings = None if note or self._seen is None else tuple(self._crossings(part, self._seen))
            yield Travel(part.plan, names, crossings, note)

    def _crossings(self, part: _Part, seen: FrameProfile) -> Iterator[Crossing]:
        spark = self._df.sparkSession
        session = SessionSize(cores_of(spark), int(str(spark.conf.get("spark.sql.shuffle.partitions"))))
        if part.grouping is not None:
            return native_crossings(part.grouping, seen, self._asked.schema, session)
        return python_crossings(self._df, part.queries, seen, self._asked, part.sort, session)


# --- for people ---


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
