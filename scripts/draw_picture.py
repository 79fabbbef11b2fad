"""Draws the README's picture, docs/picture.svg: slices that several windows share, and the tree that computes them.

`make pages` runs it. It needs nothing but Python and gives the same bytes everywhere; a test compares them with the file.
The card has a background of its own, so it can be read on a light page and on a dark one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

OUT = Path(__file__).parent.parent / "docs" / "picture.svg"

WIDTH, HEIGHT = 960, 712
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
PAPER, RULE, INK, SOFT = "#fcfdff", "#d5dce6", "#1d2733", "#5b6878"
BLUE, GREEN, ORANGE, VIOLET = "#2560c4", "#157a53", "#a85a14", "#6a46b5"
PALE = {BLUE: "#e3edfd", GREEN: "#dcf3e8", ORANGE: "#fbead6", VIOLET: "#ece5f9"}

#: Seconds of the time line and where it lies.
SECONDS, LEFT, RIGHT = 40, 200, 900
SLICE = 5
#: When events happen, in seconds; nothing comes for eight seconds in the middle.
EVENTS = (
    *(0.9, 1.7, 3.2, 4.1, 6.3, 7.0, 7.8, 9.4, 10.6, 12.2, 12.9, 14.3, 15.5, 16.4, 17.3),
    *(25.8, 26.9, 28.1, 29.3, 30.4, 31.6, 33.0, 33.8, 35.1, 36.7, 38.2),
)
GAP = 5


def x_of(second: float) -> float:
    """Where a second lies on the time line.

    >>> x_of(0), x_of(40)
    (200.0, 900.0)
    """
    return round(LEFT + (RIGHT - LEFT) * second / SECONDS, 1)


def text(
    x: float, y: float, words: str, size: int = 14, color: str = INK, anchor: str = "start", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    place = f'x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" text-anchor="{anchor}"'
    return f"<text {place}{weight}>{escape(words)}</text>"


def box(x: float, y: float, width: float, height: float, fill: str, line: str = "none", round_by: float = 4) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_by:g}"'
    return f'<rect {place} fill="{fill}" stroke="{line}" stroke-width="1.3"/>'


def line(x1: float, y1: float, x2: float, y2: float, color: str = RULE, width: float = 1.0, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    place = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line {place} stroke="{color}" stroke-width="{width:g}"{dashed}/>'


def arrow(x1: float, y1: float, x2: float, y2: float, color: str = SOFT) -> str:
    """A line with a head, which ends a little before the target."""
    place = f'x1="{x1:g}" y1="{y1:g}" x2="{x2 - 6:g}" y2="{y2:g}"'
    return f'<line {place} stroke="{color}" stroke-width="1.6" marker-end="url(#head)"/>'


def bar(start: float, end: float, y: float, color: str, label: str) -> Iterator[str]:
    """A window over the time line."""
    x, width = x_of(start) + 1.5, x_of(end) - x_of(start) - 3
    yield box(x, y, width, 18, PALE[color], color)
    yield text(x + width / 2, y + 13, label, 11, color, "middle")


def shared_slices() -> Iterator[str]:
    """The upper half: events, the slices they are in, and the windows that are made of slices."""
    yield text(40, 46, "Every event is touched once. Windows are put together from shared slices.", 18, bold=True)
    top, slices, bottom = 84, 116, 338
    for edge in range(0, SECONDS + 1, SLICE):
        yield line(x_of(edge), top - 6, x_of(edge), bottom, RULE, 1, "2 3")
        yield text(x_of(edge), bottom + 18, f"{edge} s", 12, SOFT, "middle")
    yield text(40, top + 9, "events", 14, INK)
    for second in EVENTS:
        yield f'<circle cx="{x_of(second):g}" cy="{top + 4}" r="4" fill="{INK}"/>'
    yield text(40, slices + 14, "slices", 14, INK, bold=True)
    yield text(40, slices + 30, "one partial each", 12, SOFT)
    for start in range(0, SECONDS, SLICE):
        count = sum(start <= second < start + SLICE for second in EVENTS)
        x, width = x_of(start) + 1.5, x_of(start + SLICE) - x_of(start) - 3
        yield box(x, slices, width, 32, "#dfe6ef" if count else "#f3f6fa", "#9aa8b8" if count else RULE)
        label = f"{count} events" if count else "empty"
        yield text(x + width / 2, slices + 21, label, 12, INK if count else SOFT, "middle")
    yield from windows(172)


def windows(y: float) -> Iterator[str]:
    """Three queries over the same slices."""
    yield text(40, y + 13, "tumbling 10 s", 14, BLUE, bold=True)
    for start in range(0, SECONDS, 10):
        yield from bar(start, start + 10, y, BLUE, "2 slices")
    y += 34
    yield text(40, y + 13, "sliding 15 s / 5 s", 14, GREEN, bold=True)
    for start in range(0, SECONDS - 10, SLICE):
        yield from bar(start, start + 15, y + start // SLICE % 3 * 22, GREEN, "3 slices")
    y += 78
    yield text(40, y + 13, "session, gap 5 s", 14, ORANGE, bold=True)
    for events in sessions():
        start, end = events[0], events[-1]
        x, width = x_of(start), x_of(end) - x_of(start)
        reach = min(end + GAP, SECONDS + 1.2)
        yield line(x_of(end), y + 9, x_of(reach), y + 9, ORANGE, 1.6, "3 3")
        yield box(x - 6, y, width + 12, 18, PALE[ORANGE], ORANGE)
        covered = len({int(second) // SLICE for second in events})
        yield text(x + width / 2, y + 13, f"{covered} slices", 11, ORANGE, "middle")


def sessions() -> list[list[float]]:
    """Events of which neighbours are at most the gap apart.

    >>> [len(events) for events in sessions()]
    [15, 11]
    """
    found: list[list[float]] = []
    for second in EVENTS:
        if found and second - found[-1][-1] <= GAP:
            found[-1].append(second)
        else:
            found.append([second])
    return found


def tree() -> Iterator[str]:
    """The lower half: nodes that slice, merge and emit; what travels between them."""
    top = 420
    yield text(40, top, "Slices are cut where events are born. Partials travel instead of events.", 18, bold=True)
    first, step = top + 34, 46
    leaves = [first + number * step for number in range(4)]
    relays = [(leaves[0] + leaves[1]) / 2, (leaves[2] + leaves[3]) / 2]
    middle = (relays[0] + relays[1]) / 2
    for leaf in leaves:
        for offset in (-9, 0, 9):
            yield f'<circle cx="{68 + abs(offset) / 3:g}" cy="{leaf + 15 + offset:g}" r="3.4" fill="{INK}"/>'
        yield arrow(84, leaf + 15, 166, leaf + 15)
        yield from node(166, leaf, 96, "leaf", BLUE)
    for relay, below in zip(relays, (leaves[:2], leaves[2:])):
        for leaf in below:
            yield arrow(262, leaf + 15, 392, relay + 15)
        yield from node(392, relay, 96, "relay", VIOLET)
        yield arrow(488, relay + 15, 634, middle + 15)
    yield from node(634, middle, 96, "root", GREEN)
    yield arrow(730, middle + 15, 815, middle + 15)
    for row in range(4):
        yield box(815, middle - 9 + row * 13, 94, 9, PALE[GREEN], GREEN, 2)
    foot = leaves[-1] + 58
    captions = (
        (70, "sensors", "files, logs, Kafka", ""),
        (214, "slice once", "a partial per slice and key", "on Spark: tasks that read"),
        (440, "merge", "the partials of many leaves", "on Spark: tasks in between"),
        (682, "assemble, prove", "emit each window once", "on Spark: driver or reducers"),
        (862, "rows", "as on one machine", ""),
    )
    for x, words, more, spark in captions:
        yield text(x, foot, words, 14, INK, "middle", bold=True)
        yield text(x, foot + 18, more, 12, SOFT, "middle")
        if spark:
            yield text(x, foot + 36, spark, 12, SOFT, "middle")


def node(x: float, y: float, width: float, name: str, color: str) -> Iterator[str]:
    yield box(x, y, width, 30, PALE[color], color, 6)
    yield text(x + width / 2, y + 20, name, 14, color, "middle", bold=True)


def draw() -> str:
    """The whole picture as SVG."""
    head = f'<path d="M0,0 L8,4 L0,8 z" fill="{SOFT}"/>'
    place = 'viewBox="0 0 8 8" refX="4" refY="4" markerWidth="6" markerHeight="6" orient="auto"'
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    title = "Shared slices under several windows, and the tree of nodes that computes them"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f'<defs><marker id="head" {place}>{head}</marker></defs>',
        box(1, 1, WIDTH - 2, HEIGHT - 2, PAPER, RULE, 12),
        *shared_slices(),
        line(40, 380, WIDTH - 40, 380),
        *tree(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    OUT.write_text(draw(), encoding="utf-8")
