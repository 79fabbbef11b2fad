"""`make fuzz`: a million mutated and made-up frames at a root, a relay and a leaf, which stay what they were.

A bout is a fresh tree, some honest events, a storm of frames, more honest events. Frames of a bout come either over a link of
their own, from a peer that is nobody: then the rows have to be those of a tree without a storm. Or over the links of honest
nodes, as if these were broken: then nothing may break, whatever the rows are. A bout is a function of its number, so
``--first 5000 --frames 1000`` sends what the whole storm sends from frame 5000 on. Bouts run in a child process: a crash, a
hang or too much memory is seen, with the frame.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import headwater as hw
from fuzz.frames import CANARY, Forge
from headwater.base.packing import UNWRITTEN_AT_ONCE_MAX
from headwater.engine.windows.empty_windows import EMPTY_STEP
from headwater.engine.wire.peer_tables import UNPACKED_BYTES_MAX
from headwater.language.query import Query
from headwater.node import LeafNode, NodeSettings
from headwater.node.leaf_states import LeafState
from headwater.protocols import actions as act
from headwater.protocols.actions import Action
from headwater.protocols.count_windows import Counting
from headwater.protocols.events import FlushAsked, IdleAsked, MessageReceived, SourceOpened, Started, TimerFired
from headwater.simulator import instant
from headwater.simulator.instant import InstantTree

BOUT = 1000
#: So many different honest streams there are.
STREAMS = 6
#: How much processor time a frame may take, with everything that follows from it; then a signal ends the process.
FRAME_S_MAX = 60
#: What all frames together may add to the memory of the process: a message unpacks to no more than this, one at a time.
GROWTH_BYTES_MAX = 8 * UNWRITTEN_AT_ONCE_MAX + UNPACKED_BYTES_MAX
#: And this is what windows without events may add, up to a time that somebody made up: so many rows are put in order at once,
#: each with a column for every aggregate of all queries.
ROWS_BYTES_MAX = 2 * 4 * EMPTY_STEP * 8 * 30
MALLORY = "mallory"
SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string(), "g": pa.int64(), "v": pa.float64(), "d": pa.decimal128(9, 2)})
QUERIES: list[Query] = [
    hw.query("sums", hw.tumbling(10), keys=["k"], n=hw.count(), s=hw.sum("v"), hi=hw.max("v"), p=hw.product("g")),
    hw.query("runs", hw.sliding(20, 10), m=hw.median("v"), t=hw.min("k"), d=hw.sum("d"), u=hw.count_distinct("k")),
    hw.query("order", hw.tumbling(20), keys=["g"], f=hw.first("k"), z=hw.last("v"), h=hw.approx_distinct("g")),
    hw.query("sketch", hw.tumbling(20), lateness=5, q=hw.approx_quantile("v", 0.5), all=hw.collect("g")),
    hw.query("visits", hw.session(3), keys=["g"], n=hw.count()),
    hw.query("tops", hw.tumbling(10), keys=["g"], best=hw.top("v", 2, keep=["k", "d"]), each=hw.distinct("k")),
    hw.query(
        "ties",
        hw.sliding(20, 10),
        ties=hw.top("k", ties=True, keep=["v"]),
        who=hw.min_by("d", by="v"),
        r=hw.rows(["k"]),
    ),
    hw.query("marks", hw.punctuated(hw.col("k") == "cut"), keys=["g"], n=hw.count(), s=hw.sum("v")),
    hw.query("three", hw.count_tumbling(3), n=hw.count(), m=hw.max("v")),
    hw.query("home", hw.tumbling(10), n=hw.count(), scope="node"),
    hw.query("filled", hw.tumbling(10), keys=["g"], lateness=20, n=hw.count(), emit_empty=True),
    hw.query("copies", hw.tumbling(10), n=hw.count(), distinct="k", emit_empty=True),
]
PARENTS = {"A": "relay", "B": "relay", "C": "root", "relay": "root"}
SOURCES = {"A": "a", "B": "b", "C": "c"}


class StormyTree(InstantTree):
    """A tree whose links are open to others, and in which all frames are written down."""

    def __init__(self, stream: int, are_rows_wanted: bool = True) -> None:
        #: Else nobody looks at them, and there may be very many.
        self.are_rows_wanted = are_rows_wanted
        self.frames: list[bytes] = []
        self.dice = Random(stream)
        counting = Counting("auto") if stream % 2 else None
        super().__init__(PARENTS, QUERIES, modules=(), schema=SCHEMA, counting=counting, settings=NodeSettings())
        for leaf, source in SOURCES.items():
            self.open(leaf, source, schema=SCHEMA)

    def _do(self, name: str, action: Action) -> None:
        match action:
            case act.EmitRows() if not self.are_rows_wanted:
                return
            case act.SendMessage(target, frame):
                self.frames.append(frame)
                if target not in self.nodes:
                    return
            case act.Refused() | act.Superseded():
                return
            case act.SetTimer("hello", delay_ns) if delay_ns:
                return  # it asks again after a while, and `revive` is a while later
            case act.SetTimer("empty"):
                # Windows without events up to a time that somebody made up: there is no end to them.
                if self.dice.random() < 0.9:
                    return
        super()._do(name, action)

    def feed(self, begin: int, dice: Random) -> None:
        """Some events of each source from this time on."""
        for source in SOURCES.values():
            times = [begin + dice.randrange(30) for _ in range(8)]
            rows = [
                {"time": t, "k": dice.choice(["x", "y", "cut"]), "g": t % 3, "v": t / 4, "d": t} for t in sorted(times)
            ]
            self.push(source, pa.RecordBatch.from_pylist(rows, SCHEMA), begin, settle=False)
        self.settle()

    def forged(self, forge: Forge, sender: str, target: str) -> bytes:
        """A frame for this link."""
        leaf = self.nodes[target if target in SOURCES else "A"]
        assert isinstance(leaf, LeafNode)
        return forge.down(leaf) if self.parents.get(target) == sender else forge.up(self.root._ledger)

    def revive(self) -> None:
        """Leaves that were told to stop, or that the stream has ended, begin anew: else nothing would reach them any more."""
        for leaf, source in SOURCES.items():
            node = self.nodes[leaf]
            assert isinstance(node, LeafNode)
            if node.state in (LeafState.STOPPED, LeafState.DONE, LeafState.FLUSHING):
                self.nodes[leaf] = LeafNode(leaf, PARENTS[leaf])
                self.handle(leaf, Started())
                self.handle(leaf, SourceOpened(source, schema=SCHEMA))
            elif node.state is LeafState.WAITING:
                self.handle(leaf, TimerFired("hello"))
        self.settle()

    def end_all(self) -> None:
        """The end of the stream; nobody waits for sources that were made up."""
        for source in [*self.root.members.names]:
            if source not in SOURCES.values():
                self.tell_root(IdleAsked(source))
        self.tell_root(FlushAsked())

    def rows(self) -> list[str]:
        """All rows that have come out."""
        return sorted(map(str, self.take_rows().to_pylist()))


class Bout:
    """One tree and the frames that it is to survive."""

    def __init__(self, number: int) -> None:
        self.number, self.dice = number, Random(number)
        self.is_stranger = number % 2 == 0
        self.stream = self.dice.randrange(STREAMS)

    def run(self, frames: int, tell: Any) -> str | None:
        """What went wrong; ``tell`` hears of each frame before it comes."""
        recorded, right = expected(self.stream)
        tree, feed = StormyTree(self.stream, self.is_stranger), Random(self.stream)
        tree.feed(0, feed)
        forge, ways = Forge(recorded, self.dice), self._ways()
        for at in range(frames):
            sender, target = self.dice.choice(ways)
            frame = tree.forged(forge, sender, target)
            tell(at, sender, target, frame)
            tree.handle(target, MessageReceived(sender, frame))
            for name in {target, "root"}:
                tree.nodes[name].check()
            if at % 25 == 24:
                tree.settle()
                if not self.is_stranger:
                    # Time passes: what was let in on a wrong link is let go.
                    tree.now_ns += self.dice.choice([0, 0, NodeSettings().takeover_ns])
                tree.revive()
            if tree.root.is_finished and not self.is_stranger:
                # Somebody was believed that all sources have ended: as long as that holds, nothing else is looked at.
                tree, feed = StormyTree(self.stream, self.is_stranger), Random(self.stream)
                tree.feed(0, feed)
            if at == frames // 2:
                tree.feed(40, feed)
            if CANARY in sys.modules:
                return f"the module {CANARY} was imported"
        tree.settle()
        tree.feed(80, feed)
        tree.end_all()
        return self._judged(tree, right) if self.is_stranger else None

    def _ways(self) -> list[tuple[str, str]]:
        if self.is_stranger:
            return [(MALLORY, "root"), (MALLORY, "relay"), (MALLORY, "root"), (MALLORY, "relay"), (MALLORY, "A")]
        return [("relay", "root"), ("C", "root"), ("A", "relay"), ("root", "relay"), ("relay", "A"), ("root", "C")]

    @staticmethod
    def _judged(tree: StormyTree, right: list[str]) -> str | None:
        accepted = {
            chain.removesuffix("#cuts")
            for _, note in tree.notes
            if note.what == "accepted"
            for chain in note.detail["chains"]
        }
        if accepted - SOURCES.keys():
            return None  # it asked for a chain of its own, as anyone may, and had something to say
        got = tree.rows()
        return (
            None
            if got == right
            else f"{len(set(got) ^ set(right))} rows differ, of {len(right)}: {sorted(set(got) ^ set(right))[:2]}"
        )


@cache
def expected(stream: int) -> tuple[list[bytes], list[str]]:
    """Frames and rows of a tree without a storm."""
    tree, dice = StormyTree(stream), Random(stream)
    for begin in (0, 40, 80):
        tree.feed(begin, dice)
    tree.end_all()
    return tree.frames, tree.rows()


# --- the child ---


class Watch:
    """Where the child is: written before each frame, so that it is known whatever becomes of the process."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self.first = 0

    def __call__(self, at: int, sender: str, target: str, frame: bytes) -> None:
        signal.setitimer(signal.ITIMER_PROF, FRAME_S_MAX)
        self._file.seek(0)
        self._file.write(f"{self.first + at} {sender} {target} {len(frame)}\n{frame[:4000].hex()}\n".encode())


