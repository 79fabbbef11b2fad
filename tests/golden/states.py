"""Stories that are written down halfway: of an engine, of a tree's nodes, of roots for micro-batches, of a stream on Spark.

Each story says how it begins and how it goes on, so that whoever was made again from a file can be compared with one that never
stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import headwater as hw
from golden.material import ADDED, LEAN, QUERIES, SCHEMA, events
from golden.own import Readings
from headwater.node import NodeSettings
from headwater.node.micro_batches.frames import BatchSettings, EventGroup, Frame, frames, group_name
from headwater.node.micro_batches.root import BatchRoot, StepOutput
from headwater.protocols.count_windows import Counting
from headwater.protocols.events import (
    FlushAsked,
    IdleAsked,
    MessageReceived,
    QueryAdded,
    QueryRemoved,
    ReturnAsked,
    Started,
    TimerFired,
)
from headwater.simulator.instant import InstantTree, LiveLog

# --- an engine ---


def engine_halfway() -> hw.Engine:
    """Some rows and a malformed event lie in it, which nobody has taken."""
    engine = hw.Engine(QUERIES, disorder=4)
    engine.push(events(0, 22), source="north", node="home")
    engine.join("silent")
    engine.idle("silent")
    engine.push(events(5, 18), source="é", node="away")
    engine.add_query(ADDED)
    engine.remove_query("band", drain=True)
    engine.push(events(5, 4), source="é")
    engine.results(), engine.side_output()
    engine.push(events(22, 1).set_column(0, "time", pa.nulls(1, pa.int64())), source="north")
    engine.advance(22)
    return engine


def engine_goes_on(engine: hw.Engine) -> dict[str, Any]:
    """The rest of the story, and all that came out."""
    engine.push(events(22, 35), source="north")
    engine.resume("silent")
    engine.push(events(30, 20), source="silent")
    engine.push(events(23, 52), source="é")
    engine.advance(65)
    engine.flush()
    said = {"rows": engine.results().table.to_pylist(), "aside": engine.side_output().to_pylist()}
    return said | {"counters": engine.counters(), "decisions": engine.decisions, "statistics": engine.statistics}


# --- a tree ---

PARENTS = {"leaf-0": "relay", "relay": "root", "leaf-1": "root"}
SOURCES = {"north": "leaf-0", "é": "leaf-1", "silent": "leaf-1"}


TREE_QUERIES = [
    query
    for query in QUERIES
    if query.name in ("sliding", "band", "session", "punctuated", "custom", "count all", "own")
]
#: Of each kind that a root records.
RECORDED = {
    "message": MessageReceived("leaf-0", b"a frame"),
    "timer": TimerFired("idle"),
    "add": QueryAdded(ADDED, 30),
    "remove": QueryRemoved("band", True),
    "flush": FlushAsked(),
    "idle": IdleAsked("silent"),
    "return": ReturnAsked("silent"),
}


def tree() -> InstantTree:
    """Nodes with nothing in them yet."""
    settings = NodeSettings(idle_ns=10**9)
    counting = Counting("async")
    return InstantTree(
        PARENTS, TREE_QUERIES, settings=settings, keep_records=True, disorder=4, schema=SCHEMA, counting=counting
    )


@dataclass
class Tree:
    """The story of a tree: its first half, what is in flight there, and the rest."""

    tree: InstantTree = field(default_factory=tree)

    def first_half(self) -> None:
        tree = self.tree
        for source, leaf in SOURCES.items():
            tree.open(leaf, source, f"home of {source}", SCHEMA)
        for number, source in enumerate(SOURCES):
            tree.push(source, events(number, 14))
        # A checkpoint in the middle; all that comes behind it is in records.
        tree.handle("root", Started())
        tree.push("north", events(14, 8))
        tree.tell_root(QueryAdded(ADDED))
        tree.tell_root(QueryRemoved("band", True))
        tree.tell_root(IdleAsked("silent"))
        tree.push("é", events(15, 8))
        tree.tell_root(ReturnAsked("silent"))
        tree.now_ns += 10**10
        tree.handle("root", TimerFired("idle"))
        # What follows is sent and not answered.
        tree.push("north", events(22, 6), settle=False)
        tree.push("é", events(23, 6), settle=False)
        tree.handle("leaf-0", TimerFired("send"))
        tree.handle("relay", MessageReceived(*self._last_sent()))

    def _last_sent(self) -> tuple[str, bytes]:
        sender, _, frame = self.tree._messages.pop()
        return sender, frame

    def rest(self) -> None:
        tree = self.tree
        tree.settle()
        tree.push("silent", events(16, 30))
        for number, source in enumerate(("north", "é")):
            tree.push(source, events(28 + number, 40))
        tree.flush()

    def take_rows(self) -> list[str]:
        return said([self.tree.take_rows()])


def said(tables: Iterable[pa.Table]) -> list[str]:
    """Rows in no order, and without the columns of other queries."""
    rows = (row for table in tables for row in table.to_pylist())
    return sorted(str({name: value for name, value in row.items() if value is not None}) for row in rows)


def restarted(nodes: dict[str, Any], known: dict[str, LiveLog]) -> Tree:
    """A tree in which every node was made again; nothing that was in flight has survived."""
    story = Tree()
    story.tree.take_rows()
    story.tree.nodes.update(nodes)
    story.tree.root = nodes["root"]
    story.tree.sources = known
    story.tree.now_ns = 10**11
    # What was lost is sent again when nobody has answered for a while.
    for event in (Started(), TimerFired("resend"), TimerFired("resend"), TimerFired("tend")):
        for name in nodes:
            story.tree.handle(name, event)
        story.tree.settle()
    return story


# --- roots for micro-batches ---


def batch_settings() -> BatchSettings:
    grouped: dict[str, list[hw.Query]] = {}
    for query in (query for query in QUERIES if query.name in ("sliding", "session")):
        grouped.setdefault(group_name(query), []).append(query)
    groups = tuple(
        EventGroup(name, tuple(some), tuple(SCHEMA.names), tuple(SCHEMA.names[1:])) for name, some in grouped.items()
    )
    return BatchSettings(groups, disorder=4, idle_ms=500, buckets=2, is_live=True)


def batch_frame(begin: int, is_last: bool = False) -> Frame:
    """What a micro-batch is to the first root."""
    batch, settings = events(begin, 20), batch_settings()
    sources = pa.array([("north", "é")[number % 2] for number in range(len(batch))])
    last = pa.array([is_last and number == len(batch) - 1 for number in range(len(batch))])
    told = {"time": settings.time, "unit": settings.unit, "sources": sources, "last": last}
    return dict(frames(batch, settings.groups, settings.buckets, **told))[0]


def batch_root_halfway() -> BatchRoot:
    """The first of two roots that share the keys."""
    root = BatchRoot(batch_settings())
    for number in range(2):
        root.take([batch_frame(20 * number)], 100 * number)
    return root


def batch_root_goes_on(root: BatchRoot) -> list[Any]:
    """All that comes out of it for the rest of the story."""
    said = []
    for number in (2, 3, 4):
        outcome: StepOutput = root.take([batch_frame(20 * number - 5, is_last=number == 4)], 100 * number)
        rows, aside = ([table.to_pylist() for table in tables] for tables in (outcome.rows, outcome.aside))
        said.append([rows, aside, outcome.accounts])
    return said


# --- a stream on Spark ---

GENERATORS = [Readings(0), Readings(7)]
#: The clock and chance have a part in these; files hold the same whenever they are written.
FIXED = {"id": "0123456789abcdef0123456789abcdef", "born_ms": 1_700_000_000_000}


#: The streams by the names of their folders: how many roots each has, which queries, its `home`, and other settings.
STREAMS: dict[str, tuple[int, tuple[str, ...], dict[str, str] | None, dict[str, Any]]] = {
    "stream": (1, ("lean", "between", "count all"), None, {}),
    "stream-roots": (2, ("lean", "few"), None, {}),
    "stream-homes": (1, ("lean", "node"), {"00001": "north"}, {}),
    # Its offsets keep when events were taken.
    "stream-arrivals": (1, ("lean", "between", "count all"), None, {"ahead_max": 10}),
}


def generator_place() -> str:
    """How an input names a generator."""
    return json.dumps(["golden.own:Readings", {"first": 0, "count": 60}])


def stream_queries(name: str) -> list[hw.Query]:
    return [query for query in (*QUERIES, *LEAN) if query.name in STREAMS[name][1]]


def stream_loop(place: Path, name: str, opened: Any = None) -> Any:
    """The loop of a stream: a new one, or one that goes on with the checkpoint that is there."""
    from headwater.simulator.stream import Loop
    from headwater.spark.streaming.inputs.generator import GeneratorInput

    if opened is None:
        opened = GeneratorInput(GENERATORS, pace="fast", began_ns=0)
    settings = {"time": "time", "unit": "us", "disorder": 0, "strict": False, "idle_ns": None}
    roots, _, home, more = STREAMS[name]
    counting = Counting("async") if roots == 1 else None
    loop = Loop(place, opened, stream_queries(name), settings | more, 2, roots, seed=1, counting=counting, home=home)
    loop.events_max = 30
    return loop


def stream_halfway(loop: Any) -> None:
    """Three batches, commands among them, and a fourth that was planned when the driver died."""
    from headwater.simulator.stream import CrashError

    loop.step()
    loop.checkpoint.ask({"what": "add", "queries": hw.to_json([ADDED])})
    loop.step()
    loop.checkpoint.ask({"what": "add", "queries": hw.to_json([ADDED])})
    loop.checkpoint.ask({"what": "remove", "name": "lean", "drain": True})
    loop.step()
    loop.crash_at = "read"
    try:
        loop.step()
    except CrashError:
        loop.restart()


def stream_goes_on(loop: Any) -> dict[int, pa.Table]:
    """The rest, up to the end: the rows of each batch."""
    while loop.step():
        pass
    loop.checkpoint.ask({"what": "flush"})
    while loop.step():
        pass
    return dict(loop.sink.batches)


def write_stream(place: Path, name: str) -> None:
    """A checkpoint, and beside it what Spark's own would hold: the offsets that were planned."""
    from headwater.spark.streaming.checkpoint import sealed, unsealed

    loop = stream_loop(place / "headwater", name)
    stream_halfway(loop)
    (place / "offsets.json").write_text(_lines(loop.planned))
    about = place / "headwater" / "about.json"
    about.write_bytes(sealed(unsealed(about, about.read_bytes()) | FIXED))


def _lines(offsets: Sequence[Any]) -> str:
    return "".join(json.dumps(offset) + "\n" for offset in offsets)
