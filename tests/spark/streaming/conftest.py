"""What several tests of streams need."""

import pytest

from headwater.logs import files


@pytest.fixture(scope="module")
def no_sync():
    """For tests in which drivers die, not machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "sync", lambda descriptor: None)
        patch.setattr(files, "sync_directory", lambda directory: None)
        yield
