"""A story over a stream that several drivers believe to be theirs; at the end whoever sleeps wakes, and changes nothing."""

from headwater.simulator.stream import StoryRun


class SharedRun(StoryRun):
    """A workload of the simulator over a stream that several drivers believe to be theirs."""

    def play(self) -> None:
        try:
            super().play()
            self._sleepers_wake()
        finally:
            self.drivers.close()

    def _sleepers_wake(self) -> None:
        before = self._seen()
        self.drivers.end()
        assert self._seen() == before, "a driver that was replaced has changed what others read"

    def _seen(self):
        """All that counts: what the directives say, whose states they name, and the rows."""
        checkpoint = self.loop.checkpoint
        last = checkpoint.last_batch()
        directive = checkpoint.said(last)
        saved = [checkpoint.states(n, self.roots).saved(state) for n, state in enumerate(directive.states)]
        rows = {batch: rows.to_pylist() for batch, rows in self.loop.sink.batches.items()}
        return last, directive.hash, saved, repr(rows)
