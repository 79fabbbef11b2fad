"""Scopes over nodes: whatever sources come from, batch, stream, tree and engine mean by a node what the reference means."""

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from golden.own import Readings
from golden.write import PLACE
from headwater.cases import HOSTS
from headwater.cases.hosts import result_rows
from headwater.cases.tree_host import TreeHost, in_random_tree
from headwater.errors import DataError
from headwater.language.homes import homed
from headwater.logs import Log
from headwater.reference.history import Arrived, Flushed, Joined, StreamSettings
from headwater.spark.batch.files import find_pieces
from headwater.spark.batch.plan import plan_queries
from headwater.spark.doors import serves
from headwater.spark.streaming.checkpoint import CheckpointError, StreamCheckpoint
from headwater.spark.streaming.inputs.folder import FolderInput
from headwater.spark.streaming.inputs.generator import GeneratorInput
from headwater.spark.streaming.inputs.input import LogInput
from headwater.spark.streaming.kafka.input import KafkaInput
from headwater.spark.streaming.start.handle import Stream
from headwater.spark.streaming.start.prepare import check_same_home
from headwater.spark.streaming.start.query_changes import check_homes
from node.batches import MicroBatch
from node.batches import reference as micro_batch_reference
from spark.answers import assert_same, first_letter, found, without_spark, write
from spark.batch.test_tasks import renamed, some_files
from spark.streams import Folder, run
from strategies import SCHEMA, queries
from waiting import SECONDS_MAX

FILES = ("a.parquet", "north/a.parquet", "north/b.parquet", "north/far/a.parquet", "south/a.parquet")
SETTINGS = {"time": "time", "unit": "us", "disorder": None, "strict": False, "idle_ns": None}
#: One query in each scope.
SCOPED = [
    hw.query("visits", hw.session(3), scope="node", n=hw.count()),
    hw.query("pairs", hw.count_tumbling(2), scope="ordinal", n=hw.count()),
    hw.query("equal", hw.session(3), scope="matched", n=hw.count()),
    hw.query("close", hw.session(3), scope="overlap", n=hw.count()),
    hw.query("load", hw.tumbling(10), scope="node", total=hw.sum("i")),
]


FIRST_LETTER = "spark.answers:first_letter"
#: How files are joined, which source a file is then of, and where that is at home.
JOINED = {
    "file": (lambda name: name, lambda source: source.rpartition("/")[0] or "."),
    "folder": (lambda name: name.rpartition("/")[0] or ".", lambda source: source),
    FIRST_LETTER: (first_letter, lambda source: source),
}


def row(time: int | None, i: int = 0, k: str | None = None) -> dict:
    return dict.fromkeys(SCHEMA.names) | {"time": time, "i": i, "k": k}


def history(sources: dict[str, list[dict]], homes: dict[str, str]) -> list:
    names = sorted(sources, key=str.encode)
    steps: list = [Joined(name, homes[name]) for name in names]
    steps += [Arrived(name, i, row, homes[name]) for name in names for i, row in enumerate(sources[name])]
    return [*steps, Flushed()]


def rows_of(played) -> list:
    return [row for _, emitted in played.emitted for row in emitted]


def new_loop(*how, **more):
    """A loop of a stream, whose classes older Sparks lack that have the other doors."""
    from headwater.simulator.stream import Loop

    return Loop(*how, **more)


def streamed(place: Path, opened, asked, home=None, chains: int = 2) -> list:
    """What a stream says to the end, without Spark: its planner, leaves, root and sink."""
    loop = new_loop(place, opened, homed(asked, home), SETTINGS, chains, 1, seed=1, home=home)
    for _ in range(2):
        while loop.step():
            pass
        loop.checkpoint.ask({"what": "flush"})
    named = {query.name: query for query in asked}
    return [row for table in loop.sink.batches.values() if len(table) for row in result_rows(table, named)]


def without_column(drawn: list[hw.Query]) -> list[hw.Query]:
    """As a user gives them: what the column is, doors are told."""
    return renamed([hw.Query(**{name: getattr(q, name) for name in q.__slots__ if name != "home"}) for q in drawn])


