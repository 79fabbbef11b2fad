"""Small HTML for notebooks: escaped, complete in itself, and without a colour of its own, so that it reads on any background."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table of texts.

    >>> html_table(["n"], [["<3>"]], "1 row")
    '<table><caption>1 row</caption><tr><th>n</th></tr><tr><td>&lt;3&gt;</td></tr></table>'
    """
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    heading = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{above}<tr>{heading}</tr>{body}</table>"


def html_facts(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """One thing and what is known of it, line by line; what is empty is left out.

    >>> html_facts("load", [("keys", "house"), ("where", "")])
    '<table><caption>load</caption><tr><th style="text-align: left">keys</th><td style="text-align: left">house</td></tr></table>'
    """
    left = 'style="text-align: left"'
    lines = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(text)}</td></tr>"
        for name, value in facts
        if (text := str(value))
    )
    return f"<table><caption>{escape(title)}</caption>{lines}</table>"
