"""What `hw.postgres` refuses before it connects."""

import pickle

import pytest

import headwater as hw
from headwater.errors import DataError


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("", "t"), "dsn is str: give text"),
        ((5, "t"), "dsn is int: give text"),
        (("host=x", "a.b.c"), "table is 'a.b.c': give its name"),
        (("host=x", ""), "table is ''"),
        (("host=x", "t", "merge"), "mode is 'merge': give 'append' for all rows, or 'upsert'"),
    ],
)
def test_wrong_arguments_are_said(arguments, says):
    with pytest.raises(DataError, match=says):
        hw.postgres(*arguments)


def test_a_sink_travels_to_where_batches_run():
    sink = pickle.loads(pickle.dumps(hw.postgres("host=x", "t", mode="upsert")))
    sink.close()
