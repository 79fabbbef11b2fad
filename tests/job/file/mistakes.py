"""Twenty planted mistakes of people who write job files, each with the sentence it gets."""

from __future__ import annotations

from typing import NamedTuple

#: A job that is in order, over files that a test lays beside it.
JOB = """\
headwater: 1
source: {type: folder, path: events}
time: at
disorder: 5 s
idle: 30 s
queries:
  - name: load
    window: {type: sliding, size: 1 min, slide: 10 s}
    keys: [house]
    aggregates:
      mean: {function: avg, column: load}
  - name: active
    window: {type: session, gap: 30 s}
    aggregates: {n: {function: count}}
    where: {column: load, ">": 0}
sinks:
  load: {type: folder, path: out/load, every: 1 min}
  active: out/active
  aside: out/aside
metrics: {port: 9108}
"""


class Mistake(NamedTuple):
    """``wrong`` in the place of ``right`` in `JOB`, and what is said of it. ``is_structural``: a schema sees it too."""

    name: str
    right: str
    wrong: str
    sentence: str
    is_structural: bool = True
    #: What is said beside it: of a name that is wrong, that the right one is missed.
    also: str | None = None

    def __str__(self) -> str:
        return self.name


def written(mistake: Mistake) -> str:
    """The job with the mistake in it."""
    assert JOB.count(mistake.right) == 1, mistake.right
    return JOB.replace(mistake.right, mistake.wrong)


_JOB_FIELDS = (
    "headwater, source, queries, sinks, name, rename, home, time, disorder, idle, ahead_max, strict, trigger, end, checkpoint, "
    "spark, metrics, page"
)
_QUERY_FIELDS = "name, window, aggregates, keys, where, distinct, lateness, emit_empty, scope, sums, home"

