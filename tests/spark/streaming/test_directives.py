"""What a root tells leaves, as it lies in checkpoints: those of older releases can still be read."""

import base64

import numpy as np

from headwater.protocols.frames import frame
from headwater.protocols.membership import Mark
from headwater.protocols.messages import ASSIGN, Assign, SourceState, _text_body, encode
from headwater.protocols.tree.rereading import rereads
from headwater.spark.streaming.directives import Directive, narrowed

SOURCE = SourceState("a", 90, 900, 0, 0, ((50, 480),))
ASSIGN_OF_A = Assign("00000", "00000", 1, 3, 0, 0, (SOURCE,), 1, None, 905)


def old_data() -> dict:
    """As it was written before there were plans and looks."""
    fields = ["00000", "00000", 1, 3, 0, 0, [["a", 90, 900, 0, 0, [[50, 480]], ""]], 1, None, 905]
    assign = base64.b64encode(frame(ASSIGN, _text_body(fields))).decode()
    named = {"batch": 7, "queries": "q", "columns": ["time"], "assigns": {"00000": assign}, "cuts": None}
    return named | {"wants_batch": False, "silent_at_ns": None, "is_finished": False, "commands": 0, "status": {}}


def test_a_directive_of_an_older_release_is_read_and_has_the_hash_that_it_had():
    directive = Directive.from_data(old_data())
    assert directive.assigns == {"00000": ASSIGN_OF_A}
    assert directive.plan is None and directive.again == {}
    # An offset that was planned before names the hash of what was written then, status aside.
    again = Directive.from_data(old_data() | {"status": {"batch": 7}})
    assert again.hash == directive.hash
    assert Directive.from_data(old_data() | {"commands": 1}).hash != directive.hash


def test_plans_and_stretches_are_kept():
    told = Directive(1, "q", ["time"], {"00000": ASSIGN_OF_A}, plan=encode(ASSIGN_OF_A), again={"a": [(1, 5)]})
    read = Directive.from_data(told.to_data())
    assert (read.plan, read.again["a"]) == (told.plan, [[1, 5]])
    assert read.hash == told.hash


def test_only_stretches_between_marks_are_read_again():
    marks = [Mark(10 * k, np.array([k]), np.array([10 * k])) for k in range(9)]
    assign, again = narrowed(ASSIGN_OF_A, rereads(marks, np.array([90]), [(22, 25), (61, 85)]))
    assert again == {"a": [(2, 3), (6, 90)]}
    (source,) = assign.sources
    assert (source.hold, source.hold_watermark, source.offset) == (2, 20, 90)
    # At the second stretch its watermark is what it was; what was decided later still holds.
    assert source.floors == ((6, 60), (50, 480))
    assert narrowed(ASSIGN_OF_A, []) == (ASSIGN_OF_A, {})
