"""YAML and JSON files with the place of each value, so that a sentence can say where a mistake stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from headwater.errors import shown
from headwater.job.file.problems import FilePlace, JobError, JobProblem

#: How deep values may stand in each other: a file that is deeper is no job, and a recursion would end in the middle.
DEPTH_MAX: Final = 60


@dataclass(frozen=True)
class Located:
    """A value of a file and where it stands. ``inner``: what a mapping holds by its names, or a list by its numbers.

    ``names``: where the names of a mapping stand. ``node``: as YAML has it.
    """

    value: Any
    place: FilePlace
    node: yaml.Node
    inner: dict[Any, Located] = field(default_factory=dict)
    names: dict[Any, FilePlace] = field(default_factory=dict)

    def found(self, path: Sequence[object]) -> Located:
        """What stands at a path, or the innermost value on the way that is there."""
        at = self
        for step in path:
            if step not in at.inner:
                break
            at = at.inner[step]
        return at

    def walked(self, path: tuple[object, ...] = ()) -> Iterator[tuple[tuple[object, ...], Located]]:
        """This value and all in it, each with its path."""
        yield path, self
        for name, inner in self.inner.items():
            yield from inner.walked((*path, name))


def read_document(path: Path, file: str | None = None) -> Located:
    """The file as values with places; a JobError if it is not there, is no YAML, or names something twice."""
    file = str(path) if file is None else file
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        told = f"there is no such file: headwater init > {file} writes one to begin with"
        raise JobError([JobProblem(FilePlace(file, 1, 1), told)]) from error
    except OSError as error:
        raise JobError([JobProblem(FilePlace(file, 1, 1), f"the file cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise JobError([JobProblem(FilePlace(file, 1, 1), f"the file is not UTF-8 ({error.reason})")]) from error
    return parse_document(text, file)


def parse_document(text: str, file: str) -> Located:
    """The text as values with places.

    >>> found = parse_document("source: events/\\nsinks:\\n  load: out", "job.yaml")
    >>> str(found.found(["sinks", "load"]).place), found.value["source"]
    ('job.yaml:3:9', 'events/')
    """
    # Not the loader in C, as for files of queries: very deep ones end the process there.
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            raise JobError(
                [JobProblem(FilePlace(file, 1, 1), "the file is empty: headwater init writes one to begin with")]
            )
        reader = _Reader(loader, file)
        document = reader.located(node, ())
    except yaml.MarkedYAMLError as error:
        raise JobError([_not_yaml(text, file, error)]) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        told = str(error).partition("\n")[0]
        raise JobError([JobProblem(FilePlace(file, 1, 1), f"this is not YAML: {told}")]) from error
    finally:
        loader.dispose()
    if reader.problems:
        raise JobError(reader.problems)
    return document


def _not_yaml(text: str, file: str, error: yaml.MarkedYAMLError) -> JobProblem:
    mark = error.problem_mark or error.context_mark
    place = FilePlace(file, 1, 1) if mark is None else FilePlace(file, mark.line + 1, mark.column + 1)
    # The end of a file is behind its last line.
    line = "".join(text.splitlines()[place.line - 1 : place.line])
    hint = ""
    if "${" in line:
        # Between braces YAML takes the brace of a variable for one of its own.
        hint = "; between braces a variable stands in quotes, '${NAME}'"
    elif error.context_mark is not None and error.context_mark.line + 1 < place.line:
        hint = f" ({error.context} that begins at line {error.context_mark.line + 1})"
    return JobProblem(place, f"this is not YAML: {error.problem}{hint}")


class _Reader:
    """Makes values of nodes, and notes names that stand twice."""

    def __init__(self, loader: yaml.SafeLoader, file: str) -> None:
        self._loader, self._file = loader, file
        self.problems: list[JobProblem] = []
        self._seen: set[int] = set()

    def located(self, node: yaml.Node, path: tuple[object, ...]) -> Located:
        place = self._place(node)
        if len(path) > DEPTH_MAX:
            raise JobError([JobProblem(place, f"values stand in each other more than {DEPTH_MAX} deep")])
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place, path)
        if isinstance(node, yaml.SequenceNode):
            inner = {number: self.located(each, (*path, number)) for number, each in enumerate(node.value)}
            return Located([each.value for each in inner.values()], place, node, dict(inner))
        return Located(self._loader.construct_object(node), place, node)

    def _mapping(self, node: yaml.MappingNode, place: FilePlace, path: tuple[object, ...]) -> Located:
        self._refuse_doubled(node, path)
        self._loader.flatten_mapping(node)
        pairs = {self._name(key): (self._place(key), value) for key, value in node.value}
        inner = {name: self.located(value, (*path, name)) for name, (_, value) in pairs.items()}
        names = {name: where for name, (where, _) in pairs.items()}
        return Located({name: each.value for name, each in inner.items()}, place, node, inner, names)

    def _refuse_doubled(self, node: yaml.MappingNode, path: tuple[object, ...]) -> None:
        if id(node) in self._seen:
            return  # an alias: what it merges stands in it by now
        self._seen.add(id(node))
        first: dict[str, FilePlace] = {}
        for key, _ in node.value:
            name, where = self._name(key), self._place(key)
            if name in first:
                again = (
                    f"{dotted((*path, name))} stands here again: name each field once, it is in line {first[name].line}"
                )
                self.problems.append(JobProblem(where, again))
            first.setdefault(name, where)

    def _name(self, key: yaml.Node) -> str:
        # As it is written: YAML would take `on` and `no` for truth values, and 1 for a number.
        if not isinstance(key, yaml.ScalarNode):
            raise JobError([JobProblem(self._place(key), "a name is a list or a mapping: write plain text")])
        return str(key.value)

    def _place(self, node: yaml.Node) -> FilePlace:
        return FilePlace(self._file, node.start_mark.line + 1, node.start_mark.column + 1)


def dotted(path: Sequence[object]) -> str:
    """A path as people write it.

    >>> dotted(("queries", 0, "window", "size")), dotted(("sinks", "per house"))
    ('queries[0].window.size', "sinks.'per house'")
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = str(step) if str(step).replace("_", "").replace("-", "").isalnum() else shown(str(step))
            text += f".{name}" if text else name
    return text or "the file"
