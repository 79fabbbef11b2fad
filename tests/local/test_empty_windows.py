"""Windows without events over long gaps: an error that says what to do, before memory ends."""

import pyarrow as pa
import pytest

import headwater as hw


def every(size=10, **options):
    return hw.query("load", hw.tumbling(size), n=hw.count(), **{"emit_empty": True, **options})


@pytest.mark.parametrize("distinct", [None, "v"])
def test_emit_empty_over_a_gap_of_10_to_the_12_is_an_error_that_names_query_gap_and_setting(distinct):
    events = pa.table({"time": [0, 10**12], "v": [1, 2]})
    with pytest.raises(hw.DataError) as error:
        hw.run(events, every(distinct=distinct))
    text = str(error.value)
    assert "query 'load'" in text and "between 0 and 1000000000000" in text and "emit_empty=99999999999" in text


def test_how_many_windows_without_events_may_come_is_the_users_choice():
    events = pa.table({"time": [0, 1000]})
    assert len(hw.run(events, every(emit_empty=99))["load"]) == 101
    with pytest.raises(hw.DataError, match="lie 99 windows without events, more than 98"):
        hw.run(events, every(emit_empty=98))


def test_an_engine_that_refused_a_flood_goes_on_as_if_it_had_not_been_told():
    engine = hw.Engine([every()])
    engine.push({"time": [0]})
    with pytest.raises(hw.DataError, match="emit_empty"):
        engine.advance(10**12)
    assert len(engine.results()["load"]) == 0


@pytest.mark.parametrize("wrong", ["yes", 0, -1, 2.5, None])
def test_a_bound_of_empty_windows_is_a_number_or_a_flag(wrong):
    if wrong == 0:
        assert not every(emit_empty=False).emit_empty
    with pytest.raises(hw.QueryError, match="emit_empty is"):
        every(emit_empty=wrong)


def test_the_bound_travels_with_the_query():
    (query,) = hw.from_json(hw.to_json([every(emit_empty=5)]))
    assert query.emit_empty == 5 and query.empty_max == 5
    (query,) = hw.from_yaml(hw.to_yaml([every()]))
    assert query.emit_empty is True
