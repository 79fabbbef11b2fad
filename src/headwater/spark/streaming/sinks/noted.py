"""What a sink with transactions remembers of the last batch in it, written together with that batch's rows."""

from __future__ import annotations

from typing import NamedTuple

from headwater.spark.streaming.sinks.timeline import Claimant, OtherStreamError, SinkError


class Note(NamedTuple):
    """The last batch of a sink: who wrote it, in which life, and a digest of its rows. Older releases noted the batch only."""

    batch: int
    stream: str = ""
    life: str = ""
    digest: str = ""


class NotedBatches:
    """One sink's notes: whether it belongs to the stream, and which batches are in it.

    ``place``: what the sink is called in sentences; ``instead``: what to do if it is another stream's; ``other``: another of its
    kind. ``last``: the last note, of a sink that is this stream's own.
    """

    def __init__(self, place: str, stream: Claimant, instead: str, other: str) -> None:
        self.last = Note(-1)
        self._place, self._stream, self._instead, self._other = place, stream, instead, other

    def check(self, note: Note) -> None:
        """SinkError if the sink is another stream's, or of another past."""
        own = self._stream
        if note.stream not in ("", own.stream):
            raise OtherStreamError(
                f"{self._place} belongs to another stream, {note.stream} (this one is {own.stream}): {self._instead}"
            )
        is_own = own.wrote(note.life, note.batch) if note.life else note.batch <= own.next_batch
        if note.batch >= 0 and not is_own:
            raise self._newer(f"it has rows up to batch {note.batch}")

    def has(self, batch: int, digest: str) -> bool:
        """Whether a batch is written already; SinkError if it is with other rows."""
        last = self.last
        if batch < last.batch or batch == last.batch and last.digest in ("", digest):
            # Seen in this life: what comes next follows it.
            self.last = last._replace(life=self._stream.life)
            return True
        if batch == last.batch or last.life != self._stream.life and last.batch >= self._stream.next_batch:
            raise self._newer(f"batch {last.batch} is there with other rows")
        return False

    def next(self, batch: int, digest: str = "") -> Note:
        """The note of a batch that is written in this life."""
        return Note(batch, self._stream.stream, self._stream.life, digest)

    def _newer(self, what: str) -> SinkError:
        return SinkError(
            f"{self._place}: {what} that are not of this checkpoint, which goes on with batch {self._stream.next_batch}: an"
            f" older one was restored, or a copy ran elsewhere; go on with the newest checkpoint, or {self._other}"
        )
