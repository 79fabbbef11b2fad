"""The demo's windows as one HTML file that needs nothing else: drawn, and the last of them as tables."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pyarrow as pa

import headwater as hw
from headwater.demo.drawing import bars, lines
from headwater.demo.tables import HEADINGS, readable
from headwater.language.notebooks.words import query_in_words

ROWS_SHOWN = 8
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>headwater demo</title>
<style>{style}</style>
</head>
<body>
<h1>headwater demo</h1>
<p class="muted">{summary}</p>
<main>{cards}</main>
</body>
</html>
"""
_STYLE = """
:root { color-scheme: light dark; --ground: #f5f7f9; --panel: #fff; --ink: #15202b; --muted: #566472; --line: #e2e8ee;
  --s0: #0a7585; --s1: #c2571a; --s2: #6b4fbb; --s3: #3f8f29; --s4: #b83280; --s5: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --ground: #0e1318; --panel: #161d24; --ink: #e7edf3; --muted: #9aa8b6;
  --line: #28323c; --s0: #45c1d3; --s1: #f0955b; --s2: #a893f0; --s3: #86cc6d; --s4: #ec7ab8; --s5: #9aa8b6; } }
* { box-sizing: border-box; margin: 0; }
body { background: var(--ground); color: var(--ink); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif;
  font-variant-numeric: tabular-nums; max-width: 1500px; margin: 0 auto; padding: 20px; }
h1 { font-size: 20px; } h2 { font-size: 15px; } .muted, th, .asks { color: var(--muted); }
main { display: grid; gap: 14px; margin-top: 16px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); }
article { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; overflow-x: auto; }
.asks { font-size: 12.5px; margin: 4px 0 2px; font-family: ui-monospace, Menlo, Consolas, monospace; }
svg { display: block; width: 100%; height: auto; margin: 10px 0; }
svg text { fill: var(--muted); font: 10.5px system-ui, sans-serif; }
svg .grid { stroke: var(--line); }
svg .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
svg .s0 { stroke: var(--s0); } svg .s1 { stroke: var(--s1); } svg .s2 { stroke: var(--s2); }
svg .s3 { stroke: var(--s3); } svg .s4 { stroke: var(--s4); } svg .s5 { stroke: var(--s5); }
svg .bar { stroke-width: 9; } svg .dot { fill: var(--panel); stroke-width: 1.2; }
table { border-collapse: collapse; width: 100%; font-size: 13px; white-space: nowrap; }
th { font-weight: 500; font-size: 12px; }
th, td { text-align: right; padding: 3px 0 3px 14px; border-top: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; } tr:first-child th { border: 0; }
"""


def write_page(path: Path, asked: dict[hw.Query, str], found: dict[str, pa.Table], summary: str) -> None:
    """Write the rows of all queries, each with what it asks and its drawing."""
    cards = "".join(_card(query, meaning, found[query.name]) for query, meaning in asked.items())
    path.write_text(_PAGE.format(style=_STYLE, summary=escape(summary), cards=cards), encoding="utf-8")


def page_of(out: Path) -> Path:
    """Where the page of a demo is whose rows are in this folder: beside it, for what is in it belongs to Spark.

    >>> page_of(Path("headwater-demo")).name
    'headwater-demo.html'
    """
    return out.with_name(f"{out.name}.html")


def _card(query: hw.Query, meaning: str, rows: pa.Table) -> str:
    # Of windows whose ends events decide it is these that one wants to see.
    draw = bars if query.window.is_context and query.window.measure == "time" else lines
    return (
        f"<article><h2>{escape(query.name)}</h2><p>{escape(meaning)}; {rows.num_rows:,} rows</p>"
        f'<p class="asks">{escape(query_in_words(query))}</p>{draw(query, rows)}{_table(query, rows)}</article>'
    )


def _table(query: hw.Query, rows: pa.Table) -> str:
    """The last rows."""
    place = ("position_start", "position_end") if query.window.measure == "count" else ("window_start", "window_end")
    names = [*place, *query.keys, *(alias for alias, _ in query.aggregates)]
    head = "".join(f"<th>{escape(HEADINGS.get(name, name))}</th>" for name in names)
    last = rows.slice(max(0, rows.num_rows - ROWS_SHOWN)).to_pylist()
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(readable(name, row[name]))}</td>' for name in names)}</tr>"
        for row in reversed(last)
    )
    return f"<table><tr>{head}</tr>{body}</table>"