@pytest.mark.usefixtures("no_sync")
@pytest.mark.parametrize("sources", JOINED)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_batch_stream_tree_and_engine_mean_the_same_nodes_by_files_in_folders(sources, data):
    scoped = queries(scopes=("node", "ordinal", "matched", "overlap")).filter(lambda q: q.lateness == 0)
    asked = without_column(data.draw(st.lists(scoped, min_size=1, max_size=3)))
    files = data.draw(some_files(FILES, rows_min=1))
    source_of, home_of = JOINED[sources]
    events: dict[str, list[dict]] = {}
    for name in sorted(files, key=str.encode):
        events.setdefault(source_of(name), []).extend(files[name])
    mapped = {source: data.draw(st.sampled_from(["x", "y"])) for source in list(events)[:2]}
    home = data.draw(st.sampled_from([None, None, mapped, "k", "g"]))
    homes = {source: home_of(source) for source in events} | (home if isinstance(home, dict) else {})
    steps, settings_ = history(events, homes), StreamSettings(tuple(homed(asked, home)))
    wanted = rows_of(HOSTS["reference"].play(settings_, steps))
    assert_same(wanted, rows_of(HOSTS["engine"].play(settings_, steps, SCHEMA)))
    assert_same(wanted, rows_of(TreeHost(in_random_tree(1)).play(settings_, steps, SCHEMA)))
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "in"), files, SCHEMA)
        given_sources = first_letter if sources == FIRST_LETTER else sources
        plan = plan_queries(Path(folder, "in"), asked, None, 2, True, sources=given_sources, home=home)
        assert_same(wanted, without_spark(plan, asked, data.draw(st.integers(1, 3))))
        opened = FolderInput(Path(folder, "in"), Path(folder, "seen"), sources=sources, schema=SCHEMA)
        assert_same(wanted, streamed(Path(folder, "checkpoint"), opened, asked, home, data.draw(st.integers(1, 3))))


def written_log(place: Path, partitions: list[list[dict]]) -> Path:
    log = Log.create(place, partition_count=len(partitions), time="time")
    for number, rows in enumerate(partitions):
        with log.writer(number) as writer:
            writer.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    return place


@pytest.mark.usefixtures("no_sync")
@pytest.mark.parametrize("home", [None, {"00001": "south"}, "k"])
def test_batch_and_stream_mean_the_same_nodes_by_partitions_of_a_log(tmp_path, home):
    partitions = [[row(time, time, "uv"[time % 2]) for time in times] for times in ([1, 2, 9, 30], [4, 11, 12, 31])]
    place = written_log(tmp_path / "plugs", partitions)
    homes = dict.fromkeys(("00000", "00001"), "plugs") | (home if isinstance(home, dict) else {})
    events = {f"{number:05d}": rows for number, rows in enumerate(partitions)}
    played = HOSTS["reference"].play(StreamSettings(tuple(homed(SCOPED, home))), history(events, homes))
    plan = plan_queries(place, SCOPED, None, 2, True, home=home)
    assert_same(rows_of(played), without_spark(plan, SCOPED))
    assert_same(rows_of(played), streamed(tmp_path / "checkpoint", LogInput(place), SCOPED, home))


def test_every_input_of_a_stream_gives_the_home_that_hw_read_gives(tmp_path):
    write(tmp_path / "in", {name: [row(1)] for name in FILES}, SCHEMA)
    log = written_log(tmp_path / "plugs", [[row(1)], [row(2)]])
    folders = {
        name: FolderInput(tmp_path / "in", tmp_path / str(number), sources=name) for number, name in enumerate(JOINED)
    }
    inputs = [
        *(
            (tmp_path / "in", first_letter if name == FIRST_LETTER else name, opened)
            for name, opened in folders.items()
        ),
        (log, "file", LogInput(log)),
        ([Readings(0), Readings(7)], "file", GeneratorInput([Readings(0), Readings(7)], pace="fast")),
    ]
    for source, sources, opened in inputs:
        _, pieces = find_pieces(source, None, sources)
        homes = {piece.source: piece.home for piece in pieces}
        assert homes == {name: extent.home for name, extent in opened.extents().items()}
        assert all(homes.values())


