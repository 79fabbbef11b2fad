"""The settings of nodes: how long they wait and how much they hold."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.protocols.frames import FRAME_BYTES_MAX

SECOND_NS = 1_000_000_000
#: What nobody waits for is gathered for so many times as long as everything else, and for a while in any case.
CALM = 16
CALM_NS_MIN = SECOND_NS // 20


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Times in nanoseconds of the host's clock."""

    #: A node gathers for so long before it sends: longer means fewer bytes, shorter means earlier results.
    linger_ns: int = SECOND_NS // 10
    #: What nobody has answered for so long is sent again.
    resend_ns: int = SECOND_NS
    #: A leaf that has no chain asks again after this.
    hello_ns: int = SECOND_NS
    #: The root does not wait any more for a source that has been silent for so long; None: it waits for ever.
    idle_ns: int | None = None
    #: A leaf stops reading while so many of its deltas are not accepted ...
    steps_max: int = 16
    #: ... or so many events wait for cuts although nothing can come before them.
    held_max: int = 1 << 20
    #: A leaf does not wait to send once this many rows and events have come together.
    pending_max: int = 1 << 18
    #: The root writes a checkpoint after so many records.
    checkpoint_every: int = 256
    #: Frames that are longer are refused; relays combine up to half of it.
    frame_bytes_max: int = FRAME_BYTES_MAX
    #: A leaf does not wait to send either once its partials take about so many bytes.
    pending_bytes_max: int = FRAME_BYTES_MAX // 4
    #: Whether the root records what happens to it; a host that begins anew rather than restore it has no use for that.
    is_recorded: bool = True
    #: Whether a leaf lives for one batch only: what it kept would be lost, and a question costs another batch, so it says more.
    is_brief: bool = False

    @property
    def calm_ns(self) -> int:
        """How long a leaf gathers what nobody waits for; not so long that its sources would seem silent.

        >>> NodeSettings(linger_ns=10**8).calm_ns, NodeSettings(linger_ns=10**8, idle_ns=10**9).calm_ns
        (1600000000, 250000000)
        """
        calm_ns = max(CALM * self.linger_ns, CALM_NS_MIN)
        return calm_ns if self.idle_ns is None else min(calm_ns, self.idle_ns // 4)
