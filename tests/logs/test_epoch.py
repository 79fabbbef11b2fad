"""Of writers that open a partition at once, one stays: the one with the highest number."""

import pytest

from headwater.logs import FencedError, files
from headwater.logs.epoch import WriterEpoch


def is_fenced(epoch: WriterEpoch) -> bool:
    try:
        epoch.check()
    except FencedError:
        return True
    return False


def test_each_writer_fences_those_before_it(tmp_path):
    epochs = [WriterEpoch(tmp_path) for _ in range(3)]
    assert [epoch.number for epoch in epochs] == [1, 2, 3]
    assert [is_fenced(epoch) for epoch in epochs] == [True, True, False]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("others", [1, 2, 3])
def test_of_several_that_open_at_once_a_lower_number_does_not_stay_beside_a_higher_one(tmp_path, monkeypatch, others):
    """The first has looked for a number when others come, and the last of them removes those before it."""
    WriterEpoch(tmp_path)
    inner, opened = files.make, []

    def make(path, *flags):
        if not opened:
            opened.append(None)
            opened[:] = [WriterEpoch(tmp_path) for _ in range(others)]
        return inner(path, *flags)

    monkeypatch.setattr(files, "make", make)
    sleeper = WriterEpoch(tmp_path)
    assert len([epoch for epoch in [sleeper, *opened] if not is_fenced(epoch)]) == 1
