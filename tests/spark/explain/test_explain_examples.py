"""What `explain` prints and how it forecasts, by a few plain cases; no Spark runs."""

import pyarrow as pa

import headwater as hw
from headwater.spark.batch.initial_root import initial_root_bytes
from headwater.spark.explain.crossings import Crossing, EventSample, SizeLine, lines
from headwater.spark.explain.explanation import Planned, SparkExplanation, Travel
from headwater.spark.explain.profile import FrameProfile, Groups, PartitionSpan, arrow_bytes, groupings, row_bytes
from headwater.spark.native.choice import Asked

SCHEMA = pa.schema([("time", pa.int64()), ("house", pa.string()), ("v", pa.int64())])
ASKED = Asked(SCHEMA)
LOAD = hw.query("load", hw.tumbling(10), total=hw.sum("v"))
SPAN = PartitionSpan(None, 1000, 0, 99)


def test_an_explanation_names_plan_reason_and_figures():
    crossings = (Crossing("shuffle", "slices of each partition", 20, 1500),)
    said = str(
        SparkExplanation((Planned("load", "native", "plain", "exact"),), (Travel("native", ("load",), crossings),))
    )
    assert said.splitlines() == [
        "load: native",
        "    why: plain",
        "    guarantee: exact",
        "together (native): load",
        "    into Python: nothing",
        "    out of Python: nothing",
        "    shuffle: 20 rows, 1.5 kB",
    ]


def test_what_was_not_measured_is_said():
    assert str(SparkExplanation((), (Travel("native", ("a", "b")),))).endswith("not measured")
    assert Travel("native", ("a",)).total("shuffle") is None


def test_totals_add_up_what_crosses_at_a_place():
    travel = Travel("python", ("a",), (Crossing("shuffle", "x", 1, 10), Crossing("shuffle", "y", 2, 20)))
    assert travel.total("shuffle") == (3, 30)


def test_sizes_grow_on_a_line_through_two_samples():
    line = SizeLine.through(5, (10, 20), (27, 47))
    assert line.at(nodes=3, count=100) == 3 * 7 + 2 * 100


def test_rows_of_a_shuffle_have_words_of_eight_bytes():
    profile = FrameProfile(1, SPAN, SPAN, lengths={"house": 3.0}, padded={"house": 8.0})
    assert row_bytes(profile, SCHEMA, ["house", "v"]) == 8 + 2 * 8 + 8
    assert arrow_bytes(profile, SCHEMA, ["house", "v"]) == 4 + 3 + 8 + 2 / 8


def test_windows_are_counted_from_the_span_of_time():
    (grouping,) = groupings([LOAD], ASKED)
    profile = FrameProfile(1, SPAN, SPAN, {grouping.group: Groups(30, 10), grouping.key: Groups(1, 1)})
    assert profile.windows(grouping, hw.tumbling(10)) == 10


def test_nodes_of_a_sample_send_more_for_more_groups():
    events = pa.table({"time": list(range(1000)), "v": [1] * 1000})
    sample = EventSample(events.slice(0, 250), events, (25, 100))
    sizes = lines(initial_root_bytes(ASKED.root([LOAD])), 1, sample, by_groups=True)
    assert set(sizes) == {"hello", "leaf", "relay", "root"}
    assert sizes["leaf"].at(1, 200).shuffled > sizes["leaf"].at(1, 100).shuffled > sizes["hello"].at(1, 0).shuffled
    assert round(sizes["root"].rows.at(1, 100)) == 100
