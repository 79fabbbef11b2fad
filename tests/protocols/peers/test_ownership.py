"""Ownership: tables that heard the same are the same, those who live share what is left over, and lag moves partitions."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_files import FOLDER
from headwater.cases import read_cases
from headwater.protocols.peers.ownership import (
    LAG_HELD_NS_MIN,
    LAG_NS_MIN,
    NOBODY,
    Lagging,
    LagWatch,
    OwnerTable,
    PartitionOwner,
    placement,
    rendezvous_score,
    ring_responsible,
    winner,
    with_most_lag,
)

SECOND = 1_000_000_000
PARTITIONS = st.sets(st.integers(0, 40).map(lambda number: f"p{number}"), max_size=12)
NODES = st.sets(st.integers(0, 9).map(lambda number: f"n{number}"), min_size=1, max_size=6)
OWNERS = st.builds(PartitionOwner, st.integers(0, 3), st.sampled_from("abc"))
TABLES = st.dictionaries(st.sampled_from("pqrs"), OWNERS)
CASES = {case["id"]: case for case in read_cases(FOLDER / "holon.json")}


def merged(*tables: dict[str, PartitionOwner]) -> dict[str, PartitionOwner]:
    found = OwnerTable()
    for table in tables:
        found.merge(table)
    return found.owners


# --- to merge is a join ---


@given(one=TABLES, two=TABLES, three=TABLES)
def test_the_order_and_grouping_of_merges_do_not_matter(one: Any, two: Any, three: Any) -> None:
    assert merged(one, two) == merged(two, one)
    assert merged(merged(one, two), three) == merged(one, merged(two, three))


@given(one=TABLES, two=TABLES)
def test_what_was_merged_changes_nothing_when_it_comes_again(one: Any, two: Any) -> None:
    both = merged(one, two)
    assert merged(both, one) == merged(both, two) == merged(both, both) == both


@given(one=TABLES, two=TABLES)
def test_no_owner_is_replaced_by_one_that_counts_less(one: Any, two: Any) -> None:
    for partition, owner in merged(one, two).items():
        assert owner in (one.get(partition), two.get(partition))
        for table in (one, two):
            assert winner(owner, table.get(partition, owner)) == owner


def owners_of(entries: dict[str, list[int]]) -> dict[str, PartitionOwner]:
    """Of a case: by partition its node and version."""
    return {partition: PartitionOwner(version, str(node)) for partition, (node, version) in entries.items()}


@pytest.mark.parametrize("name", ["holon-ownership-merge", "holon-ownership-tie"])
def test_tables_merge_as_in_holon(name: str) -> None:
    case = CASES[name]
    tables = [owners_of(entries) for entries in [case["initial"], *case["merges"]]]
    assert all(merged(*order) == owners_of(case["expected"]) for order in permutations(tables))


def test_newly_owned_are_those_of_holon() -> None:
    """Holon gives a node nothing at an equal version; where two claimed at once, the merge may still make it the owner."""
    case = CASES["holon-new-owned"]
    node, table = str(case["self"]), OwnerTable(owners_of(case["state"]))
    heard = owners_of(case["incoming"])
    assert table.newly_owned(node, heard) == [str(number) for number in case["expected_new"]]
    table.merge(heard)
    assert table.owned_by(node) == ["0", "1", "2", "4"]
    assert table.newly_owned(node, heard) == []
    tied = owners_of(case["then_incoming"])
    assert table.newly_owned(node, tied) == case["expected_new_then"]
    table.merge(tied)
    assert table.owned_by(node) == ["0", "1", "2", "3", "4"]


@given(table=TABLES, node=st.sampled_from("abc"))
def test_a_claim_wins_over_what_the_claimant_knows(table: Any, node: str) -> None:
    found = OwnerTable(dict(table))
    for partition in "pqrs":
        claim = found.claim(partition, node)
        assert claim.version == table.get(partition, NOBODY).version + 1
        found.merge({partition: claim})
        assert found.owners[partition] == claim


# --- the placement ---


@given(partitions=PARTITIONS, nodes=NODES)
def test_each_partition_has_one_place_and_no_node_has_more_than_the_mean_rounded_up(
    partitions: set[str], nodes: set[str]
) -> None:
    found = placement(partitions, nodes)
    assert found.keys() == partitions
    assert set(found.values()) <= nodes
    loads = [list(found.values()).count(node) for node in nodes]
    assert max(loads) <= -(-len(partitions) // len(nodes))


@given(partitions=PARTITIONS, nodes=NODES, data=st.data())
def test_the_placement_depends_on_no_order(partitions: set[str], nodes: set[str], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(sorted(partitions))), data.draw(st.permutations(sorted(nodes)))
    assert placement(*shuffled) == placement(partitions, nodes)


@given(partitions=PARTITIONS, nodes=NODES)
def test_with_room_each_partition_is_where_it_suits_best(partitions: set[str], nodes: set[str]) -> None:
    """Without the bound it is plain rendezvous hashing; one partition is never in the way of others."""
    for partition in partitions:
        best = max(nodes, key=lambda node: rendezvous_score(partition, node))
        assert placement([partition], nodes) == {partition: best}


def test_scores_are_those_of_all_releases_and_machines() -> None:
    assert rendezvous_score("bids/0", "node-1") == 1914615505553756381
    assert rendezvous_score("ab", "c") != rendezvous_score("a", "bc")


def test_nothing_is_placed_where_nobody_lives() -> None:
    assert placement(["p"], []) == {}


@pytest.mark.parametrize(("former", "expected"), [("a", "b"), ("b", "c"), ("c", "a"), ("", "a"), ("bb", "c")])
def test_of_nodes_that_suit_equally_well_the_next_in_the_ring_has_the_partition(former: str, expected: str) -> None:
    nodes = {"a", "b", "c"} - {former}
    assert placement(["p"], nodes, {"p": former}, score=lambda partition, node: 0) == {"p": expected}
    assert ring_responsible(expected, former, nodes)


@pytest.mark.parametrize("number", range(3))
def test_the_ring_is_that_of_holon(number: int) -> None:
    case = CASES[f"holon-takeover-{number}"]
    living = {str(node) for node in range(case["nodes"]) if node not in case["failed_nodes"]}
    assert ring_responsible(str(case["self"]), str(case["failed_node"]), living) is case["expected"]


@given(nodes=NODES, failed=NODES)
def test_one_node_is_responsible_for_each_that_failed(nodes: set[str], failed: set[str]) -> None:
    living = nodes - failed
    for one in failed:
        assert sum(ring_responsible(node, one, living) for node in nodes) == min(len(living), 1)


# --- takeovers ---


def settled(partitions: set[str], nodes: set[str]) -> OwnerTable:
    """All have claimed what is theirs."""
    table = OwnerTable.of(partitions)
    for claims in [table.claims(node, nodes) for node in sorted(nodes)]:
        table.merge(claims)
    return table


@given(partitions=PARTITIONS, nodes=NODES, dead=NODES)
def test_the_partitions_of_the_dead_go_to_the_living_each_to_one(
    partitions: set[str], nodes: set[str], dead: set[str]
) -> None:
    """Each finds out by itself, before it has heard of any other's claim."""
    table, living = settled(partitions, nodes), nodes - dead
    orphans = {name for name, owner in table.owners.items() if owner.node in dead}
    claimed = [table.claims(node, living) for node in living]
    names = [name for claims in claimed for name in claims]
    assert len(names) == len(set(names))
    assert set(names) == (orphans if living else set())
    assert all(owner.version == 2 for claims in claimed for owner in claims.values())


