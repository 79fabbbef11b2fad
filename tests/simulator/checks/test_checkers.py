"""The checker by itself: told a small story by hand, it lets the truth pass and nothing else."""

import itertools
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from headwater.language import aggregations as agg
from headwater.language import windows as win
from headwater.language.query import query
from headwater.language.times import NEVER
from headwater.local.engine import Engine
from headwater.protocols.actions import EmitAside, EmitRows, Noted, Record
from headwater.protocols.events import Started
from headwater.simulator.checks.checkers import Checker
from headwater.simulator.checks.counts import Counts
from headwater.simulator.checks.truth import Truth, ViolationError
from headwater.simulator.workloads.streams import SourceLog, Told
from headwater.simulator.workloads.workload import Workload
from headwater.simulator.world.machine import Machine, Maker

LOAD = query("load", win.tumbling(10), total=agg.sum("x"))
EVENTS = pa.record_batch({"time": [1, 5, 12, 21], "x": [1, 2, 4, 8]})
LOG = SourceLog("a", "home", EVENTS, np.arange(4), told=(Told(3, 12, 3), Told(4, 20, 5)))
ROOT = Machine("root", "root", Maker(lambda: None, lambda data: None))


def accepted(start, end, watermark):
    detail = {"sources": {"a": [start, end, watermark]}, "watermark": watermark, "record": next(NUMBERS)}
    return [Record(b""), Noted("accepted", {"chains": {}} | detail)]


NUMBERS = itertools.count(1)
JOINED = Noted("decided", {"what": "joined", "source": "a", "offset": 0, "time": NEVER, "record": 0})
FLUSHED = Noted("flushed", {"record": 10**6})


class Story:
    """A root that says what it is told to say, beside an engine that knows what would be right."""

    def __init__(self):
        self.truth = Truth(Workload((LOAD,), {"leaf": (LOG,)}), {})
        self.checker = Checker(self.truth, {"load": LOAD}, Counts(), Random(0), share=1.0)
        self.engine = Engine([LOAD])
        self.step = 0

    def say(self, *actions, done=None):
        actions = list(actions)
        self.checker.after(0, ROOT, Started(), actions, len(actions) if done is None else done)

    def rows(self, watermark):
        """What is right up to a watermark."""
        if self.step == 0:
            self.engine.push(pa.Table.from_batches([EVENTS.slice(0, 3)]))
        self.step += 1
        self.engine.advance(watermark)
        return EmitRows(self.step, self.engine.results().table)


@pytest.fixture
def story():
    return Story()


def test_checkers_pass_the_truth(story):
    story.say(JOINED)
    story.say(*accepted(0, 3, 12), story.rows(12))
    story.say(*accepted(3, 4, 20), story.rows(20))
    story.engine.push(pa.Table.from_batches([EVENTS.slice(3, 1)]))
    story.engine.flush()
    story.say(FLUSHED, EmitRows(9, story.engine.results().table))
    story.checker.check_end(story.engine.counters())


def test_a_step_may_come_again_but_not_with_other_rows(story):
    rows = story.rows(12)
    story.say(JOINED, *accepted(0, 3, 12), rows, rows)
    with pytest.raises(ViolationError, match="other rows"):
        story.say(EmitRows(rows.step, rows.rows.slice(0, 0)))


def test_a_row_of_a_window_that_is_not_closed_is_found(story):
    with pytest.raises(ViolationError, match="there is no such row"):
        story.say(JOINED, *accepted(0, 2, NEVER), story.rows(12))


def test_a_row_with_a_wrong_value_is_found(story):
    good = story.rows(12)
    wrong = good.rows.set_column(good.rows.schema.get_field_index("total"), "total", pa.array([99]))
    with pytest.raises(ViolationError, match=r"'total': 99.*'total': 3"):
        story.say(JOINED, *accepted(0, 3, 12), EmitRows(1, wrong))


def test_a_row_that_comes_twice_is_found(story):
    rows = story.rows(12)
    with pytest.raises(ViolationError, match="comes again"):
        story.say(JOINED, *accepted(0, 3, 12), rows, EmitRows(2, rows.rows))


def test_a_row_that_never_comes_is_found(story):
    story.say(JOINED, *accepted(0, 3, 12))
    with pytest.raises(ViolationError, match="is missing"):
        story.checker.check_settled()


@pytest.mark.parametrize("stretch", [(1, 2), (0, 5)])
def test_a_gap_and_events_that_nobody_sent_are_found(story, stretch):
    with pytest.raises(ViolationError, match="was accepted where it stood at 0"):
        story.say(JOINED, *accepted(*stretch, NEVER))


def test_events_that_are_accepted_again_are_found(story):
    with pytest.raises(ViolationError, match="where it stood at 3"):
        story.say(JOINED, *accepted(0, 3, 12), *accepted(2, 3, 12))


def test_a_watermark_that_does_not_follow_from_the_log_is_found(story):
    with pytest.raises(ViolationError, match="its watermark is"):
        story.say(JOINED, *accepted(0, 3, 13))


def test_a_watermark_told_just_behind_a_stretch_may_come_later(story):
    story.say(JOINED, *accepted(0, 3, NEVER), *accepted(3, 3, 12))


def test_what_is_on_disk_has_happened_even_if_the_root_fell_before_it_could_tell(story):
    story.say(JOINED)
    story.say(*accepted(0, 3, 12), story.rows(12), done=1)
    assert story.truth.accepted == {"a": 3} and not story.checker.shown


def test_an_event_put_aside_that_was_on_time_is_found(story):
    aside = pa.table({"query": ["load"], "reason": ["too late"], "source": ["a"], "offset": [1]})
    story.say(JOINED, *accepted(0, 3, 12), story.rows(12), EmitAside(1, aside))
    with pytest.raises(ViolationError, match="too many"):
        story.checker.check_end(story.engine.counters())


def test_counters_that_are_wrong_are_found(story):
    story.say(JOINED, *accepted(0, 3, 12), story.rows(12))
    counters = {"load": story.engine.counters()["load"] | {"member": 7}}
    with pytest.raises(ViolationError, match="load counts"):
        story.checker.check_end(counters)