MISTAKES = [
    Mistake(
        "a field is misspelled",
        "disorder: 5 s",
        "disordre: 5 s",
        f"4:1: disordre is no field: did you mean 'disorder'? It has {_JOB_FIELDS}",
    ),
    Mistake(
        "a field is missing",
        "source: {type: folder, path: events}\n",
        "",
        "1:1: source is missing: say what to read: a folder such as events/, or {type: folder, path: ...} and so on",
    ),
    Mistake(
        "the version is another",
        "headwater: 1",
        "headwater: 2",
        "1:12: headwater is 2: this release reads version 1: write headwater: 1",
    ),
    Mistake(
        "the type of the source is unknown",
        "type: folder, path: events",
        "type: foldr, path: events",
        "2:16: source.type is 'foldr': did you mean 'folder'? Use one of folder, files, log, kafka, generators",
    ),
    Mistake(
        "the type of a sink is missing",
        "{type: folder, path: out/load, every: 1 min}",
        "{path: out/load}",
        "17:9: sinks.load.type is missing: use one of folder, log, kafka, console, table, postgres",
    ),
    Mistake(
        "a duration has no such unit",
        "disorder: 5 s",
        "disorder: 5 parsecs",
        "4:11: disorder is '5 parsecs': write a duration such as '10 s', or a whole number of ticks",
        is_structural=False,
    ),
    Mistake(
        "a time of the clock has no unit",
        "idle: 30 s",
        "idle: 30",
        "5:7: idle is 30: write a duration with its unit, such as '30 s'",
    ),
    Mistake(
        "a sink is a URL",
        "active: out/active",
        "active: s3://bucket/active",
        "18:11: sinks.active is 's3://bucket/active': s3:// is not served; name a folder of this machine, or another type "
        "of sink",
        is_structural=False,
    ),
    Mistake(
        "a sink is a table by its looks",
        "active: out/active",
        "active: main.iot.active",
        "18:11: sinks.active is 'main.iot.active': this looks like a table; write {type: table, name: main.iot.active}, or "
        "./main.iot.active for a folder",
        is_structural=False,
    ),
    Mistake(
        "a sink is of no query",
        "active: out/active",
        "activ: out/active",
        "18:3: sinks.activ is no query: did you mean 'active'? There is 'load', 'active', 'aside'",
        is_structural=False,
        also="17:3: sinks.active is missing: say where its rows go, such as active: out/active",
    ),
    Mistake(
        "a variable stands where no secret may",
        "path: events}",
        "path: '${EVENTS}'}",
        "2:30: source.path is '${EVENTS}': variables are for secrets only (dsn of postgres, options of Kafka, token of the "
        "page); write the value itself",
        is_structural=False,
    ),
    Mistake(
        "a variable is not set",
        "active: out/active",
        "active: {type: postgres, dsn: '${HEADWATER_NO_SUCH}', table: active}",
        "18:33: sinks.active.dsn is '${HEADWATER_NO_SUCH}': the variable HEADWATER_NO_SUCH is not set in the environment; set "
        "it, as in HEADWATER_NO_SUCH=... headwater run",
        is_structural=False,
    ),
    Mistake(
        "a port is no port",
        "port: 9108",
        "port: 91080",
        "20:17: metrics.port is 91080: give a port between 0 (any that is free) and 65535",
    ),
    Mistake(
        "a value is left empty",
        "idle: 30 s",
        "idle:",
        "5:6: idle is empty: write a duration with its unit, such as '30 s'; or leave it out",
    ),
    Mistake(
        "a field stands twice",
        "idle: 30 s",
        "time: when",
        "5:1: time stands here again: name each field once, it is in line 3",
        is_structural=False,
    ),
    Mistake(
        "a window has no such type",
        "{type: session, gap: 30 s}",
        "{type: sesion, gap: 30 s}",
        "13:20: query 'active': window.type is 'sesion': use one of tumbling, sliding, band, session, punctuated, between, "
        "custom, count_tumbling, count_sliding",
    ),
    Mistake(
        "a query lacks its window",
        "    window: {type: session, gap: 30 s}\n",
        "",
        f"12:5: query 'active': query.window is None: this field is missing; query has {_QUERY_FIELDS}",
    ),
    Mistake(
        "a slide is no duration",
        "slide: 10 s",
        "slide: often",
        "8:49: query 'load': window.slide is 'often': write a duration such as '10 s', '5 min', '250 ms', a timedelta, or an "
        "integer of ticks",
        is_structural=False,
    ),
    Mistake(
        "queries have one name",
        "- name: active",
        "- name: load",
        "12:11: query 'load': another query has this name, in line 7; name each once",
        is_structural=False,
        also="18:3: sinks.active is no query: there is 'load', 'aside'",
    ),
    Mistake(
        "a column is not in the data",
        "column: load}\n  - name",
        "column: lode}\n  - name",
        "11:37: query 'load': aggregate 'mean'.column is 'lode': the data has no such column; its columns are 'at', 'house', "
        "'load'",
        is_structural=False,
    ),
    Mistake(
        "the folder is not there",
        "path: events}",
        "path: evnts}",
        "2:9: source: {folder}/evnts: there is no such folder; a stream reads a folder, and goes on as files come to it",
        is_structural=False,
    ),
    Mistake(
        "two sinks share a folder",
        "active: out/active",
        "active: out/load",
        "18:11: sinks.active is 'out/load': sinks.load has this folder; give each its own",
        is_structural=False,
    ),
    Mistake(
        "two sinks share a table",
        "  active: out/active\n  aside: out/aside",
        "  active: {type: table, name: main.w}\n  aside: {type: table, name: main.w}",
        "19:10: sinks.aside is 'main.w': sinks.active has this table; give each its own",
        is_structural=False,
    ),
    Mistake(
        "events set aside are to be revised",
        "aside: out/aside",
        "aside: {type: table, name: main.w, mode: upsert}",
        "19:44: sinks.aside.mode is 'upsert': events that are in no result have no revisions; write mode: append",
        is_structural=False,
    ),
]
