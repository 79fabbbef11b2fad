"""The output that nodes share: one row for an index, whoever writes it, and what a loss of power leaves of it."""

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.holon.shared_output import SharedOutput

ONE, TWO = ("one", 1), ("two", 1)


def rows(*values):
    return pa.table({"n": list(values), "of": ["a"] * len(values)})


def test_rows_that_are_there_are_passed_over():
    output = SharedOutput()
    assert [output.append(ONE, "c", 0, rows(1, 2, 3)), output.append(TWO, "c", 1, rows(2, 3, 4))] == [3, 1]
    assert output.ends() == {"c": 4}
    assert [row["n"] for row in output.chains["c"].said] == [1, 2, 3, 4]


def test_another_row_for_an_index_is_told_with_chain_index_and_column():
    output = SharedOutput()
    output.append(ONE, "c", 0, rows(1, 2))
    with pytest.raises(ViolationError, match=r"c has .* at 1, and two says .* \(n differs\)"):
        output.append(TWO, "c", 1, rows(7))


def test_a_node_that_loses_its_power_takes_its_own_rows_with_it():
    for seed in range(20):
        output = SharedOutput()
        output.append(ONE, "c", 0, rows(1, 2))
        output.append(TWO, "c", 2, rows(3, 4))
        lost = output.lose_power(Random(seed), "two")
        assert output.ends() == {"c": 4 - lost} and lost <= 2
        # Who does not know of it goes on behind the gap; who makes the rows again closes it.
        output.append(ONE, "c", 4, rows(5))
        output.append(ONE, "c", 2, rows(3, 4))
        assert output.ends() == {"c": 5}


def test_rows_behind_rows_that_never_were_are_refused():
    with pytest.raises(ViolationError, match="from 3 on, but there were only 0 rows"):
        SharedOutput().append(ONE, "c", 3, rows(1))


def test_what_was_lost_has_to_be_the_same_when_it_is_made_again():
    output = SharedOutput()
    output.append(ONE, "c", 0, rows(1, 2, 3))
    while output.lose_power(Random(1)) == 0:
        pass
    end = output.ends()["c"]
    with pytest.raises(ViolationError, match="two different rows"):
        output.append(TWO, "c", end, rows(9))
    assert output.append(TWO, "c", 0, rows(1, 2, 3)) == 3 - end
    assert output.ends() == {"c": 3}


@given(st.lists(st.tuples(st.sampled_from([ONE, TWO]), st.integers(1, 4), st.booleans()), max_size=12), st.integers())
def test_a_loss_of_power_leaves_what_was_synced(steps, seed):
    output = SharedOutput()
    for writer, count, is_synced in steps:
        end = output.ends().get("c", 0)
        start = max(0, end - 1)
        output.append(writer, "c", start, rows(*range(start, end + count)))
        if is_synced:
            output.sync(writer)
    before, durable = output.ends().get("c", 0), output.durable().get("c", 0)
    lost = output.lose_power(Random(seed))
    after = output.ends().get("c", 0)
    assert durable <= after == before - lost
    assert output.durable().get("c", 0) == after
