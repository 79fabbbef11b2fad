"""docs/windows.md says what each window is in Spark alone: those programs run on the events of the story above them."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parent.parent.parent
SECTIONS = (ROOT / "docs" / "windows.md").read_text(encoding="utf-8").split("\n## ")
COMPARED = {section.partition("\n")[0]: section for section in SECTIONS if "\nrows = " in section}


def told(section: str) -> tuple[list[tuple], list[tuple[int, int]]]:
    """The events of a section's story, and what its rows say: how many events, and their sum."""
    (name,) = re.findall(r"`tests/transcripts/(\w+)\.txt`", section)
    story = (ROOT / "tests" / "transcripts" / f"{name}.txt").read_text(encoding="utf-8")
    events = re.findall(r'^\w+ time=(\d+) watt=(\d+)(?: kind="(\w+)")?$', story, re.M)
    rows = re.findall(r"-> power .*\| n=(\d+) total=(\d+)", story)
    return [(int(time), int(watt), kind) for time, watt, kind in events], [(int(n), int(total)) for n, total in rows]


@pytest.mark.parametrize("title", COMPARED)
def test_sparks_program_gives_the_rows_of_the_story(spark, title):
    from pyspark.sql import functions as F

    section = COMPARED[title]
    events, expected = told(section)
    frame = spark.createDataFrame(events, "second bigint, watt bigint, kind string")
    names = {"F": F, "events": frame.selectExpr("timestamp_seconds(second) AS at", "watt", "kind")}
    (program,) = re.findall(r"```python\n(.*?)```", section, re.S)
    exec(program, names)
    assert sorted(tuple(row)[-2:] for row in names["rows"].collect()) == sorted(expected)


def test_an_event_exactly_the_gap_away_joins_a_session_in_spark_too(spark):
    from pyspark.sql import functions as F

    frame = spark.createDataFrame([(0,), (5,), (11,)], "second bigint").selectExpr("timestamp_seconds(second) AS at")
    sessions = frame.groupBy(F.session_window("at", "5 seconds")).count().collect()
    assert sorted(row["count"] for row in sessions) == [1, 2]


def test_every_window_with_a_short_program_is_compared():
    assert set(COMPARED) == {"Tumbling", "Sliding", "Band", "Session", "Punctuated", "Count tumbling", "Count sliding"}
