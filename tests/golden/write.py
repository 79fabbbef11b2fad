"""Writes the golden files: what this release keeps on disk or sends, for every later one to read.

    python -m golden.write        (with src and tests on the path)

Every format has its files here, and `tests/test_golden.py` reads them at every commit. A changed format needs a new version, a
line in CHANGELOG.md and golden files of its own; the old ones stay as long as the release reads the old version.

    frames/<message>.frame        a frame of each kind of message; deltas with parts of every kind (`frames.py`)
    engine.snapshot               an engine with queries of all kinds, halfway (`states.py`, as all that follow)
    tree/root.journal             a root's checkpoint and the records behind it, halfway
    tree/<kind>.record            a record of each kind
    tree/<leaf or relay>.snapshot the other nodes, halfway
    batch_root.snapshot, .frame   a root for micro-batches, halfway, and what the next batch is to it
    stream/                       the checkpoint of a stream with one root, halfway; stream-roots/: with two,
                                  stream-homes/: with `home=`, stream-arrivals/: one that keeps when events were taken,
                                  stream-homeless/: as before sources had homes and rows had times
    generated.json, seen/         what inputs of streams keep there: sizes of blocks, files that were seen
    log/                          a segment log of version 1, which is read but no longer written
    log-2/                        a segment log
    queries.json, queries.yaml    queries with everything that can be said
    versions.json                 the libraries that had a part in the bytes; for people
    old/                          states of before windows were compared (they told them apart by hashes), streams of before time
                                  was counted in steps, and of before they and what their inputs keep had owners and checksums;
                                  still read
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa

import headwater as hw
from golden import states
from golden.frames import messages
from golden.material import WRITTEN, events
from headwater.edge.journal import CHECKPOINT, RECORD, Journal
from headwater.logs import Log
from headwater.node.records import record_of
from headwater.protocols.messages import encode

PLACE = Path(__file__).parent
#: What the log of seen files holds, one list for each discovery.
SEEN = [
    [("a", "a/1.csv", "csv", 10, 200, 1_700_000_000_000_000_000, None, ((5, 100, 6),))],
    [
        ("a", "a/2.csv", "csv", 3, 50, 1_700_000_001_000_000_000),
        ("é", "é/1.parquet", "parquet", 4, 500, 1_700_000_002_000_000_000),
        ("é", "é/2.parquet", "parquet", 0, 9, 1_700_000_003_000_000_000, "it is no Parquet file"),
    ],
]


def write_frames(place: Path) -> None:
    for name, message in messages().items():
        _put(place / "frames" / f"{name}.frame", encode(message))


def write_engine(place: Path) -> None:
    _put(place / "engine.snapshot", states.engine_halfway().snapshot())


def write_tree(place: Path) -> None:
    story = states.Tree()
    story.first_half()
    place /= "tree"
    journal = Journal(_put(place / "root.journal", b""))
    journal.add(CHECKPOINT, story.tree.checkpoint)
    for record in story.tree.records:
        journal.add(RECORD, record)
    journal.close()
    for name in states.PARENTS:
        _put(place / f"{name}.snapshot", story.tree.nodes[name].snapshot())
    for kind, event in states.RECORDED.items():
        _put(place / f"{kind}.record", record_of(event, 10**18))


def write_batch_root(place: Path) -> None:
    _put(place / "batch_root.snapshot", states.batch_root_halfway().snapshot())
    _put(place / "batch_root.frame", states.batch_frame(35).to_bytes())


def write_streams(place: Path) -> None:
    for name in states.STREAMS:
        states.write_stream(place / name, name)


def write_inputs(place: Path) -> None:
    from headwater.spark.streaming.inputs.generator import GeneratorProgress
    from headwater.spark.streaming.inputs.seen_files import SeenFile, SeenFiles

    GeneratorProgress(states.generator_place(), "time", "us", place / "generated.json").go_on(30)
    seen = SeenFiles(place / "seen")
    for some in SEEN:
        seen.add([SeenFile(*file) for file in some])


LOG_ID = "0123456789abcdef0123456789abcdef"


def log_batches() -> list[list[tuple[pa.RecordBatch, int]]]:
    """By partition: batches and when they arrived. The second has a dictionary, and other columns from its third batch on."""
    words = pa.record_batch({"time": [5, 3, None], "word": pa.array(["é", None, "é"]).dictionary_encode()})
    floats = pa.record_batch({"time": [9, 8], "x": np.array([np.nan, -0.0])})
    return [[(events(begin, 12), begin) for begin in (0, 12, 24)], [(words, 7), (words.slice(1), 8), (floats, 9)], []]


def write_log(place: Path) -> None:
    partitions = log_batches()
    log = Log.create(place / "log-2", partition_count=len(partitions), time="time", id=LOG_ID)
    for partition, batches in enumerate(partitions):
        if batches:
            # A new segment behind every batch but the first two.
            with log.writer(partition, segment_bytes=3000) as writer:
                for batch, arrival in batches:
                    writer.append(batch, arrival_ns=arrival)


def write_queries(place: Path) -> None:
    _put(place / "queries.json", hw.to_json(WRITTEN).encode())
    _put(place / "queries.yaml", hw.to_yaml(WRITTEN).encode())


def versions() -> dict[str, str]:
    """The libraries whose bytes are in some of the files."""
    return {"pyarrow": pa.__version__, "zlib": zlib.ZLIB_RUNTIME_VERSION}


def write_versions(place: Path) -> None:
    _put(place / "versions.json", (json.dumps(versions(), indent=2) + "\n").encode())


#: All that writes.
WRITERS = {
    "frames": write_frames,
    "engine.snapshot": write_engine,
    "tree": write_tree,
    "batch_root": write_batch_root,
    "stream": write_streams,
    "inputs": write_inputs,
    "log": write_log,
    "queries": write_queries,
}
#: What earlier releases wrote and nobody writes any more: a stream whose sources have no home, a log of version 1.
HOMELESS = "stream-homeless"
FORMER = (f"{HOMELESS}/", "log/")
#: Those that import PySpark, though no Spark runs.
NEED_SPARK = ("stream", "inputs")


def contents(place: Path) -> dict[str, bytes]:
    """All golden files below a folder, by name."""
    found = (file for file in place.rglob("*") if file.is_file() and file.suffix != ".py")
    return {
        file.relative_to(place).as_posix(): file.read_bytes()
        for file in sorted(found)
        if not {"__pycache__", "old"} & {*file.parts} and file.name != "versions.json"
    }


def main() -> None:
    """Write all anew in the place of what is there."""
    with tempfile.TemporaryDirectory() as folder:
        for write in (*WRITERS.values(), write_versions):
            write(Path(folder))
        for old in PLACE.iterdir():
            if old.suffix != ".py" and old.name != "old" and not f"{old.name}/".startswith(FORMER):
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copytree(folder, PLACE, dirs_exist_ok=True)


def _put(place: Path, data: bytes) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return place


if __name__ == "__main__":
    main()
