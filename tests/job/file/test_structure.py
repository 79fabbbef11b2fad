"""The walk through a job file against its slow twins: msgspec alone, and the JSON Schema, on jobs that are mutated at random."""

import copy

import jsonschema
import msgspec
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headwater.job.command import first_file
from headwater.job.file.description import Job
from headwater.job.file.documents import parse_document
from headwater.job.file.json_schema import job_schema
from headwater.job.file.structure import structure_problems
from job.file.mistakes import JOB

VALIDATOR = jsonschema.Draft202012Validator(job_schema())
MORE = """\
headwater: 1
source: {type: kafka, servers: "a:1", topics: [x, y], options: {client.id: me, retries: 3}}
queries: queries.yaml
sinks:
  load: {type: kafka, servers: "a:1", topic: out}
  active: {type: postgres, dsn: "postgresql://db/iot", table: t, mode: upsert}
  aside: {type: console}
rename: {node: device}
home: {houses/7: north}
time: {type: epoch, column: ts, unit: ms}
ahead_max: any
strict: true
trigger: available now
end: keep
checkpoint: state
spark: {master: "local[2]", conf: {spark.a: 1, spark.b: true}, tasks: 2, root: driver}
page: {port: 0, token: secret}
"""
JOBS = [yaml.safe_load(text) for text in (JOB, MORE, first_file())]
NAMES = ["type", "path", "source", "sinks", "load", "unit", "port", "mode", "every", "nonsense"]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 70_000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", "x", "10 s", "5 parsecs", "folder", "kafka", "epoch", "s", "any", "flush", "console", "a.b.c", "1"]
    ),
    st.just([]),
    st.just(["x"]),
    st.just([1]),
    st.just({}),
    st.just({"type": "folder", "path": "out"}),
    st.just({"type": "iso", "column": "at"}),
    st.just({"a": "b"}),
    st.just({"port": 80}),
)


@st.composite
def mutated(draw):
    """A job in which some values are others, some are gone, and some are new; queries stay as they are."""
    job = copy.deepcopy(draw(st.sampled_from(JOBS)))
    for _ in range(draw(st.integers(0, 3))):
        holders = [job, *(value for name, value in job.items() if isinstance(value, dict) and name != "queries")]
        holders += [inner for holder in holders[1:] for inner in holder.values() if isinstance(inner, dict)]
        holder = draw(st.sampled_from(holders))
        name = draw(st.sampled_from([*holder, *NAMES]))
        if name in holder and draw(st.booleans()):
            del holder[name]
        else:
            holder[name] = copy.deepcopy(draw(VALUES))
    return job


def problems(job):
    return list(structure_problems(parse_document(yaml.safe_dump(job), "job.yaml")))


@given(mutated())
def test_what_msgspec_refuses_is_found_and_what_it_takes_is_converted(job):
    found = problems(job)
    try:
        msgspec.convert(job, Job)
    except msgspec.ValidationError:
        assert found
    if not found:
        assert isinstance(msgspec.convert(job, Job), Job)


@given(mutated())
def test_a_job_in_which_nothing_is_found_is_right_by_the_schema_too(job):
    if not problems(job):
        assert [error.message for error in VALIDATOR.iter_errors(job)] == []


def test_every_problem_has_a_place_in_the_file():
    for problem in structure_problems(parse_document("[1, 2]", "job.yaml")):
        assert (
            str(problem)
            == "job.yaml:1:1: the file is [1, 2]: a job is written as fields such as source, queries, sinks"
        )
