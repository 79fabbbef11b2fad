"""What goes wrong with a simulated stream: which fault strikes when, what it changes, and that it was noticed where it must be.

A fault counts once it had an effect: an error that was raised, a refusal that came, a batch that was done after a death.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.errors import DataError, HeadwaterError
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.stream.crew import STEPS_PER_BATCH, WAIT, StepStrike
from headwater.simulator.stream.driver import MOMENTS
from headwater.simulator.stream.shelf import Shelf
from headwater.simulator.stream.story import SECOND
from headwater.simulator.world.file_faults import AFTER, BEFORE, InjectedError
from headwater.spark.streaming import checkpoint as checkpoints
from headwater.spark.streaming.inputs.input import LogInput
from headwater.spark.streaming.sinks.timeline import Claimant, SinkError

if TYPE_CHECKING:
    from headwater.simulator.stream.simulation import StreamSimulation

YEAR = 365 * 86_400 * SECOND
JUMPS = (SECOND, -SECOND, 30 * SECOND, YEAR, -YEAR)
#: How often faults are drawn, where not as often as others: what has to sleep, or to be kept before it can be put back, takes
#: its time.
WEIGHTS = {"pause": 8, "power": 3, "restored": 3, "log-back": 6, "stranger": 1, "read": 1, "late": 1}
#: Attempts of a task before Spark gives up.
ATTEMPTS = 4
#: Turns in which damage has to be noticed, if it ever is.
NOTICE_TURNS = 6


class ReadError(Exception):
    """A task that could not read, for once."""


class StreamFaults:
    """The faults that were chosen, as they strike a run."""

    def __init__(self, run: StreamSimulation, chosen: frozenset[str], dice: Random, place: Path) -> None:
        self._run, self._dice = run, dice
        self._kinds = [fault for fault in STRIKES if fault in chosen]
        self._loses_offsets = "offsets" in chosen
        self._shelf = Shelf(run, place)
        self.boots = 1
        self._read_fails = False
        #: Which sink fails next, and whether before it has written or after.
        self._sink_fails: tuple[str, str] | None = None
        self._flipped: tuple[Path, bytes, bytes] | None = None
        self._flipped_turns = 0

    @property
    def is_damaged(self) -> bool:
        """Whether a file of the checkpoint is not what was written."""
        return self._flipped is not None

    def strike(self) -> None:
        """Perhaps something goes wrong now, or soon."""
        crew = self._run.crew
        self._keep_copies()
        is_quiet = (crew.strike is None or crew.strike.fault == WAIT) and not crew.is_full and self._flipped is None
        if self._kinds and is_quiet and not self._run.is_over and self._dice.random() < 0.6:
            weights = [WEIGHTS.get(kind, 2) for kind in self._kinds]
            STRIKES[self._dice.choices(self._kinds, weights)[0]](self)

    def _keep_copies(self) -> None:
        """Somebody makes a backup, which may be put back later."""
        run = self._run
        if not run.has_begun or self.is_damaged:
            return
        folders = [("checkpoint", "restored")]
        folders += [("source", "log-back")] if isinstance(run.loop.opened, LogInput) else []
        for folder, fault in folders:
            if fault in self._kinds and not self._shelf.has(folder) and self._dice.random() < 0.3:
                self._shelf.keep(folder)

    def after_turn(self) -> None:
        """What follows from what has struck."""
        crew, dice = self._run.crew, self._dice
        if crew.power_lost:
            self._lose_power()
        if crew.is_full and dice.random() < 0.4:
            crew.is_full = False
            self._run.tell("disk", "has room again")
        if self._flipped is not None:
            self._look_at_flipped()
        for sleeper in list(crew.asleep):
            if dice.random() < (0.5 if crew.is_waiting else 0.1):
                crew.wake(sleeper)
        if crew.asleep and crew.strike is None and dice.random() < 0.6:
            crew.strike = StepStrike(WAIT, dice.randint(1, STEPS_PER_BATCH), dice.choice(["", *MOMENTS]))
        opened = self._run.story.opened
        if opened.hidden and dice.random() < 0.3:
            self._show()

    def show_everything(self) -> None:
        """From now on sources can be seen: what is there counts."""
        self._show()
        self._kinds = [kind for kind in self._kinds if kind != "late"]

    def heal(self) -> None:
        """Nothing more goes wrong: those who sleep wake up, and what was damaged is whole again."""
        crew = self._run.crew
        crew.strike, crew.is_full = None, False
        self._kinds, self._read_fails, self._sink_fails = [], False, None
        self._show()
        if self._flipped is not None:
            self._restore_flipped()
        for sleeper in list(crew.asleep):
            crew.wake(sleeper)
        self._run.tell("world", "heals")

    # --- drivers and their disk ---

    def _at_step(self, fault: str, *fates: str) -> None:
        fate = self._dice.choice(fates) if fates else ""
        self._run.crew.strike = StepStrike(fault, self._dice.randint(1, STEPS_PER_BATCH), fate)

    def _crash(self) -> None:
        self._at_step("crash", BEFORE, AFTER)

    def _torn(self) -> None:
        self._at_step("torn")

    def _power(self) -> None:
        self._at_step("power", BEFORE, AFTER)

    def _full(self) -> None:
        self._at_step("full")

    def _error(self) -> None:
        self._at_step("error")

    def _pause(self) -> None:
        if self._run.has_begun:
            self._at_step("pause", "", self._dice.choice(MOMENTS))

    def _lose_power(self) -> None:
        """The machine starts again with what its disk has kept. Spark's logs are never synced, so their newest may be gone."""
        run, dice = self._run, self._dice
        run.crew.power_lost = False
        run.crew.kill()
        self.boots += 1
        if run.disk.lose_power():
            run.crew.unread.append("power")
        run.tell("machine", "has lost its power and starts again")
        loop = run.loop
        # No more than directives are kept for: then nothing can go on, and a sentence says so.
        lost = min(dice.choice([0, 1, 1, checkpoints.KEPT]), len(loop.planned)) if self._loses_offsets else 0
        if lost:
            del loop.planned[-lost:]
            loop.committed = max(0, min(loop.committed, len(loop.planned)))
            run.crew.unread.append("offsets")
            run.tell("spark", f"has lost its last {lost} offsets")

    def _flip(self) -> None:
        """One bit of a file of the checkpoint is another, and the driver is started again."""
        run = self._run
        if not run.has_begun:
            return
        run.crew.kill()
        path = self._dice.choice(self._shelf.files())
        data = path.read_bytes()
        if not data:
            return
        place, bit = self._dice.randrange(len(data)), 1 << self._dice.randrange(8)
        wrong = data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
        path.write_bytes(wrong)
        self._flipped, self._flipped_turns = (path, data, wrong), 0
        run.crew.expected, run.crew.refusal = (HeadwaterError,), None
        run.tell("disk", f"flips a bit of {path.relative_to(run.root)}")

    def _look_at_flipped(self) -> None:
        """Whoever refuses it is right; if nobody has read it, it is made whole before somebody does."""
        self._flipped_turns += 1
        if self._run.crew.refusal is not None:
            self._run.counts["fault: flip"] += 1
            self._restore_flipped()
        elif self._flipped_turns >= NOTICE_TURNS:
            self._restore_flipped()

    def _restore_flipped(self) -> None:
        assert self._flipped is not None
        path, data, wrong = self._flipped
        if path.exists() and path.read_bytes() == wrong:
            path.write_bytes(data)
        self._flipped = None
        self._run.crew.expected, self._run.crew.refusal = (), None

    # --- clocks, sources, sinks ---

    def _jump(self) -> None:
        self._run.loop.ahead_ns += self._dice.choice(JUMPS)
        self._run.tell("clock", f"is {self._run.loop.ahead_ns / SECOND:g} s ahead")
        if self._run.idle_ns is not None:
            self._run.crew.unread.append("jump")

    def _late(self) -> None:
        """Some sources cannot be seen, for a while."""
        opened = self._run.story.opened
        opened.hidden = {name for name in opened.ends if self._dice.random() < 0.5}

    def _show(self) -> None:
        opened = self._run.story.opened
        if opened.left_out:
            self._run.counts["fault: late"] += 1
        opened.hidden, opened.left_out = set(), 0

    def _read(self) -> None:
        self._read_fails = True

    def task(self, run: Callable[[], Iterator[pa.RecordBatch]]) -> list[pa.RecordBatch]:
        """A task that fails somewhere is started again."""
        for _ in range(ATTEMPTS):
            found: list[pa.RecordBatch] = []
            try:
                for batch in run():
                    found.append(batch)
                    if self._read_fails and self._dice.random() < 0.5:
                        self._read_fails = False
                        raise ReadError
                return found
            except ReadError:
                self._run.counts["fault: read"] += 1
                self._run.tell("task", "fails, and is started again")
        raise AssertionError("a task fails once")

    def _sink(self) -> None:
        self._sink_fails = self._dice.choice(["rows", "aside"]), self._dice.choice(["before", "after"])

    def trouble(self, name: str, when: str) -> None:
        """A sink raises, before it has written or after."""
        if self._sink_fails == (name, when):
            self._sink_fails = None
            self._run.counts["fault: sink"] += 1
            raise InjectedError(f"the sink of {name} fails {when} it has written")

    # --- what has to be refused ---

    def _restored(self) -> None:
        """An older checkpoint under sinks that went on."""
        run = self._run
        if not self._shelf.has("checkpoint"):
            return
        run.crew.kill()
        before = self._shelf.done
        if all(place.last() <= before + 1 for place in run.sinks.values()):
            return
        self._shelf.swap("checkpoint")
        self._refused("an older checkpoint was put under sinks that went on", SinkError, "restored")
        self._shelf.swap_back("checkpoint")

    def _stranger(self) -> None:
        """Another stream is given the same sink."""
        run = self._run
        signed = [place for place in run.sinks.values() if any(place.path.glob("_headwater.*"))]
        if not signed:
            return
        place = self._dice.choice(signed)
        try:
            place.open().open(Claimant(f"{self._dice.getrandbits(128):032x}"))
        except SinkError as error:
            run.tell("another stream", f"is refused: {error}")
            run.counts["fault: stranger"] += 1
        else:
            raise ViolationError(
                f"another stream was given {place.path.name}, a sink that has an owner, and nobody minded"
            )

    def _log_back(self) -> None:
        """The log that is read went back to what it was."""
        run = self._run
        if not self._shelf.has("source"):
            return
        planned = run.loop.planned[-1]["ends"] if run.loop.planned else {}
        if all(planned.get(name, 0) <= end for name, end in self._shelf.ends.items()):
            return
        run.crew.kill()
        self._shelf.swap("source")
        self._refused("the log that is read lost its newest events", DataError, "log-back")
        self._shelf.swap_back("source")

    def _refused(self, what: str, error: type[Exception], fault: str) -> None:
        """A driver is started, and has to refuse this."""
        run = self._run
        run.tell("disk", what)
        run.crew.expected, run.crew.refusal = (error,), None
        for _ in range(NOTICE_TURNS):
            run.crew.turn()
            if run.crew.was_refused:
                break
        else:
            raise ViolationError(f"{what}, and nobody noticed")
        run.crew.expected, run.crew.refusal = (), None
        run.counts[f"fault: {fault}"] += 1

    def check_left(self, batches: int) -> None:
        """Check that what is left in the checkpoint is bounded by what is open, not by what was."""
        self._shelf.check_left(batches)


#: What each fault does when it strikes.
STRIKES: dict[str, Callable[[StreamFaults], Any]] = {
    "crash": StreamFaults._crash,
    "torn": StreamFaults._torn,
    "power": StreamFaults._power,
    "full": StreamFaults._full,
    "error": StreamFaults._error,
    "flip": StreamFaults._flip,
    "pause": StreamFaults._pause,
    "jump": StreamFaults._jump,
    "late": StreamFaults._late,
    "read": StreamFaults._read,
    "sink": StreamFaults._sink,
    "restored": StreamFaults._restored,
    "stranger": StreamFaults._stranger,
    "log-back": StreamFaults._log_back,
}
