"""Somebody who looks at a stream's page: a process of its own, as a browser is one, that reads its events."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_READS = """
import sys
from urllib.request import urlopen
with urlopen(sys.argv[1]) as events:
    for line in events:
        pass
"""


@contextmanager
def reading(url: str | None) -> Iterator[None]:
    """Read the events of the page at this address as long as the block lasts; None: there is no page."""
    if url is None:
        yield
        return
    reader = subprocess.Popen([sys.executable, "-c", _READS, f"{url}events"])
    try:
        yield
    finally:
        reader.kill()
        reader.wait()
