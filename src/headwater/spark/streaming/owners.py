"""Who runs a stream. The owner number is the fence: each driver takes the next one when it starts, and the highest is the one.

    owners/3        a line that says who it is and since when, for people

A driver looks at the numbers after Spark has logged the offset of a batch, and before anybody sees rows of it; the next driver
takes its number before it reads Spark's log. So whoever passes that look has an offset that every later driver finds and runs
again as it was: what a driver does that was paused behind it is what its successor does, too. Whoever does not pass has done
nothing. And of two that end one batch, one creates its directive.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headwater.logs import files
from headwater.spark.streaming.errors import CheckpointError, ReplacedError


def present() -> str:
    """This process at this moment."""
    since = datetime.now(UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")
    return f"process {os.getpid()} on {socket.gethostname()} since {since}"


@dataclass(frozen=True, slots=True)
class Ownership:
    """A driver's turn at a stream: ``path`` is the stream's checkpoint, ``number`` the driver's own."""

    path: Path
    number: int

    @classmethod
    def taken(cls, path: Path, who: str | None = None) -> Ownership:
        """The next turn; whoever has had one before finds that it was replaced."""
        folder = path / "owners"
        files.make_folder(folder)
        text = (who or present()).encode()
        while True:
            number = max(_numbers(path), default=0) + 1
            try:
                files.create(folder / str(number), text)
            except FileExistsError:
                continue
            except FileNotFoundError:
                # Whoever took a turn at this moment has swept up what is unfinished.
                files.make_folder(folder)
                continue
            # Another may have come and gone meanwhile, and have removed the number that was free because of that.
            if max(_numbers(path)) == number:
                break
        for before in _numbers(path):
            if before < number:
                files.remove(folder / str(before))
        return cls(path, number)

    def check(self) -> None:
        """Nothing, or an error that says who has taken over."""
        newest = max(_numbers(self.path), default=0)
        if newest > self.number:
            raise ReplacedError(
                f"{self.path}: this driver (owner {self.number}) was replaced and stops: the stream is run by"
                f" {holder(self.path)} (owner {newest}), and nothing done here since counts"
            )
        if newest < self.number:
            raise CheckpointError(
                f"{self.path}: the checkpoint was changed while the stream ran: it does not know its driver (owner"
                f" {self.number}) any more; start the stream again"
            )

    def replaced(self) -> ReplacedError | None:
        """What `check` says if another has taken over."""
        try:
            self.check()
        except ReplacedError as error:
            return error
        except CheckpointError:
            return None
        return None

    @contextmanager
    def comes_first(self) -> Iterator[None]:
        """Whatever goes wrong in this `with`, that another has taken over is said first: it may be why."""
        try:
            yield
        except ReplacedError:
            raise
        except Exception as because:
            if (replaced := self.replaced()) is not None:
                raise replaced from because
            raise


def holder(path: Path) -> str:
    """Who took the last turn at a stream, and since when."""
    for number in sorted(_numbers(path), reverse=True):
        try:
            return (path / "owners" / str(number)).read_text()
        except FileNotFoundError:
            continue
    return "another process"


def _numbers(path: Path) -> list[int]:
    try:
        names = os.listdir(path / "owners")
    except FileNotFoundError:
        return []
    return [int(name) for name in names if name.isdigit()]