def child(first: int, frames: int, watch: Watch) -> str | None:
    """Run the bouts that hold these frames; a bout that is begun within is run from its beginning."""
    instant.STEPS_MAX = 20_000
    base = 0
    for number in range(first // BOUT, -(-(first + frames) // BOUT)):
        watch.first = number * BOUT
        try:
            problem = Bout(number).run(min(BOUT, first + frames - number * BOUT), watch)
        except Exception as error:
            import traceback

            traceback.print_exc()
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            return f"bout {number}: {problem}"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        base = base or peak  # the first bout compiles and loads everything
        if peak - base > GROWTH_BYTES_MAX + ROWS_BYTES_MAX:
            allowed = (GROWTH_BYTES_MAX + ROWS_BYTES_MAX) >> 20
            return f"bout {number}: {(peak - base) >> 20} MiB more than after the first, {allowed} are allowed"
        print(f"{number} {peak >> 20}", flush=True)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def storm(first: int, frames: int, seconds: float = float("inf")) -> str | None:
    """Run the frames in a child process; what went wrong, with the frame that was the last one."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "watch")
        Path(folder, f"{CANARY}.py").write_text("x = None\n")
        here = Path(__file__).parents[1]
        path = os.pathsep.join([folder, str(here), str(here.parent / "src")])
        command = [
            sys.executable,
            "-m",
            "fuzz.storm",
            "--child",
            str(place),
            "--first",
            str(first),
            "--frames",
            str(frames),
        ]
        begin, bouts = time.monotonic(), 0
        with subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                number, peak = line.split()[:2] if line[:1].isdigit() else ("", "")
                if not number:
                    return f"{line.strip()}; at frame {_last(place)}"
                bouts += 1
                if bouts % 40 == 0:
                    done = (int(number) + 1) * BOUT
                    print(f"{done:,} frames, {peak} MiB, {time.monotonic() - begin:.0f} s", flush=True)
                if time.monotonic() - begin > seconds:
                    process.kill()
                    print(f"go on with FIRST={(int(number) + 1) * BOUT}")
                    return None
            code = process.wait()
        return None if code == 0 else f"the child ended with {code}; at frame {_last(place)}"


def _last(place: Path) -> str:
    return place.read_text().splitlines()[0] if place.exists() else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--child", type=Path)
    asked = parser.parse_args()
    problem = (
        child(asked.first, asked.frames, Watch(asked.child))
        if asked.child
        else storm(asked.first, asked.frames, asked.seconds)
    )
    if problem is not None:
        print(problem, flush=True)
        sys.exit(1)
    if not asked.child:
        print(f"{asked.frames:,} frames from {asked.first:,} on: nothing broke, and honest peers have their rows")


if __name__ == "__main__":
    main()
