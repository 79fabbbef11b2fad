"""What can go wrong between processes."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class EdgeError(HeadwaterError, RuntimeError):
    """A node could not be run, or a run did not come to its end; the message names the node."""
