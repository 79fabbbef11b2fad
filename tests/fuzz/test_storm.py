"""A storm of frames that no honest node sends, in a process of its own: a little of what `make fuzz` does."""

from __future__ import annotations

import pytest

from fuzz.storm import BOUT, storm


@pytest.mark.timeout(900)
def test_no_frame_breaks_a_node_and_honest_peers_have_their_rows():
    assert storm(first=0, frames=20_000) is None


def test_a_storm_goes_on_where_it_was_told_to():
    assert storm(first=10**6 // BOUT * BOUT, frames=1) is None
