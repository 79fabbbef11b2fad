"""Paths as users write them, with patterns such as `events/day=*/**/*.csv`.

The root of a pattern is the longest part without any of `* ? [ {`; names of files, and so of sources, are those below it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_SPECIAL = re.compile(r"[*?\[{]")


def is_hidden(name: str) -> bool:
    """Whether a file or folder counts as not there; "_" hides nothing in the names of columns, as in Spark."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


@dataclass(frozen=True)
class PathPattern:
    """Files below a folder whose names match, or lie below a folder that does; ``*`` stays within a name, ``**`` does not.

    >>> pattern = PathPattern("day=*/**/*.csv")
    >>> [pattern.matches(name) for name in ("day=1/a.csv", "day=1/b/c/a.csv", "a.csv", "day=1/a.txt")]
    [True, True, False, False]
    >>> PathPattern("day={1,2}").matches("day=2/a.csv"), PathPattern("**/x.csv").may_lead_to("any/where")
    (True, True)
    """

    text: str

    @cached_property
    def _parts(self) -> list[str]:
        return self.text.split("/")

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        *above, last = self._parts
        folders = "".join("(?:[^/]+/)*" if part == "**" else f"{_expression(part)}/" for part in above)
        return re.compile(folders + ("(?:[^/]+/)*[^/]+" if last == "**" else _expression(last)) + "(?:/.*)?", re.DOTALL)

    def matches(self, name: str) -> bool:
        """Whether the pattern means the file of this name below the root."""
        return self._whole.fullmatch(name) is not None

    def may_lead_to(self, folder: str) -> bool:
        """Whether a folder below the root may hold such files."""
        for part, name in zip(self._parts, folder.split("/"), strict=False):
            if part == "**":
                return True
            if re.fullmatch(_expression(part), name) is None:
                return False
        return True


def split_pattern(path: Path) -> tuple[Path, PathPattern | None]:
    """The root of a pattern and the pattern below it; a path that is there, or has nothing special, is itself.

    >>> root, pattern = split_pattern(Path("events/day=*/*.csv"))
    >>> str(root), pattern.text
    ('events', 'day=*/*.csv')
    """
    parts = path.parts
    first = next((place for place, part in enumerate(parts) if _SPECIAL.search(part)), None)
    if first is None or os.path.lexists(path):
        return path, None
    return Path(*parts[:first]), PathPattern("/".join(parts[first:]))


def _expression(part: str) -> str:
    """One name of a pattern as a regular expression."""
    found, at, depth = "", 0, 0
    while at < len(part):
        char = part[at]
        end = part.find("]", at + 2) if char == "[" else -1
        if end > 0:
            inner = part[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            found += f"[^/{inner[1:]}]" if inner[0] in "!^" else f"[{inner}]"
            at = end
        elif char in "*?":
            found += "[^/]*" if char == "*" else "[^/]"
        elif char == "{" and "}" in part[at:]:
            found, depth = found + "(?:", depth + 1
        elif char in ",}" and depth:
            found, depth = (found + "|", depth) if char == "," else (found + ")", depth - 1)
        else:
            found += re.escape(char)
        at += 1
    return found + ")" * depth
