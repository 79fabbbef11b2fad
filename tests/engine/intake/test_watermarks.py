"""How far sources and their group have come, against the definition computed from the whole past."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.intake.watermarks import Watermarks
from headwater.language.times import FOREVER, NEVER, TIME_MAX

NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)
steps_of = st.lists(
    st.one_of(
        st.tuples(st.just("push"), names, st.lists(st.integers(-50, 50), min_size=1, max_size=4)),
        st.tuples(st.just("raise"), names, st.integers(-50, 50)),
        st.tuples(st.just("raise all"), st.just(""), st.integers(-50, 50)),
        st.tuples(st.sampled_from(["join", "idle", "resume"]), names, st.none()),
    ),
    max_size=15,
)


class Definition:
    """Each source keeps all that was ever said of it; the group is the least of the active ones, never less than before."""

    def __init__(self, disorder: int | None) -> None:
        self.disorder = disorder
        self.said: dict[str, list[int]] = {}
        self.active: set[str] = set()
        self.group = NEVER

    def join(self, name: str) -> None:
        if name not in self.said:
            self.said[name] = [self.group]
            self.active.add(name)

    def step(self, what: str, name: str, value: object) -> None:
        if what == "raise all":
            for said in self.said.values():
                said.append(value)
            if not self.said:
                self.group = max(self.group, value)
        else:
            self.join(name)
        if what == "push" and self.disorder is not None:
            self.said[name] += [time - self.disorder for time in value]
        elif what == "raise":
            self.said[name].append(value)
        elif what == "idle":
            self.active.discard(name)
        elif what == "resume" and name not in self.active:
            self.active.add(name)
            self.said[name].append(self.group)
        if what != "join":
            self.settle()

    def settle(self) -> None:
        if self.active:
            self.group = max(self.group, min(max(self.said[name]) for name in self.active))


def do(marks: Watermarks, what: str, name: str, value: object) -> None:
    if what == "push":
        marks.saw(marks.source(name), min(value), max(value))
    elif what == "raise":
        marks.raise_source(name, value)
    elif what == "raise all":
        marks.raise_all(value)
    elif what == "join":
        marks.source(name)
    else:
        getattr(marks, what)(name)


@given(st.one_of(st.none(), st.integers(0, 20)), steps_of)
def test_watermarks_are_those_of_the_definition(disorder: int | None, steps: list[tuple]):
    marks, definition = Watermarks(disorder), Definition(disorder)
    before = NEVER
    for step in steps:
        do(marks, *step)
        definition.step(*step)
        assert {name: source.watermark for name, source in marks.sources.items()} == {
            name: max(said) for name, said in definition.said.items()
        }
        assert marks.group == definition.group >= before
        before = marks.group
        marks = Watermarks.restored(marks.state())


@given(st.one_of(st.none(), st.integers(0, 20)), st.integers(-50, 50), st.lists(st.integers(-50, 50)))
def test_each_event_meets_the_watermark_of_those_before_it(disorder: int | None, said: int, times: list[int]):
    marks = Watermarks(disorder)
    marks.raise_source("a", said)
    source = marks.source("a")
    found = np.broadcast_to(marks.before_each(source, np.array(times, np.int64)), len(times)).tolist()
    for time, mark in zip(times, found):
        assert mark == source.watermark
        marks.saw(source, time, time)


def test_a_source_that_joins_goes_on_from_the_group():
    marks = Watermarks(None)
    marks.raise_source("a", 10)
    assert marks.source("b", "attic").watermark == 10
    assert marks.group == 10
    assert [(d.what, d.source, d.time) for d in marks.decisions] == [("joined", "a", NEVER), ("joined", "b", 10)]


def test_decisions_are_logged_once_and_restored():
    marks = Watermarks(None)
    marks.raise_source("a", 10)
    for _ in range(2):
        marks.idle("a")
    marks.raise_all(30)
    for _ in range(2):
        marks.resume("a")
    told = [(d.what, d.source) for d in marks.decisions]
    assert told == [("joined", "a"), ("idle", "a"), ("returned", "a")]
    assert Watermarks.restored(marks.state()).decisions == marks.decisions


def test_the_end_of_the_stream_is_the_end_for_all():
    marks = Watermarks(None)
    marks.source("a")
    marks.idle("a")
    marks.flush()
    assert marks.group == FOREVER
    assert marks.source("late").watermark == FOREVER


def test_a_watermark_below_all_times_says_nothing():
    marks = Watermarks(disorder=10)
    marks.raise_source("a", -TIME_MAX)
    assert marks.group == NEVER
    marks.saw(marks.source("a"), -TIME_MAX, -TIME_MAX)
    assert marks.group == NEVER


def test_ten_thousand_sources_agree_with_a_plain_minimum():
    count, chance = 10_000, np.random.default_rng(7)
    marks, plain = Watermarks(disorder=5), np.full(count, NEVER)
    sources = [marks.source(str(i)) for i in range(count)]
    # Round by round, as sources that speak in turns do, then in any order, so that some run far ahead of others.
    order = np.concatenate((np.tile(np.arange(count), 2), chance.integers(0, count, 2 * count)))
    for step, (i, ahead) in enumerate(zip(order.tolist(), chance.integers(0, 50, len(order)).tolist())):
        marks.saw(sources[i], step, step + ahead)
        plain[i] = max(plain[i], step + ahead - 5)
        if step % 97 == 0 or step == 2 * count - 1:
            assert marks.group == plain.min()
    assert [source.watermark for source in sources] == plain.tolist()
    assert NEVER < marks.group == plain.min()


def test_sources_that_fall_idle_and_return_leave_nothing_behind():
    marks = Watermarks(None)
    marks.raise_source("slow", 1)
    marks.raise_source("fast", 100)
    for _ in range(1_000):
        marks.idle("fast")
        marks.resume("fast")
    assert len(marks.watermarks) == len(marks.sources) == 2
    assert marks.group == 1
    marks.idle("slow")
    assert marks.group == 100
