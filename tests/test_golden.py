"""What earlier commits wrote is read by this one, and goes on to the same end; what this one writes has the same bytes.

The files and what they hold: `tests/golden/write.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headwater as hw
from golden import states, write
from golden.frames import OPERATORS, messages, partials, parts
from golden.material import WRITTEN, events
from headwater.cases import HOSTS, explain_difference
from headwater.cases.hosts import result_rows
from headwater.edge.journal import Journal
from headwater.engine.operators.partials import CLASSES
from headwater.engine.wire.part_bytes import part_from_bytes, part_to_bytes
from headwater.engine.wire.parts import Part
from headwater.logs import Log
from headwater.node import LeafNode, RelayNode, RootNode
from headwater.node.micro_batches.frames import Frame
from headwater.node.micro_batches.root import BatchRoot
from headwater.node.records import event_of, record_of
from headwater.protocols.actions import EmitRows
from headwater.protocols.delta import Delta
from headwater.protocols.messages import Message, decode, encode
from headwater.reference.history import Arrived, Flushed, Joined, StreamSettings

GOLDEN = write.contents(write.PLACE)
#: States of older releases, which this one still reads.
OLD = write.PLACE / "old"
#: Where users' code comes from.
OWN = ("golden.own",)
FRAMES = [name for name in GOLDEN if name.startswith("frames/")]
MESSAGES = messages()


def why(name: str) -> str:
    """What a failure says."""
    then = json.loads((write.PLACE / "versions.json").read_text())
    return (
        f"tests/golden/{name} is not read or written as it was: a changed format needs a new version, a line in CHANGELOG.md and"
        f" a golden file of its own, beside this one (written with {then}, this is {write.versions()})"
    )


@contextmanager
def golden(name: str) -> Iterator[None]:
    """Whatever goes wrong with a file, the failure names it."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{why(name)}\n{error}") from error


def plain(value: Any) -> Any:
    """What a part says, whatever arrays say it; partials by their bytes, which are equal for equal ones."""
    if hasattr(value, "combine_ranges"):
        return value.to_bytes()
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, pa.Array | pa.Table):
        return [str(getattr(value, "type", None)), value.to_pylist()]
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


# --- all of them ---


@pytest.mark.parametrize("kind", write.WRITERS)
def test_what_is_written_now_has_the_same_bytes(kind: str, tmp_path: Path) -> None:
    if kind in write.NEED_SPARK:
        pytest.importorskip("pyspark")
    write.WRITERS[kind](tmp_path)
    written = write.contents(tmp_path)
    assert written
    for name, data in written.items():
        with golden(name):
            assert data == GOLDEN[name], "the bytes differ"


