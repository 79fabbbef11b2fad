"""A board for tests that are about the page and not about a stream."""

from __future__ import annotations

from dataclasses import replace

from headwater.page.board import Diary, Reading, WindowTable


class MadeUpBoard:
    """Shows what it is given."""

    def __init__(self) -> None:
        self.now = Reading("made up", batch=1, events=7)
        self.tables: list[WindowTable] = []
        self.diary = Diary()
        self.is_broken = False

    def reading(self) -> Reading:
        if self.is_broken:
            raise RuntimeError("nobody knows")
        return self.now

    def windows(self, version: int) -> list[WindowTable]:
        return [table for table in self.tables if table.version > version]

    def happenings(self, number: int) -> list:
        return self.diary.after(number)

    def change(self, **fields) -> None:
        self.now = replace(self.now, **fields)
