"""The project's own stories, run on every host.

A transcript is a small text file: queries, then what happens, and below each step the rows it brings out (``->``). The
rows are what the reference says; ``HEADWATER_REWRITE=1 pytest tests/test_transcripts.py`` writes them anew, and the diff
is what a reviewer reads. The words of a step:

    query NAME: WINDOW, options and aggregates     as in Python, without the call of query(...)
    disorder N                                     every source's watermark is its largest time minus N
    SOURCE[@NODE] time=N column=value ...          an event; its offset is its place among those of its source
    advance N | advance SOURCE N                   a watermark, of all sources or of one
    join, idle, return SOURCE                      logged decisions about a source
    add NAME at N: WINDOW, ...                     a query becomes active at time N
    remove NAME [drain]                            a query ends, at once or after its open windows
    emit                                           the end of a batch of events (matters with a disorder bound)
    flush                                          the end of the stream
    counters                                       last line: what became of the events
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from headwater.cases import HOSTS
from headwater.language import aggregations, expressions, windows
from headwater.language.query import query
from headwater.reference.history import (
    Added,
    Advanced,
    Arrived,
    Emit,
    Flushed,
    Idle,
    Joined,
    Removed,
    Returned,
    StreamSettings,
)

FOLDER = Path(__file__).parent / "transcripts"
REWRITE = bool(os.environ.get("HEADWATER_REWRITE"))
ARROW = "    -> "
WORDS = {"nan": float("nan"), "inf": float("inf")}


def cut_at_jumps(events, state):
    """Custom windows of the transcripts: a jump of more than 10 in `x` cuts."""
    cuts = []
    for time, x in zip(events["time"].tolist(), events["x"].tolist()):
        if state is not None and abs(x - state) > 10:
            cuts.append(time)
        state = x
    return cuts, state


WORDS["cut_at_jumps"] = cut_at_jumps


class Script(NamedTuple):
    """A transcript read: its lines without the rows, and for each step the line that tells it."""

    lines: list[str]
    settings: StreamSettings
    steps: list
    line_of_step: list[int]


def read(text: str) -> Script:
    lines = [line for line in text.splitlines() if not line.startswith(ARROW)]
    queries, disorder, steps, line_of_step, offsets = [], None, [], [], {}
    for number, line in enumerate(lines):
        if not line or line.startswith("#") or line == "counters":
            continue
        if found := re.fullmatch(r"query (\w+): (.*)", line):
            queries.append(written(*found.groups()))
        elif found := re.fullmatch(r"disorder (\d+)", line):
            disorder = int(found[1])
        else:
            steps.append(read_step(line, offsets))
            line_of_step.append(number)
    return Script(lines, StreamSettings(tuple(queries), disorder=disorder), steps, line_of_step)


def read_step(line: str, offsets: dict[str, int]):
    if found := re.fullmatch(r"advance (?:(\w+) )?(-?\d+)", line):
        return Advanced(found[1], int(found[2]))
    if found := re.fullmatch(r"(join|idle|return) (\w+)", line):
        return {"join": Joined, "idle": Idle, "return": Returned}[found[1]](found[2])
    if found := re.fullmatch(r"add (\w+) at (-?\d+): (.*)", line):
        return Added(written(found[1], found[3]), int(found[2]))
    if found := re.fullmatch(r"remove (\w+)( drain)?", line):
        return Removed(found[1], bool(found[2]))
    if line in ("emit", "flush"):
        return Emit() if line == "emit" else Flushed()
    found = re.fullmatch(r"(\w+)(?:@(\w+))? (time=.*)", line)
    assert found, f"a transcript has no step like {line!r}"
    source = found[1]
    offsets[source] = offsets.get(source, -1) + 1
    row = eval("dict(" + re.sub(r"\s+(?=\w+=)", ", ", found[3]) + ")", dict(WORDS))
    return Arrived(source, offsets[source], row, found[2] or "")


def written(name: str, text: str):
    """A query as its line writes it."""
    words = {**vars(aggregations), **vars(windows), **vars(expressions), **WORDS, "query": query}
    return eval(f"query({name!r}, {text})", words)


def told(script: Script, host) -> str:
    """The transcript with the rows that the host brings out."""
    played = host.play(script.settings, script.steps)
    below = {script.line_of_step[index]: rows for index, rows in played.emitted}
    queries = {q.name: q for q in script.settings.queries}
    queries |= {step.query.name: step.query for step in script.steps if isinstance(step, Added)}
    text = []
    for number, line in enumerate(script.lines):
        text.append(line)
        text += [ARROW + row_text(row, queries[row.query]) for row in below.get(number, ())]
        if line == "counters":
            text += [ARROW + counter_text(name, counts) for name, counts in played.counters.items()]
    return "\n".join(text) + "\n"


def row_text(row, query) -> str:
    keys = [f"{name}={value!r}" for name, value in zip(query.keys, row.key)]
    place = [f"{row.query} {row.start}..{row.end}", *keys, *([f"@{row.node}"] if query.scope == "node" else [])]
    values = [f"{alias}={value!r}" for alias, value in row.values.items()]
    text = [*place, "|", *values, "|", f"events={row.event_count}"]
    if query.window.measure == "count":
        text.append(f"times={row.first_time}..{row.last_time}")
    if row.revision:
        text.append(f"revision={row.revision}")
    if row.replaces:
        text.append("replaces " + ", ".join(f"{start}..{end}#{revision}" for start, end, revision in row.replaces))
    return " ".join(text)


def counter_text(name: str, counts: dict[str, int]) -> str:
    shown = ["in", "filtered", "outside", "member", "late", "dropped", "malformed"]
    return f"{name}: " + " ".join(f"{word}={counts[word]}" for word in shown if word == "in" or counts[word])


@pytest.mark.parametrize("host", sorted(HOSTS))
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_the_story_comes_out_as_written(path, host):
    text = path.read_text(encoding="utf-8")
    if REWRITE and host == "reference":
        path.write_text(told(read(text), HOSTS[host]), encoding="utf-8")
        text = path.read_text(encoding="utf-8")
    assert told(read(text), HOSTS[host]) == text


def test_there_are_stories():
    assert len(list(FOLDER.glob("*.txt"))) >= 10
