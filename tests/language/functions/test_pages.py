"""The pages about functions: their classes are accepted as they stand, and their examples give what they show."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.language.functions.program import program_of

DOCS = Path(__file__).parents[3] / "docs"


def test_the_classes_of_the_page_are_accepted_and_have_the_stages_that_it_names() -> None:
    page = (DOCS / "functions.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    functions = [each for each in names.values() if isinstance(each, type) and issubclass(each, hw.ProcessingFunction)]
    assert [function.__name__ for function in functions] == [
        "BidShare",
        "Revenue",
        "Peaks",
        "Shares",
        "HotItems",
        "Shop",
    ]
    assert all(program_of(function).digest() for function in functions)
    peaks = program_of(names["Peaks"])
    assert [(table.states, table.level) for table in peaks.tables] == [(("bids",), 0), (("peaks",), 1)]
    assert [(handler.name, handler.stage) for handler in peaks.handlers] == [("second", 1), ("minute", 2)]
    assert [handler.name for handler in program_of(names["Shop"]).handlers] == ["hot.report", "compare"]
    assert names["hot"].query().keys == ("auction",)


def test_the_zoo_gives_what_its_page_shows() -> None:
    failed, tried = doctest.testfile(str(DOCS / "crdts.md"), module_relative=False, encoding="utf-8")
    assert (failed, tried > 10) == (0, True)


def test_every_name_of_the_zoo_is_on_its_page() -> None:
    page = (DOCS / "crdts.md").read_text(encoding="utf-8")
    assert [name for name in hw.crdts.__all__ if name not in page] == []
