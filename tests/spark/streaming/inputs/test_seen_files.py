"""The log of seen files against a plain list: whatever is forgotten, what may be asked for is there, and no more for long."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import DataError
from headwater.spark.streaming.errors import CheckpointError
from headwater.spark.streaming.inputs.seen_files import TOGETHER_MIN, SeenFile, SeenFiles

pytestmark = pytest.mark.usefixtures("no_sync")

ROWS = 3


def file(source: str, number: int, reason: str | None = None) -> SeenFile:
    return SeenFile(source, f"{source}/{number}.csv", "csv", 0 if reason else ROWS, 10, 1, reason)


class Folder:
    """Files that come, are read and go; each source as a plain list of its rows."""

    def __init__(self, place: Path, seed: int) -> None:
        self.dice, self.place = Random(seed), place
        self.gone: set[str] = set()
        self.rows: dict[str, list[tuple[str, int]]] = {"a": [], "b": []}
        self.holds = dict.fromkeys(self.rows, 0)
        self.seen = self.opened()

    def opened(self) -> SeenFiles:
        return SeenFiles(self.place, lambda names: self.gone & set(names))

    def come(self, number: int) -> None:
        source = self.dice.choice("ab")
        if self.dice.random() < 0.1:
            self.seen.add([file(source, number, "it is broken")])
            self.gone.add(f"{source}/{number}.csv")
            return
        self.seen.add([file(source, number)])
        self.rows[source] += [(f"{source}/{number}.csv", row) for row in range(ROWS)]

    def read(self) -> None:
        """What is before a hold is not asked for again, and its files may go."""
        for source, rows in self.rows.items():
            self.holds[source] = self.dice.randint(self.holds[source], len(rows))
            self.gone |= {name for name, _ in rows[: self.holds[source]]} - {
                name for name, _ in rows[self.holds[source] :]
            }
        self.seen.pass_over(dict(self.holds))

    def check(self) -> None:
        for source, rows in self.rows.items():
            begin = self.dice.randint(self.holds[source], len(rows))
            between = self.seen.between(source, begin, len(rows))
            found = [(each.path, skip + row) for each, skip, count in between for row in range(count)]
            assert found == rows[begin:]
        assert self.seen.ends == {source: len(rows) for source, rows in self.rows.items() if rows}


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_all_that_may_be_asked_for_is_there_whatever_is_forgotten(seed):
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(Path(place), seed)
        for number in range(3 * TOGETHER_MIN):
            folder.come(number)
            if folder.dice.random() < 0.3:
                folder.read()
            if folder.dice.random() < 0.1:
                folder.seen = folder.opened()
                folder.seen.refresh()
                folder.seen.pass_over(dict(folder.holds))
            folder.check()


def test_files_that_were_read_and_are_gone_are_forgotten(tmp_path):
    folder = Folder(tmp_path, 0)
    for number in range(20 * TOGETHER_MIN):
        folder.come(number)
        folder.holds = {source: len(rows) for source, rows in folder.rows.items()}
        folder.gone |= {name for rows in folder.rows.values() for name, _ in rows}
        folder.seen.pass_over(dict(folder.holds))
    assert len(folder.seen.paths) <= 2 * TOGETHER_MIN
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 20_000


def test_rows_that_were_forgotten_are_an_error_and_nothing_else(tmp_path):
    folder = Folder(tmp_path, 0)
    for number in range(2 * TOGETHER_MIN):
        folder.seen.add([file("a", number)])
        folder.seen.pass_over({"a": ROWS * number})
    with pytest.raises(DataError, match=r"the rows \[0, \d+\) of source 'a' were read and forgotten"):
        list(folder.seen.between("a", 0, 2 * ROWS * TOGETHER_MIN))


def test_no_bit_of_the_log_of_seen_files_can_be_flipped_unseen(tmp_path):
    folder = Folder(tmp_path, 0)
    folder.seen.add([file("a", 1), file("b", 2)])
    (part,) = tmp_path.iterdir()
    data = part.read_bytes()
    for place, bit in product(range(len(data)), range(8)):
        part.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
        with pytest.raises((DataError, CheckpointError), match=f"{part.name}: this part of .* is damaged"):
            folder.opened().refresh()