def test_a_partition_of_kafka_is_at_home_in_its_topic(monkeypatch):
    given_input = KafkaInput.__new__(KafkaInput)
    given_input._lows = {}
    ends = {"plugs/north/00000": 3, "meters/00001": 4}
    monkeypatch.setattr(given_input, "_partitions", dict)
    monkeypatch.setattr(given_input, "_offsets", lambda partitions, is_low: ends)
    homes = {name: extent.home for name, extent in given_input.extents().items()}
    assert homes == {"plugs/north/00000": "plugs/north", "meters/00001": "meters"}


def test_a_source_of_an_engine_without_a_home_is_its_own_node():
    engine = hw.Engine(SCOPED[:1])
    events = pa.table({"time": [1, 2], "i": [1, 2]})
    engine.push(events, source="plug")
    engine.push(events, source="other", node="north")
    engine.flush()
    assert sorted(engine.results()["visits"].column("node").to_pylist()) == ["north", "plug"]


def test_a_scope_is_refused_where_no_home_can_be_had():
    events = pa.table({"time": [1, 2], "i": [1, 2], "x": [0.5, 1.5]})
    with pytest.raises(hw.QueryError, match=r"query 'visits': scope is 'node': a table is one source.*home='site'"):
        hw.run(events, SCOPED[:1])
    with pytest.raises(
        hw.QueryError, match=r"query 'visits': scope is 'node': events came from a source without a name"
    ):
        hw.Engine(SCOPED[:1]).push(events)
    engine = hw.Engine()
    engine.push(events)
    with pytest.raises(hw.QueryError, match=r"a source without a name"):
        engine.add_query(SCOPED[1])
    with pytest.raises(hw.QueryError, match=r"query 'visits': home is 'site': the data has no such column"):
        hw.run(events, SCOPED[:1], home="site")
    with pytest.raises(
        hw.QueryError, match=r"home is 'x': nodes are named by text or integers, the column holds double"
    ):
        hw.run(events, SCOPED[:1], home="x")
    with pytest.raises(hw.QueryError, match=r"home is a mapping from sources to nodes, but a table is one source"):
        hw.run(events, SCOPED[:1], home={"a": "b"})


def test_a_home_for_a_source_that_is_not_there_is_refused(tmp_path):
    write(tmp_path, {"north/a.parquet": [row(1)]}, SCHEMA)
    with pytest.raises(DataError, match=r"home names 'north': there is no such source; there is 'north/a.parquet'"):
        plan_queries(tmp_path, SCOPED, None, 1, True, home={"north": "n"})
    with pytest.raises(hw.QueryError, match=r"home gives source 'a' the node 7"):
        plan_queries(tmp_path, SCOPED, None, 1, True, home={"a": 7})


def test_a_stream_of_a_release_without_homes_refuses_scopes(tmp_path):
    shutil.copytree(PLACE / "stream-homeless" / "headwater", tmp_path / "headwater")
    known = StreamCheckpoint(tmp_path / "headwater")
    check_homes([hw.query("all", hw.session(3), n=hw.count())], known)
    with pytest.raises(hw.QueryError, match=r"query 'visits': scope is 'node': source '00000' of this stream is from"):
        check_homes(SCOPED, known)


@pytest.mark.usefixtures("no_sync")
def test_where_sources_are_at_home_cannot_change_and_queries_added_later_know_it(tmp_path):
    write(tmp_path / "in", {"north/a.parquet": [row(1, k="u")]}, SCHEMA)
    opened = FolderInput(tmp_path / "in", tmp_path / "seen")
    loop = new_loop(tmp_path / "c", opened, homed(SCOPED[:1], "k"), SETTINGS, 1, 1, seed=1, home="k")
    about = loop.checkpoint.begun()
    with pytest.raises(CheckpointError, match=r"home is None, but was 'k' when the stream began"):
        check_same_home(about, None, tmp_path)
    asked: list = []
    stream = Stream(None, loop.checkpoint, opened, loop.runner)  # type: ignore[arg-type]
    stream._ask = asked.append  # type: ignore[method-assign]
    stream.add_query(SCOPED[2])
    (added,) = hw.from_json(asked[0]["queries"])
    assert added.home == "k"
    assert "nodes are the values of 'k'" in stream.explain()


