"""How fast a link carries bytes: pure arithmetic, no clock."""

from __future__ import annotations

from headwater.errors import DataError, shown

SECOND_NS = 1_000_000_000
#: A moment that never comes.
FAR_NS = 1 << 62


class TokenBucket:
    """Says when a frame may leave so that a link carries no more than ``bits_per_s``, beyond ``burst_bytes`` at once.

    A frame leaves when its last byte would have: so the time that its bytes take on a thin link is part of its way, also if
    nothing else is sent. The bucket is kept as one number, the moment up to which the link is taken; to ask is to take.

    >>> bucket = TokenBucket(8_000)  # a thousand bytes a second
    >>> [bucket.leaves_ns(500, now_ns) / 1e9 for now_ns in (0, 0, 5_000_000_000)]
    [0.5, 1.0, 5.5]
    """

    __slots__ = ("_burst_ns", "_taken_ns", "bits_per_s")

    def __init__(self, bits_per_s: float, burst_bytes: int = 0) -> None:
        if not bits_per_s > 0:
            raise DataError(f"bits_per_s is {shown(bits_per_s)}: give a rate above 0, or None for no limit")
        self.bits_per_s = bits_per_s
        self._burst_ns = self.takes_ns(burst_bytes)
        self._taken_ns: int | None = None

    def takes_ns(self, size: int) -> int:
        """How long ``size`` bytes take."""
        return -int(-size * 8 * SECOND_NS // self.bits_per_s)

    def leaves_ns(self, size: int, now_ns: int) -> int:
        """Take room for a frame of ``size`` bytes; returns when it may leave."""
        earliest = now_ns - self._burst_ns
        begin = earliest if self._taken_ns is None else max(self._taken_ns, earliest)
        self._taken_ns = begin + self.takes_ns(size)
        return max(now_ns, self._taken_ns)


def wire_bytes(size: int) -> int:
    """The bytes of a message of ``size`` on a ZeroMQ link, with the flag and the length in front of it, without TCP's headers.

    >>> wire_bytes(100), wire_bytes(1000)
    (102, 1009)
    """
    return size + (2 if size < 256 else 9)
