"""The schema that editors get: valid itself, takes every job and every query that is right, and refuses what it can."""

import json

import jsonschema
import pytest
import yaml
from hypothesis import given

from headwater.job.command import first_file
from headwater.job.file.json_schema import job_schema, schema_text
from headwater.language.files.queries import FUNCTIONS, WINDOWS, to_json
from job.file.mistakes import JOB, MISTAKES, written
from language_strategies import queries

SCHEMA = job_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def errors(text):
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(yaml.safe_load(text))]


def test_it_is_a_schema_of_the_draft_that_it_names():
    assert json.loads(schema_text()) == SCHEMA
    assert SCHEMA["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_it_names_every_window_and_every_function():
    windows = [each["properties"]["type"]["const"] for each in SCHEMA["$defs"]["window"]["oneOf"]]
    functions = [each["properties"]["function"]["const"] for each in SCHEMA["$defs"]["aggregate"]["oneOf"]]
    assert (windows, functions) == (list(WINDOWS), list(FUNCTIONS))


@pytest.mark.parametrize("text", [JOB, first_file()], ids=["of these tests", "of headwater init"])
def test_it_takes_jobs_that_are_right(text):
    assert errors(text) == []


@given(queries())
def test_it_takes_every_query_that_can_be_written(query):
    (listed,) = json.loads(to_json(query))["queries"]
    job = {"headwater": 1, "source": "events", "queries": [listed], "sinks": {query.name: "out"}}
    assert [error.message for error in VALIDATOR.iter_errors(job)] == []


@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each.is_structural], ids=str)
def test_it_refuses_mistakes_that_a_schema_can_see(mistake):
    assert errors(written(mistake)) != []