@given(partitions=PARTITIONS, nodes=NODES, dead=NODES, data=st.data())
def test_whatever_a_node_has_heard_of_others_claims_it_makes_the_same(
    partitions: set[str], nodes: set[str], dead: set[str], data: st.DataObject
) -> None:
    table, living = settled(partitions, nodes), nodes - dead
    for node in living:
        others = [table.claims(other, living) for other in living - {node}]
        heard = OwnerTable(dict(table.owners))
        for claims in data.draw(st.lists(st.sampled_from(others)) if others else st.just([])):
            heard.merge(claims)
        assert heard.claims(node, living) == table.claims(node, living)


@given(partitions=PARTITIONS, nodes=NODES)
def test_nobody_claims_what_a_living_node_has(partitions: set[str], nodes: set[str]) -> None:
    table = settled(partitions, nodes)
    assert not any(owner == NOBODY for owner in table.owners.values())
    assert not any(table.claims(node, nodes) for node in nodes)
    assert not any(table.share(node, nodes) for node in nodes)


@given(partitions=PARTITIONS, nodes=NODES, data=st.data())
def test_however_they_disagree_on_who_lives_every_partition_has_an_owner_who_does(
    partitions: set[str], nodes: set[str], data: st.DataObject
) -> None:
    """Views differ for a while, then they are one; claims are heard with any delay in between."""
    tables = {node: settled(partitions, nodes) for node in nodes}
    for _ in range(data.draw(st.integers(0, 3))):
        for node in sorted(nodes):
            view = data.draw(st.sets(st.sampled_from(sorted(nodes))))
            tables[node].merge(tables[node].claims(node, view))
        one, other = data.draw(st.tuples(*[st.sampled_from(sorted(nodes))] * 2))
        tables[one].merge(tables[other].owners)
    living = data.draw(st.sets(st.sampled_from(sorted(nodes)), min_size=1))
    everything = merged(*(tables[node].owners for node in living))
    for node in living:
        tables[node].merge(everything)
    for claims in [tables[node].claims(node, living) for node in sorted(living)]:
        for table in tables.values():
            table.merge(claims)
    (owners,) = [tables[node].owners for node in living][:1]
    assert all(tables[node].owners == owners for node in living)
    assert all(owner.node in living for owner in owners.values())


