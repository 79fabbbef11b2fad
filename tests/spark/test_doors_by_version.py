"""Which Spark serves which door: the table in docs/spark.md is the one that the code has."""

import re
from pathlib import Path

import pytest

from headwater.spark.doors import DOORS, check_spark, refuse_old, serves
from headwater.spark.setup import SetupError

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")


class Session:
    def __init__(self, version: str) -> None:
        self.version = version


def test_the_page_says_of_each_version_what_the_code_does():
    rows = re.findall(r"^\| (`hw\.[^|]*) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|", PAGE, re.M)
    named = {"`hw.read`, `hw.aggregate` of a batch, `hw.explain`": "hw.aggregate", "`hw.stream`": "hw.stream"}
    assert len(rows) == len(set(DOORS.values()))
    for title, *answers in rows:
        door = named.get(title, title.replace("`", ""))
        told = [version >= DOORS[door] for version in ((4, 0), (4, 1), (4, 2), (4, 3))]
        assert [answer == "yes" for answer in answers] == told, title


@pytest.mark.parametrize("door", DOORS)
def test_spark_3_has_no_door_and_hears_so_in_one_sentence(door):
    with pytest.raises(
        SetupError, match=rf"^this is Spark 3\.5\.5, and {door} needs Spark 4\.\d or newer; without Spark hw\.run"
    ):
        refuse_old("3.5.5", door)


def test_through_connect_the_server_has_to_be_new_enough():
    pytest.importorskip("pyspark")
    with pytest.raises(SetupError, match=r"this is Spark 3\.5\.1, and hw\.read needs"):
        check_spark(Session("3.5.1"), "hw.read")
    assert not serves(Session("4.0.0"), "hw.stream") and serves(Session("4.0.0"), "hw.read")


def test_releases_behind_4_3_are_served():
    for door in DOORS:
        refuse_old("5.0.0-preview1", door)
