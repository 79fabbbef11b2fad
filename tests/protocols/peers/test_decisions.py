"""The decision log: whoever knows the same entries, however they came, says the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import FormatError
from headwater.protocols.peers.decisions import (
    PLACE_MAX,
    DecisionError,
    DecisionLog,
    JobStopped,
    LogEntry,
    PartitionEnded,
    PartitionReturned,
    StepClosed,
    entry_from_bytes,
    entry_to_bytes,
)

PARTITIONS = ("p", "q", "r")
STEPS = st.integers(-3, 12)
INDEXES = st.integers(0, 50)
ENTRIES: st.SearchStrategy[LogEntry] = st.one_of(
    st.builds(StepClosed, STEPS, st.dictionaries(st.sampled_from(PARTITIONS), INDEXES)),
    st.builds(PartitionReturned, st.sampled_from(PARTITIONS), INDEXES, STEPS),
    st.builds(PartitionEnded, st.dictionaries(st.sampled_from(PARTITIONS), INDEXES, min_size=1)),
    st.builds(JobStopped, STEPS),
)
#: Logs as they come about: steps are closed one after the other.
LOGS = st.lists(ENTRIES, max_size=15) | st.lists(
    st.dictionaries(st.sampled_from(PARTITIONS), INDEXES), max_size=10
).map(lambda outs: [StepClosed(step, out) for step, out in enumerate(outs)])


def log_of(entries: list[LogEntry]) -> DecisionLog:
    log = DecisionLog()
    for number, entry in enumerate(entries):
        log.learn(number, entry)
    return log


def said(log: DecisionLog) -> dict[str, Any]:
    """All that a log says has been decided."""
    return {
        "next": log.next_number,
        "closed": log.closed,
        "stop": log.stop,
        "out": log.out,
        "returns": {name: log.returns(name) for name in PARTITIONS},
        "ends": {name: log.end_of(name) for name in PARTITIONS},
        "counts": {name: log.count(name) for name in PARTITIONS},
        "outs": {step: log.out_of(step) for step in range(-3, 13)},
    }


# --- order, repetition, gaps ---


@given(entries=LOGS, seed=st.integers(0, 1000), data=st.data())
def test_neither_order_nor_repetition_matters(entries: list[LogEntry], seed: int, data: st.DataObject) -> None:
    numbers = list(range(len(entries)))
    again = data.draw(st.lists(st.sampled_from(numbers), max_size=10)) if numbers else []
    told = random.Random(seed).sample([*numbers, *again], len(numbers) + len(again))
    log = DecisionLog()
    for number in told:
        log.learn(number, entries[number])
    assert log == log_of(entries)
    assert said(log) == said(log_of(entries))
    assert log.to_bytes() == log_of(entries).to_bytes()


@given(entries=LOGS, known=st.sets(st.integers(0, 14)))
def test_an_entry_waits_for_those_before_it(entries: list[LogEntry], known: set[int]) -> None:
    log = DecisionLog()
    for number, entry in enumerate(entries):
        if number in known:
            log.learn(number, entry)
    gap = next(number for number in range(16) if number not in known or number >= len(entries))
    assert log.next_number == gap
    assert said(log) == said(log_of(entries[:gap]))
    assert [number for number, _ in log.entries_after(-1)] == [n for n in range(len(entries)) if n in known]


@given(entries=LOGS, here=st.sets(st.integers(0, 14)), there=st.sets(st.integers(0, 14)))
def test_two_nodes_that_tell_each_other_what_the_other_lacks_know_the_same(
    entries: list[LogEntry], here: set[int], there: set[int]
) -> None:
    logs = DecisionLog(), DecisionLog()
    for log, known in zip(logs, (here, there)):
        for number, entry in enumerate(entries):
            if number in known:
                log.learn(number, entry)
    one, other = logs
    messages = one.entries_after(other.next_number - 1), other.entries_after(one.next_number - 1)
    for log, message in zip((other, one), messages):
        for number, entry in message:
            log.learn(number, entry)
    assert said(one) == said(other)


@given(entries=st.lists(ENTRIES, min_size=1, max_size=15), data=st.data())
def test_another_entry_with_the_same_number_cannot_be(entries: list[LogEntry], data: st.DataObject) -> None:
    log = log_of(entries)
    number = data.draw(st.integers(0, len(entries) - 1))
    other = data.draw(ENTRIES.filter(lambda entry: entry != entries[number]))
    with pytest.raises(DecisionError, match=f"entry {number} is"):
        log.learn(number, other)
    assert log == log_of(entries)


def test_of_entries_that_wait_none_is_replaced_either() -> None:
    log = DecisionLog()
    log.learn(5, JobStopped(3))
    with pytest.raises(DecisionError, match="entry 5 is JobStopped"):
        log.learn(5, JobStopped(4))


@pytest.mark.parametrize("number", [-1, PLACE_MAX + 1])
def test_a_number_that_there_cannot_be_is_refused(number: int) -> None:
    with pytest.raises(DecisionError, match=f"has the number {number}: they are numbered from 0"):
        DecisionLog().learn(number, JobStopped(3))


# --- what entries mean ---


class Twin:
    """The same, slowly: it keeps all that each partition ever was (in, out since a step, ended), and counts the changes."""

    def __init__(self, entries: list[LogEntry]) -> None:
        self.steps: dict[int, tuple[str, ...]] = {}
        self.stop: int | None = None
        self.states: dict[str, list[tuple[str, int]]] = {name: [("in", 0)] for name in PARTITIONS}
        self.returns: dict[str, tuple[PartitionReturned, ...]] = dict.fromkeys(PARTITIONS, ())
        for entry in entries:
            self.add(entry)

    def add(self, entry: LogEntry) -> None:
        match entry:
            case JobStopped(step):
                self.stop = max([step, *self.steps]) if self.stop is None else self.stop
            case StepClosed(step, out) if all(
                each < step <= (step if self.stop is None else self.stop) for each in [-99, *self.steps]
            ):
                for name in PARTITIONS:
                    self.become(name, "out" if name in out else "in", step)
                self.steps[step] = tuple(name for name in PARTITIONS if self.states[name][-1][0] == "out")
            case PartitionReturned(partition) if self.states[partition][-1][0] == "out":
                self.returns[partition] += (entry,)
                self.become(partition, "in", 0)
            case PartitionEnded(ends):
                for name, index in ends.items():
                    self.become(name, "ended", index)

    def become(self, name: str, state: str, place: int) -> None:
        if self.states[name][-1][0] not in ("ended", state):
            self.states[name].append((state, place))

    def said(self) -> dict[str, Any]:
        now = {name: states[-1] for name, states in self.states.items()}
        return {
            "closed": max(self.steps, default=None),
            "stop": self.stop,
            "out": {name: step for name, (state, step) in now.items() if state == "out"},
            "returns": self.returns,
            "ends": {name: index if state == "ended" else None for name, (state, index) in now.items()},
            "counts": {name: len(states) - 1 for name, states in self.states.items()},
            "outs": {step: self.steps.get(step) for step in range(-3, 13)},
        }


@given(LOGS)
def test_a_log_says_what_its_entries_say_one_after_the_other(entries: list[LogEntry]) -> None:
    assert said(log_of(entries)) == {"next": len(entries)} | Twin(entries).said()


def test_a_partition_is_out_from_the_first_step_that_is_closed_without_it() -> None:
    log = log_of([StepClosed(1), StepClosed(2, {"p": 5}), StepClosed(3, {"p": 5, "q": 5}), StepClosed(4, {"p": 5})])
    assert log.out == {"p": 2}
    assert [log.out_of(step) for step in range(6)] == [None, (), ("p",), ("p", "q"), ("p",), None]
    assert (log.count("p"), log.count("q"), log.count("r")) == (1, 2, 0)


def test_a_step_counts_as_a_decision_about_those_alone_whose_being_out_it_changes() -> None:
    log = log_of([StepClosed(step, {"p": 5}) for step in range(100)])
    assert log.count("p") == 1
    assert log.out == {"p": 0}


def test_a_partition_that_returned_is_out_anew_when_a_step_says_so_again() -> None:
    returned = PartitionReturned("p", 40, 3)
    log = log_of([StepClosed(1, {"p": 5}), returned, StepClosed(4), StepClosed(5, {"p": 5})])
    assert (log.out, log.count("p"), log.returns("p")) == ({"p": 5}, 3, (returned,))


def test_of_two_returns_the_first_counts() -> None:
    first, second = PartitionReturned("p", 40, 3), PartitionReturned("p", 41, 4)
    log = log_of([StepClosed(1, {"p": 5}), first, second])
    assert (log.returns("p"), log.count("p")) == ((first,), 2)


def test_a_partition_that_is_in_does_not_return() -> None:
    log = log_of([PartitionReturned("p", 40, 3)])
    assert (log.returns("p"), log.count("p")) == ((), 0)


def test_a_step_is_closed_once() -> None:
    log = log_of([StepClosed(3, {"p": 5}), StepClosed(3), StepClosed(2)])
    assert (log.closed, log.out_of(3), log.out_of(2), log.count("p")) == (3, ("p",), None, 1)


def test_nothing_is_decided_about_a_partition_behind_its_end() -> None:
    log = log_of([StepClosed(1, {"p": 5}), PartitionEnded({"p": 7, "q": 9})])
    assert (log.out, log.end_of("p"), log.end_of("r"), log.count("p")) == ({}, 7, None, 2)
    for number, entry in enumerate(
        [StepClosed(2, {"p": 5}), PartitionEnded({"p": 8}), PartitionReturned("p", 8, 2)], 2
    ):
        log.learn(number, entry)
    assert (log.out, log.end_of("p"), log.count("p"), log.out_of(2)) == ({}, 7, 2, ())


def test_all_stop_after_one_step_and_none_is_closed_behind_it() -> None:
    log = log_of([StepClosed(1), JobStopped(3), JobStopped(9), StepClosed(3), StepClosed(4)])
    assert (log.stop, log.closed, log.out_of(4)) == (3, 3, None)


def test_steps_that_are_closed_are_done_by_all_before_they_stop() -> None:
    assert log_of([StepClosed(5), JobStopped(3)]).stop == 5


# --- what is forgotten ---


@given(entries=LOGS, number=st.integers(0, 20), later=st.lists(ENTRIES, max_size=5))
def test_to_forget_entries_changes_nothing_that_is_decided(
    entries: list[LogEntry], number: int, later: list[LogEntry]
) -> None:
    log = log_of(entries)
    log.forget_before(number)
    assert log.first_number == min(number, len(entries))
    assert DecisionLog.from_bytes(log.to_bytes()) == log
    for place, entry in enumerate([*entries, *later]):
        log.learn(place, entry)
    whole = log_of([*entries, *later])
    gone = log_of(entries[:number]).closed
    expected = said(whole)
    expected["outs"] = {step: out if gone is None or step > gone else None for step, out in expected["outs"].items()}
    assert said(log) == expected
    whole.forget_before(min(number, len(entries)))
    assert log == whole
    assert log.to_bytes() == whole.to_bytes()


def test_entries_that_wait_are_not_forgotten() -> None:
    log = DecisionLog()
    log.learn(2, JobStopped(3))
    log.forget_before(9)
    assert (log.first_number, log.entries_after(0)) == (0, [(2, JobStopped(3))])


# --- bytes ---


@pytest.mark.parametrize(
    ("entry", "written"),
    [
        (StepClosed(-3, {"p": 4, "quay/1": 0}), "0101050210020a0770717561792f310800"),
        (PartitionReturned("p", 300, 7), "01020170ac020e"),
        (PartitionEnded({"p": 300, "q": 0}), "0103020002027071d80400"),
        (JobStopped(5), "01040a"),
    ],
)
def test_entries_are_written_as_in_all_releases(entry: LogEntry, written: str) -> None:
    assert entry_to_bytes(entry).hex() == written


def test_logs_are_written_as_in_all_releases() -> None:
    log = log_of([StepClosed(1, {"p": 5}), PartitionReturned("p", 300, 7)])
    log.learn(3, JobStopped(9))
    log.forget_before(1)
    expected = "01010102000001000201700200000100020170020002000701020170ac020e0203010412"
    assert log.to_bytes().hex() == expected


@given(ENTRIES)
def test_an_entry_comes_back(entry: LogEntry) -> None:
    assert entry_from_bytes(entry_to_bytes(entry)) == entry
    assert entry_from_bytes(memoryview(entry_to_bytes(entry))) == entry


def test_equal_ends_have_equal_bytes() -> None:
    one, other = PartitionEnded({"p": 1, "q": 2}), PartitionEnded({"q": 2, "p": 1})
    assert one == other and entry_to_bytes(one) == entry_to_bytes(other)


@given(entries=LOGS, known=st.sets(st.integers(0, 14)))
def test_a_log_comes_back(entries: list[LogEntry], known: set[int]) -> None:
    log = DecisionLog()
    for number, entry in enumerate(entries):
        if number in known:
            log.learn(number, entry)
    again = DecisionLog.from_bytes(log.to_bytes())
    assert again == log and said(again) == said(log)


@given(st.binary(max_size=40))
def test_made_up_bytes_are_an_entry_or_a_format_error(data: bytes) -> None:
    for made_up in (data, b"\x01" + data, *(bytes([1, kind]) + data for kind in range(1, 5))):
        for read, write in ((entry_from_bytes, entry_to_bytes), (DecisionLog.from_bytes, DecisionLog.to_bytes)):
            try:
                found = read(made_up)
            except FormatError:
                continue
            assert write(found) == made_up  # type: ignore[operator]


@given(entries=st.lists(ENTRIES, min_size=1, max_size=6), forgotten=st.integers(0, 6), data=st.data())
def test_damaged_bytes_are_another_log_or_a_format_error(
    entries: list[LogEntry], forgotten: int, data: st.DataObject
) -> None:
    log = log_of(entries)
    log.forget_before(forgotten)
    written = bytearray(log.to_bytes())
    written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(written[: data.draw(st.integers(len(written) // 2, len(written)))])
    try:
        found = DecisionLog.from_bytes(damaged)
    except FormatError:
        return
    assert found.to_bytes() == damaged


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no end"),
        (b"\x02\x04\x00", "of version 2; this release reads version 1"),
        (b"\x01\x09\x00", "no entry of the decision log has the kind 9"),
        (b"\x01\x04\x00\x00", "1 bytes too many"),
        (b"\x01\x04\x80\x00", "written in another way"),
        (b"\x01\x02\x01\xff\x00\x00", "cannot be read: 'utf-8'"),
        (entry_to_bytes(JobStopped(PLACE_MAX))[:2] + b"\xff" * 12 + b"\x01", "JobStopped: step is"),
    ],
)
def test_the_error_says_what_is_wrong_with_bytes(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        entry_from_bytes(data)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: StepClosed(1, {"q": -5}), "StepClosed: index is -5: give a number from 0"),
        (lambda: StepClosed(PLACE_MAX + 1), "StepClosed: step is"),
        (lambda: PartitionReturned("p", -1, 0), "PartitionReturned: index is -1: give a number from 0"),
        (lambda: PartitionReturned("p", 0, -PLACE_MAX - 1), "PartitionReturned: step is"),
        (lambda: PartitionEnded({}), "PartitionEnded: ends is empty"),
        (lambda: PartitionEnded({"p": -1}), "PartitionEnded: index is -1"),
        (lambda: JobStopped(PLACE_MAX + 1), "JobStopped: step is"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