def test_a_node_lives_itself_whatever_it_is_told() -> None:
    assert OwnerTable.of(["p"]).claims("a", living=[]) == {"p": PartitionOwner(1, "a")}


@given(partitions=PARTITIONS, nodes=NODES)
def test_a_node_that_joins_gets_its_share_one_by_one(partitions: set[str], nodes: set[str]) -> None:
    table, everybody = settled(partitions, nodes), nodes | {"new"}
    expected = {name for name, node in placement(partitions, everybody).items() if node == "new"}
    before = dict(table.owners)
    for _ in expected:
        share = table.share("new", everybody)
        assert len(share) == 1
        table.merge(share)
    assert table.share("new", everybody) == {}
    assert set(table.owned_by("new")) == expected
    assert all(table.owners[name] == before[name] for name in partitions - expected)


# --- lag ---


def test_the_node_with_the_most_lag_is_that_of_holon() -> None:
    case = CASES["holon-lag-node"]
    assert with_most_lag(case["lags"]) == str(case["expected_node"])


def test_the_partition_with_the_most_lag_is_that_of_holon() -> None:
    case, watch = CASES["holon-lag-partition"], LagWatch()
    assert with_most_lag(case["lags"]) == str(case["expected_partition"])
    assert case["lags"][str(case["expected_partition"])] == case["expected_lag"]
    watch.told("a", case["lags"], 0)
    assert (watch.total("a"), watch.total("b")) == (case["expected_total"], 0)


HIGH, LOW = LAG_NS_MIN + 1, LAG_NS_MIN


def told(lags: dict[str, list[dict[str, int]]], step_ns: int = SECOND) -> LagWatch:
    """What each node said, one report after the other."""
    watch = LagWatch()
    for node, reports in lags.items():
        for number, report in enumerate(reports):
            watch.told(node, report, number * step_ns)
    return watch


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([{"p": HIGH}] * 3, Lagging("a", "p")),
        ([{"p": HIGH}] * 2, None),
        ([{"p": LOW}] * 9, None),
        ([{"p": HIGH}, {"p": LOW}, {"p": HIGH}, {"p": HIGH}], None),
        ([{"p": HIGH}, {}, {"p": HIGH}, {"p": HIGH}], None),
        ([{"p": HIGH, "q": HIGH + 1}] * 3, Lagging("a", "q")),
        ([{"p": HIGH}, {"p": HIGH}, {"p": HIGH, "q": HIGH + 1}], None),
        ([{}] * 3, None),
    ],
)
def test_a_lag_that_is_large_and_lasts_moves_a_partition(
    reports: list[dict[str, int]], expected: Lagging | None
) -> None:
    assert told({"a": reports}).stealable("b") == expected


def test_a_lag_must_last_two_seconds() -> None:
    assert LAG_HELD_NS_MIN == 2 * SECOND
    assert told({"a": [{"p": HIGH}] * 3}, step_ns=SECOND - 1).stealable("b") is None


def test_it_is_of_the_node_with_the_largest_lag_in_total() -> None:
    watch = told({"a": [{"p": 3 * HIGH}] * 3, "b": [{"q": 2 * HIGH, "r": 2 * HIGH}] * 3})
    assert watch.stealable("c") == Lagging("b", "q")


def test_who_lags_takes_nothing_and_nobody_takes_from_itself() -> None:
    watch = told({"a": [{"p": 3 * HIGH}] * 3, "b": [{"q": HIGH}] * 3, "c": [{"r": LOW}] * 3})
    assert (watch.stealable("a"), watch.stealable("b"), watch.stealable("c")) == (None, None, Lagging("a", "p"))


def test_lags_of_a_node_that_is_gone_are_void() -> None:
    watch = told({"a": [{"p": HIGH}] * 3})
    watch.forget("a")
    assert (watch.stealable("b"), watch.total("a")) == (None, 0)
    watch.told("a", {"p": HIGH}, 4 * SECOND)
    assert watch.stealable("b") is None


def test_a_clock_that_is_set_back_begins_to_count_anew() -> None:
    watch = told({"a": [{"p": HIGH}]})
    for number, expected in enumerate([None, None, Lagging("a", "p")]):
        watch.told("a", {"p": HIGH}, (number - 3_600) * SECOND)
        assert watch.stealable("b") == expected
