"""What happens to nodes: offsets that cannot be are refused where they come in."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import DataError
from headwater.protocols.events import BatchArrived, EventsPassed, MixedBatchArrived, SourceEnded

TWO = pa.record_batch({"time": [1, 2]})


def mixed(*offsets: int) -> MixedBatchArrived:
    return MixedBatchArrived(["a", "b"], np.array([0, 1]), np.array(offsets), TWO)


@pytest.mark.parametrize(
    ("arrive", "words"),
    [
        (lambda: BatchArrived("a", -5, TWO), "source 'a': offset is -5; offsets count up from 0"),
        (lambda: BatchArrived("a", 2**63 - 2, TWO), "the offset behind the last event is 9223372036854775808"),
        (lambda: BatchArrived("a", 1.5, TWO), "offset is 1.5; an offset is a whole number"),  # type: ignore[arg-type]
        (lambda: mixed(0, -1), "source 'b': offset is -1"),
        (lambda: mixed(2**63 - 1, 0), "source 'a': the offset behind the last event is 9223372036854775808"),
        (lambda: mixed(0), "there are 2 sources and 1 offsets for 2 events"),
        (lambda: EventsPassed("a", -1, 3), "source 'a': offset is -1"),
        (lambda: EventsPassed("a", 2**63 - 2, 3), "the offset behind the last event is 9223372036854775809"),
        (lambda: SourceEnded("a", -1), "source 'a': offset is -1"),
    ],
)
def test_an_offset_that_cannot_be_is_refused_before_a_node_hears_of_it(
    arrive: Callable[[], object], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        arrive()


def test_offsets_up_to_the_last_one_are_taken() -> None:
    last = 2**63 - 1
    assert BatchArrived("a", last - 2, TWO).offset == last - 2
    assert mixed(0, last - 1).offsets[-1] == last - 1
    assert SourceEnded("a", last).offset == last
