"""A job file against its structs: every misfit is found, not the first alone, each with its line, its path and the right form.

msgspec says of one value whether it fits; of a whole file it would name the first mistake, without a line. So this walks
through the file beside the structs, and asks msgspec about single values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from headwater.errors import HeadwaterError, shown
from headwater.job.file.description import Job
from headwater.job.file.documents import Located, dotted
from headwater.job.file.problems import JobProblem, meant
from headwater.job.file.values import CHECKS
from headwater.job.file.variables import WHERE, has_variable, variable_problem

Path: TypeAlias = tuple[object, ...]
#: What is read elsewhere, by the reader of queries.
_QUERIES: Final = ("queries",)


def structure_problems(document: Located) -> Iterator[JobProblem]:
    """Everything in which a file differs from what a job is made of."""
    yield from _fitting(Job, document, (), "a job is written as fields such as source, queries, sinks")
    for path, found in document.walked():
        if path[:1] == _QUERIES and has_variable(found.value):
            yield _plain_variable(found, path)


def _fitting(type_: Any, found: Located, path: Path, form: str) -> Iterator[JobProblem]:
    """Problems of one value that is to be of a type."""
    plain, metas = _unfolded(type_)
    form = next((meta.description for meta in metas if meta.description), form)
    checks = {name: value for meta in metas for name, value in (meta.extra or {}).items() if value}
    if found.value is None:
        yield JobProblem(found.place, f"{dotted(path)} is empty: {form}; or leave it out")
        return
    if has_variable(found.value):
        yield from _variable(found, path, bool(checks.get("secret")))
        return
    kinds = [kind for kind in _alternatives(plain) if kind is not type(None)]
    structs = [
        kind for kind in kinds if isinstance(_unfolded(kind)[0], type) and issubclass(_unfolded(kind)[0], Struct)
    ]
    if structs and isinstance(found.value, Mapping):
        yield from _struct(structs, found, path)
    elif isinstance(found.value, Mapping) and (mapping := _container(kinds, dict)) is not None:
        for name, inner in found.inner.items():
            yield from _fitting(get_args(mapping)[1], inner, (*path, name), form)
        yield from _checked(checks, found, path, form)
    elif isinstance(found.value, list) and (listed := _container(kinds, list)) is not None:
        yield from _listed(listed, kinds, found, path, form)
    elif not structs or _fits(found.value, [kind for kind in kinds if kind not in structs]):
        yield from _single(plain, metas, found, path, form) or _checked(checks, found, path, form)
    else:
        yield _wrong(found, path, form)


def _struct(structs: list[Any], found: Located, path: Path) -> Iterator[JobProblem]:
    """A mapping that is to be one of some structs: which one its type says, if there are several."""
    tags = {_unfolded(struct)[0].__struct_config__.tag: _unfolded(struct)[0] for struct in structs}
    if None in tags:
        yield from _fields(tags[None], found, path)
        return
    given = found.inner.get("type")
    if given is None:
        yield JobProblem(found.place, f"{dotted((*path, 'type'))} is missing: use one of {', '.join(tags)}")
    elif not isinstance(given.value, str) or given.value not in tags:
        hint = meant(given.value, tags)
        yield _wrong(given, (*path, "type"), f"{hint}{'Use' if hint else 'use'} one of {', '.join(tags)}")
    else:
        yield from _fields(tags[given.value], found, path)


def _fields(struct: type[Struct], found: Located, path: Path) -> Iterator[JobProblem]:
    known = {field.name: field for field in fields(struct)}
    tag = struct.__struct_config__.tag
    names = [*(["type"] if tag else []), *known]
    what = f"a {tag}" if tag else dotted(path) if path else "a job"
    for name, inner in found.inner.items():
        if name in known:
            yield from _fitting(known[name].type, inner, (*path, name), "")
        elif name not in names:
            hint = meant(name, names)
            right = f"{hint}{'It' if hint else what} has {', '.join(names)}"
            yield JobProblem(found.names[name], f"{dotted((*path, name))} is no field: {right}")
    for name, field in known.items():
        if field.required and name not in found.inner:
            form = next((meta.description for meta in _unfolded(field.type)[1] if meta.description), "")
            yield JobProblem(found.place, f"{dotted((*path, name))} is missing: {form}")


def _listed(listed: Any, kinds: list[Any], found: Located, path: Path, form: str) -> Iterator[JobProblem]:
    if not found.value and any(meta.min_length for kind in kinds for meta in _unfolded(kind)[1]):
        yield _wrong(found, path, form)
    for number, inner in found.inner.items():
        yield from _fitting(get_args(listed)[0], inner, (*path, number), form)


def _single(plain: Any, metas: list[Meta], found: Located, path: Path, form: str) -> list[JobProblem]:
    return [] if _fits(found.value, [Annotated[(plain, *metas)] if metas else plain]) else [_wrong(found, path, form)]


def _checked(checks: Mapping[str, Any], found: Located, path: Path, form: str) -> Iterator[JobProblem]:
    """What the type cannot say."""
    if (name := checks.get("check")) is None:
        return
    try:
        CHECKS[name](found.value)
    except (HeadwaterError, ValueError) as error:
        yield _wrong(found, path, str(error) or form)


def _variable(found: Located, path: Path, is_secret: bool) -> Iterator[JobProblem]:
    if not is_secret:
        yield _plain_variable(found, path)
    elif wrong := variable_problem(found.value, is_whole="options" in path):
        yield _wrong(found, path, wrong)


def _plain_variable(found: Located, path: Path) -> JobProblem:
    return _wrong(found, path, f"variables are for secrets only ({WHERE}); write the value itself")


def _wrong(found: Located, path: Path, form: str) -> JobProblem:
    return JobProblem(found.place, f"{dotted(path)} is {shown(found.value)}: {form}")


# --- types ---


def _unfolded(type_: Any) -> tuple[Any, list[Meta]]:
    """A type without what is said about it, and that; of an alternative to None the other one."""
    metas: list[Meta] = []
    while True:
        if get_origin(type_) is Annotated:
            type_, *more = get_args(type_)
            metas += more
            continue
        rest = [kind for kind in _alternatives(type_) if kind is not type(None)]
        if len(rest) == 1 and rest[0] is not type_:
            type_ = rest[0]
            continue
        return type_, metas


def _alternatives(type_: Any) -> list[Any]:
    return list(get_args(type_)) if get_origin(type_) in (Union, UnionType) else [type_]


def _container(kinds: list[Any], container: type) -> Any:
    return next((plain for kind in kinds if get_origin(plain := _unfolded(kind)[0]) is container), None)


def _fits(value: Any, kinds: list[Any]) -> bool:
    """Whether msgspec takes a value for one of these; a bool is no number for it either."""
    for kind in kinds:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            continue
        return True
    return False
