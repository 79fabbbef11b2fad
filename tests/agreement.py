"""Does a host say what the reference says? Every bit, every revision, every counter, step by step."""

from typing import Any

from headwater.cases import HOSTS, explain_difference
from headwater.cases.differences import text_table
from headwater.cases.hosts import Host
from headwater.language.windows import CountWindow
from headwater.reference.history import Added, Removed
from headwater.reference.rows import ResultRow
from strategies import SCHEMA, Scenario


def _counts(counts: dict[str, int], is_draining: bool) -> dict[str, int]:
    """The counters; of a query that is running out, an event that will be in no window may count as a member until then."""
    if not is_draining:
        return counts
    return counts | {"member": counts["member"] + counts["late"] + counts["outside"], "late": 0, "outside": 0}


def _times(rows: list[ResultRow], scenario: Scenario) -> list[tuple[int | None, int | None]]:
    """First and last times of the rows that show them: those of count windows."""
    added = [step.query for step in scenario.history if isinstance(step, Added)]
    counted = {q.name for q in (*scenario.settings.queries, *added) if isinstance(q.window, CountWindow)}
    return [(row.first_time, row.last_time) for row in rows if row.query in counted]


def _held(emitted: list[tuple[int, list[ResultRow]]]) -> list[ResultRow]:
    """What holds after the end: of each window its last revision, unless it is gone, replaced or empty.

    Where sources end one after the other, windows may come out in several steps, and vanish and come back in between; only what
    holds in the end is the same then.
    """
    last: dict[tuple[Any, ...], ResultRow] = {}
    for row in (row for _, rows in emitted for row in rows):
        for start, end, _ in row.replaces or ():
            last.pop((row.query, start, end, row.key, row.node), None)
        last[*row[:4], row.node] = row._replace(revision=0, replaces=None)
    return sorted((row for row in last.values() if row.event_count), key=lambda row: (row.end, row.start))


def assert_agreement(scenario: Scenario, host: Host = HOSTS["engine"], *, ends_at_once: bool = True) -> None:
    """What a host emits at each step, and what it counts, is what the reference says."""
    expected = HOSTS["reference"].play(scenario.settings, scenario.history)
    actual = host.play(scenario.settings, scenario.history, SCHEMA)
    wanted, found = ({index: rows for index, rows in played.emitted if rows} for played in (expected, actual))
    for index in () if ends_at_once else (len(scenario.history) - 1,):
        wanted[index], found[index] = (_held(played.emitted) for played in (expected, actual))
    for index in sorted(wanted.keys() | found.keys()):
        text = explain_difference(wanted.get(index, []), found.get(index, []))
        assert not text, f"after step {index}, {scenario.history[index]}:\n{text}"
        if not ends_at_once and index == len(scenario.history) - 1:
            continue
        assert [row[:4] for row in wanted[index]] == [row[:4] for row in found[index]], "the order of the rows"
        assert _times(wanted[index], scenario) == _times(found[index], scenario), "the times of count windows"
    draining = {step.name for step in scenario.history if isinstance(step, Removed)}
    counts = [
        (name, _counts(expected.counters[name], name in draining), _counts(actual.counters[name], name in draining))
        for name in expected.counters
    ]
    wrong = [line for line in counts if line[1] != line[2]]
    assert not wrong, "\n" + text_table(["query", "expected", "actual"], wrong)
    # A query that was removed has nothing left to compare.
    dropped = [{place for place in played.dropped if place[0] in expected.counters} for played in (expected, actual)]
    assert dropped[0] == dropped[1], f"dropped: {sorted(dropped[0] ^ dropped[1])}"
