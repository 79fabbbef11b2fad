"""Writes docs/windows.md: the template beside this file, with stories of tests/transcripts put in and drawn.

`make pages` runs it, and a test compares the page with what it writes. A line `{{ name }}` of the template becomes a
drawing of that transcript, made from its events and rows, and the story itself; `{{ story name }}` the story alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "windows.md"
TEMPLATE = Path(__file__).with_name("windows.template.md")
TRANSCRIPTS = ROOT / "tests" / "transcripts"

#: Markers are drawn as letters and signs, all other events as an o.
MARKERS = {"stop": "S", "on": "+", "off": "-"}
LABEL_WIDTH = 12
COLUMNS_MAX = 80


@dataclass(frozen=True)
class Event:
    """An event of a story, where the order puts it."""

    time: int
    source: str
    glyph: str


@dataclass(frozen=True)
class Row:
    """A result row of a story: its window, and what it says."""

    query: str
    start: int
    end: int
    says: str


@dataclass(frozen=True)
class Story:
    """A transcript: its lines as they are, its events in order, its rows as they come out."""

    text: str
    events: list[Event]
    rows: list[Row]

    @classmethod
    def read(cls, name: str) -> Story:
        text = (TRANSCRIPTS / f"{name}.txt").read_text(encoding="utf-8")
        found = re.findall(r"^(\w+)(?:@\w+)? time=(-?\d+)(.*)$", text, re.MULTILINE)
        events = [Event(int(time), source, _glyph(rest)) for source, time, rest in found]
        said = re.findall(r"^ +-> (\w+) (-?\d+)\.\.(-?\d+)(.*)$", text, re.MULTILINE)
        rows = [Row(query, int(start), int(end), _said(rest)) for query, start, end, rest in said]
        # The sort is stable: events of one source and time stay in the order of their offsets.
        return cls(text, sorted(events, key=lambda event: (event.time, event.source.encode())), rows)

    @property
    def counts(self) -> bool:
        return bool(re.search(r"^query \w+: count_", self.text, re.MULTILINE))

    @property
    def includes_ends(self) -> bool:
        return bool(re.search(r"^query \w+: between", self.text, re.MULTILINE))


def _glyph(rest: str) -> str:
    kind = re.search(r'kind="(\w+)"', rest)
    return MARKERS.get(kind[1], "o") if kind else "o"


def _said(rest: str) -> str:
    """The values of a row, and its revision if it has one.

    >>> _said(" | n=4 total=11 | events=4 revision=1 replaces 0..6#0")
    'n=4 total=11, revision=1 replaces 0..6#0'
    """
    keys, values, more = (part.strip() for part in rest.split("|"))
    revision = re.search(r"revision=.*", more)
    told = " ".join(part for part in (keys, values) if part)
    return told + (f", {revision[0]}" if revision else "")


@dataclass(frozen=True)
class Scale:
    """Where times lie in a line of text."""

    low: int
    high: int
    step: int

    @classmethod
    def of(cls, story: Story) -> Scale:
        times = [event.time for event in story.events]
        if not story.counts:
            times += [bound for row in story.rows for bound in (row.start, row.end)]
        low, high = min(times) // 5 * 5, -(-max(times) // 5) * 5
        return cls(low, high, 2 if 2 * (high - low) <= COLUMNS_MAX else 1)

    def column(self, time: int) -> int:
        return (time - self.low) * self.step

    def axis(self) -> tuple[str, str]:
        """Times above, ticks below."""
        width = self.column(self.high) + 1
        names, ticks = [" "] * (width + 4), ["-"] * width
        for time in range(self.low, self.high + 1, 5):
            ticks[self.column(time)] = "+"
            if time % 10 == 0:
                names[self.column(time) : self.column(time) + len(str(time))] = str(time)
        return "".join(names).rstrip(), "".join(ticks)


def drawing(story: Story) -> str:
    """The story's events over a time line, and a bar for each row that came out."""
    scale = Scale.of(story)
    names, ticks = scale.axis()
    lines = [("time", names), ("", ticks), ("events", _dots(story, scale, [event.glyph for event in story.events]))]
    if story.counts:
        numbers = [str(number % 10) for number in range(len(story.events))]
        lines.append(("position", _dots(story, scale, numbers)))
    width = scale.column(scale.high) + 3
    several = len({row.query for row in story.rows}) > 1
    for row in story.rows:
        label = f"{row.query} {row.start}..{row.end}" if several else f"{row.start}..{row.end}"
        lines.append((label, f"{_bar(story, scale, row):<{width}}{row.says}"))
    longest = max(LABEL_WIDTH, *(len(label) + 2 for label, _ in lines))
    return "\n".join(f"{label:<{longest}}{line}".rstrip() for label, line in lines)


def _dots(story: Story, scale: Scale, glyphs: list[str]) -> str:
    line = [" "] * (scale.column(scale.high) + 1)
    for event, glyph in zip(story.events, glyphs):
        line[scale.column(event.time)] = glyph
    return "".join(line).rstrip()


def _bar(story: Story, scale: Scale, row: Row) -> str:
    """From the start to the end of a window; of a count window from its first event to its last."""
    if story.counts:
        first, last = scale.column(story.events[row.start].time), scale.column(story.events[row.end - 1].time)
    else:
        first, last = scale.column(row.start), scale.column(row.end)
    closing = "]" if story.counts or story.includes_ends else ")"
    return " " * first + "[" + "=" * (last - first - 1) + closing


def page() -> str:
    """The whole page."""
    template = TEMPLATE.read_text(encoding="utf-8")
    place = re.compile(r"^\{\{ (story )?(\w+) \}\}$", re.MULTILINE)
    return place.sub(lambda found: _told(found[2], is_drawn=not found[1]), template)


def _told(name: str, is_drawn: bool) -> str:
    story = Story.read(name)
    shown = f"```text\n{drawing(story)}\n```\n\n" if is_drawn else ""
    return f"{shown}`tests/transcripts/{name}.txt`:\n\n```text\n{story.text.rstrip()}\n```"


if __name__ == "__main__":
    OUT.write_text(page(), encoding="utf-8")
