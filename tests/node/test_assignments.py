"""Assignments: one owner for a chain, a new epoch for each, and every owner told where to go on."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.engine.tree.root import RootHalf
from headwater.errors import QueryError
from headwater.language.times import NEVER
from headwater.protocols.count_windows import Counting
from headwater.protocols.delta import CUT_SUFFIX, ChainRange
from headwater.protocols.ledger import OLD_EPOCH
from headwater.protocols.messages import Assign, CountPlan, Hello
from node.parts import COUNTS, MARKS, SCHEMA, SUMS, Parts, sent


def one_leaf() -> Parts:
    parts = Parts.of(SUMS)
    parts.assignments.learn(SCHEMA)
    parts.join("x", "old")
    return parts


def hello(node: str, epoch: int, *sources: str) -> Hello:
    return Hello("x", node, epoch, 1, tuple((source, "") for source in sources or ("x/s",)))


# --- owners ---


def test_a_chain_begins_under_epoch_one() -> None:
    assign = one_leaf().assignments.of("x")
    assert (assign.node, assign.epoch, assign.position) == ("old", 1, 0)


def test_whoever_takes_a_chain_over_makes_a_zombie_of_its_owner() -> None:
    parts = one_leaf()
    parts.join("x", "new")
    assert (parts.assignments.of("x").node, parts.assignments.of("x").epoch) == ("new", 2)
    assert parts.ledger.objections({"x": ChainRange(1, 0, 1)}) == {"x": OLD_EPOCH}
    assert parts.ledger.objections({"x" + CUT_SUFFIX: ChainRange(1, 0, 1)}) == {"x" + CUT_SUFFIX: OLD_EPOCH}
    assert parts.ledger.objections({"x": ChainRange(2, 0, 1)}) == {}


def test_an_owner_that_asks_again_changes_nothing_unless_it_brings_a_source_or_lost_its_epoch() -> None:
    parts = one_leaf()
    assert parts.assignments.is_settled(hello("old", 1))
    assert not parts.assignments.is_settled(hello("old", 1, "x/s", "x/t"))
    assert not parts.assignments.is_settled(hello("old", 0))


def test_an_owner_is_reminded_where_to_go_on_and_a_zombie_only_of_who_owns_the_chain() -> None:
    parts = one_leaf()
    parts.join("x", "new")
    ((link, told),) = sent(parts.assignments.remind("x", "to-old"))
    assert isinstance(told, Assign) and (link, told.node, told.epoch, told.sources) == ("to-old", "new", 2, ())
    ((link, told),) = sent(parts.assignments.remind("x", "to-new"))
    assert isinstance(told, Assign) and (link, [source.name for source in told.sources]) == ("to-new", ["x/s"])


# --- columns and queries ---


def test_nobody_is_told_anything_before_columns_are_known() -> None:
    parts = Parts.of(SUMS)
    parts.join("x")
    assert parts.assignments.tell("x") == []
    parts.assignments.learn(SCHEMA)
    assert parts.assignments.tell("x") != []


def test_with_the_first_columns_those_that_had_to_wait_are_told_too() -> None:
    parts = Parts.of(SUMS)
    for chain, version in (("x", 0), ("y", 1), ("z", 0)):
        parts.join(chain)
        parts.assignments.has_queries(chain, version)
    parts.assignments.learn(SCHEMA)
    assert [link for link, _ in sent(parts.assignments.tell_waiting("z"))] == ["to-x", "to-z"]


def test_the_first_type_that_is_heard_of_a_column_holds() -> None:
    parts = Parts.of(SUMS)
    assert parts.assignments.learn(SCHEMA)
    assert not parts.assignments.learn(pa.schema({"v": pa.int64()}))
    assert parts.assignments.learn(pa.schema({"v": pa.int64(), "w": pa.string()}))
    assert parts.assignments.schema == SCHEMA.append(pa.field("w", pa.string()))


def test_columns_that_do_not_fit_the_queries_are_not_learnt() -> None:
    parts = Parts(RootHalf([SUMS]))
    with pytest.raises(QueryError, match="'v'"):
        parts.assignments.learn(pa.schema({"time": pa.int64()}))
    assert parts.assignments.schema is None


def test_queries_are_told_once_for_each_version() -> None:
    parts = one_leaf()

    def told() -> str | None:
        (message,) = (message for _, message in sent(parts.assignments.tell("x")) if isinstance(message, Assign))
        return message.queries

    assert told() == parts.assignments.query_text
    assert told() is None
    parts.assignments.has_queries("x", 0)
    assert told() == parts.assignments.query_text


def test_other_queries_mean_a_new_epoch_for_every_chain() -> None:
    parts = one_leaf()
    parts.join("y")
    told = [message for _, message in sent(parts.assignments.change_queries()) if isinstance(message, Assign)]
    assert [(assign.chain, assign.epoch, assign.version) for assign in told] == [("x", 2, 2), ("y", 2, 2)]
    assert all(assign.queries is not None for assign in told)


# --- where to go on ---


def test_an_owner_goes_on_behind_what_was_accepted() -> None:
    parts = one_leaf()
    parts.advance("x", 7, latest=9, count=3)
    assign = parts.assignments.of("x")
    (source,) = assign.sources
    assert (source.name, source.offset, source.watermark, source.hold, assign.latest) == ("x/s", 3, 7, 3, 9)


def test_windows_that_markers_cut_make_an_owner_read_again_from_the_first_mark() -> None:
    parts = Parts.of(MARKS)
    parts.join("x")
    parts.members.mark("x")
    parts.advance("x", 7, latest=9, count=3)
    (source,) = parts.assignments.of("x").sources
    assert (source.offset, source.hold, source.hold_watermark) == (3, 0, NEVER)


def test_an_owner_hears_of_count_windows_with_its_assignment() -> None:
    parts = Parts.of(COUNTS, counting=Counting("monitor"))
    parts.assignments.learn(SCHEMA)
    parts.join("x")
    assert [type(message) for _, message in sent(parts.assignments.tell("x"))] == [Assign, CountPlan]


def test_the_first_assignment_is_that_of_a_chain_that_nobody_owned_before() -> None:
    parts = Parts.of(SUMS)
    first = parts.assignments.first()
    parts.join("x")
    (assign,) = parts.assignments.all()
    assert (first.epoch, first.position, first.cut, first.cut_time) == (1, 0, assign.cut, assign.cut_time)
    assert (first.sources[0].offset, first.sources[0].watermark) == (0, assign.sources[0].watermark)


def test_columns_and_version_survive_a_snapshot() -> None:
    parts, again = one_leaf(), Parts.of(SUMS)
    parts.assignments.change_queries()
    again.assignments.restore(parts.assignments.state())
    assert (again.assignments.schema, again.assignments.version) == (SCHEMA, 2)
