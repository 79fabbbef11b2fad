"""docs/messages.md has what new users are told, as it is told."""

import os

import pytest

from headwater.spark.doors import serves
from spark.mistakes import MISTAKES, OUT, page

pytestmark = pytest.mark.spark


def test_the_page_of_messages_says_what_is_said(spark, tmp_path, monkeypatch):
    if not serves(spark, "hw.stream"):
        pytest.skip("mistakes with streams are told only where there are any")
    monkeypatch.chdir(tmp_path)
    found = page(spark, tmp_path)
    if os.environ.get("REWRITE"):
        OUT.write_text(found, encoding="utf-8")
    assert OUT.read_text(encoding="utf-8") == found, "REWRITE=1 writes docs/messages.md anew"
    assert len(MISTAKES) >= 30
    assert "Traceback" not in found and "\n> TypeError" not in found.replace("> TypeError: a condition", "")
