"""Spark's log of offsets at a start: one that another driver has put in the place of the right one goes."""

import json

import pytest

from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.start.spark_log import drop_replaced_offset

OFFSET = {"batch": 0, "ends": {"a": 5}}


def logged(place, offset) -> None:
    (place / "offsets").mkdir(parents=True, exist_ok=True)
    text = offset if isinstance(offset, str) else f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(offset)}'
    (place / "offsets" / "0").write_text(text)
    (place / "offsets" / ".0.crc").write_bytes(b"crc")


@pytest.mark.parametrize(
    ("fixed", "stored", "is_left"),
    [
        (None, OFFSET, True),
        (OFFSET, OFFSET, True),
        (OFFSET, {**OFFSET, "ends": {"a": 9}}, False),
        (OFFSET, "", False),
        (OFFSET, "v1\n{", False),
    ],
)
def test_an_offset_that_is_not_the_one_its_batch_was_begun_with_is_removed(tmp_path, fixed, stored, is_left):
    checkpoint = StreamCheckpoint(tmp_path / "headwater")
    checkpoint.prepare()
    if fixed is not None:
        checkpoint.fix(0, 1, fixed)
    logged(tmp_path / "spark", stored)
    drop_replaced_offset(tmp_path / "spark", checkpoint)
    assert (tmp_path / "spark" / "offsets" / "0").exists() == is_left
    assert (tmp_path / "spark" / "offsets" / ".0.crc").exists() == is_left