# --- on Spark, one for each door ---


@pytest.mark.spark
@pytest.mark.parametrize("home", [None, {"a.parquet": "north"}, "k"])
def test_scopes_on_hw_read_and_hw_stream_are_over_the_homes_of_files(spark, tmp_path, home):
    files = {
        name: [row(time + 10 * number, time, "uv"[time % 2]) for time in (0, 1, 5)] for number, name in enumerate(FILES)
    }
    write(tmp_path / "in", files, SCHEMA)
    homes = {name: name.rpartition("/")[0] or "." for name in FILES} | (home if isinstance(home, dict) else {})
    wanted = rows_of(HOSTS["reference"].play(StreamSettings(tuple(homed(SCOPED, home))), history(files, homes)))
    assert_same(wanted, found(hw.read(spark, tmp_path / "in", SCOPED, home=home), SCOPED))
    if not serves(spark, "hw.stream"):
        return
    options = {"sources": "file", "sink": "memory", "progress": False, "home": home}
    stream = hw.stream(spark, tmp_path / "in", SCOPED, checkpoint=tmp_path / "c", **options)
    stream.flush(SECONDS_MAX)
    assert_same(wanted, result_rows(stream.sink.table(), {query.name: query for query in SCOPED}))


@pytest.mark.spark
def test_scopes_on_hw_aggregate_are_over_a_column_and_refused_without(spark):
    events = [row(time, time, "uv"[time % 3 == 0]) for time in range(0, 40, 2)]
    frame = spark.createDataFrame(pa.Table.from_pylist(events, schema=SCHEMA)).repartition(3)
    with pytest.raises(
        hw.QueryError, match=r"query 'visits': scope is 'node': rows of a DataFrame have no sources.*home='site'"
    ):
        hw.aggregate(frame, SCOPED)
    with pytest.raises(
        hw.QueryError, match=r"home is a mapping from sources to nodes, but rows of a DataFrame have no source"
    ):
        hw.aggregate(frame, SCOPED, home={"a": "b"})
    asked = homed(SCOPED, "k")
    wanted = rows_of(HOSTS["reference"].play(StreamSettings(tuple(asked)), history({"": events}, {"": ""})))
    assert_same(wanted, found(hw.aggregate(frame, SCOPED, home="k"), SCOPED))
    assert "nodes are the values of 'k'" in hw.explain(frame, SCOPED, home="k", measure=False)["load"].why


@pytest.mark.spark
def test_scopes_on_a_streaming_dataframe_are_over_its_sources_or_a_column(spark, tmp_path):
    if not serves(spark, door := "hw.aggregate of a streaming DataFrame"):
        pytest.skip(f"Spark {spark.version} has no {door}")
    batches = [
        MicroBatch([row(20 * n + i, i, "uv"[i % 2]) | {"source": "ab"[i % 3 == 0]} for i in range(8)]) for n in range(3)
    ]
    batches.append(MicroBatch([], is_last=True))
    schema = pa.schema([*SCHEMA, pa.field("source", pa.string()), pa.field("last", pa.bool_())])
    folder = Folder(tmp_path, schema)
    folder.put(*(batch.rows for batch in batches[:-1]), [{"last": True}])
    frame = folder.stream(spark)
    with pytest.raises(hw.QueryError, match=r"or the one that tells sources apart, source='sensor'"):
        hw.aggregate(frame, SCOPED, disorder=0)
    # The row that says the end is of a source too.
    homes = {"a": "north", "b": "south"}
    for number, home in enumerate((None, homes, "k")):
        rows = hw.aggregate(frame, SCOPED, disorder=3, source="source", flush_when="last", home=home)
        run(rows, tmp_path / f"checkpoint{number}", path=tmp_path / f"out{number}")
        got = found(spark.read.parquet(str(tmp_path / f"out{number}")), SCOPED)
        wanted = rows_of(micro_batch_reference(batches, homed(SCOPED, home), 3))
        if isinstance(home, dict):
            wanted = [each._replace(node=homes.get(each.node, each.node)) for each in wanted]
        assert_same(wanted, got)
