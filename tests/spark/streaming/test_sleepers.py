"""Drivers that sleep where they begin a stream or clean up behind it, and wake when others have gone on."""

import pytest

import headwater as hw
from headwater.language.files.queries import to_json
from headwater.logs import files
from headwater.simulator.stream import Driver, ListedInput, Loop
from headwater.spark.stream import begin
from headwater.spark.streaming.checkpoint import KEPT, StreamCheckpoint
from headwater.spark.streaming.errors import CheckpointError, ReplacedError
from headwater.spark.streaming.owners import Ownership
from headwater.spark.streaming.start.query_changes import running_queries
from spark.streaming.plain_stream import QUERY, SCHEMA, SETTINGS, one_source

pytestmark = pytest.mark.usefixtures("no_sync")


def loop_of(place) -> Loop:
    return Loop(place, one_source(range(1000)), [QUERY], SETTINGS, 1, 1, seed=0)


def go_on(loop: Loop, batches: int) -> None:
    for _ in range(batches):
        loop.opened.ends["a"] += 1
        assert loop.step()


def test_a_driver_that_sleeps_while_it_forgets_leaves_the_queries_of_its_successor(tmp_path, monkeypatch):
    loop = loop_of(tmp_path)
    for name in "xyz":
        loop.checkpoint.ask({"what": "add", "queries": to_json([hw.query(name, hw.tumbling(5), n=hw.count())])})
    inner, awake = files.remove, []

    def remove(path):
        """The first command is about to be removed: what is kept was looked at."""
        if path.parent.name == "commands" and not awake:
            awake.append(Driver(loop))
            loop.committed += 1
            loop.checkpoint.ask({"what": "remove", "name": "x", "drain": False})
            assert awake[0].step()
        inner(path)

    monkeypatch.setattr(files, "remove", remove)
    go_on(loop, KEPT + 1)
    assert awake
    assert {*running_queries(loop.checkpoint)} == {"load", "y", "z"}


def test_queries_that_no_directive_names_are_forgotten(tmp_path):
    loop = loop_of(tmp_path)
    for number in range(3 * KEPT):
        loop.checkpoint.ask({"what": "add", "queries": to_json([hw.query(f"q{number}", hw.tumbling(5), n=hw.count())])})
        loop.checkpoint.ask({"what": "remove", "name": f"q{number}", "drain": False})
        go_on(loop, 1)
    assert len(list((tmp_path / "queries").iterdir())) <= 2 * KEPT + 1
    last = loop.checkpoint.said(loop.checkpoint.last_batch())
    go_on(loop, 1)
    # As long as they do not change they keep their name.
    assert loop.checkpoint.said(loop.checkpoint.last_batch()).queries == last.queries


def test_a_driver_that_sleeps_while_it_begins_a_stream_leaves_the_one_that_began_meanwhile(tmp_path, monkeypatch):
    opened, inner, others = ListedInput(SCHEMA, {"a": 0}), Ownership.taken, []

    def taken(path, who=None):
        owner = inner(path, who)
        if not others:
            others.append(owner)
            others.append(begin(StreamCheckpoint(tmp_path), opened, [QUERY], SETTINGS, 1, why="the second"))
        return owner

    monkeypatch.setattr(Ownership, "taken", taken)
    with pytest.raises(ReplacedError, match="owner 1"):
        begin(StreamCheckpoint(tmp_path), opened, [QUERY], SETTINGS, 1)
    checkpoint = StreamCheckpoint(tmp_path)
    checkpoint.go_on(checkpoint.begun())
    assert (checkpoint.begun().why, checkpoint.said(-1).owner) == ("the second", 2)
    loop = loop_of(tmp_path)
    go_on(loop, 3)
    assert loop.checkpoint.last_batch() == 2


def test_of_two_that_begin_a_stream_at_the_same_moment_one_is_told_to_start_again(tmp_path):
    opened = ListedInput(SCHEMA, {"a": 0})
    begin(StreamCheckpoint(tmp_path), opened, [QUERY], SETTINGS, 1)
    with pytest.raises(CheckpointError, match="another driver began this stream at the same moment; start it again"):
        begin(StreamCheckpoint(tmp_path), opened, [QUERY], SETTINGS, 1)
    checkpoint = StreamCheckpoint(tmp_path)
    checkpoint.go_on(checkpoint.begun())
    assert checkpoint.said(-1).owner == checkpoint.begun().owner == 1
    go_on(loop_of(tmp_path), 3)


FOLDERS = ("directives", "queries", "commands", "owners", "states", "gathered/sink", "seen")


def test_what_a_crash_left_unfinished_stops_no_stream_and_is_swept_up(tmp_path):
    loop = loop_of(tmp_path)
    litter = [tmp_path / folder / f".2.json.0123{files.UNFINISHED}" for folder in FOLDERS]
    for place in litter:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"{")
    go_on(loop, 2 * KEPT + 2)
    loop.restart()
    assert not any(place.exists() for place in litter)
