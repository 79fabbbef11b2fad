"""Copies of a simulated stream's folders, to be put back in place of what they became; and how much a checkpoint may hold."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.simulator.checks.truth import ViolationError
from headwater.spark.streaming import checkpoint as checkpoints
from headwater.spark.streaming import host
from headwater.spark.streaming.inputs.input import LogInput

if TYPE_CHECKING:
    from headwater.simulator.stream.simulation import StreamSimulation

#: Not read by the machine: names that say all, and what is for people.
_UNREAD = ("owners", "lives")


class Shelf:
    """What lies beside the disk: older copies of its folders, and the newest while an older one is in their place."""

    def __init__(self, run: StreamSimulation, place: Path) -> None:
        self._run, self._place = run, place
        self._logs: dict[str, tuple[list[dict[str, Any]], int]] = {}
        #: Of the copies: the last batch that was done, and how far sources went.
        self.done = -1
        self.ends: dict[str, int] = {}

    def has(self, folder: str) -> bool:
        return (self._place / "old" / folder).exists()

    def keep(self, folder: str) -> None:
        """Take a copy. Spark's logs are part of a checkpoint."""
        loop = self._run.loop
        shutil.copytree(self._run.root / folder, self._place / "old" / folder)
        if folder == "checkpoint":
            self._logs["old"] = list(loop.planned), loop.committed
            self.done = loop.checkpoint.last_done()
        else:
            self.ends = dict(self._run.story.ends)

    def swap(self, folder: str) -> None:
        """Put the older one in place."""
        loop, new = self._run.loop, self._place / "new" / folder
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(self._run.root / folder, new)
        self._logs["new"] = list(loop.planned), loop.committed
        self._put("old", folder)

    def swap_back(self, folder: str) -> None:
        """Put the newest back; the older one is not wanted any more."""
        self._run.crew.kill()
        self._put("new", folder)
        shutil.rmtree(self._place / "old" / folder)

    def _put(self, which: str, folder: str) -> None:
        run, loop = self._run, self._run.loop
        shutil.rmtree(run.root / folder)
        shutil.copytree(self._place / which / folder, run.root / folder)
        run.disk.look()
        if folder == "checkpoint":
            planned, loop.committed = self._logs[which]
            loop.planned = list(planned)
        elif isinstance(loop.opened, LogInput):
            loop.opened = LogInput.from_data(loop.opened.to_data())

    # --- what is in a checkpoint ---

    def files(self) -> list[Path]:
        """Those that somebody reads, those that are read next most often."""
        place = self._run.loop.checkpoint.path
        found = sorted(path for path in place.rglob("*") if path.is_file() and not path.name.startswith("."))
        found = [path for path in found if path.parent.name not in _UNREAD and path.suffix != ".refused"]
        last = self._run.loop.checkpoint.last_done()
        newest = [path for path in found if path.name.startswith((f"{last}.", f"{last + 1}.", "about"))]
        return [*found, *newest * max(1, len(found) // len(newest))] if newest else found

    def check_left(self, batches: int) -> None:
        """Refuse a checkpoint that holds more than what is open needs."""
        checkpoint, roots = self._run.loop.checkpoint, self._run.roots
        kept = 4 * checkpoints.KEPT + 2
        bounds = {"directives": kept, "offsets": kept, "queries": kept}
        places = {name: checkpoint.path / name for name in bounds}
        for number in range(roots):
            name = f"states of root {number}"
            places[name] = checkpoint.states(number, roots).path
            # Whoever died may have left one beside that of its successor.
            bounds[name] = kept + host.SNAPSHOT_EVERY + self._run.crew.started
        for name, place in places.items():
            count = len(list(place.iterdir()))
            if count > bounds[name]:
                raise ViolationError(
                    f"after {batches} batches the checkpoint holds {count} {name}; it may hold {bounds[name]}"
                )
