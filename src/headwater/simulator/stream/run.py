"""A story over the loop from its first event to its end, with crashes behind every step if that is wanted."""

from __future__ import annotations

import random
from pathlib import Path

from headwater.simulator.stream.driver import STEPS, Driver
from headwater.simulator.stream.loop import Loop
from headwater.simulator.stream.story import SECOND, Draw, Story, any_queries
from headwater.simulator.stream.turns import Drivers


class StoryRun:
    """``crashes``: drivers die; ``is_shared``: several drivers believe that the stream is theirs."""

    loop_class: type[Loop] = Loop
    driver_class: type[Driver] = Driver

    def __init__(
        self,
        place: Path,
        seed: int,
        crashes: bool,
        roots: int = 1,
        draw: Draw = any_queries,
        held_max: int | None = None,
        is_shared: bool = False,
    ) -> None:
        self.dice = dice = random.Random(seed)
        # Sources tell their watermarks themselves in one of three.
        self.story = story = Story(dice, draw, tells=seed % 3 == 0)
        self.logs, self.opened, self.truth, self.checker = story.logs, story.opened, story.truth, story.checker
        settings = story.settings(dice.choice([None, None, 5 * SECOND]))
        shape = settings, dice.choice([1, 2, 5, 40]), roots, seed
        told = story.counting, story.limits, story.leaf_limits(held_max)
        self.roots, self.crashes = roots, crashes
        self.loop = self.loop_class(place, story.opened, story.workload.queries, *shape, *told, starts=not is_shared)
        story.begun(story.ends)
        self.drivers = Drivers(self.loop, self.driver_class) if is_shared else None

    def play(self) -> None:
        """From the first event to the end."""
        while self.story.goes_on:
            self._something_happens()
            self._batches(self.dice.randint(0, 2))
        self._batches(1000)
        self.loop.checkpoint.ask({"what": "flush"})
        self.truth.may_end = True
        self._batches(1000)
        self._check_end()

    def _check_end(self) -> None:
        assert self.loop.directive()["is_finished"]
        self.checker.check_end(self.loop.directive()["status"]["counters"])

    def _something_happens(self) -> None:
        dice = self.dice
        self.loop.now_ns += dice.choice([0, SECOND, 3 * SECOND])
        self.loop.events_max = dice.choice([None, 3, 20])
        self.story.arrive()
        if self.story.commands and dice.random() < 0.3:
            self.story.ask(self.loop.checkpoint)
        if self.crashes and dice.random() < 0.4:
            self.loop.crash_at = dice.choice(STEPS)

    def _batches(self, count: int) -> None:
        goes_on = self.loop.safely if self.drivers is None else self.drivers.something
        for _ in range(count):
            done = self.loop.committed
            if not goes_on():
                break
            for batch in range(done, self.loop.committed):
                self.story.done(self.loop, batch)
