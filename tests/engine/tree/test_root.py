"""The half that has no events: parts of leaves in, rows out, and what it objects to before it is too late."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.base.count_limits import CountLimits
from headwater.base.source_numbers import SourceNumbers
from headwater.engine.tree.leaf import LeafHalf
from headwater.engine.tree.leaf_sources import Standing
from headwater.engine.tree.roles import Role
from headwater.engine.tree.root import RootHalf
from headwater.engine.wire.parts import AccountsPart, EventsPart, LatePart, MarkersPart, Part, PiecesPart, RowsPart
from headwater.language.times import FOREVER, NEVER

SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string(), "v": pa.int64()})
SUM = hw.query("sum", hw.tumbling(10), s=hw.sum("v"), keys="k")
LATE = hw.query("late", hw.tumbling(10), s=hw.sum("v"), keys="k", lateness=100)
ONCE = hw.query("once", hw.tumbling(10), s=hw.sum("v"), distinct="k")
MARKED = hw.query("marked", hw.punctuated(hw.col("k") == "x"), n=hw.count())
COUNTED = hw.query("counted", hw.count_tumbling(2), s=hw.sum("v"))
CHAINS = {"s0", "s1"}
EVENTS = [(1, "a", 1), (2, "x", 2), (25, "x", 4), (4, "a", 8)]


def resolve(chains: tuple[str, ...]) -> SourceNumbers:
    return SourceNumbers.of([np.array([int(chain[1:])]) for chain in chains])


def halves(*queries: hw.Query, count: int = 2, **ways: bool) -> tuple[RootHalf, list[LeafHalf]]:
    root = RootHalf(queries, Role(False, **ways), disorder=0)
    root.check(SCHEMA)
    root.names, root.homes = [f"s{i}" for i in range(count)], [""] * count
    standings = [Standing(f"s{i}", "", 0, NEVER, 0, NEVER) for i in range(count)]
    leaves = [LeafHalf(root.query_set(), s.name, [s], NEVER, NEVER, CountLimits()) for s in standings]
    for leaf in leaves:
        leaf.begin_counting({}, {}, 100, False)
    return root, leaves


def parts_of(leaf: LeafHalf, number: int, rows: list[tuple] = EVENTS) -> list[Part]:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    leaf.take_in(f"s{number}", 0, pa.record_batch(columns, schema=SCHEMA), None)
    leaf.end(f"s{number}", FOREVER)
    return leaf.take()[1]


def rows_of(root: RootHalf) -> list[dict]:
    table = root.take_rows()
    return [] if table is None else table.to_pylist()


def accept(root: RootHalf, parts: list[Part]) -> None:
    assert root.problem(parts, resolve, CHAINS) is None
    root.absorb(parts, resolve)


@pytest.mark.parametrize("query", [SUM, LATE, ONCE], ids=lambda query: query.name)
def test_two_leaves_give_what_one_engine_gives(query: hw.Query):
    root, leaves = halves(query)
    for number, leaf in enumerate(leaves):
        accept(root, parts_of(leaf, number))
    assert rows_of(root) == []
    root.raise_to(FOREVER, 25)
    root.close()
    engine = hw.Engine([query], disorder=0)
    for number in range(2):
        engine.join(f"s{number}")
    for number in range(2):
        engine.push(pa.table(dict(zip(SCHEMA.names, zip(*EVENTS, strict=True), strict=True))), source=f"s{number}")
    engine.flush()
    last = {str([row["window_start"], row.get("k")]): row["s"] for row in rows_of(root)}
    assert last == {str([row["window_start"], row.get("k")]): row["s"] for row in engine.results().table.to_pylist()}
    assert root.counters() == engine.counters()


def test_marked_windows_close_only_when_everything_was_cut():
    root, (leaf,) = halves(MARKED, count=1)
    accept(root, parts_of(leaf, 0, EVENTS[:3]))
    root.raise_to(FOREVER, 25)
    root.close()
    assert root.has_cuts and rows_of(root) == []
    accept(root, leaf.cut(FOREVER, root.announce(FOREVER), {}))
    root.finish_cut(FOREVER)
    assert [row["n"] for row in rows_of(root)] == [1, 1]


def test_a_piece_in_which_a_window_may_end_is_looked_into():
    root, (leaf,) = halves(COUNTED, count=1, counts=True)
    accept(root, parts_of(leaf, 0))
    root.raise_to(FOREVER, 25)
    root.close()
    (looks,) = root.looks("s0").values()
    assert not root.counts_are_done and leaf.look({0: [look.renumbered(np.array([0])) for look in looks]})
    accept(root, leaf.take()[1])
    root.close()
    assert root.counts_are_done and [row["s"] for row in rows_of(root)] == [3]


def test_the_accounts_of_leaves_are_those_of_the_root():
    root, (leaf,) = halves(SUM, ONCE, count=1)
    accept(root, parts_of(leaf, 0))
    counts = root.counters()
    assert counts["sum"] == {
        "in": 4, "filtered": 0, "outside": 0, "member": 3, "late": 0, "dropped": 1, "malformed": 0
    }  # fmt: skip
    assert counts["once"]["in"] == 4
    assert root.side_output().column("query").to_pylist() == ["once", "sum"]


def test_a_snapshot_of_an_earlier_release_whose_queries_are_apart_now_is_refused(monkeypatch):
    both = (MARKED, hw.query("valued", MARKED.window, s=hw.sum("v")))
    with monkeypatch.context() as earlier:
        apart = Role.family_of
        earlier.setattr(Role, "family_of", lambda role, entry: (apart(role, entry) or ())[:-1])
        root, _ = halves(*both, count=1)
        snapshot = root.snapshot()
        assert RootHalf.restore(snapshot, CountLimits()).snapshot() == snapshot
    with pytest.raises(hw.FormatError, match="queries 'marked' and 'valued' together, which read different columns"):
        RootHalf.restore(snapshot, CountLimits())


def test_a_root_goes_on_from_a_snapshot_in_its_role():
    root, (leaf,) = halves(SUM, COUNTED, count=1, counts=True, large_only=True)
    accept(root, parts_of(leaf, 0))
    again = RootHalf.restore(root.snapshot(), CountLimits())
    assert again.snapshot() == root.snapshot()
    assert again.role == root.role and again.role.large_only
    again.names, again.homes = root.names, root.homes
    for one in (root, again):
        one.raise_to(FOREVER, 25)
        one.close()
    assert rows_of(again) == rows_of(root) != []


def of_kind(parts: list[Part], kind: type) -> Part:
    return next(part for part in parts if isinstance(part, kind))


@pytest.mark.parametrize(
    ("kind", "change", "problem"),
    [
        (RowsPart, {"key_columns": [pa.array([1, 2])]}, "keys are k, and others came"),
        (RowsPart, {"partials": {}}, "partials of some operators are missing"),
        (RowsPart, {"cut": True}, "rows were cut in another way"),
        (RowsPart, {"family": 1}, "partials came for a query that needs events"),
        (RowsPart, {"family": 99}, None),
        (LatePart, {"columns": {}}, "late events need the columns v"),
        (LatePart, {"sources": np.array([7])}, "chain 's0' has no such sources"),
        (EventsPart, {"columns": {}}, "events need the column 'k'"),
        (EventsPart, {"misfits": {"k": [99]}}, "events are named that are not there"),
        (AccountsPart, {"rows": np.array([[0, -1, 0, 0, 0]])}, "numbers of events are from 0 to"),
        (MarkersPart, {"conditions": []}, "markers of other windows came"),
        (MarkersPart, {"family": 0, "key_columns": [pa.array(["a"])]}, "markers of other windows came"),
        (PiecesPart, {"family": 0}, "pieces came for a query that needs something else"),
        (PiecesPart, {"partials": {}}, "partials of some operators are missing"),
        (PiecesPart, {"first": np.full((3, 1), 9), "last": np.full((3, 1), 9)}, "pieces are of sources that are not there"),
    ],
)  # fmt: skip
def test_a_part_that_does_not_fit_is_told_why(kind: type, change: dict, problem: str | None):
    root, (leaf,) = halves(LATE, ONCE, MARKED, COUNTED, count=1, counts=True)
    parts = parts_of(leaf, 0)
    assert root.problem(parts, resolve, CHAINS) is None
    found = root.problem([replace(of_kind(parts, kind), **change)], resolve, CHAINS)
    assert found is None if problem is None else problem in str(found)
