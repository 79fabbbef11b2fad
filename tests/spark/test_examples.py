"""The two examples on Spark, in the Spark that all tests share: `getOrCreate` gives it to them."""

import runpy

import pytest

from example_programs import FOLDER

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def printed(spark, capsys):
    """What a program prints; what it sets is set back."""
    zone = spark.conf.get(ZONE)

    def run(name: str) -> list[str]:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    yield run
    spark.conf.set(ZONE, zone)
    spark.sparkContext.setLogLevel("OFF")
    spark.catalog.clearCache()


def test_a_batch_gives_the_rows_of_sparks_own_window(printed):
    lines = printed("batch_on_spark")
    assert "|2025-12-31 23:59:10|2026-01-01 00:00:10|house 0|981| 495.0|" in lines
    assert "|2026-01-01 00:00:00   |2026-01-01 00:05:04.85|house 0|2000    |" in lines
    assert f"|{1000:>14}|{2000:>12}|499500|" in lines
    assert lines[-1] == "Spark's window() gives the same 204 rows: yes"


def test_a_stream_goes_on_where_it_was_and_each_row_is_there_once(printed):
    lines = printed("stream_on_spark")
    second = lines.index("after the second file and the end of the stream:")
    assert lines[1:second] == [
        "  hundred    0 .. 100 highest 6   revision 0",
        "  hundred  100 .. 200 highest 6   revision 0",
        "  load       0 .. 10  total 295   revision 0",
        "  load      10 .. 20  total 299   revision 0",
    ]
    assert lines[second + 1 :] == [
        "  hundred    0 .. 100 highest 6   revision 0",
        "  hundred  100 .. 200 highest 6   revision 0",
        "  hundred  200 .. 300 highest 49  revision 0",
        "  hundred  300 .. 400 highest 149 revision 0",
        "  load       0 .. 10  total 295   revision 0",
        "  load       0 .. 10  total 1295  revision 1",
        "  load      10 .. 20  total 299   revision 0",
        "  load      20 .. 30  total 1376  revision 0",
        "  load      30 .. 40  total 9950  revision 0",
    ]
