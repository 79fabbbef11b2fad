"""What a leaf has sent that is not accepted yet: kept, bounded, and sent again if it was lost."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Outbox:
    """Frames of consecutive stretches of a chain, each of one step.

    >>> box = Outbox(at=3)
    >>> box.add(b"four"), box.add(b"five")
    (3, 4)
    >>> box.accepted(4); box.frames_from(0)
    [b'five']
    """

    #: The position of the first frame that is kept.
    at: int = 0
    frames: list[bytes] = field(default_factory=list)
    #: How often `overdue` was asked since something was accepted or sent again.
    _looks: int = 0

    @property
    def end(self) -> int:
        """The position behind all frames."""
        return self.at + len(self.frames)

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.frames))

    def add(self, frame: bytes) -> int:
        """Keep a frame; returns its position."""
        self.frames.append(frame)
        return self.end - 1

    def accepted(self, at: int) -> None:
        """Everything below ``at`` is safe."""
        done = min(max(at - self.at, 0), len(self.frames))
        del self.frames[:done]
        self.at += done
        if done:
            self._looks = 0

    def overdue(self) -> list[bytes]:
        """What has to be sent again, called at regular times: everything, if nothing was accepted between two calls."""
        self._looks = self._looks + 1 if self.frames else 0
        if self._looks < 2:
            return []
        self._looks = 0
        return list(self.frames)

    def frames_from(self, at: int) -> list[bytes]:
        """What has to be sent if the other side stands at ``at``."""
        return self.frames[max(at - self.at, 0) :]
