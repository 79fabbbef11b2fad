"""What is wrong in a job file: each mistake is one sentence, with where it stands and what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headwater.errors import HeadwaterError


class FilePlace(NamedTuple):
    """Where something stands: a file, and line and column as editors count them, from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class JobProblem(NamedTuple):
    """One mistake.

    >>> print(JobProblem(FilePlace("job.yaml", 4, 7), "idle is '5 sx': write a duration with its unit, such as '30 s'"))
    job.yaml:4:7: idle is '5 sx': write a duration with its unit, such as '30 s'
    """

    place: FilePlace
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


class JobError(HeadwaterError):
    """A job file that cannot be run; all its mistakes, in the order of their lines."""

    def __init__(self, problems: Iterable[JobProblem]) -> None:
        self.problems: Sequence[JobProblem] = sorted(
            set(problems), key=lambda problem: (*problem.place, problem.sentence)
        )
        super().__init__("\n".join(map(str, self.problems)))


def meant(given: object, known: Iterable[str]) -> str:
    """What was probably meant, as the beginning of the rest of a sentence; nothing if that is not clear.

    >>> meant("sourse", ["source", "sinks"]), meant("x", ["source"])
    ("did you mean 'source'? ", '')
    """
    close = difflib.get_close_matches(str(given), list(known), n=1)
    return f"did you mean {close[0]!r}? " if close else ""
