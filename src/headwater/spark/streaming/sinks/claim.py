"""The mark of a stream in the folder of its sink: an empty file ``_headwater.<stream>.<life>``, of the life that wrote last.

Empty, for Polars stumbles over any file of another kind in a folder, but passes by those without bytes; the underscore hides it
from Spark and Arrow. That its name changes with the life is the fence: whoever finds his own gone has been followed by another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from headwater.logs import files
from headwater.spark.streaming.sinks.timeline import Claimant, OtherStreamError, SinkError

_PREFIX = "_headwater."
#: How many rows the batches of this mapping have in a sink, as far as it can tell.
Counts = Callable[[Mapping[int, int]], Mapping[int, int]]


class Claim:
    """A folder that belongs to one stream. ``last``: the last batch that it holds, -1 if none.

    SinkError with the ``way_out`` if it is another's, or of another past. Rows that nobody has signed are of a release that did
    not sign: they are adopted if nothing speaks against it.
    """

    def __init__(self, folder: Path, stream: Claimant, last: int, counts: Counts, way_out: str) -> None:
        self._folder, self._stream, self._way_out = folder, stream, way_out
        self._own = self._signature(stream.life)
        self._check_nobody_elses(_signed(folder))
        self._found = self._signed_by()
        if self._found is None:
            self._adopt(last, counts)
        else:
            self._check_past(self._found, last)

    def hold(self, last: int) -> None:
        """Called before each write: SinkError if another run has written since, or has left more than this one knows.

        A run before this one may have signed late, and even in its place; then this one signs again.
        """
        while not self._own.exists():
            life = self._signed_by()
            if life is None or life != self._found and not self._stream.follows(life):
                raise SinkError(
                    f"{self._folder}: {self._own.name} is gone, so another run of this stream has taken the sink over, or"
                    " somebody removed it; let one run at a time, and start the stream again"
                )
            self._check_past(life, last)
            # Not found: another has signed since the look.
            with suppress(FileNotFoundError):
                files.rename(self._signature(life), self._own)
                files.sync_directory(self._folder)

    def _signed_by(self) -> str | None:
        """The life of this stream that has signed last; None if none has."""
        lives = [life for stream, life in _signed(self._folder) if stream == self._stream.stream]
        return max(lives, key=self._stream.age, default=None)

    def _adopt(self, last: int, counts: Counts) -> None:
        stream = self._stream
        if last > stream.next_batch:
            raise self._newer(last)
        if last >= 0 and not stream.may_adopt(counts(stream.row_counts)):
            raise SinkError(
                f"{self._folder}: the rows in it, up to batch {last}, are not of this stream; {self._way_out}"
            )
        os.close(files.make(self._own))
        try:
            # Looked for again: of two that begin at once at most one may stay.
            self._check_nobody_elses(_signed(self._folder))
        except SinkError:
            files.remove(self._own)
            raise
        for _, life in _signed(self._folder):
            if stream.follows(life):
                files.remove(self._signature(life))  # of a run that began at the same moment
        files.sync_directory(self._folder)

    def _check_past(self, life: str, last: int) -> None:
        if last >= 0 and not self._stream.wrote(life, last):
            raise self._newer(last)

    def _check_nobody_elses(self, signed: list[tuple[str, str]]) -> None:
        others = [name for name, _ in signed if name != self._stream.stream]
        if others:
            raise OtherStreamError(
                f"{self._folder}: this sink belongs to another stream, {others[0]} (this one is {self._stream.stream});"
                f" {self._way_out}"
            )

    def _newer(self, last: int) -> SinkError:
        return SinkError(
            f"{self._folder}: it has rows up to batch {last} that are not of this checkpoint, which goes on with batch"
            f" {self._stream.next_batch}: an older one was restored, or a copy ran elsewhere; go on with the newest checkpoint,"
            f" or {self._way_out}"
        )

    def _signature(self, life: str) -> Path:
        return self._folder / f"{_PREFIX}{self._stream.stream}.{life}"


def _signed(folder: Path) -> list[tuple[str, str]]:
    """The streams and lives that have claimed a folder."""
    names = (name.removeprefix(_PREFIX) for name in os.listdir(folder) if name.startswith(_PREFIX))
    return [(stream, life) for stream, _, life in (name.rpartition(".") for name in names)]