def test_all_files_are_written_by_somebody(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    for some in write.WRITERS.values():
        some(tmp_path)
    assert write.contents(tmp_path).keys() == {name for name in GOLDEN if not name.startswith(write.FORMER)}


@pytest.mark.parametrize("name", GOLDEN)
def test_no_file_names_a_module_of_ours(name: str) -> None:
    """Modules may move; and what is packed is looked into."""
    assert b"headwater." not in GOLDEN[name]
    if name in FRAMES:
        assert "headwater." not in repr(decode(GOLDEN[name]))


# --- messages ---


def test_there_are_messages_parts_and_operators_of_every_kind() -> None:
    assert {type(message) for message in MESSAGES.values()} == set(get_args(Message))
    assert {type(part) for some in parts().values() for part in some} == set(get_args(Part))
    kinds = "count valid sum sumsq product min max run ordered first last hll ddsketch user top"
    assert {op.kind for some in OPERATORS.values() for op in some} == set(kinds.split())
    assert {type(column) for kind in OPERATORS for column in partials(kind).values()} == set(CLASSES.values())


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_the_message_it_was(name: str) -> None:
    with golden(name):
        message: Message = decode(GOLDEN[name])
        assert message == MESSAGES[Path(name).stem]
        assert encode(message) == GOLDEN[name]


@pytest.mark.parametrize("name", [name for name in FRAMES if "delta" in name and "many" not in name])
def test_the_parts_of_a_delta_say_what_they_said(name: str) -> None:
    with golden(name):
        delta = decode(GOLDEN[name])
        assert isinstance(delta, Delta)
        said = [part_from_bytes(data, modules=OWN) for data in delta.parts]
        assert [part_to_bytes(part) for part in said] == [bytes(data) for data in delta.parts]
        for got, built in zip(said, parts()[Path(name).stem.removeprefix("delta-")], strict=True):
            assert type(got) is type(built)
            assert plain(got) == plain(built)


# --- nodes and engines ---


def test_an_engine_goes_on() -> None:
    with golden("engine.snapshot"):
        restored = hw.Engine.restore(GOLDEN["engine.snapshot"])
        assert restored.snapshot() == GOLDEN["engine.snapshot"]
        said, never = states.engine_goes_on(restored), states.engine_goes_on(states.engine_halfway())
        assert repr(said) == repr(never)
        assert said["rows"] and said["aside"]


def test_an_engine_of_a_release_that_told_windows_apart_by_hashes_goes_on() -> None:
    restored = hw.Engine.restore((OLD / "engine.snapshot").read_bytes())
    said, never = states.engine_goes_on(restored), states.engine_goes_on(states.engine_halfway())
    assert repr(said) == repr(never)


@pytest.mark.parametrize("kind", states.RECORDED)
def test_a_record_is_the_event_it_was(kind: str) -> None:
    name = f"tree/{kind}.record"
    with golden(name):
        assert event_of(GOLDEN[name]) == (states.RECORDED[kind], 10**18)
        assert record_of(*event_of(GOLDEN[name])) == GOLDEN[name]


def recovered_root(folder: Path, data: bytes = GOLDEN["tree/root.journal"]) -> tuple[RootNode, list[str]]:
    """The root of the journal, and the rows that it gives again."""
    path = folder / "root.journal"
    path.write_bytes(data)
    journal = Journal(path)
    kept = journal.read()
    journal.close()
    assert kept.checkpoint is not None and kept.records
    root, repeated = RootNode.recover(kept.checkpoint, kept.records)
    return root, states.said([action.rows for action in repeated if isinstance(action, EmitRows)])


def restored_node(name: str) -> LeafNode | RelayNode:
    kind = RelayNode if name == "relay" else LeafNode
    return kind.restore(GOLDEN[f"tree/{name}.snapshot"], OWN)


def story_halfway() -> tuple[states.Tree, list[str]]:
    story = states.Tree()
    story.first_half()
    return story, story.take_rows()


@pytest.mark.parametrize("name", ["root", *states.PARENTS])
def test_a_node_goes_on_among_others_that_never_stopped(name: str, tmp_path: Path) -> None:
    """And all that was in flight is lost."""
    never, before = story_halfway()
    never.rest()
    with golden("tree/root.journal" if name == "root" else f"tree/{name}.snapshot"):
        story, _ = story_halfway()
        node = recovered_root(tmp_path)[0] if name == "root" else restored_node(name)
        again = states.restarted({**story.tree.nodes, name: node}, story.tree.sources)
        again.rest()
        after = again.take_rows()
        assert before and after
        assert after == never.take_rows()


@pytest.mark.parametrize("place", [write.PLACE / "tree", OLD], ids=["now", "by hashes"])
def test_a_tree_goes_on_in_which_each_node_is_made_again(place: Path, tmp_path: Path) -> None:
    never, before = story_halfway()
    never.rest()
    with golden("tree/root.journal"):
        root, repeated = recovered_root(tmp_path, (place / "root.journal").read_bytes())
        assert repeated and set(repeated) <= set(before)
        assert root.counters() == story_halfway()[0].tree.root.counters()
        nodes = {"root": root, **{name: restored_node(name) for name in states.PARENTS}}
        again = states.restarted(nodes, story_halfway()[0].tree.sources)
        again.rest()
        assert again.take_rows() == never.take_rows()
        assert root.counters() == never.tree.root.counters()


def test_a_root_for_micro_batches_goes_on() -> None:
    with golden("batch_root.snapshot"):
        settings, data = states.batch_settings(), GOLDEN["batch_root.snapshot"]
        assert BatchRoot.restore(data, settings).snapshot() == data
        said = states.batch_root_goes_on(BatchRoot.restore(data, settings))
        never = states.batch_root_goes_on(states.batch_root_halfway())
        assert repr(said) == repr(never)
        assert any(rows for rows, _, _ in said)


def test_a_root_for_micro_batches_of_a_release_that_told_windows_apart_by_hashes_goes_on() -> None:
    restored = BatchRoot.restore((OLD / "batch_root.snapshot").read_bytes(), states.batch_settings())
    never = states.batch_root_goes_on(states.batch_root_halfway())
    assert repr(states.batch_root_goes_on(restored)) == repr(never)


def test_a_frame_of_a_micro_batch_is_what_it_was() -> None:
    with golden("batch_root.frame"):
        frame = Frame.from_bytes(GOLDEN["batch_root.frame"])
        assert frame == states.batch_frame(35)
        assert frame.to_bytes() == GOLDEN["batch_root.frame"]


# --- streams on Spark ---


@pytest.mark.parametrize("name", states.STREAMS)
@pytest.mark.parametrize("release", [write.PLACE, OLD], ids=["this", "without owners"])
def test_a_stream_goes_on_from_its_checkpoint(name: str, release: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from headwater.spark.streaming.start.query_changes import running_queries

    never = states.stream_loop(tmp_path / "never", name)
    states.stream_halfway(never)
    done = never.committed
    expected = states.stream_goes_on(never)
    place = tmp_path / "again"
    shutil.copytree(release / name, place)
    with golden(f"{name}/"):
        loop = states.stream_loop(place / "headwater", name)
        # Older releases refuse it from now on.
        assert json.loads((place / "headwater" / "about.json").read_bytes())["headwater_stream"] == 4
        lasting = {query.name: query for query in states.stream_queries(name) if query.name != "lean"}
        assert running_queries(loop.checkpoint).keys() == {*lasting, "lean", "added"}
        assert loop.checkpoint.refused(1) == never.checkpoint.refused(1)
        # It finds its input by what the checkpoint says.
        del loop.reader.__dict__["_input"]
        loop.planned = [json.loads(line) for line in (place / "offsets.json").read_text().splitlines()]
        assert len(loop.planned) == done + 1
        loop.committed = done
        found = states.stream_goes_on(loop)
        assert found.keys() == {batch for batch in expected if batch >= done}
        assert all(expected[batch].equals(rows) for batch, rows in found.items())
        assert any(map(len, found.values()))
        all_rows = [*(expected[batch] for batch in range(done)), *found.values()]
        given = [row for table in all_rows if len(table) for row in result_rows(_only(table, lasting), lasting)]
        assert not explain_difference(reference_rows(list(lasting.values()), states.STREAMS[name][2] or {}), given)


def test_a_stream_that_began_with_bounds_in_ticks_and_without_homes_goes_on_with_them(tmp_path: Path) -> None:
    """Its sink holds rows of the old columns, and a column has one type."""
    pytest.importorskip("pyspark")
    never = states.stream_loop(tmp_path / "never", "stream")
    states.stream_halfway(never)
    expected = states.stream_goes_on(never)
    place = tmp_path / "old"
    shutil.copytree(write.PLACE / write.HOMELESS, place)
    with golden(f"{write.HOMELESS}/"):
        loop = states.stream_loop(place / "headwater", "stream")
        loop.planned = [json.loads(line) for line in (place / "offsets.json").read_text().splitlines()]
        loop.committed = len(loop.planned) - 1
        found = {batch: rows for batch, rows in states.stream_goes_on(loop).items() if len(rows)}
        assert found
        for batch, rows in found.items():
            assert {"replaces", "first_time"} <= set(rows.column_names)
            assert "position_start" not in rows.column_names and not rows["window_start"].null_count
            timed = [query.name for query in states.stream_queries("stream") if query.name != "count all"]
            shared = [name for name in rows.column_names if name in expected[batch].column_names and name != "replaces"]
            old, new = (repr(_only(table, timed).select(shared).to_pylist()) for table in (rows, expected[batch]))
            assert old == new


def _only(table: pa.Table, queries: Iterable[str]) -> pa.Table:
    return table.filter(pc.is_in(table["query"], pa.array(list(queries))))


def reference_rows(queries: list[hw.Query], homes: dict[str, str]) -> list[Any]:
    """Of all events of a stream, each source in its order."""
    sources = {f"{number:05d}": each for number, each in enumerate(states.GENERATORS)}
    history: list[Any] = [Joined(name, homes.get(name, "")) for name in sources]
    for name, each in sources.items():
        rows = [row for batch in each.batches(1) for row in batch.to_pylist()]
        history += [Arrived(name, offset, row, homes.get(name, "")) for offset, row in enumerate(rows)]
    played = HOSTS["reference"].play(StreamSettings(tuple(queries)), [*history, Flushed()])
    return [row for _, emitted in played.emitted for row in emitted]


@pytest.mark.parametrize("release", ["", "old/"])
def test_what_inputs_keep_is_read(tmp_path: Path, release: str) -> None:
    """Also that of releases that knew no checksums."""
    pytest.importorskip("pyspark")
    from headwater.spark.streaming.inputs.generator import GeneratorProgress
    from headwater.spark.streaming.inputs.seen_files import SeenFile, SeenFiles

    kept = (write.PLACE / f"{release}generated.json").read_bytes()
    with golden(f"{release}generated.json"):
        place = tmp_path / "generated.json"
        place.write_bytes(kept)
        progress = GeneratorProgress(states.generator_place(), "time", "us", place)
        assert [stretch["count"] for stretch in progress.stretches(0, 40)] == [20, 20]
        assert place.read_bytes() == kept
    with golden(f"{release}seen/"):
        shutil.copytree(write.PLACE / f"{release}seen", tmp_path / "seen")
        seen = SeenFiles(tmp_path / "seen")
        seen.refresh()
        files = [SeenFile(*file) for some in write.SEEN for file in some]
        assert seen.paths == {file.path for file in files}
        assert seen.ends == {"a": 13, "é": 4}
        assert list(seen.between("a", 8, 12)) == [(files[0], 8, 2), (files[1], 0, 2)]
        assert list(seen.broken) == files[3:]


# --- logs and queries ---


@pytest.mark.parametrize(("name", "version"), [("log", 1), ("log-2", 2)])
def test_a_log_has_its_rows_and_takes_more(tmp_path: Path, name: str, version: int) -> None:
    shutil.copytree(write.PLACE / name, tmp_path / "log")
    with golden(f"{name}/"):
        log = Log.open(tmp_path / "log")
        assert (log.version, log.id) == (version, write.LOG_ID if version > 1 else None)
        for partition, batches in enumerate(write.log_batches()):
            stored = list(log.reader(partition).read())
            assert [(each.arrival_ns, repr(each.batch.to_pylist())) for each in stored] == [
                (arrival if version > 1 else None, repr(batch.to_pylist())) for batch, arrival in batches
            ]
            assert [each.batch.schema for each in stored] == [batch.schema for batch, _ in batches]
        assert log.verify() == 36 + 7
        assert log.reader(0).offset_of_time(20) == 12
        assert log.reader(0).offset_of_arrival(13) == 24
        with log.upgrade().writer(0) as writer:
            assert writer.repaired is None
            assert writer.append(events(30, 12), 30) == 6
        assert Log.open(log.path).verify() == 42 + 7


@pytest.mark.parametrize(("name", "write_back"), [("queries.json", hw.to_json), ("queries.yaml", hw.to_yaml)])
def test_queries_are_those_that_were_written(name: str, write_back: Any) -> None:
    with golden(name):
        found = hw.load(write.PLACE / name)
        assert found == WRITTEN
        assert [repr(query) for query in found] == [repr(query) for query in WRITTEN]
        assert write_back(found).encode() == GOLDEN[name]
